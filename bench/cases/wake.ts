/**
 * How quickly the pool's second thread joins in. It spins for at most 50 µs after its last job and then sleeps, so the
 * same op runs right after another one (`awake`) and after a pause (`asleep`), on one thread and on two. The cost of waking is
 * the time on two threads less half of the time on one.
 */
import { gatedDelta } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import type { Benchmark, Budget, Figure } from "../benchmark.ts";
import { deltaCalls } from "./gated-delta.ts";

const pauseMilliseconds = 2;

async function timeCalls(device: Device, threads: number, asleep: boolean, budget: Budget): Promise<Figure> {
  const shape = { dtype: "f32", sequences: 8, tokens: 1, valueHeads: 32, threads, temperature: "hot" } as const;
  const { calls, tensors } = deltaCalls(device, shape);
  const op = gatedDelta(calls[0]!);
  const run = () => {
    device.run(op);
    device.wait();
  };
  try {
    for (let i = 0; i < 20; i++) run();
    const times: number[] = [];
    const end = Bun.nanoseconds() + budget.milliseconds * 1e6;
    while (times.length < budget.leastSamples || Bun.nanoseconds() < end) {
      if (asleep) Bun.sleepSync(pauseMilliseconds);
      else run();
      const since = Bun.nanoseconds();
      run();
      times.push((Bun.nanoseconds() - since) / 1e3);
    }
    times.sort((a, b) => a - b);
    return { us: times[times.length >> 1]!, usMin: times[0]! };
  } finally {
    for (const tensor of tensors) tensor[Symbol.dispose]();
  }
}

/** The benchmarks of waking; `threadCounts` are the machine's. */
export function wakeBenchmarks(threadCounts: readonly number[], of: (threads: number) => Device): Benchmark[] {
  return threadCounts
    .filter((threads) => threads <= 2)
    .flatMap((threads) =>
      (["awake", "asleep"] as const).map((state) => ({
        name: `calls/wake/t${threads}/${state}`,
        threads,
        work: undefined,
        measure: (budget: Budget) => timeCalls(of(threads), threads, state === "asleep", budget),
      })),
    );
}
