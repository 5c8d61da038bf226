/** The part of every.ts for weights in ggml's blocks and in MLX's micro-scaled forms, and for products by matrices. */
import { attention, embedding, expertLinear, linear } from "../../lib/index.ts";
import type { Device, FloatDType, Op, Tensor } from "../../lib/index.ts";
import { blockNames, randomBlocks } from "../../test/support/ggml.ts";
import { ggmlFormats } from "../../test/reference/gguf.ts";
import { microNames, randomMicro } from "../../test/support/micro.ts";
import { Random } from "../../test/support/random.ts";

const dtypes = ["f32", "f16", "bf16"] as const;
const [experts, k] = [3, 2] as const;
const outputs = 37 as number;
/** The columns of two of the largest blocks. */
const columns = 512;

type Weight = Pick<Parameters<typeof linear>[0], "weight" | "scales" | "weightFormat">;

function numbers(device: Device, random: Random, dtype: FloatDType, shape: readonly number[]): Tensor {
  return device.tensorFrom(dtype, shape, Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => random.normal()));
}

/** Matrices of a format: one, or one for each of some experts. */
function matrices(device: Device, random: Random, format: string, of: readonly number[], rowsEach = outputs): Weight {
  const rows = rowsEach * of.reduce((a, b) => a * b, 1);
  const micro = microNames.find((name) => name === format);
  if (micro !== undefined) {
    const { words, scales } = randomMicro(random, micro, [rows, columns]);
    return {
      weightFormat: micro,
      weight: device.tensorFrom("u32", [...of, rowsEach, words.shape[1]!], Uint32Array.from(words.data)),
      scales: device.tensorFrom("u8", [...of, rowsEach, scales.shape[1]!], Uint8Array.from(scales.data)),
    };
  }
  const block = blockNames.find((name) => name === format) as Parameters<typeof randomBlocks>[1];
  const { bytes } = randomBlocks(random, block, rows, columns / ggmlFormats[block].elements);
  return { weightFormat: block, weight: device.tensorFrom("u8", [...of, rowsEach, bytes.shape[1]!], Uint8Array.from(bytes.data)) };
}

/** Every format with rows of bf16, and one format of each family with rows of the other dtypes. */
export function* everyFormat(device: Device): Generator<readonly Op[]> {
  const random = new Random(11);
  for (const t of dtypes) {
    for (const format of t === "bf16" ? [...blockNames, ...microNames] : ["q4_k", "mxfp4", "mxfp8"]) {
      const row = (...shape: number[]): Tensor => numbers(device, random, t, shape);
      const weight = matrices(device, random, format, []);
      for (const rows of [1, 11, 35]) yield [linear({ x: row(rows, columns), ...weight, out: row(rows, outputs) })];
      yield [embedding({ ...weight, ids: [outputs - 1, 0, 5], out: row(3, columns) })];
      // One row with more than 2048 outputs, or with more than 8192, has a separate form: the records are large, so not for every format.
      const wide = t === "bf16" && ["q4_k", "q5_k", "q6_k", "q8_0"].includes(format) ? [2056, 8200] : [];
      for (const many of wide) yield [linear({ x: row(1, columns), ...matrices(device, random, format, [], many), out: row(1, many) })];
      const each = matrices(device, random, format, [experts]);
      for (const tokens of [1, 21]) {
        const ids = device.tensor("id32", [tokens, k]);
        for (let i = 0; i < ids.data.length; i++) ids.data[i] = i % experts;
        yield [expertLinear({ x: row(tokens, columns), ...each, ids, out: row(tokens, k, outputs) })];
      }
    }
  }
}

/** Products by matrices: attention, and projections of each family of formats. */
export function* everyMatrix(device: Device): Generator<readonly Op[]> {
  const random = new Random(12);
  for (const t of dtypes) {
    const row = (...shape: number[]): Tensor => numbers(device, random, t, shape);
    for (const headDim of [64, 128, 72]) {
      const pages = (): Tensor => row(8, 2, 16, headDim);
      yield [
        attention({
          query: row(40, 4, headDim), key: row(40, 2, headDim), value: row(40, 2, headDim), gate: row(40, 4, headDim), out: row(40, 4, headDim),
          keyPages: pages(), valuePages: pages(), queryNorm: row(headDim), keyNorm: row(headDim), rotaryDim: 16,
          cuSeqlens: [0, 33, 40], pageTable: [3, 0, 5, 1, 7, 4], pastTokens: [5, 30], products: "matrix",
        }),
      ];
    }
    for (const format of ["q4_k", "mxfp4", "mxfp8"]) {
      yield [linear({ x: row(35, columns), ...matrices(device, random, format, []), out: row(35, outputs), products: "matrix" })];
    }
    yield [linear({ x: row(35, columns), weight: row(outputs, columns), out: row(35, outputs), products: "matrix" })];
  }
}
