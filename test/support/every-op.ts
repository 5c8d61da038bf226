/** One of every op, for tests that compare whole runs. */
import { attention, causalConv1d, copySlots, gatedDelta, gatedDeltaStep, gatedRmsNorm, linear } from "../../lib/index.ts";
import type { Device, Op } from "../../lib/index.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep, buildGatedRmsNorm, fill } from "./cases.ts";
import type { StepSpec } from "./cases.ts";
import { Layouts, download } from "./layouts.ts";
import { plainConv, plainNorm, plainStep } from "./plain-specs.ts";
import { Random } from "./random.ts";
import { allF32, placeCausalConv1d, placeGatedDelta, placeGatedDeltaStep, placeGatedRmsNorm } from "./run-ops.ts";

/** Sizes of the ops. */
export interface Scale {
  readonly heads: number;
  readonly dim: number;
  readonly lengths: readonly number[];
}

/** Sizes that several threads share in unequal pieces. */
export const large: Scale = { heads: 3, dim: 72, lengths: [37, 1, 0, 64, 5] };

/** Sizes for an emulated GPU. */
export const small: Scale = { heads: 2, dim: 24, lengths: [17, 1, 0, 9] };

/** An op over tensors in memory. */
export interface PlacedOp {
  readonly name: string;
  readonly op: Op;
  readonly results: () => Float32Array[];
}

/** One of every op, over tensors with the same contents at every call. */
export function everyOp(layouts: Layouts, { heads, dim, lengths }: Scale): PlacedOp[] {
  const count = lengths.length;
  const slots = lengths.map((_, s) => s);
  const readSlots = lengths.map((_, s) => (s + 1) % count); // rotated: states are staged
  const batch = { lengths, rowsBeyond: 2, slots: count, readSlots, writeSlots: slots };
  const spec: StepSpec = {
    ...plainStep,
    seed: 77,
    keyHeads: heads,
    keyDim: dim,
    valueDim: dim + 8,
    gateDims: "key",
    width: 5,
    sequences: count,
    slots: count,
    readSlots,
    writeSlots: slots,
  };
  const channels = heads * dim * 5 + 3;
  const delta = placeGatedDelta(layouts, buildGatedDelta({ ...spec, batch }), allF32);
  const conv = placeCausalConv1d(layouts, buildCausalConv1d({ ...plainConv, channels, width: 5, batch }), allF32);
  const norm = placeGatedRmsNorm(layouts, buildGatedRmsNorm({ ...plainNorm, tokens: 40, heads, dim: dim + 3 }), allF32);
  const step = placeGatedDeltaStep(layouts, buildGatedDeltaStep(spec), allF32);
  const random = new Random(4);
  const matrix = (rows: number, columns: number) => fill([rows, columns], "f32", () => random.normal());
  const product = {
    x: layouts.rows("x", "f32", matrix(13, channels)),
    weight: layouts.packed("weight", "f32", matrix(67, channels)),
    out: layouts.out("out", "f32", [13, 67]),
  };
  const pool = layouts.pool("pool", "f32", matrix(count, channels), slots);
  const used = delta.cuSeqlens!.at(-1)!;
  const attended = placeAttention(layouts, { heads, dim, lengths });
  return [
    { name: "gatedDelta", op: gatedDelta(delta), results: () => [download(delta.out, used), download(delta.state!)] },
    { name: "causalConv1d", op: causalConv1d(conv), results: () => [download(conv.out, used), download(conv.state!)] },
    { name: "gatedRmsNorm", op: gatedRmsNorm(norm), results: () => [download(norm.out)] },
    {
      name: "gatedDeltaStep",
      op: gatedDeltaStep(step),
      results: () => [download(step.out), download(step.state), download(step.convState)],
    },
    { name: "linear", op: linear(product), results: () => [download(product.out)] },
    {
      name: "attention",
      op: attention(attended),
      results: () => [download(attended.out), download(attended.keyPages), download(attended.valuePages)],
    },
    { name: "copySlots", op: copySlots({ pool, readSlots, writeSlots: slots }), results: () => [download(pool)] },
  ];
}

/** Twice as many query heads as key heads; every sequence has some tokens in its pages, which are in reverse order. */
function placeAttention(layouts: Layouts, { heads, dim, lengths }: Scale) {
  const random = new Random(5);
  const numbers = (...shape: number[]) => fill(shape, "f32", () => random.normal());
  const cuSeqlens = lengths.reduce((starts, length) => [...starts, starts.at(-1)! + length], [0]);
  const pastTokens = lengths.map((_, s) => 3 + 9 * s);
  const [tokens, pageTokens] = [cuSeqlens.at(-1)!, 16];
  const width = Math.ceil(Math.max(...lengths.map((length, s) => length + pastTokens[s]!)) / pageTokens);
  const count = width * lengths.length;
  const pageTable = Array.from({ length: count }, (_, i) => count - 1 - i);
  const written = lengths.flatMap((length, s) =>
    pageTable
      .slice(s * width, (s + 1) * width)
      .filter((_, page) => length > 0 && page >= Math.floor(pastTokens[s]! / pageTokens) && page * pageTokens < pastTokens[s]! + length),
  );
  const row = (name: string, of: number) => layouts.rows(name, "f32", numbers(tokens, of, dim));
  const pages = (name: string) => layouts.pool(name, "f32", numbers(count, heads, pageTokens, dim), written);
  return {
    query: row("query", 2 * heads), key: row("key", heads), value: row("value", heads), gate: row("gate", 2 * heads),
    queryNorm: layouts.packed("queryNorm", "f32", numbers(dim)), keyNorm: layouts.packed("keyNorm", "f32", numbers(dim)),
    keyPages: pages("keyPages"), valuePages: pages("valuePages"), out: layouts.out("out", "f32", [tokens, 2 * heads, dim]),
    cuSeqlens, pageTable, pastTokens, rotaryDim: 8,
  };
}

/** The results of every op on a device, each run by itself. */
export function runEach(device: Device, scale: Scale): Map<string, Float32Array[]> {
  using layouts = new Layouts(device, new Random(8));
  const got = everyOp(layouts, scale).map(({ name, op, results }) => {
    device.run(op);
    device.wait();
    return [name, results()] as const;
  });
  return new Map(got);
}

/** A hash of the bits of all results. */
export function digest(device: Device, scale: Scale): string {
  const hash = new Bun.CryptoHasher("sha256");
  for (const [name, results] of runEach(device, scale)) {
    hash.update(name);
    for (const result of results) hash.update(result);
  }
  return hash.digest("hex");
}
