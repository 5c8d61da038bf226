/** Makes schedules of a seed, runs them, and cuts a failing one down to the actions that it needs. */
import { anyCalls, nthSeed } from "../support/programs.ts";
import type { Call } from "../support/programs.ts";
import { Random } from "../support/random.ts";
import { actions, weights } from "./actions.ts";
import type { Fixture } from "./fixtures.ts";
import { Schedule } from "./schedule.ts";

type Name = keyof typeof actions;

/** A schedule: which of the models it runs on, and what it does. */
export interface Text {
  readonly fixture: number;
  readonly calls: readonly Call<Name>[];
}

/** The n-th schedule of a seed. */
export function makeSchedule(seed: number, n: number, fixtures: number): Text {
  const random = new Random(nthSeed(seed, n));
  const fixture = random.below(fixtures);
  const length = 6 + random.below(16);
  const calls = anyCalls(random, weights, length);
  return { fixture, calls: [{ name: "create", seed: 0 }, { name: "run", seed: random.below(2 ** 32) }, ...calls] };
}

interface Failure {
  readonly error: Error;
  readonly lines: readonly string[];
}

async function runSchedule(fixtures: readonly Fixture[], { fixture, calls }: Text, counts: Map<string, number>): Promise<Failure | undefined> {
  using schedule = new Schedule(fixtures[fixture]!, counts);
  try {
    for (const { name, seed } of calls) await actions[name](schedule, new Random(seed));
    await schedule.finish();
    return undefined;
  } catch (error) {
    return { error: error instanceof Error ? error : new Error(String(error)), lines: schedule.lines };
  }
}

/** The fewest actions found that still fail: parts are left out, halves first, single actions last. */
async function shrink(fixtures: readonly Fixture[], text: Text, first: Failure): Promise<{ calls: readonly Call<Name>[]; failure: Failure }> {
  const attempt = (calls: readonly Call<Name>[]) => runSchedule(fixtures, { ...text, calls }, new Map());
  let { calls } = text;
  let failure = first;
  for (let size = Math.ceil(calls.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < calls.length; ) {
      const fewer = [...calls.slice(0, at), ...calls.slice(at + size)];
      const still = await attempt(fewer);
      if (still === undefined) at += size;
      else [calls, failure] = [fewer, still];
    }
  }
  return { calls, failure };
}

/** The schedules that ran, and the first failure, reduced. */
export interface Report {
  readonly schedules: number;
  readonly counts: Map<string, number>;
  readonly failure: string | undefined;
  /** Which schedule failed. */
  readonly failed: number | undefined;
}

/** Runs schedules of a seed until one fails. */
export async function runSchedules(fixtures: readonly Fixture[], seed: number, first: number, count: number, shrinking = true): Promise<Report> {
  const counts = new Map<string, number>();
  for (let n = first; n < first + count; n++) {
    const text = makeSchedule(seed, n, fixtures.length);
    const failure = await runSchedule(fixtures, text, counts);
    if (failure === undefined) continue;
    const told = shrinking ? await tell(fixtures, text, seed, n, failure) : failure.error.message;
    return { schedules: n - first + 1, counts, failure: told, failed: n };
  }
  return { schedules: count, counts, failure: undefined, failed: undefined };
}

async function tell(fixtures: readonly Fixture[], text: Text, seed: number, n: number, first: Failure): Promise<string> {
  const { calls, failure } = await shrink(fixtures, text, first);
  return [
    `schedule ${n} of seed ${seed} differs from the cold run, after ${calls.length} of its ${text.calls.length} actions:`,
    ...failure.lines.map((line) => `  ${line}`),
    failure.error.stack ?? failure.error.message,
  ].join("\n");
}
