/** Runs schedules of a seed until one fails. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nthSeed } from "../support/programs.ts";
import { Random } from "../support/random.ts";
import { pressedModel } from "./models.ts";
import type { Form } from "./models.ts";
import { runSchedule } from "./schedule.ts";

/** Lines of a failing schedule that are told. */
const lastLines = 120;

/** The result of some schedules. */
export interface Outcome {
  /** How often each thing happened. */
  readonly counts: ReadonlyMap<string, number>;
  /** How many schedules were run, the failing one included. */
  readonly run: number;
  /** Which schedule failed, of which seed, and what it did. */
  readonly failure: string | undefined;
}

/** Runs schedules `first` to `first + count − 1` of a seed, or until one fails. */
export async function runSchedules(forms: readonly Form[], seed: number, first: number, count: number): Promise<Outcome> {
  const counts = new Map<string, number>();
  for (let n = first; n < first + count; n++) {
    const random = new Random(nthSeed(seed, n));
    const folder = mkdtempSync(join(tmpdir(), "gated-delta-pressure-"));
    const pressed = await pressedModel(forms, random);
    try {
      const { lines, error } = await runSchedule(pressed, random, folder, counts);
      if (error === undefined) continue;
      const told = lines.slice(-lastLines).map((line) => `  ${line}`).join("\n");
      return { counts, run: n - first + 1, failure: `schedule ${n} of seed ${seed}, ${pressed.text}: ${error.message}\n${told}\n${Bun.inspect(error)}` };
    } finally {
      pressed.model[Symbol.dispose]();
      rmSync(folder, { recursive: true, force: true });
    }
  }
  return { counts, run: count, failure: undefined };
}
