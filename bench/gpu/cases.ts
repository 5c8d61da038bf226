/**
 * The cases of the GPU benchmark: ops as a program encodes them, at the sizes of a Qwen3-Next or Qwen3.5 layer, and the
 * bytes that each must move. Nothing runs here: the emulator records how the Metal backend dispatches the ops.
 */
import { add, attention, causalConv1d, embedding, gatedDelta, gatedDeltaStep, gatedRmsNorm, linear, rmsNorm, siluMul, topK } from "../../lib/index.ts";
import type { Device, FloatDType, Op, Products, Tensor } from "../../lib/index.ts";
import { chainOf } from "../step-chain.ts";
import { expertCases } from "./expert-cases.ts";
import { ggmlCases } from "./ggml-cases.ts";

const [keyHeads, valueHeads, dim, convWidth] = [16, 32, 128, 4] as const;
const keys = keyHeads * dim;
const channels = 2 * keys + valueHeads * dim;

export type Case = {
  readonly name: string;
  /** Cases of a group are timed side by side with one copy, which moves the first case's bytes. */
  readonly group: string;
  readonly bytes: number;
  /** Kernel arguments for which every launch has memory of its own; "*" for all. */
  readonly rotate: readonly string[];
  readonly ops: (device: Device) => readonly Op[];
  /** Settings of the emulator that select kernels which the host chooses on other GPUs. */
  readonly environment?: Readonly<Record<string, string>>;
};

const small = 512 << 10; // larger contents are made on the card

function tensor(device: Device, dtype: FloatDType, shape: readonly number[], low = -1, high = 1): Tensor {
  const made = device.tensor(dtype, shape);
  if (dtype === "f32" && made.data.length * 4 <= small) {
    let z = made.data.length;
    for (let i = 0; i < made.data.length; i += 1) {
      z = (Math.imul(z, 1664525) + 1013904223) >>> 0;
      made.data[i] = low + ((high - low) * z) / 2 ** 32;
    }
  }
  return made;
}

const starts = (sequences: number, tokens: number): number[] =>
  Array.from({ length: sequences + 1 }, (_, i) => i * tokens);

function recurrence(device: Device, sequences: number, tokens: number, state: FloatDType, raw = false, x: FloatDType = "f32"): Op {
  const rows = sequences * tokens;
  const gates = raw
    ? ({
        gateForm: "raw",
        betaForm: "sigmoid",
        aLog: tensor(device, "f32", [valueHeads], -3, -1),
        dtBias: tensor(device, "f32", [valueHeads]),
      } as const)
    : ({ gateForm: "decay", betaForm: "given" } as const);
  return gatedDelta({
    query: tensor(device, x, [rows, keyHeads, dim]),
    key: tensor(device, x, [rows, keyHeads, dim]),
    value: tensor(device, x, [rows, valueHeads, dim]),
    gate: tensor(device, "f32", [rows, valueHeads], 0.85, 0.9999),
    beta: tensor(device, "f32", [rows, valueHeads], 0.1, 0.95),
    out: tensor(device, x, [rows, valueHeads, dim]),
    state: tensor(device, state, [sequences, valueHeads, dim, dim], -0.1, 0.1),
    cuSeqlens: starts(sequences, tokens),
    qkNorm: "l2",
    ...gates,
  });
}

