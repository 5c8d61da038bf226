/** Where checkpoints keep the parts of a text model. */

import { FileError } from "../errors.ts";
import type { TensorSource } from "../checkpoint/source.ts";

/** How a text model's names begin. */
export interface ModelNames {
  /** Before `embed_tokens`, `layers.N` and `norm`. */
  readonly root: string;
  /** The output projection's module. */
  readonly output: string;
}

/**
 * The forms in circulation: transformers' text model, the same within the released wrapper, mlx-lm's, and base models of
 * each, without an output projection.
 */
const forms: readonly ModelNames[] = [
  { root: "model.", output: "lm_head" },
  { root: "model.language_model.", output: "lm_head" },
  { root: "language_model.model.", output: "language_model.lm_head" },
  { root: "language_model.", output: "lm_head" },
  { root: "", output: "lm_head" },
];

/**
 * How a checkpoint's names begin.
 *
 * @throws {FileError} where it has no embedding under any of them, or under several.
 */
export function findModel(source: TensorSource, op: string): ModelNames {
  const found = forms.filter(({ root }) => source.has(`${root}embed_tokens.weight`));
  const [names, ...others] = found;
  if (names && others.length === 0) return names;
  const expected = "one text model, such as model.embed_tokens.weight and model.layers.0";
  const received = names ? `several: ${found.map(({ root }) => `${root}embed_tokens.weight`).join(", ")}` : "no embed_tokens.weight";
  throw new FileError(source.path, { op, expected, received });
}
