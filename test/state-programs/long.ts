// The long run: `bun test/state-programs/long.ts [--programs N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
// With `--short-files` the process must be unable to write files of more than a few KiB (`ulimit -f`): saving is frequent
// then, and may fail half way.
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { Machine } from "./machine.ts";
import { runPrograms } from "./runner.ts";
import type { Report } from "./runner.ts";

const { values } = parseArgs({
  options: {
    programs: { type: "string", default: "100000" },
    seed: { type: "string", default: "1" },
    first: { type: "string", default: "0" },
    jobs: { type: "string", default: "1" },
    backend: { type: "string", default: "cpu" },
    "short-files": { type: "boolean", default: false },
    // What a job tells the process that started it.
    json: { type: "boolean", default: false },
  },
});
const [programs, seed, first, jobs] = [Number(values.programs), Number(values.seed), Number(values.first), Number(values.jobs)];

/** What ran, as a job tells it. */
interface Told extends Pick<Report, "programs" | "failure"> {
  readonly counts: readonly (readonly [string, number])[];
  readonly device: string;
}

/** Runs a part of the programs in this process. */
function here(): Told {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-programs-"));
  using device = Device.open({ backend: values.backend as BackendName, threads: 1 });
  const options = values["short-files"] ? { shortFiles: true, weights: { save: 8, load: 8 } } : {};
  const report = runPrograms(new Machine(device), folder, seed, first, programs, options);
  rmSync(folder, { recursive: true, force: true });
  return { ...report, counts: [...report.counts], device: `${device.backend}${device.emulated ? ", emulated" : ""} ${device.isa}` };
}

/** Runs the programs in several processes at a time, each an equal part. */
async function inJobs(): Promise<Told> {
  const size = Math.ceil(programs / jobs);
  const told = await Promise.all(Array.from({ length: jobs }, async (_, job) => {
    const part = ["--programs", `${Math.min(size, programs - job * size)}`, "--first", `${first + job * size}`, "--seed", `${seed}`, "--backend", values.backend];
    const child = Bun.spawn([process.execPath, import.meta.path, ...part, "--json", ...(values["short-files"] ? ["--short-files"] : [])], { stdout: "pipe", stderr: "inherit" });
    const text = await child.stdout.text();
    if (text === "") throw new Error(`a job ended with ${await child.exited} and said nothing`);
    return JSON.parse(text) as Told;
  }));
  const counts = new Map<string, number>();
  for (const [what, count] of told.flatMap((each) => each.counts)) counts.set(what, (counts.get(what) ?? 0) + count);
  const failures = told.flatMap((each) => each.failure ?? []);
  const failure = failures.length === 0 ? undefined : failures.join("\n\n");
  return { programs: told.reduce((sum, each) => sum + each.programs, 0), counts: [...counts], device: told[0]!.device, failure };
}

const start = performance.now();
const report = jobs > 1 ? await inJobs() : here();
const seconds = (performance.now() - start) / 1000;

if (values.json) {
  console.log(JSON.stringify(report));
} else {
  console.log(`command: bun test/state-programs/long.ts ${process.argv.slice(2).join(" ")}`);
  console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: ${report.device}; Bun ${Bun.version}`);
  console.log(`${report.programs} programs of seed ${seed} in ${seconds.toFixed(0)} s: ${report.failure === undefined ? "all do what the model says" : "not all do what the model says"}`);
  for (const [what, count] of report.counts.toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${what}: ${count}`);
  if (report.failure !== undefined) console.log(report.failure);
}
if (report.failure !== undefined) process.exitCode = 1;
