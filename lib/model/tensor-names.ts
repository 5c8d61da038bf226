/** The names of a text model's parts in checkpoints. */

import { FileError } from "../errors.ts";
import type { TensorSource } from "../checkpoint/source.ts";

/** The prefixes of a text model's names. */
export interface ModelNames {
  /** Before `embed_tokens`, `layers.N` and `norm`. */
  readonly root: string;
  /** The output projection's module. */
  readonly output: string;
}

/**
 * The known forms: transformers' text model, the same within the released wrapper, mlx-lm's model, and the base models of each,
 * without an output projection.
 */
const forms: readonly ModelNames[] = [
  { root: "model.", output: "lm_head" },
  { root: "model.language_model.", output: "lm_head" },
  { root: "language_model.model.", output: "language_model.lm_head" },
  { root: "language_model.", output: "lm_head" },
  { root: "", output: "lm_head" },
];

/**
 * The prefixes of a checkpoint's names.
 *
 * @throws {FileError} if it has no embedding under any of them, or under several.
 */
export function findModel(source: TensorSource, op: string): ModelNames {
  const found = forms.filter(({ root }) => source.has(`${root}embed_tokens.weight`));
  const [names, ...others] = found;
  if (names && others.length === 0) return names;
  const expected = "one text model, such as model.embed_tokens.weight and model.layers.0";
  const received = names ? `several: ${found.map(({ root }) => `${root}embed_tokens.weight`).join(", ")}` : "no embed_tokens.weight";
  throw new FileError(source.path, { op, expected, received });
}
