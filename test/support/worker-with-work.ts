/** A Worker that ends, or is ended, while work is pending on memory that is its own. */
import { Device, linear } from "../../lib/index.ts";
import type { BackendName, Op, Tensor } from "../../lib/index.ts";

/** What the Worker is told. */
export interface Order {
  readonly backend: BackendName;
  /** Whether tensors lie in SharedArrayBuffers of the Worker's, instead of the library's memory. */
  readonly wrapped: boolean;
  /** How many submissions to commit, and for how long all of them together keep the device busy. */
  readonly submissions: number;
  readonly milliseconds: number;
  /** Whether the Worker ends itself; it waits to be terminated otherwise. */
  readonly exits: boolean;
  /** [0] becomes 1 when everything is committed. */
  readonly flag: SharedArrayBuffer;
}

declare const self: Worker;

self.onmessage = ({ data: order }: MessageEvent<Order>) => {
  const device = Device.open(order.backend);
  const rows = rowsFor(device, order.milliseconds / order.submissions);
  const ops = Array.from({ length: Math.min(order.submissions, 32) }, () => sums(device, order.wrapped, rows));
  for (let i = 0; i < order.submissions; i++) device.run(ops[i % ops.length]!);
  Atomics.store(new Int32Array(order.flag), 0, 1);
  if (order.exits) process.exit(0);
};

const outFeatures = 16;

/** out = sums of rows of ones, so never 0. The rows of x overlap: memory is small beside the work. */
function sums(device: Device, wrapped: boolean, rows: number): Op {
  const inFeatures = device.emulated ? 256 : 65536;
  const ones = (...shape: number[]): Tensor<"f32"> => {
    const bytes = shape.reduce((product, length) => product * length, 4);
    const pages = new SharedArrayBuffer(Math.ceil(bytes / 16384) * 16384);
    const tensor = wrapped ? device.wrap("f32", shape, pages) : device.tensor("f32", shape);
    tensor.data.fill(1);
    return tensor;
  };
  const x = ones(inFeatures + 8 * rows).view({ shape: [rows, inFeatures], strides: [8, 1] });
  return linear({ x, weight: ones(outFeatures, inFeatures), out: ones(rows, outFeatures) });
}

/** How many rows keep the device busy for so long. */
function rowsFor(device: Device, milliseconds: number): number {
  let rows = 4;
  for (;;) {
    const op = sums(device, false, rows);
    const start = performance.now();
    device.run(op);
    device.wait();
    const took = performance.now() - start;
    if (took > 20 || took > milliseconds) return Math.max(1, Math.round((rows * milliseconds) / took));
    rows *= 4;
  }
}
