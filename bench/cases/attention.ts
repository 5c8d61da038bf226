/**
 * Attention with the heads of Qwen3.5-0.8B: 8 query and 2 key heads of 256 elements, a quarter of them rotated. A decode
 * step is bound by the pages that it reads, a prompt by multiply-adds.
 */
import { attention } from "../../lib/index.ts";
import type { AttentionArguments, Device, FloatDType } from "../../lib/index.ts";
import type { Benchmark } from "../benchmark.ts";
import { bytesOf, bytesWork, copiesOf, filled, opBenchmark } from "../operands.ts";
import type { Calls, Temperature } from "../operands.ts";

const [heads, kvHeads, headDim, pageTokens] = [8, 2, 256, 16];

/** The sizes and the element type of a benchmark of attention. Activations are f32. */
export interface AttentionShape {
  /** The dtype of the pages. */
  readonly dtype: FloatDType;
  readonly sequences: number;
  /** The tokens of each sequence in a call, and those before it. */
  readonly tokens: number;
  readonly past: number;
  readonly threads: number;
  readonly temperature: Temperature;
}

/** Bytes of the keys and values that a call reads. */
function pageBytes({ dtype, sequences, tokens, past }: AttentionShape): number {
  return 2 * sequences * (past + tokens) * kvHeads * headDim * bytesOf[dtype];
}

/** The pages of a sequence are not adjacent: every second page belongs to another one. */
export function attentionCalls(device: Device, shape: AttentionShape): Calls<AttentionArguments> {
  const { dtype, sequences, tokens, past, temperature } = shape;
  const each = Math.ceil((past + tokens) / pageTokens);
  const rows = sequences * tokens;
  const copies = copiesOf(temperature, pageBytes(shape));
  const pages = copies * sequences * each;
  const [query, gate, out] = [0, 1, 2].map(() => filled(device, "f32", [rows, heads, headDim])) as [AttentionArguments["query"], AttentionArguments["query"], AttentionArguments["query"]];
  const [key, value] = [filled(device, "f32", [rows, kvHeads, headDim]), filled(device, "f32", [rows, kvHeads, headDim])];
  const [queryNorm, keyNorm] = [filled(device, "f32", [headDim]), filled(device, "f32", [headDim])];
  const [keyPages, valuePages] = [filled(device, dtype, [pages, kvHeads, pageTokens, headDim]), filled(device, dtype, [pages, kvHeads, pageTokens, headDim])];
  // An odd step through all of the pages reaches each of them once.
  const step = pages % 3 === 0 ? 1 : 3;
  const calls = Array.from({ length: copies }, (_, i) => ({
    query, key, value, gate, queryNorm, keyNorm, keyPages, valuePages, out, rotaryDim: headDim / 4,
    weightForm: "one-plus-weight" as const,
    cuSeqlens: Int32Array.from({ length: sequences + 1 }, (_, s) => s * tokens),
    pastTokens: new Int32Array(sequences).fill(past),
    pageTable: Int32Array.from({ length: sequences * each }, (_, p) => ((i * sequences * each + p) * step) % pages),
  }));
  return { calls, tensors: [query, gate, out, key, value, queryNorm, keyNorm, keyPages, valuePages] };
}

export function attentionBenchmark(shape: AttentionShape, device: () => Device): Benchmark {
  const { dtype, sequences, tokens, past, threads, temperature } = shape;
  const bytes = pageBytes(shape);
  const multiplyAdds = 2 * sequences * tokens * (past + (tokens + 1) / 2) * heads * headDim;
  const work = tokens === 1 ? bytesWork(temperature, bytes, "read", bytes) : { kind: "multiply-adds" as const, count: multiplyAdds };
  const name = `attention/${dtype}/B${sequences}/T${tokens}+${past}/H${heads}/t${threads}/${temperature}`;
  return opBenchmark(name, device, threads, work, (opened) => {
    const { calls, tensors } = attentionCalls(opened, shape);
    return { calls: calls.map((args) => [attention(args)]), tensors };
  });
}
