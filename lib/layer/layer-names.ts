/** The names of mixers in checkpoints. */

import { FileError } from "../errors.ts";
import type { TensorSource } from "../checkpoint/source.ts";

/** Prefixes of layer N's tensors in checkpoints; base models and single layers have `layers.N.` alone. */
const roots = (layer: number) => [
  `model.layers.${layer}.`,
  `model.language_model.layers.${layer}.`,
  `language_model.model.layers.${layer}.`,
  `language_model.layers.${layer}.`,
  `layers.${layer}.`,
];

/**
 * A mixer's name within its layer: `linear_attn` in most models, `self_attn` in Kimi Linear and GLM-5-next, `attention`
 * in Bailing hybrid, `mixer` in mlx-lm's OLMo hybrid. Files of a single layer may omit it.
 */
const mixerNames = ["linear_attn.", "self_attn.", "attention.", "mixer."];

function prefixesOf(layer: number): string[] {
  return [...roots(layer).flatMap((root) => mixerNames.map((name) => root + name)), `layers.${layer}.`];
}

/** The layers with Gated DeltaNet weights in a checkpoint, ascending. */
export function gatedDeltaLayers(names: readonly string[]): number[] {
  const layers = new Set<number>();
  for (const name of names) {
    const match = /(?:^|\.)layers\.(\d{1,9})\.(?:\w+\.)?(A_log|ssm_a)$/.exec(name);
    const layer = Number(match?.[1]);
    if (match && prefixesOf(layer).some((prefix) => prefix + match[2] === name)) layers.add(layer);
  }
  return [...layers].sort((a, b) => a - b);
}

/**
 * The prefix of the names of a layer's mixer.
 *
 * @throws {FileError} if the checkpoint has no mixer for this layer, or several.
 */
export function findPrefix(source: TensorSource, layer: number, op: string): string {
  const found = prefixesOf(layer).filter((prefix) => source.has(`${prefix}A_log`) || source.has(`${prefix}ssm_a`));
  if (found.length === 1 && found[0] !== undefined) return found[0];
  const layers = gatedDeltaLayers(source.names);
  throw new FileError(source.path, {
    op,
    expected: `one set of Gated DeltaNet weights for layer ${layer}, such as model.layers.${layer}.linear_attn.A_log`,
    received:
      found.length > 1 ? `${found.length}: ${found.join(", ")}`
      : layers.length > 0 ? `weights of layers ${layers.slice(0, 9).join(", ")}${layers.length > 9 ? ", …" : ""}`
      : "none of any layer",
  });
}
