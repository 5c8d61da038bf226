/** Work that keeps a device busy for a given time in little memory. */
import { linear } from "../../lib/index.ts";
import type { Device, Op, Tensor } from "../../lib/index.ts";

const outFeatures = 16;

/** An op and its output: `rows` rows of sums of ones, in order. The output starts as ones, which no sum equals. */
export interface LongOp {
  readonly op: Op;
  readonly out: Tensor<"f32">;
}

/**
 * An op of that many rows, each with the same work. The rows of its input overlap, so that it needs little memory.
 *
 * @param wrapped whether the tensors are in SharedArrayBuffers instead of the library's memory.
 */
export function longOp(device: Device, wrapped: boolean, rows: number, sharedOut?: SharedArrayBuffer): LongOp {
  const inFeatures = device.emulated ? 256 : 65536;
  const ones = (shape: readonly number[], shared?: SharedArrayBuffer): Tensor<"f32"> => {
    const tensor = wrapped
      ? device.wrap("f32", shape, shared ?? new SharedArrayBuffer(pagesOf(shape)))
      : device.tensor("f32", shape);
    tensor.data.fill(1);
    return tensor;
  };
  const x = ones([inFeatures + 8 * rows]).view({ shape: [rows, inFeatures], strides: [8, 1] });
  const out = ones([rows, outFeatures], sharedOut);
  return { op: linear({ x, weight: ones([outFeatures, inFeatures]), out }), out };
}

/** Bytes of whole pages that hold floats of a shape, which every backend can wrap. */
function pagesOf(shape: readonly number[]): number {
  const bytes = shape.reduce((product, length) => product * length, 4);
  return Math.ceil(bytes / 16384) * 16384;
}

/** The number of rows with which a {@link longOp} keeps the device busy for about that long. */
export function rowsFor(device: Device, milliseconds: number): number {
  for (let rows = 4; ; rows *= 4) {
    const { op } = longOp(device, false, rows);
    device.run(op); // pipelines and memory are made on first use
    device.wait();
    const start = performance.now();
    device.run(op);
    device.wait();
    const took = performance.now() - start;
    if (took > 20 || took > milliseconds) return Math.max(1, Math.round((rows * milliseconds) / took));
  }
}

/** The number of rows of an output that have been written. An op writes its rows in order, except for the last few. */
export function rowsWritten(out: Float32Array): number {
  let written = 0;
  for (let at = 0; at < out.length; at += outFeatures) if (out[at] !== 1) written++;
  return written;
}
