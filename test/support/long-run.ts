/** Long runs of random programs or schedules: in one process or in several, and what is told of them. */
import { cpus } from "node:os";
import type { Device } from "../../lib/index.ts";

/** What ran, as a job tells it to the process that started it. */
export interface Told {
  /** How many programs or schedules. */
  readonly run: number;
  /** What happened how often. */
  readonly counts: readonly (readonly [string, number])[];
  readonly device: string;
  /** The first difference of each job that found one. */
  readonly failure: string | undefined;
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
export async function inJobs<T extends Told>(path: string, jobs: number, first: number, count: number, partOf: (first: number, count: number) => readonly string[]): Promise<T> {
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
 * @param what what ran, such as "schedules of seed 1".
 * @param verdict what it means that there is no failure, or one.
 * @param lines further lines, before the counts.
 */
export function printRecord(script: string, report: Told, seconds: number, what: string, verdict: readonly [fine: string, failed: string], lines: readonly string[] = []): void {
  console.log(`command: bun ${script} ${process.argv.slice(2).join(" ")}`);
  console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: ${report.device}; Bun ${Bun.version}`);
  console.log(`${report.run} ${what} in ${seconds.toFixed(0)} s: ${verdict[report.failure === undefined ? 0 : 1]}`);
  for (const line of lines) console.log(line);
  for (const [event, count] of report.counts.toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${event}: ${count}`);
  if (report.failure !== undefined) console.log(report.failure);
}
