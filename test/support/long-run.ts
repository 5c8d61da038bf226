/** Long runs of random programs or schedules: in one process or in several, and their records. */
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import type { ParseArgsOptionsConfig } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";

/** A job's report to the process that started it. */
export interface Told {
  /** How many programs or schedules. */
  readonly run: number;
  /** Counts of events. */
  readonly counts: readonly (readonly [string, number])[];
  readonly device: string;
  /** The first difference of each job that found one. */
  readonly failure: string | undefined;
}

/** The part of a long run that a process does. */
export interface Part {
  readonly device: Device;
  /** Of this process alone; removed at the end. */
  readonly folder: string;
  readonly seed: number;
  readonly first: number;
  readonly count: number;
  /** The script's own options, as they came. */
  readonly extra: Readonly<Record<string, string | boolean>>;
}

/** The jobs of a script. */
export interface LongRun<T extends Told> {
  /** The script's file. */
  readonly path: string;
  /** The counted unit, which is also the name of its option. */
  readonly what: "programs" | "schedules";
  /** The default of that option. */
  readonly count: number;
  /** Options of this script alone, with their defaults. */
  readonly extra?: Readonly<Record<string, string | boolean>>;
  readonly run: (part: Part) => Promise<Omit<T, "device">> | Omit<T, "device">;
  /** The conclusions without a failure and with one. */
  readonly verdict: readonly [fine: string, failed: string];
  /** Further lines of the record, before the counts. */
  readonly lines?: (told: T) => readonly string[];
}

/**
 * Does what the command line says (`--programs` or `--schedules`, `--seed`, `--first`, `--jobs`, `--backend` and the script's own),
 * prints the record and ends the process: with 1 for a failure, 2 for options that are none.
 */
export async function longRun<T extends Told>(of: LongRun<T>): Promise<never> {
  const given = readOptions(of);
  const start = performance.now();
  const { extra, seed, backend } = given;
  const passed = Object.entries(extra).flatMap(([name, value]) => (value === true ? [`--${name}`] : value === false ? [] : [`--${name}`, value]));
  const partOf = (first: number, count: number) => [`--${of.what}`, `${count}`, "--first", `${first}`, "--seed", `${seed}`, "--backend", backend, ...passed, "--json"];
  const told = given.jobs > 1 ? await inJobs<T>(of.path, given.jobs, given.first, given.count, partOf) : await here(of, given);
  if (given.json) console.log(JSON.stringify(told));
  else printRecord(relative(join(import.meta.dir, "../.."), of.path), told, (performance.now() - start) / 1000, `${of.what} of seed ${seed}`, of.verdict, of.lines?.(told));
  // Models that still have work would keep the process.
  process.exit(told.failure === undefined ? 0 : 1);
}

async function here<T extends Told>(of: LongRun<T>, { backend, seed, first, count, extra }: Given): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), `gated-delta-${of.what}-`));
  try {
    using device = Device.open({ backend, threads: 1 });
    return { ...(await of.run({ device, folder, seed, first, count, extra })), device: deviceText(device) } as T;
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
  readonly backend: BackendName;
  /** The messages of a job to the process that started it. */
  readonly json: boolean;
  readonly extra: Readonly<Record<string, string | boolean>>;
}

function readOptions<T extends Told>({ what, count, extra = {} }: LongRun<T>): Given {
  const numbers = { [what]: `${count}`, seed: "1", first: "0", jobs: "1" };
  const options: ParseArgsOptionsConfig = { json: { type: "boolean", default: false } };
  for (const [name, value] of Object.entries({ ...numbers, backend: "cpu", ...extra })) {
    options[name] = typeof value === "boolean" ? { type: "boolean", default: value } : { type: "string", default: value };
  }
  try {
    const values = parseArgs({ options }).values as Readonly<Record<string, string | boolean>>;
    const number = (name: string): number => {
      if (!/^\d{1,15}$/.test(`${values[name]}`)) throw new Error(`--${name} takes a whole number, not ${values[name]}`);
      return Number(values[name]);
    };
    const own = Object.fromEntries(Object.keys(extra).map((name) => [name, values[name]!]));
    return {
      count: number(what), seed: number("seed"), first: number("first"), jobs: number("jobs"),
      backend: values["backend"] as BackendName, json: values["json"] === true, extra: own,
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
 * Runs `count` of them, from `first` on, in several processes at a time, each an equal part.
 *
 * @param partOf the arguments that tell the script at `path` which part to run; it prints its {@link Told} as JSON.
 */
async function inJobs<T extends Told>(path: string, jobs: number, first: number, count: number, partOf: (first: number, count: number) => readonly string[]): Promise<T> {
  const size = Math.ceil(count / jobs);
  const told = await Promise.all(Array.from({ length: jobs }, async (_, job) => {
    const part = partOf(first + job * size, Math.min(size, count - job * size));
    const child = Bun.spawn([process.execPath, path, ...part], { stdout: "pipe", stderr: "inherit" });
    const text = await child.stdout.text();
    if (text === "") throw new Error(`a job ended with ${await child.exited} and said nothing`);
    return JSON.parse(text) as T;
  }));
  const counts = new Map<string, number>();
  for (const [what, times] of told.flatMap((each) => each.counts)) counts.set(what, (counts.get(what) ?? 0) + times);
  const failures = told.flatMap((each) => each.failure ?? []);
  const failure = failures.length === 0 ? undefined : failures.join("\n\n");
  return { ...told[0]!, run: told.reduce((sum, each) => sum + each.run, 0), counts: [...counts], failure };
}

/**
 * Prints the record of a run.
 *
 * @param what the subject, such as "schedules of seed 1".
 * @param verdict the conclusions without a failure and with one.
 * @param lines further lines, before the counts.
 */
function printRecord(script: string, report: Told, seconds: number, what: string, verdict: readonly [fine: string, failed: string], lines: readonly string[] = []): void {
  console.log(`command: bun ${script} ${process.argv.slice(2).join(" ")}`);
  console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: ${report.device}; Bun ${Bun.version}`);
  console.log(`${report.run} ${what} in ${seconds.toFixed(0)} s: ${verdict[report.failure === undefined ? 0 : 1]}`);
  for (const line of lines) console.log(line);
  for (const [event, count] of report.counts.toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${event}: ${count}`);
  if (report.failure !== undefined) console.log(report.failure);
}
