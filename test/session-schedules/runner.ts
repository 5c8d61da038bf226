/** Runs schedules of a seed until one differs from the cold run. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nthSeed } from "../support/programs.ts";
import { Random } from "../support/random.ts";
import type { Fixture } from "./fixtures.ts";
import { killedSessions } from "./killed.ts";
import { Schedule } from "./schedule.ts";

/** One of so many schedules begins with what a killed process has left. */
const killEvery = 16;

/** What came of it. */
export interface Outcome {
  /** What happened how often. */
  readonly counts: ReadonlyMap<string, number>;
  /** How many schedules were run, the failing one included. */
  readonly run: number;
  /** Which schedule failed, of which seed, and what it did. */
  readonly failure: string | undefined;
}

/** Runs schedules `first` to `first + count − 1` of a seed, or until one fails or the time is over. */
export async function runSchedules(fixtures: readonly Fixture[], seed: number, first: number, count: number, seconds = Infinity): Promise<Outcome> {
  const counts = new Map<string, number>();
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-sessions-"));
  const end = performance.now() + seconds * 1000;
  try {
    for (let n = first; n < first + count; n++) {
      const random = new Random(nthSeed(seed, n));
      const fixture = fixtures[random.below(fixtures.length)]!;
      const schedule = new Schedule(fixture, random, counts, folder);
      const killed = n % killEvery === killEvery - 1;
      const error = await attempt(schedule, async () => {
        if (!killed) return;
        await schedule.adopt(await killedSessions(fixture, random, folder));
        counts.set("processes killed", (counts.get("processes killed") ?? 0) + 1);
      });
      if (error !== undefined) {
        const failure = `schedule ${n} of seed ${seed}, ${fixture.name}: ${error.message}\n${schedule.lines.map((line) => `  ${line}`).join("\n")}\n${error.stack}`;
        return { counts, run: n - first + 1, failure };
      }
      if (performance.now() > end) return { counts, run: n - first + 1, failure: undefined };
    }
    return { counts, run: count, failure: undefined };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function attempt(schedule: Schedule, begin: () => Promise<void>): Promise<Error | undefined> {
  try {
    await using running = schedule;
    await begin();
    await running.run();
    return undefined;
  } catch (error) {
    // What ended badly may leave states taken; the first error is what counts.
    if (error instanceof SuppressedError) return error.suppressed as Error;
    return error as Error;
  }
}
