/**
 * Random schedules: the n-th schedule of a seed follows from the two numbers alone and runs on a machine, which compares
 * the library with a model of it. A run ends at the first difference; a repeatable schedule is then reduced to the actions it needs.
 */
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Random } from "./random.ts";

/** A difference between the library and the model. */
export class Difference extends Error {}

/** Counts of events, by name. */
export class Counts extends Map<string, number> {
  add(event: string, by = 1): void {
    this.set(event, (this.get(event) ?? 0) + by);
  }
}

/** A schedule that has not run. */
export interface Text<Action> {
  /** The machine may derive more than the actions from it. */
  readonly seed: number;
  readonly actions: readonly Action[];
}

/** Runs schedules: one kind of action, its model, and the part of the library that it uses. */
export interface ScheduleMachine<Action, Schedule extends Disposable | AsyncDisposable> {
  readonly unit: "program" | "schedule" | "case";
  /** The reference of the comparison, in words. */
  readonly reference: "the model" | "the cold run" | "float64";
  /** Whether the same actions give the same events each time, so that a failing schedule can be reduced. */
  readonly repeatable: boolean;
  /** The models on which schedules run, for records. */
  readonly models?: readonly string[];
  /** The actions of the n-th schedule. */
  make(random: Random, n: number): readonly Action[];
  /** Begins a schedule. Disposing of it must not fail, whatever happened. */
  begin(seed: number, folder: string, counts: Counts): Schedule | Promise<Schedule>;
  /** Performs one action; throws if the library and the model differ. */
  step(schedule: Schedule, action: Action): Promise<void> | void;
  /** Makes the remaining comparisons after the last action. */
  end(schedule: Schedule): Promise<void> | void;
  /** The events so far, one line each. */
  describe(schedule: Schedule): readonly string[];
}

/** A machine that has opened its own models. */
export type OpenedMachine<Action, Schedule extends Disposable | AsyncDisposable> = ScheduleMachine<Action, Schedule> & Disposable;

/** For machines whose sessions run at the same time, so that the same schedule may run differently each time. */
export const concurrent = { unit: "schedule", reference: "the cold run", repeatable: false } as const;

/** The results of a run. */
export interface Report {
  /** Number of schedules, the failing one included. */
  readonly run: number;
  readonly counts: Counts;
  /** The first failure with its lines. */
  readonly failure: string | undefined;
  /** The number of the failing schedule. */
  readonly failed: number | undefined;
}

/** Options of {@link runSchedules}. */
export interface RunOptions {
  /** Whether a failing schedule is reduced. @default true */
  readonly shrinking?: boolean;
  /** No schedule begins after this time. @default no limit */
  readonly seconds?: number;
}

interface Failure {
  readonly error: Error;
  readonly lines: readonly string[];
}

/** The seed of the n-th schedule of a run's seed. */
export function nthSeed(seed: number, n: number): number {
  return (Math.imul(seed, 0x9e3779b1) ^ Math.imul(n + 1, 0x85ebca6b)) >>> 0;
}

/** The n-th schedule of a seed. */
export function textOf<Action>(machine: { make(random: Random, n: number): readonly Action[] }, seed: number, n: number): Text<Action> {
  const nth = nthSeed(seed, n);
  return { seed: nth, actions: machine.make(new Random(nth), n) };
}

/** Runs schedules `first` to `first + count − 1` of a seed, or until one fails. */
export async function runSchedules<Action, Schedule extends Disposable | AsyncDisposable>(machine: ScheduleMachine<Action, Schedule>, folder: string, seed: number, first: number, count: number, options: RunOptions = {}): Promise<Report> {
  const { shrinking = true, seconds = Infinity } = options;
  const counts = new Counts();
  const end = performance.now() + seconds * 1000;
  for (let n = first; n < first + count; n++) {
    const text = textOf(machine, seed, n);
    const place = join(folder, `${n}`);
    const failure = await attempt(machine, text, place, counts);
    const run = n - first + 1;
    if (failure !== undefined) {
      const name = `${machine.unit} ${n} of seed ${seed} differs from ${machine.reference}`;
      const message = shrinking && machine.repeatable ? await shrunk(machine, text, place, name, failure) : failureText(name, failure);
      return { run, counts, failure: message, failed: n };
    }
    if (performance.now() > end) return { run, counts, failure: undefined, failed: undefined };
  }
  return { run: count, counts, failure: undefined, failed: undefined };
}

/** Runs one schedule; undefined if the library and the model agree throughout. */
async function attempt<Action, Schedule extends Disposable | AsyncDisposable>(machine: ScheduleMachine<Action, Schedule>, { seed, actions }: Text<Action>, folder: string, counts: Counts): Promise<Failure | undefined> {
  try {
    await using schedule = await machine.begin(seed, folder, counts);
    try {
      for (const action of actions) await machine.step(schedule, action);
      await machine.end(schedule);
      return undefined;
    } catch (error) {
      return { error: error instanceof Error ? error : new Error(String(error)), lines: [...machine.describe(schedule)] };
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Removes actions as long as the schedule still fails: halves first, single actions last. */
async function shrunk<Action, Schedule extends Disposable | AsyncDisposable>(machine: ScheduleMachine<Action, Schedule>, text: Text<Action>, folder: string, name: string, first: Failure): Promise<string> {
  const again = (actions: readonly Action[]) => attempt(machine, { ...text, actions }, folder, new Counts());
  let { actions } = text;
  let failure = await again(actions);
  if (failure === undefined) return `${failureText(name, first)}\nIt did not fail a second time.`;
  for (let size = Math.ceil(actions.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < actions.length; ) {
      const fewer = [...actions.slice(0, at), ...actions.slice(at + size)];
      const still = await again(fewer);
      if (still === undefined) at += size;
      else [actions, failure] = [fewer, still];
    }
  }
  return failureText(`${name}, after ${actions.length} of its ${text.actions.length} actions`, failure);
}

function failureText(name: string, { error, lines }: Failure): string {
  return [`${name}:`, ...lines.map((line) => `  ${line}`), error instanceof Difference ? error.message : Bun.inspect(error)].join("\n");
}

/** One action; its seed decides its choices. */
export interface Call<Name extends string> {
  readonly name: Name;
  readonly seed: number;
}

/** Random calls of actions, each with a frequency given by its weight. */
export function anyCalls<Name extends string>(random: Random, weights: Readonly<Record<Name, number>>, count: number): Call<Name>[] {
  const names = Object.keys(weights) as Name[];
  const total = names.reduce((sum, name) => sum + weights[name], 0);
  const anyName = (): Name => {
    let at = random.uniform(0, total);
    for (const name of names) {
      at -= weights[name];
      if (at < 0) return name;
    }
    return names[0]!;
  };
  return Array.from({ length: count }, () => ({ name: anyName(), seed: random.below(2 ** 32) }));
}