function stepOps(device: Device, sequences: number, fused: boolean): readonly Op[] {
  const shared = {
    x: tensor(device, "f32", [sequences, channels]),
    z: tensor(device, "f32", [sequences, valueHeads, dim]),
    gate: tensor(device, "f32", [sequences, valueHeads]),
    beta: tensor(device, "f32", [sequences, valueHeads]),
    out: tensor(device, "f32", [sequences, valueHeads, dim]),
    state: tensor(device, "f32", [sequences, valueHeads, dim, dim], -0.1, 0.1),
    convState: tensor(device, "f32", [sequences, channels, convWidth - 1]),
    convWeight: tensor(device, "f32", [channels, convWidth]),
    aLog: tensor(device, "f32", [valueHeads], -3, -1),
    dtBias: tensor(device, "f32", [valueHeads]),
    normWeight: tensor(device, "f32", [dim], 0.5, 1.5),
  };
  const options = { gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2" } as const;
  if (fused) return [gatedDeltaStep({ ...shared, keyHeads, ...options })];
  const between = { conv: tensor(device, "f32", [sequences, channels]), core: tensor(device, "f32", [sequences, valueHeads, dim]) };
  return chainOf({ ...shared, keyHeads, ...options, between });
}

function conv(device: Device, sequences: number, tokens: number): Op {
  return causalConv1d({
    x: tensor(device, "f32", [sequences * tokens, channels]),
    weight: tensor(device, "f32", [channels, convWidth]),
    state: tensor(device, "f32", [sequences, channels, convWidth - 1]),
    out: tensor(device, "f32", [sequences * tokens, channels]),
    cuSeqlens: starts(sequences, tokens),
  });
}

function norm(device: Device, tokens: number): Op {
  const rows = (): Tensor => tensor(device, "f32", [tokens, valueHeads, dim]);
  return gatedRmsNorm({ x: rows(), z: rows(), weight: tensor(device, "f32", [dim], 0.5, 1.5), out: rows() });
}

type WeightForm = "f32" | "bf16" | "q4" | "q6" | "q8";
const group = 64;

/** Bits per weight; packed weights have a scale and a bias in bf16 for each group. */
const weightBits = { f32: 32, bf16: 16, q4: 4 + 32 / group, q6: 6 + 32 / group, q8: 8 + 32 / group } as const;

/** A projection with bf16 activations for packed weights, as in models, and with float32 activations for the others. */
function project(device: Device, rows: number, form: WeightForm, inputs: number, outputs: number, products: Products): Op {
  const x = form === "f32" || form === "bf16" ? "f32" : "bf16";
  const given = { x: tensor(device, x, [rows, inputs]), out: tensor(device, x, [rows, outputs]), products };
  if (form === "f32" || form === "bf16") return linear({ ...given, weight: tensor(device, form, [outputs, inputs]) });
  const bits = Number(form.slice(1));
  return linear({
    ...given,
    weight: device.tensor("u32", [outputs, (inputs * bits) / 32]),
    scales: tensor(device, "bf16", [outputs, inputs / group]),
    biases: tensor(device, "bf16", [outputs, inputs / group]),
  });
}

function projectCase(form: WeightForm, rows: number, inputs: number, outputs: number, suffix = "", products: Products = "rows"): Case {
  const name = `project/${form}/R${rows}${suffix}`;
  const rowBytes = form === "f32" || form === "bf16" ? 4 : 2;
  return {
    name,
    group: name,
    bytes: (inputs * outputs * weightBits[form]) / 8 + rowBytes * rows * (inputs + outputs),
    rotate: ["weight", "scales", "biases"],
    ops: (d) => [project(d, rows, form, inputs, outputs, products)],
  };
}

/** A GPU with fewer registers: pipelines that use many have fewer threads, and the host chooses tiles of two rows. */
const fewerThreads = { GATED_DELTA_EMULATOR_MAX_THREADS: "384" };

function twoRowsCase(form: WeightForm, rows: number, inputs: number, outputs: number): Case {
  const { name, ...rest } = projectCase(form, rows, inputs, outputs);
  return { ...rest, name: `${name}/two-rows-a-tile`, environment: fewerThreads };
}

function table(device: Device, vocabulary: number, columns: number, form: "bf16" | "q4") {
  if (form === "bf16") return { weight: tensor(device, "bf16", [vocabulary, columns]) };
  return {
    weight: device.tensor("u32", [vocabulary, columns / 8]),
    scales: tensor(device, "bf16", [vocabulary, columns / group]),
    biases: tensor(device, "bf16", [vocabulary, columns / group]),
  };
}

function embeddingCase(form: "bf16" | "q4", rows: number, columns: number): Case {
  const vocabulary = 32768;
  return {
    name: `embedding/${form}/R${rows}`,
    group: `embedding/${form}/R${rows}`,
    bytes: rows * columns * (weightBits[form] / 8 + 2),
    rotate: ["weight", "scales", "biases", "out"],
    ops: (d) => [
      embedding({
        ...table(d, vocabulary, columns, form),
        ids: Array.from({ length: rows }, (_, i) => (Math.imul(i + 1, 0x9e3779b1) >>> 0) % vocabulary),
        out: tensor(d, "bf16", [rows, columns]),
      }),
    ],
  };
}

/** The largest of a token's logits. These are random and made on the card, so that no order is easier than another. */
function topKCase(rows: number, k: number): Case {
  const vocabulary = 248320;
  return {
    name: `topK/k${k}/R${rows}`,
    group: `topK/R${rows}`,
    bytes: 4 * rows * vocabulary,
    rotate: ["x"],
    ops: (d) => [topK({ x: tensor(d, "f32", [rows, vocabulary]), values: d.tensor("f32", [rows, k]), ids: d.tensor("id32", [rows, k]) })],
  };
}

/** Element-wise ops and the plain norm on rows of `length` bf16 numbers. Everything that they read and write has its own memory. */
function rowsCase(name: string, tokens: number, length: number, tensors: number, op: (row: () => Tensor, d: Device) => Op): Case {
  return {
    name: `${name}/T${tokens}`,
    group: `${name}/T${tokens}`,
    bytes: tensors * 2 * tokens * length,
    rotate: ["*"],
    ops: (d) => [op(() => tensor(d, "bf16", [tokens, 1, length]), d)],
  };
}

/** Attention as in Qwen3.5's layers: heads of 256, and pages and activations in bf16. A sequence's pages are not adjacent. */
function attentionCase(heads: number, kvHeads: number, sequences: number, tokens: number, past: number, products: Products = "rows"): Case {
  const [headDim, pageTokens] = [256, 64];
  const rows = sequences * tokens;
  const pagesEach = Math.ceil((past + tokens) / pageTokens);
  const name = `attention/${heads}-${kvHeads}/B${sequences}/T${tokens}/past${past}${products === "matrix" ? "/matrix" : ""}`;
  return {
    name,
    group: name,
    // Keys and values once, and the rows.
    bytes: 2 * 2 * sequences * (past + tokens) * kvHeads * headDim + 2 * rows * (3 * heads + 2 * kvHeads) * headDim,
    rotate: ["keyPages", "valuePages"],
    ops: (d) => {
      const row = (count: number): Tensor => tensor(d, "bf16", [rows, count, headDim]);
      const pages = (): Tensor => tensor(d, "bf16", [sequences * pagesEach, kvHeads, pageTokens, headDim]);
      return [
        attention({
          query: row(heads),
          key: row(kvHeads),
          value: row(kvHeads),
          gate: row(heads),
          out: row(heads),
          keyPages: pages(),
          valuePages: pages(),
          queryNorm: tensor(d, "bf16", [headDim]),
          keyNorm: tensor(d, "bf16", [headDim]),
          rotaryDim: headDim / 4,
          cuSeqlens: starts(sequences, tokens),
          pageTable: Array.from({ length: sequences * pagesEach }, (_, i) => (i % pagesEach) * sequences + Math.floor(i / pagesEach)),
          pastTokens: Array.from({ length: sequences }, () => past),
          products,
        }),
      ];
    },
  };
}

const slot = valueHeads * dim * dim;

export const cases: readonly Case[] = [
  ...([1, 4, 8, 16, 64] as const).map((n) => ({
    name: `decode/B${n}`,
    group: `decode/f32/B${n}`,
    bytes: 2 * 4 * n * slot,
    rotate: ["state"],
    ops: (d: Device) => [recurrence(d, n, 1, "f32")],
  })),
  ...([1, 8, 64] as const).map((n) => ({
    name: `decode/bf16/B${n}`,
    group: `decode/bf16/B${n}`,
    bytes: 2 * 2 * n * slot,
    rotate: ["state"],
    ops: (d: Device) => [recurrence(d, n, 1, "bf16")],
  })),
  {
    name: "decode/raw/B1",
    group: "decode/raw/B1",
    bytes: 2 * 4 * slot,
    rotate: ["state"],
    ops: (d) => [recurrence(d, 1, 1, "f32", true)],
  },
  ...([1, 2, 4, 8, 16, 32, 64] as const).flatMap((n) =>
    [true, false].map((fused) => ({
      name: `${fused ? "step" : "chain"}/B${n}`,
      group: `step/B${n}`,
      bytes: 2 * 4 * n * (slot + channels * (convWidth - 1)),
      rotate: ["state", "convState"],
      ops: (d: Device) => stepOps(d, n, fused),
    })),
  ),
  ...(
    [
      [1, 16],
      [1, 64],
      [1, 512],
      [1, 2048],
      [4, 512],
      [8, 512],
    ] as const
  ).map(([n, t]) => ({
    name: `prefill/B${n}/T${t}`,
    group: `prefill/B${n}/T${t}`,
    bytes: 4 * n * (2 * slot + t * (2 * keys + 2 * valueHeads * dim)),
    rotate: ["state"],
    ops: (d: Device) => [recurrence(d, n, t, "f32")],
  })),
  ...([512, 2048] as const).map((t) => ({
    name: `prefill/bf16/B1/T${t}`,
    group: `prefill/bf16/B1/T${t}`,
    bytes: 2 * 4 * slot + 2 * t * (2 * keys + 2 * valueHeads * dim),
    rotate: ["state"],
    ops: (d: Device) => [recurrence(d, 1, t, "f32", false, "bf16")],
  })),
  ...(
    [
      [1, 2048],
      [64, 1],
      [8, 1],
    ] as const
  ).map(([n, t]) => ({
    name: `conv/B${n}/T${t}`,
    group: `conv/B${n}/T${t}`,
    bytes: 4 * n * channels * (2 * t + 2 * (convWidth - 1)),
    rotate: ["*"],
    ops: (d: Device) => [conv(d, n, t)],
  })),
  ...([2048, 64] as const).map((t) => ({
    name: `norm/T${t}`,
    group: `norm/T${t}`,
    bytes: 3 * 4 * t * valueHeads * dim,
    rotate: ["*"],
    ops: (d: Device) => [norm(d, t)],
  })),
  ...([1, 8, 64, 512] as const).flatMap((rows) =>
    (["f32", "bf16", "q4"] as const).map((form) => projectCase(form, rows, 2048, 12288)),
  ),
  projectCase("q6", 1, 2048, 12288),
  projectCase("q8", 1, 2048, 12288),
  ...(["bf16", "q4"] as const).map((form) => projectCase(form, 1, 6144, 2048, "/down")),
  // One row, as in models: with more outputs than inputs, and with fewer.
  ...(
    [
      [1024, 3584],
      [3584, 1024],
      [2560, 9216],
      [9216, 2560],
      [4096, 12288],
      [12288, 4096],
    ] as const
  ).map(([inputs, outputs]) => projectCase("q4", 1, inputs, outputs, `/${inputs}-${outputs}`)),
  ...([8, 64, 512] as const).flatMap((rows) =>
    (["f32", "q4"] as const).map((form) => twoRowsCase(form, rows, 2048, 12288)),
  ),
  ...(["bf16", "q4"] as const).map((form) => projectCase(form, 512, 2048, 12288, "/matrix", "matrix")),
  ...ggmlCases,
  ...expertCases,
  embeddingCase("bf16", 512, 1024),
  embeddingCase("q4", 512, 1024),
  ...[1, 8].flatMap((rows) => [1, 32, 128].map((k) => topKCase(rows, k))),
  rowsCase("siluMul", 512, 12288, 3, (row) => siluMul({ gate: row(), up: row(), out: row() })),
  rowsCase("add", 2048, 2048, 3, (row) => add({ a: row(), b: row(), out: row() })),
  rowsCase("rmsNorm", 2048, 2048, 2, (row, d) => rmsNorm({ x: row(), weight: tensor(d, "bf16", [2048]), out: row() })),
  ...([4096, 32768] as const).flatMap((past) =>
    ([[8, 2], [16, 2]] as const).map(([heads, kvHeads]) => attentionCase(heads, kvHeads, 1, 1, past)),
  ),
  attentionCase(32, 8, 1, 1, 32768),
  attentionCase(8, 2, 8, 1, 4096),
  attentionCase(8, 2, 1, 512, 0),
  attentionCase(8, 2, 1, 512, 4096),
  attentionCase(16, 4, 1, 2048, 0),
  attentionCase(16, 4, 1, 2048, 0, "matrix"),
];
