/** A Worker with a device of its own: it works for the time that a message names, and says how many calls it made. */
import { Device } from "../../lib/index.ts";
import { callOf } from "./workloads.ts";
import type { WorkloadName } from "./workloads.ts";

/** A message to the Worker. */
export interface Order {
  readonly workload: WorkloadName;
  readonly milliseconds: number;
}

declare const self: Worker;

const device = Device.open({ backend: "cpu", threads: Number(Bun.env["GATED_DELTA_BENCH_THREADS"] ?? "2") });
const calls = new Map<string, () => void>();

self.onmessage = ({ data }: MessageEvent<Order>) => {
  let call = calls.get(data.workload);
  if (call === undefined) calls.set(data.workload, (call = callOf(device, data.workload)));
  const since = Bun.nanoseconds();
  let count = 0;
  while (Bun.nanoseconds() - since < data.milliseconds * 1e6) {
    call();
    count++;
  }
  postMessage(count / ((Bun.nanoseconds() - since) / 1e9));
};
postMessage("ready");
