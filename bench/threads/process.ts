/**
 * A process that works: it opens a device, says that it is ready, and for each line of its input, `WORKLOAD CALLS`, makes that many calls
 * and says how long they took. A line of its output is a JSON object.
 */
import { createInterface } from "node:readline";
import { Device } from "../../lib/index.ts";
import { callOf } from "./workloads.ts";
import type { WorkloadName } from "./workloads.ts";

/** A process's figures for its calls. */
export interface Report {
  readonly milliseconds: number;
  /** The processor time of all threads of the process. */
  readonly processorMilliseconds: number;
  /** How often its threads gave up a core by themselves, and how often one was taken from them. */
  readonly waits: number;
  readonly preemptions: number;
}

function processorMilliseconds(usage: NodeJS.ResourceUsage): number {
  return (usage.userCPUTime + usage.systemCPUTime) / 1000;
}

if (import.meta.main) {
  using device = Device.open({ backend: "cpu", threads: Number(process.argv[2]) });
  const calls = new Map<string, () => void>();
  console.log(JSON.stringify({ threads: device.threads }));
  for await (const line of createInterface({ input: process.stdin })) {
    const [name, count] = line.split(" ") as [WorkloadName, string];
    let call = calls.get(name);
    if (call === undefined) calls.set(name, (call = callOf(device, name)));
    const before = process.resourceUsage();
    const since = Bun.nanoseconds();
    for (let i = 0; i < Number(count); i++) call();
    const milliseconds = (Bun.nanoseconds() - since) / 1e6;
    const after = process.resourceUsage();
    const report: Report = {
      milliseconds,
      processorMilliseconds: processorMilliseconds(after) - processorMilliseconds(before),
      waits: after.voluntaryContextSwitches - before.voluntaryContextSwitches,
      preemptions: after.involuntaryContextSwitches - before.involuntaryContextSwitches,
    };
    console.log(JSON.stringify(report));
  }
}
