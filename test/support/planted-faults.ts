/** Tests of random schedules themselves: they must find faults that are planted in the library. */
import { describe, expect, test } from "bun:test";
import { runSchedules, textOf } from "./schedules.ts";
import type { ScheduleMachine } from "./schedules.ts";

/** Provides a new machine, or one that tests share. */
type Open<Action, Schedule extends Disposable | AsyncDisposable> = () => ScheduleMachine<Action, Schedule> | Promise<ScheduleMachine<Action, Schedule>>;

/** A run's seed and length. */
export interface Share {
  readonly seed: number;
  readonly count: number;
  /** Names a new folder, which need not exist yet. */
  readonly folder: () => string;
}

/**
 * Tests that each planted fault is found within `count` schedules.
 *
 * @param open provides the machine, before the fault is planted.
 * @param faults functions that plant a fault until their result is disposed of.
 */
export function testPlantedFaults<Action, Schedule extends Disposable | AsyncDisposable>(open: Open<Action, Schedule>, faults: Readonly<Record<string, () => Disposable>>, { seed, count, folder }: Share): void {
  describe(`each planted fault is found within ${count}`, () => {
    test.each(Object.keys(faults))("%s", async (name) => {
      const machine = await open();
      using _ = faults[name]!();
      const { failed } = await runSchedules(machine, folder(), seed, 0, count, { shrinking: false });
      expect(failed).toBeLessThan(count);
    }, 1_500_000);
  });
}

/** Tests that a failing schedule is reduced, and that a schedule follows from its seed and number alone. */
export function testShrinking<Action, Schedule extends Disposable | AsyncDisposable>(open: Open<Action, Schedule>, plant: () => Disposable, first: string, { seed, count, folder }: Share): void {
  test("a failing one is cut down and named by its seed", async () => {
    const machine = await open();
    using _ = plant();
    const place = folder();
    const { failure, failed } = await runSchedules(machine, place, seed, 0, count);
    expect(failure).toStartWith(`${machine.unit} ${failed} of seed ${seed} differs from ${machine.reference}, after `);
    const [, kept, all] = /after (\d+) of its (\d+) actions/.exec(failure!)!;
    expect(Number(kept)).toBeLessThan(Number(all) * 0.75);
    expect(failure).toContain(first);
    expect((await runSchedules(machine, place, seed, failed!, 1)).failure).toBe(failure!);
  }, 1_500_000);

  test("each follows from its seed and number alone", async () => {
    const machine = await open();
    const third = textOf(machine, seed, 3);
    expect(textOf(machine, seed, 3)).toEqual(third);
    expect(textOf(machine, seed, 4)).not.toEqual(third);
    expect(textOf(machine, seed + 1, 3)).not.toEqual(third);
  });
}
