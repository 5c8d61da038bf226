/**
 * How threads behave if cores are scarce: small ops on several threads, two processes on the cores of one, two devices in one process.
 *
 *     bun bench/threads/main.ts [--threads 2] [--rounds 7] [--milliseconds 200] [--against LIBRARY]
 *
 * Small ops: a call's time on several threads, one thread's time over it, the processor time of several threads over one's, and how often
 * a thread slept. Two processes: the time that both need together over the sum of the times that each needs alone, and the same ratio of
 * processor time, which other load on the machine changes little; sharing loses the part above 1. Two devices: the calls a second of each
 * over those of the same device alone. Medians of the rounds, and their range. `--against` measures another build in turn, as "the other".
 */
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Child } from "../child.ts";
import type { Report } from "./process.ts";
import { workloads } from "./workloads.ts";
import type { WorkloadName } from "./workloads.ts";

const { values } = parseArgs({
  options: {
    threads: { type: "string", default: "2" },
    rounds: { type: "string", default: "7" },
    milliseconds: { type: "string", default: "200" },
    against: { type: "string" },
  },
});
const { against } = values;
const [threads, rounds, milliseconds] = [values.threads, values.rounds, values.milliseconds].map(Number) as [
  number,
  number,
  number,
];
const libraries = against === undefined ? [undefined] : [undefined, against];
const pairs = (Object.keys(workloads) as WorkloadName[]).flatMap((one, i, all) =>
  all.slice(i).map((other) => [one, other] as const),
);

/** A program of this folder on this many threads, with a given library or the one that it finds by itself. */
function child(program: string, threads: number, library: string | undefined): Child {
  const command = [process.execPath, `${import.meta.dir}/${program}`, String(threads)];
  return new Child(command, library === undefined ? {} : { GATED_DELTA_LIBRARY: library });
}

/** The numbers of the rounds, by name. */
class Figures {
  readonly #numbers = new Map<string, number[]>();

  add(name: string, number: number): void {
    const numbers = this.#numbers.get(name);
    if (numbers === undefined) this.#numbers.set(name, [number]);
    else numbers.push(number);
  }

  /** "name median (least to most), ..." */
  get text(): string {
    const of = ([name, numbers]: [string, number[]]) => {
      const sorted = numbers.toSorted((a, b) => a - b);
      const [middle, least, most] = [sorted[sorted.length >> 1]!, sorted[0]!, sorted.at(-1)!].map((x) => x.toFixed(2));
      return `${name} ${middle} (${least} to ${most})`;
    };
    return [...this.#numbers].map(of).join(", ");
  }
}

/** Runs `round` this many times for each library in turn, with children made by `open`, and prints the figures. */
async function compare<Children extends readonly Child[]>(
  open: (library: string | undefined) => Children,
  work: readonly (readonly [name: string, round: (children: Children, figures: Figures) => Promise<void>])[],
): Promise<void> {
  const all = libraries.map(open);
  for (const children of all) for (const child of children) await child.next();
  for (const [name, round] of work) {
    const figures = libraries.map(() => new Figures());
    for (const children of all) await round(children, new Figures());
    for (let i = 0; i < rounds; i++) for (const [at, children] of all.entries()) await round(children, figures[at]!);
    for (const [at, of] of figures.entries()) console.log(`${name}${at === 1 ? " (the other)" : ""}: ${of.text}`);
  }
  for (const children of all) for (const child of children) child[Symbol.dispose]();
}

const counts = new Map<string, number>();

/** The number of calls that take about `milliseconds`: the same in every round. */
async function timed(child: Child, name: WorkloadName): Promise<Report> {
  let count = counts.get(name);
  if (count === undefined) {
    await child.ask(`${name} 20`);
    const { milliseconds: each } = (await child.ask(`${name} 20`)) as Report;
    counts.set(name, (count = Math.max(1, Math.round((20 * milliseconds) / each))));
  }
  return (await child.ask(`${name} ${count}`)) as Report;
}

async function smallOps([one, several]: readonly [Child, Child], name: WorkloadName, figures: Figures): Promise<void> {
  const together = await timed(several, name);
  const alone = await timed(one, name);
  const calls = counts.get(name)!;
  figures.add("µs a call", (1000 * together.milliseconds) / calls);
  figures.add("times one thread's speed", alone.milliseconds / together.milliseconds);
  figures.add("times its processor time", together.processorMilliseconds / alone.processorMilliseconds);
  figures.add("waits a call", together.waits / calls);
}

async function twoProcesses(
  [a, b]: readonly [Child, Child],
  [one, other]: readonly [WorkloadName, WorkloadName],
  figures: Figures,
): Promise<void> {
  const [first, second] = [await timed(a, one), await timed(b, other)];
  const since = Bun.nanoseconds();
  const both = await Promise.all([timed(a, one), timed(b, other)]);
  const together = (Bun.nanoseconds() - since) / 1e6;
  figures.add("together over one after the other", together / (first.milliseconds + second.milliseconds));
  const sum = (reports: readonly Report[]) => reports.reduce((x, report) => x + report.processorMilliseconds, 0);
  figures.add("processor time", sum(both) / sum([first, second]));
}

async function twoDevices(
  [child]: readonly [Child],
  [one, other]: readonly [WorkloadName, WorkloadName],
  figures: Figures,
): Promise<void> {
  const [first] = (await child.ask(`${one} none ${milliseconds}`)) as [number];
  const [, second] = (await child.ask(`none ${other} ${milliseconds}`)) as [number, number];
  const [a, b] = (await child.ask(`${one} ${other} ${milliseconds}`)) as [number, number];
  figures.add("share of the speed alone", a / first);
  figures.add("and", b / second);
  figures.add("together", a / first + b / second);
}

console.log(`${cpus()[0]?.model ?? "unknown processor"}, ${cpus().length} cores, ${threads} threads each`);
await compare<readonly [Child, Child]>(
  (library) => [child("process.ts", 1, library), child("process.ts", threads, library)],
  (["small", "decode"] as const).map((name) => [name, (children, figures) => smallOps(children, name, figures)]),
);
await compare<readonly [Child, Child]>(
  (library) => [child("process.ts", threads, library), child("process.ts", threads, library)],
  pairs.map((pair) => [`two processes, ${pair.join(" and ")}`, (children, figures) => twoProcesses(children, pair, figures)]),
);
await compare<readonly [Child]>(
  (library) => [child("devices.ts", threads, library)],
  pairs.map((pair) => [`two devices, ${pair.join(" and ")}`, (children, figures) => twoDevices(children, pair, figures)]),
);
process.exit(0);
