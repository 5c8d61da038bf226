/**
 * `gated-rmsnorm-*` files: y `[rows,n]` in f32, z `[rows,n]` and weight `[n]` in the file's dtype, out_f64 for
 * weight · y · rsqrt(mean y² + eps) · act(z).
 */

import type { Device } from "../../lib/device/device.ts";
import { decodeBf16, dtypes, encode, type ArrayOfDType, type FloatDType } from "../../lib/tensor/dtype.ts";
import { gatedRmsNorm } from "../../lib/ops/gated-rms-norm.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { outputBound } from "./op-file.ts";
import type { FileKind, OpFile, OpTensor } from "./op-file.ts";
import type { Report } from "../../lib/cli/verify/report.ts";
import { mostCalls } from "../../lib/cli/verify/schedule.ts";

type Elements = ArrayOfDType[FloatDType];

/** One file's inputs and reference. */
export interface GatedRmsNormCase {
  readonly rows: number;
  readonly length: number;
  readonly y: OpTensor;
  readonly z: OpTensor;
  readonly weight: OpTensor;
  readonly out: Float64Array;
  readonly eps: number;
  readonly activation: "silu" | "sigmoid";
}

/** The kind of these files. */
export const gatedRmsNormKind: FileKind = { prefix: "gated-rmsnorm-", op: "gatedRmsNorm", check };

function check(file: OpFile, device: Device, report: Report): void {
  const data = readGatedRmsNorm(file);
  const { rows } = data;
  const dtype = data.z.dtype;
  const tolerance = outputBound(dtype, data.out);
  const base = run(device, data, [0, rows], dtype, "tokens");
  report.near("whole", "output", numbers(dtype, base), data.out, tolerance);
  if (dtype !== "f32") {
    const way = "whole, float32 output";
    const exact = run(device, data, [0, rows], "f32", "tokens");
    report.near(way, "output", exact, data.out, bounds.f32);
    report.equal(way, "output rounded, bits of whole", encode(dtype, exact), base, (array) => numbers(dtype, array));
  }
  const promised = (way: string, cuts: readonly number[], axis: "tokens" | "heads") => {
    const output = run(device, data, cuts, dtype, axis);
    report.near(way, "output", numbers(dtype, output), data.out, tolerance);
    report.equal(way, "output, bits of whole", output, base, (array) => numbers(dtype, array));
  };
  promised("rows as heads of one token", [0, rows], "heads");
  if (rows > 1) {
    promised("split in half", [0, Math.floor(rows / 2), rows], "tokens");
    if (rows <= mostCalls) promised("row by row", Array.from({ length: rows + 1 }, (_, row) => row), "tokens");
  }
}

function numbers(dtype: FloatDType, array: Elements): ArrayLike<number> {
  return dtype === "bf16" ? decodeBf16(array) : array;
}

/** Reads a file's case. */
export function readGatedRmsNorm(file: OpFile): GatedRmsNormCase {
  const z = file.tensor("z", ["rows", "n"]);
  return {
    z,
    y: file.tensor("y", ["rows", "n"], ["f32", z.dtype]),
    weight: file.tensor("weight", ["n"]),
    out: file.reference("out_f64", ["rows", "n"]),
    rows: file.size("rows"),
    length: file.size("n"),
    eps: file.number("eps", 0, 1e-6),
    activation: file.option("formula", [[/silu\(z\)/, "silu"], [/sigmoid\(z\)/, "sigmoid"]], "silu"),
  };
}

/** Runs the rows between each two adjacent cuts as one call, laid out as tokens or as the heads of one token. */
function run(
  device: Device,
  data: GatedRmsNormCase,
  cuts: readonly number[],
  outDType: FloatDType,
  axis: "tokens" | "heads",
): Elements {
  const { rows, length, y, z, eps, activation } = data;
  const out = dtypes[outDType].create(rows * length);
  using weight = device.tensorFrom(data.weight.dtype, data.weight.shape, data.weight.data);
  for (let i = 0; i + 1 < cuts.length; i++) {
    const [from = 0, to = 0] = cuts.slice(i, i + 2);
    const shape = axis === "tokens" ? [to - from, 1, length] : [1, to - from, length];
    // Copies, not views: rows of some lengths begin at offsets that a view may not have.
    using part = device.tensor(outDType, shape);
    using x = device.tensorFrom(y.dtype, shape, y.data.subarray(from * length, to * length));
    using gate = device.tensorFrom(z.dtype, shape, z.data.subarray(from * length, to * length));
    device.run(gatedRmsNorm({ x, z: gate, weight, out: part, eps, activation }));
    device.wait();
    out.set(part.data, from * length);
  }
  return out;
}
