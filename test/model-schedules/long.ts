// The long run: `bun test/model-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { openFixtures } from "./fixtures.ts";
import { runSchedules } from "./runner.ts";
import type { Report } from "./runner.ts";

const { values } = parseArgs({
  options: {
    schedules: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
    first: { type: "string", default: "0" },
    backend: { type: "string", default: "cpu" },
    jobs: { type: "string", default: "1" },
    // What a job tells the process that started it.
    json: { type: "boolean", default: false },
  },
});
const [schedules, seed, first, jobs] = [Number(values.schedules), Number(values.seed), Number(values.first), Number(values.jobs)];

/** What ran, as a job tells it. */
interface Told extends Pick<Report, "schedules" | "failure"> {
  readonly counts: readonly (readonly [string, number])[];
  readonly models: readonly string[];
  readonly device: string;
}

/** Runs a part of the schedules in this process. */
async function here(): Promise<Told> {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-schedules-"));
  using device = Device.open({ backend: values.backend as BackendName, threads: 1 });
  const fixtures = await openFixtures(device, folder);
  const report = await runSchedules(fixtures, seed, first, schedules);
  rmSync(folder, { recursive: true, force: true });
  const models = fixtures.map(({ name }) => name);
  return { ...report, counts: [...report.counts], models, device: `${device.backend}${device.emulated ? ", emulated" : ""} ${device.isa}` };
}

/** Runs the schedules in several processes at a time, each an equal part. */
async function inJobs(): Promise<Told> {
  const size = Math.ceil(schedules / jobs);
  const told = await Promise.all(Array.from({ length: jobs }, async (_, job) => {
    const part = ["--schedules", `${Math.min(size, schedules - job * size)}`, "--first", `${first + job * size}`, "--seed", `${seed}`, "--backend", values.backend];
    const child = Bun.spawn([process.execPath, import.meta.path, ...part, "--json"], { stdout: "pipe", stderr: "inherit" });
    const text = await child.stdout.text();
    if (text === "") throw new Error(`a job ended with ${await child.exited} and said nothing`);
    return JSON.parse(text) as Told;
  }));
  const counts = new Map<string, number>();
  for (const [what, count] of told.flatMap((each) => each.counts)) counts.set(what, (counts.get(what) ?? 0) + count);
  const failures = told.flatMap((each) => each.failure ?? []);
  const failure = failures.length === 0 ? undefined : failures.join("\n\n");
  return { schedules: told.reduce((sum, each) => sum + each.schedules, 0), counts: [...counts], models: told[0]!.models, device: told[0]!.device, failure };
}

const start = performance.now();
const report = jobs > 1 ? await inJobs() : await here();
const seconds = (performance.now() - start) / 1000;

if (values.json) {
  console.log(JSON.stringify(report));
} else {
  console.log(`command: bun test/model-schedules/long.ts ${process.argv.slice(2).join(" ")}`);
  console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: ${report.device}; Bun ${Bun.version}`);
  console.log(`${report.schedules} schedules of seed ${seed} in ${seconds.toFixed(0)} s: ${report.failure === undefined ? "every logit has the bits of the cold run" : "not every logit has the bits of the cold run"}`);
  for (const name of report.models) console.log(`  a model of ${name}`);
  for (const [what, count] of report.counts.toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${what}: ${count}`);
  if (report.failure !== undefined) console.log(report.failure);
}
if (report.failure !== undefined) process.exitCode = 1;
