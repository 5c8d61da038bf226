/** The sizes that matter: those of Qwen3-Next and Qwen3.5 layers. */
import type { FloatDType } from "../lib/index.ts";
import type { Temperature } from "./operands.ts";

export const keyHeads = 16;
export const dim = 128;
export const convWidth = 4;

/** The sizes and the element type of an op's benchmark. */
export interface Shape {
  /** The dtype of all tensors, including states; gates, beta and weights are f32. */
  readonly dtype: FloatDType;
  readonly sequences: number;
  /** Tokens of each sequence. */
  readonly tokens: number;
  readonly valueHeads: number;
  readonly threads: number;
  readonly temperature: Temperature;
}

export function channelsOf(shape: Shape): number {
  return 2 * keyHeads * dim + shape.valueHeads * dim;
}

/** Rows of all sequences. */
export function rowsOf(shape: Shape): number {
  return shape.sequences * shape.tokens;
}

/** The offsets of sequences of equal length. */
export function offsetsOf(shape: Shape): readonly number[] {
  return Array.from({ length: shape.sequences + 1 }, (_, i) => i * shape.tokens);
}

/** Such as `gatedDelta/f32/B1/T512/Hv32/t1/hot`. */
export function nameOf(what: string, shape: Shape): string {
  const { dtype, sequences, tokens, valueHeads, threads, temperature } = shape;
  return `${what}/${dtype}/B${sequences}/T${tokens}/Hv${valueHeads}/t${threads}/${temperature}`;
}

/** Every combination of the choices, those of the first list changing slowest. */
export function shapesOf(choices: { readonly [Key in keyof Shape]: readonly Shape[Key][] }): Shape[] {
  const { dtype, sequences, tokens, valueHeads, threads, temperature } = choices;
  return dtype.flatMap((dtype) =>
    sequences.flatMap((sequences) =>
      tokens.flatMap((tokens) =>
        valueHeads.flatMap((valueHeads) =>
          threads.flatMap((threads) =>
            temperature.map((temperature) => ({ dtype, sequences, tokens, valueHeads, threads, temperature })),
          ),
        ),
      ),
    ),
  );
}
