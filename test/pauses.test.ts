import { describe, expect, test } from "bun:test";
import { Pauses } from "../lib/device/pauses.ts";
import type { Pause } from "../lib/device/pauses.ts";

/** The pauses of a wait for work of so many milliseconds, each as long as it says, and when each begins. */
function waited(pauses: Pauses, work: number): { at: number; pause: Pause }[] {
  const list: { at: number; pause: Pause }[] = [];
  let at = 0;
  for (let turns = 0; at < work; turns++) {
    const pause = pauses.next(turns, at);
    list.push({ at, pause });
    // A nap ends with the work.
    at += pause.how === "turn" ? 0.01 : pause.how === "nap" ? Math.min(pause.ms, work - at) : pause.ms;
  }
  pauses.ended(at);
  return list;
}

/** How late the end of the work is noticed. */
function lateness(list: readonly { at: number; pause: Pause }[], work: number): number {
  const { at, pause } = list.at(-1)!;
  return pause.how === "sleep" ? at + pause.ms - work : 0;
}

describe("pauses", () => {
  test("the first are turns of the event loop, but where a long wait is expected", () => {
    const pauses = new Pauses();
    const first = (work: number) => new Set(waited(pauses, work).slice(0, 64).map(({ pause }) => pause.how));
    expect(first(0.5)).toEqual(new Set(["turn"]));
    expect(first(30)).toContain("turn");
    expect(first(30)).toContain("turn");
    expect(first(30)).not.toContain("turn");
  });

  test.each([2, 8, 25, 40, 300, 3000])("work of %d ms that takes about as long as before ends in a nap", (work) => {
    const pauses = new Pauses();
    waited(pauses, work);
    for (const share of [0, 0.05, -0.05, 0.02]) {
      const list = waited(pauses, work + Math.sign(share) * Math.min(Math.abs(share) * work, 9));
      expect(list.at(-1)!.pause.how).toBe("nap");
    }
    // Each pause takes a core from the work.
    if (work >= 8) expect(waited(pauses, work).length).toBeLessThan(7.5 + 0.11 * work);
  });

  test("unexpected ends are noticed late by a share of the time, or of what was expected, or by a sleep of a millisecond", () => {
    for (const before of [1, 30, 3000]) {
      for (const work of [1, 3, 10, 29, 35, 60, 200, 1000, 5000]) {
        const pauses = new Pauses();
        for (let i = 0; i < 2; i++) waited(pauses, before);
        expect(lateness(waited(pauses, work), work)).toBeLessThanOrEqual(Math.min(10, Math.max(1, work / 2, before / 2)));
      }
    }
  });

  test("a long wait among short ones does not change what is expected", () => {
    const pauses = new Pauses();
    waited(pauses, 30);
    waited(pauses, 2000);
    expect(waited(pauses, 31).at(-1)!.pause.how).toBe("nap");
  });

  test("neither a sleep nor a nap is long", () => {
    for (const work of [5, 100, 20_000]) {
      const pauses = new Pauses();
      for (let i = 0; i < 3; i++) {
        for (const { pause } of waited(pauses, work)) {
          if (pause.how !== "turn") expect(pause.ms).toBeLessThanOrEqual(pause.how === "nap" ? 2 : 10);
        }
      }
    }
  });
});
