/** Causal depthwise convolution over time: y[t, c] = bias[c] + sum over j of weight[c, j] · x[t - (K - 1) + j, c]. */
import { readSlot, sequencesOf, writeSlot } from "./batch.ts";
import type { BatchOptions } from "./batch.ts";
import { silu } from "./scalar.ts";
import { copyOf, dims, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export interface CausalConv1dCase extends BatchOptions {
  /** `[tokens, C]` */
  readonly x: Reference;
  /** `[C, K]` */
  readonly weight: Reference;
  /** `[C]` */
  readonly bias?: Reference | undefined;
  /** The pool before the op, `[slots, C, K - 1]`, oldest first; not changed. */
  readonly state?: Reference | undefined;
  readonly out?: Reference | undefined;
  readonly activation?: "none" | "silu" | undefined;
}

/** The op on plain numbers; the new state is the last K - 1 columns of the old state followed by x. */
export function causalConv1d(given: CausalConv1dCase): { out: Reference; state: Reference | undefined } {
  const [tokens, channels] = dims(given.x, 2) as [number, number];
  const width = dims(given.weight, 2)[1]!;
  const past = width - 1;
  const before = given.state;
  const state = before && copyOf(before);
  const out = given.out ? copyOf(given.out) : reference([tokens, channels]);

  for (const { start, end, readSlot: from, writeSlot: to } of sequencesOf(given, tokens, before !== undefined)) {
    const size = channels * past;
    const old = before ? readSlot(before.data, from, size) : new Float64Array(size);
    const next = new Float64Array(size);
    const line = new Float64Array(past + end - start);
    for (let c = 0; c < channels; c++) {
      for (let j = 0; j < past; j++) line[j] = old[c * past + j]!;
      for (let t = start; t < end; t++) line[past + t - start] = given.x.data[t * channels + c]!;
      for (let t = start; t < end; t++) {
        let sum = given.bias?.data[c] ?? 0;
        for (let j = 0; j < width; j++) sum += given.weight.data[c * width + j]! * line[t - start + j]!;
        out.data[t * channels + c] = given.activation === "none" ? sum : silu(sum);
      }
      for (let j = 0; j < past; j++) next[c * past + j] = line[end - start + j]!;
    }
    if (state) writeSlot(state.data, to, next);
  }
  return { out, state };
}
