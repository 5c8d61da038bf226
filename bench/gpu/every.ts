/**
 * Every kernel that the backend can request, at small sizes, over all dtypes and key classes. The emulator records the
 * dispatches and their results, which the card has to reproduce.
 */
import {
  add,
  attention,
  causalConv1d,
  combineExperts,
  commitCausalConv1d,
  commitGatedDelta,
  copySlots,
  gatedDelta,
  gatedDeltaStep,
  gatedRmsNorm,
  embedding,
  expertLinear,
  linear,
  rmsNorm,
  route,
  siluMul,
  topK,
} from "../../lib/index.ts";
import type { Device, FloatDType, Op, Tensor } from "../../lib/index.ts";
import { everyFormat, everyMatrix } from "./every-formats.ts";

const dtypes = ["f32", "f16", "bf16"] as const;
const [keyHeads, valueHeads, valueDim, width] = [1, 2, 24, 4] as const;
const seqlens = [0, 3, 3, 20];
const slots = 4;

let seed = 1;
function made(device: Device, dtype: FloatDType, shape: readonly number[], low = -1, high = 1): Tensor {
  using numbers = device.tensor("f32", shape);
  for (let i = 0; i < numbers.data.length; i += 1) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    numbers.data[i] = low + ((high - low) * seed) / 2 ** 32;
  }
  return device.tensorFrom(dtype, shape, numbers.data);
}

function recurrence(device: Device, t: FloatDType, s: FloatDType, keyDim: number, tokens: readonly number[]) {
  const rows = tokens.at(-1)!;
  const n = tokens.length - 1;
  const common = {
    query: made(device, t, [rows, keyHeads, keyDim]),
    key: made(device, t, [rows, keyHeads, keyDim]),
    value: made(device, t, [rows, valueHeads, valueDim]),
    gate: made(device, "f32", [rows, valueHeads], 0.8, 0.99),
    beta: made(device, "f32", [rows, valueHeads], 0, 1),
    out: made(device, t, [rows, valueHeads, valueDim]),
    state: made(device, s, [slots, valueHeads, valueDim, keyDim]),
    cuSeqlens: tokens,
    readSlots: Array.from({ length: n }, (_, i) => (i + 1) % n),
    writeSlots: Array.from({ length: n }, (_, i) => i),
    gateForm: "decay",
    betaForm: "given",
    qkNorm: "l2",
  } as const;
  return common;
}

/** A long sequence of many heads. */
function many(device: Device, t: FloatDType, s: FloatDType, keyDim: number) {
  const [rows, heads, dim] = [17, 129, 8];
  const { state: _, readSlots, writeSlots, ...given } = recurrence(device, t, s, keyDim, [0, rows]);
  return {
    ...given,
    value: made(device, t, [rows, heads, dim]),
    gate: made(device, "f32", [rows, heads], 0.8, 0.99),
    beta: made(device, "f32", [rows, heads], 0, 1),
    out: made(device, t, [rows, heads, dim]),
    state: made(device, s, [1, heads, dim, keyDim]),
  };
}

