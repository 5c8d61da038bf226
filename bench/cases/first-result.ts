/** Time to first result: a process that imports the library, opens a device, runs one op and reads what it wrote. */
import type { Benchmark, Figure } from "../benchmark.ts";

const program = `
  const since = performance.now();
  const { Device, gatedRmsNorm } = await import(${JSON.stringify(`${import.meta.dir}/../../lib/index.ts`)});
  using device = Device.open("cpu");
  const [x, z, out] = [0, 1, 2].map(() => device.tensor("f32", [1, 8]));
  const weight = device.tensor("f32", [8]);
  for (const { data } of [x, z, weight]) data.fill(1);
  device.run(gatedRmsNorm({ x, z, weight, out }));
  device.wait();
  if (!(out.data[0] > 0)) throw new Error("no result");
  console.log(performance.now() - since);
`;

/** One run: microseconds of the whole process, and of the part that is ours. */
export function firstResult(): { readonly process: number; readonly library: number } {
  const since = Bun.nanoseconds();
  const { success, stdout, stderr } = Bun.spawnSync([process.execPath, "-e", program]);
  const whole = (Bun.nanoseconds() - since) / 1e3;
  if (!success) throw new Error(`the first result did not come: ${stderr}`);
  return { process: whole, library: Number(stdout.toString()) * 1e3 };
}

export function firstResultBenchmarks(): Benchmark[] {
  return (["process", "library"] as const).map((part) => ({
    name: `first-result/${part}`,
    threads: 1,
    work: undefined,
    async measure(budget): Promise<Figure> {
      const runs = Array.from({ length: Math.max(3, Math.round(budget.milliseconds / 40)) }, () => firstResult()[part]);
      runs.sort((a, b) => a - b);
      return { us: runs[runs.length >> 1]!, usMin: runs[0]! };
    },
  }));
}
