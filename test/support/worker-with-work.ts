/** A Worker that ends, or is ended, while work is pending. */
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { storageOf } from "../../lib/tensor/tensor.ts";
import { longOp, rowsFor } from "./long-work.ts";

/** The Worker's instructions. */
export interface Order {
  readonly backend: BackendName;
  /** Whether tensors are in the Worker's own SharedArrayBuffers instead of the library's memory. */
  readonly wrapped: boolean;
  /** How many submissions to commit, and about how long all of them together keep the device busy. */
  readonly submissions: number;
  readonly milliseconds: number;
  /** Whether the Worker ends itself; otherwise it waits to be terminated. */
  readonly exits: boolean;
}

/** Its message after everything is committed, before it ends. */
export interface Busy {
  /** Memory of the last submission's output: shared, or transferred out of the Worker. */
  readonly out: ArrayBufferLike;
  readonly rows: number;
  /** The native handle of that output. */
  readonly handle: number;
}

declare const self: Worker;

self.onmessage = ({ data: order }: MessageEvent<Order>) => {
  const device = Device.open(order.backend);
  const rows = rowsFor(device, order.milliseconds / order.submissions);
  const ops = Array.from({ length: Math.min(order.submissions - 1, 32) }, () => longOp(device, order.wrapped, rows).op);
  for (let i = 0; i < order.submissions - 1; i++) device.run(ops[i % ops.length]!);
  const { op, out: last } = longOp(device, order.wrapped, rows);
  device.run(op);
  const out = last.data.buffer;
  const busy = { out, rows, handle: storageOf(last).handle } satisfies Busy;
  postMessage(busy, order.wrapped ? [] : [out as ArrayBuffer]);
  if (order.exits) process.exit(0);
};