/** The ops, in batches that are submitted one by one. */
export function* every(device: Device): Generator<readonly Op[]> {
  for (const keyDim of [64, 128, 72]) {
    for (const t of dtypes) {
      for (const s of dtypes) {
        yield [gatedDelta(recurrence(device, t, s, keyDim, [0, 2, 2, 5]))];
        yield [gatedDelta(recurrence(device, t, s, keyDim, seqlens))];
        // More than 128 threadgroups, which have separate forms: the records are large, so not for every kernel.
        if (keyDim === 64 && (t === s || s === "f32")) yield [gatedDelta(many(device, t, s, keyDim))];
        const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
        yield [
          gatedDeltaStep({
            x: made(device, t, [2, channels]),
            z: made(device, t, [2, valueHeads, valueDim]),
            gate: made(device, "f32", [2, valueHeads]),
            beta: made(device, "f32", [2, valueHeads]),
            out: made(device, t, [2, valueHeads, valueDim]),
            state: made(device, s, [slots, valueHeads, valueDim, keyDim]),
            convState: made(device, t, [slots, channels, width - 1]),
            convWeight: made(device, "f32", [channels, width]),
            aLog: made(device, "f32", [valueHeads], -3, -1),
            dtBias: made(device, "f32", [valueHeads]),
            normWeight: made(device, "f32", [valueDim], 0.5, 1.5),
            keyHeads,
            readSlots: [1, 3],
            writeSlots: [1, 0],
            ...({ gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2" } as const),
          }),
        ];
      }
      const records = {
        key: made(device, "f32", [3, keyHeads, keyDim]),
        delta: made(device, "f32", [3, valueHeads, valueDim]),
        decay: made(device, "f32", [3, valueHeads]),
      };
      const { readSlots, writeSlots, ...rest } = recurrence(device, "f32", t, keyDim, [0, 1, 3]);
      yield [gatedDelta({ ...rest, records, readSlots, writeSlots: [-1, -1] })];
      yield [commitGatedDelta({ records, state: rest.state, cuSeqlens: [0, 1, 3], counts: [1, 1], readSlots, writeSlots })];
    }
  }
  for (const t of dtypes) {
    for (const tokens of [[0, 1, 2, 3], seqlens]) {
      const rows = tokens.at(-1)!;
      for (const channels of [72, 130]) {
        const x = made(device, t, [rows, channels]);
        const state = made(device, t, [slots, channels, width - 1]);
        const [cuSeqlens, readSlots, writeSlots] = [tokens, [1, 2, 0], [0, 1, 2]];
        const weight = made(device, "f32", [channels, width]);
        yield [causalConv1d({ x, weight, state, out: made(device, t, [rows, channels]), cuSeqlens, readSlots, writeSlots })];
        yield [commitCausalConv1d({ x, state, cuSeqlens, counts: [1, 0, 1], readSlots, writeSlots })];
      }
    }
    // Enough sequences for a thread to have two of them, and the last to have one.
    const sequences = 513;
    const x = made(device, t, [sequences, 72]);
    const numbers = Array.from({ length: sequences + 1 }, (_, i) => i);
    yield [causalConv1d({ x, weight: made(device, "f32", [72, width]), state: made(device, t, [sequences, 72, width - 1]), out: made(device, t, [sequences, 72]), cuSeqlens: numbers })];
    for (const length of [128, 24, 301]) {
      const row = (): Tensor => made(device, t, [5, 2, length]);
      yield [gatedRmsNorm({ x: row(), z: row(), weight: made(device, t, [length]), out: row() })];
      yield [rmsNorm({ x: row(), weight: made(device, t, [length]), out: row() })];
      yield [add({ a: row(), b: row(), out: row() })];
      yield [siluMul({ gate: row(), up: row(), out: row() })];
    }
    for (const s of dtypes) {
      for (const headDim of [64, 128, 72]) {
        const row = (heads: number): Tensor => made(device, t, [4, heads, headDim]);
        const pages = (): Tensor => made(device, s, [8, 2, 16, headDim]);
        yield [
          attention({
            query: row(4), key: row(2), value: row(2), gate: row(4), out: row(4), keyPages: pages(), valuePages: pages(),
            queryNorm: made(device, t, [headDim]), keyNorm: made(device, t, [headDim]), rotaryDim: 16,
            cuSeqlens: [0, 3, 4], pageTable: [3, 0, 0, 1, 7, 4], pastTokens: [5, 40],
          }),
        ];
      }
    }
    for (const w of dtypes) {
      for (const [rows, inputs] of [[1, 512], [3, 264], [11, 77], [35, 333]] as const) {
        const weight = made(device, w, [37, inputs]);
        yield [linear({ x: made(device, t, [rows, inputs]), weight, out: made(device, t, [rows, 37]) })];
        yield [embedding({ weight, ids: [36, 0, 5], out: made(device, t, [3, inputs]) })];
      }
    }
    for (const bits of [2, 3, 4, 5, 6, 8]) {
      // One row with more than 2048 outputs has a form of its own; its columns of x are taken in spans of 2048. With 4 bits and more
      // columns, there is another form.
      const wide = t !== "bf16" ? [] : bits === 4 ? ([[1, 2304, 2056], [1, 2816, 2568]] as const) : ([[1, 320, 2056]] as const);
      for (const [rows, inputs, outputs] of [[1, 2304, 37], ...wide, [3, 288, 37], [11, 96, 37], [35, 320, 37]] as const) {
        const weight = device.tensor("u32", [outputs, (inputs * bits) / 32]);
        for (let i = 0; i < weight.data.length; i += 1) weight.data[i] = Math.imul(i + 1, 0x9e3779b1) >>> 0;
        const [scales, biases] = [made(device, t, [outputs, inputs / 32], 0, 0.1), made(device, t, [outputs, inputs / 32])];
        const residual = made(device, t, [rows, outputs]);
        yield [linear({ x: made(device, t, [rows, inputs]), weight, scales, biases, residual, out: made(device, t, [rows, outputs]) })];
        yield [embedding({ weight, scales, biases, ids: [36, 0, 5], out: made(device, t, [3, inputs]) })];
      }
    }
  }
  yield* mixtures(device);
  yield* everyFormat(device);
  yield* everyMatrix(device);
  for (const [dtype, length] of [["f32", 8], ["f32", 5], ["bf16", 7]] as const) {
    yield [copySlots({ pool: made(device, dtype, [4, length]), readSlots: [1, 0, -1], writeSlots: [0, 1, 2] })];
  }
}

/** Mixtures: few tokens, whose rows use their experts' matrices directly, and many, whose rows are sorted first. */
function* mixtures(device: Device): Generator<readonly Op[]> {
  const [experts, k, outputs] = [5, 2, 37];
  for (const t of dtypes) {
    for (const tokens of [1, 3, 7, 21]) {
      const ids = device.tensor("id32", [tokens, k]);
      const weights = device.tensor("f32", [tokens, k]);
      yield [route({ logits: made(device, t, [tokens, experts]), ids, weights, normalize: tokens > 1 })];
      const [values, columns] = [device.tensor("f32", [tokens, k]), device.tensor("id32", [tokens, k])];
      for (const length of [40, 5000]) yield [topK({ x: made(device, t, [tokens, length]), values, ids: columns })];
      for (let i = 0; i < ids.data.length; i += 1) ids.data[i] = (i * 3) % experts;
      const out = (): Tensor => made(device, t, [tokens, k, outputs]);
      for (const w of dtypes) {
        yield [expertLinear({ x: made(device, t, [tokens, 77]), weight: made(device, w, [experts, outputs, 77]), ids, out: out() })];
      }
      for (const bits of [2, 3, 4, 5, 6, 8]) {
        const weight = device.tensor("u32", [experts, outputs, (96 * bits) / 32]);
        for (let i = 0; i < weight.data.length; i += 1) weight.data[i] = Math.imul(i + 1, 0x9e3779b1) >>> 0;
        const [scales, biases] = [made(device, t, [experts, outputs, 3], 0, 0.1), made(device, t, [experts, outputs, 3])];
        yield [expertLinear({ x: made(device, t, [tokens, k, 96]), weight, scales, biases, ids, out: out() })];
      }
      const row = (): Tensor => made(device, t, [tokens, outputs]);
      yield [combineExperts({ experts: out(), weights: made(device, "f32", [tokens, k]), shared: row(), sharedGate: made(device, t, [tokens, 1]), residual: row(), out: row() })];
    }
  }
}
