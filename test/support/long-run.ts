/** Long runs of random schedules: in one process or in several, and their record. */
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import type { ParseArgsOptionsConfig } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { Counts, runSchedules } from "./schedules.ts";
import type { ScheduleMachine } from "./schedules.ts";

/** A job's report to the process that started it. */
interface Told {
  /** The number of programs, schedules or cases that ran. */
  readonly run: number;
  /** Counts of events. */
  readonly counts: readonly (readonly [string, number])[];
  readonly device: string;
  readonly models: readonly string[];
  /** The first difference of each job that found one. */
  readonly failure: string | undefined;
}

/** The environment of a machine. */
export interface Surroundings {
  readonly device: Device;
  /** Used by this process alone; removed at the end. */
  readonly folder: string;
  /** The flags of the script's own that were given. */
  readonly flags: ReadonlySet<string>;
}

/** A script of a long run. */
export interface LongRun<Action, Schedule extends Disposable | AsyncDisposable> {
  /** The script's file. */
  readonly path: string;
  /** The counted unit, which is also the name of its option. */
  readonly what: "programs" | "schedules" | "cases";
  /** The default of that option. */
  readonly count: number;
  /** Options that only this script has. */
  readonly flags?: readonly string[];
  readonly machine: (surroundings: Surroundings) => Promise<ScheduleMachine<Action, Schedule>> | ScheduleMachine<Action, Schedule>;
  /** The conclusions without a failure and with one. */
  readonly verdict: readonly [fine: string, failed: string];
}

/**
 * Runs as the command line says (`--programs`, `--schedules` or `--cases`, `--seed`, `--first`, `--jobs`, `--seconds`, `--backend` and the
 * script's own), prints the record and ends the process: with status 1 for a failure, 2 for unknown options.
 */
export async function longRun<Action, Schedule extends Disposable | AsyncDisposable>(script: LongRun<Action, Schedule>): Promise<never> {
  const given = readOptions(script.what, script.count, script.flags);
  const start = performance.now();
  const { flags, seed, seconds, backend } = given;
  const passed = [...[...flags].map((name) => `--${name}`), ...(seconds === Infinity ? [] : ["--seconds", `${seconds}`])];
  const partOf = (first: number, count: number) => [`--${script.what}`, `${count}`, "--first", `${first}`, "--seed", `${seed}`, "--backend", backend, ...passed, "--json"];
  const told = given.jobs > 1 ? await inJobs(script.path, given.jobs, given.first, given.count, partOf) : await here(script, given);
  if (given.json) console.log(JSON.stringify(told));
  else printRecord(relative(join(import.meta.dir, "../.."), script.path), told, (performance.now() - start) / 1000, `${script.what} of seed ${seed}`, script.verdict);
  // Models with pending work would keep the process alive.
  process.exit(told.failure === undefined ? 0 : 1);
}

async function here<Action, Schedule extends Disposable | AsyncDisposable>(script: LongRun<Action, Schedule>, { backend, seed, first, count, seconds, flags }: Given): Promise<Told> {
  const folder = mkdtempSync(join(tmpdir(), `gated-delta-${script.what}-`));
  try {
    using device = Device.open({ backend, threads: 1 });
    const machine = await script.machine({ device, folder, flags });
    const { run, counts, failure } = await runSchedules(machine, join(folder, "runs"), seed, first, count, { seconds });
    return { run, counts: [...counts], failure, models: machine.models ?? [], device: deviceText(device) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The options of the command line. */
interface Given {
  readonly count: number;
  readonly seed: number;
  readonly first: number;
  readonly jobs: number;
  readonly seconds: number;
  readonly backend: BackendName;
  /** Whether this process is a job of another process, which reads its report. */
  readonly json: boolean;
  readonly flags: ReadonlySet<string>;
}

function readOptions(what: string, count: number, ownFlags: readonly string[] = []): Given {
  const texts = { [what]: `${count}`, seed: "1", first: "0", jobs: "1", backend: "cpu" };
  const options: ParseArgsOptionsConfig = { seconds: { type: "string" } };
  for (const [name, value] of Object.entries(texts)) options[name] = { type: "string", default: value };
  for (const name of ["json", ...ownFlags]) options[name] = { type: "boolean", default: false };
  try {
    const values = parseArgs({ options }).values as Readonly<Record<string, string | boolean | undefined>>;
    const number = (name: string): number => {
      if (!/^\d{1,15}$/.test(`${values[name]}`)) throw new Error(`--${name} takes a whole number, not ${values[name]}`);
      return Number(values[name]);
    };
    return {
      count: number(what), seed: number("seed"), first: number("first"), jobs: number("jobs"),
      seconds: values["seconds"] === undefined ? Infinity : number("seconds"),
      backend: values["backend"] as BackendName, json: values["json"] === true,
      flags: new Set(ownFlags.filter((name) => values[name] === true)),
    };
  } catch (error) {
    console.error((error as Error).message);
    process.exit(2);
  }
}

/** A device as a record names it. */
export function deviceText({ backend, emulated, isa }: Device): string {
  return `${backend}${emulated ? ", emulated" : ""} ${isa}`;
}

/**
 * Runs `count` units, from `first` on, in several processes at a time, each with an equal share.
 *
 * @param partOf the arguments that tell the script at `path` which part to run; it prints its {@link Told} as JSON.
 */
async function inJobs(path: string, jobs: number, first: number, count: number, partOf: (first: number, count: number) => readonly string[]): Promise<Told> {
  const size = Math.ceil(count / jobs);
  const told = await Promise.all(Array.from({ length: jobs }, async (_, job) => {
    const part = partOf(first + job * size, Math.min(size, count - job * size));
    const child = Bun.spawn([process.execPath, path, ...part], { stdout: "pipe", stderr: "inherit" });
    const text = await child.stdout.text();
    if (text === "") throw new Error(`a job ended with ${await child.exited} and said nothing`);
    return JSON.parse(text) as Told;
  }));
  const counts = new Counts();
  for (const [event, times] of told.flatMap((each) => each.counts)) counts.add(event, times);
  const failures = told.flatMap((each) => each.failure ?? []);
  const failure = failures.length === 0 ? undefined : failures.join("\n\n");
  return { ...told[0]!, run: told.reduce((sum, each) => sum + each.run, 0), counts: [...counts], failure };
}

/**
 * Prints the record of a run.
 *
 * @param what such as "schedules of seed 1".
 */
function printRecord(script: string, report: Told, seconds: number, what: string, verdict: readonly [fine: string, failed: string]): void {
  console.log(`command: bun ${script} ${process.argv.slice(2).join(" ")}`);
  console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: ${report.device}; Bun ${Bun.version}`);
  console.log(`${report.run} ${what} in ${seconds.toFixed(0)} s: ${verdict[report.failure === undefined ? 0 : 1]}`);
  for (const model of report.models) console.log(`  ${model}`);
  for (const [event, count] of report.counts.toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${event}: ${count}`);
  if (report.failure !== undefined) console.log(report.failure);
}
