/** The prefix cache's policy, without a model. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { checkpointPositions } from "../../lib/model/session/checkpoint-positions.ts";
import { PrefixStore } from "../../lib/states/prefix-store.ts";
import { mostReadAgain } from "../support/traces.ts";

let alive = 0;

const positionsOf = (...args: Parameters<typeof checkpointPositions>): number[] => checkpointPositions(...args).map(({ position }) => position);

class Fake implements Disposable {
  disposed = false;
  valid = true;
  constructor() {
    alive++;
  }
  [Symbol.dispose](): void {
    expect(this.disposed).toBe(false);
    this.disposed = true;
    alive--;
  }
}

const tokens = (...ids: number[]) => Uint32Array.from(ids);
const bytes = (length: number, shared: number) => 100 + (length - shared);

describe("checkpoint positions", () => {
  test("are message ends and geometric steps within messages, not too close to each other", () => {
    expect(positionsOf(0, 1000, [], { first: 64, ratio: 2 })).toEqual([64, 128, 256, 512, 1000]);
    expect(positionsOf(0, 1000, [100, 110, 300, 1000])).toEqual([64, 174, 238, 364, 428, 556, 812, 1000]);
    expect(positionsOf(0, 100, [70])).toEqual([64, 100]);
    expect(positionsOf(300, 1000, [])).toEqual([512, 1000]);
    expect(positionsOf(5, 5, [])).toEqual([]);
    expect(positionsOf(0, 1, [])).toEqual([1]);
    expect(positionsOf(0, 100, [], { first: 10, ratio: 1.5 })).toEqual([10, 22, 33, 50, 75, 100]);
  });

  test("a change after k tokens of a message reads at most a bounded number of tokens before it again", () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(lengths, fc.integer({ min: 1, max: 100 }), fc.constantFrom(1.25, 1.5, 2, 3), fc.nat(), (parts, first, ratio, where) => {
        const ends = parts.map((_, i) => parts.slice(0, i + 1).reduce((sum, length) => sum + length, 0));
        const to = ends.at(-1)!;
        const positions = positionsOf(0, to, ends, { first, ratio });
        expect(positions).toEqual([...new Set(positions)].sort((a, b) => a - b));
        expect(positions.at(-1)).toBe(to);
        const change = where % to; // the first token that differs
        const kept = Math.max(0, ...positions.filter((position) => position <= change));
        const start = Math.max(0, ...ends.filter((end) => end <= change));
        expect(change - kept).toBeLessThanOrEqual(mostReadAgain(change - start, { first, ratio }));
      }),
      { numRuns: 2000, seed: 20260 },
    );
  });
});

describe("the store", () => {
  const make = (budget: number) => new PrefixStore<Fake>({ budget, bytes, valid: ({ valid }) => valid });

  test("gives the longest entry that the tokens begin with, of the same salt", () => {
    using store = make(1e6);
    const [short, long, other] = [new Fake(), new Fake(), new Fake()];
    expect(store.insert(tokens(1, 2), () => short)).toBe(true);
    expect(store.insert(tokens(1, 2, 3, 4), () => long)).toBe(true);
    expect(store.insert(tokens(1, 2, 3), () => other, "user")).toBe(true);
    expect(store.lookup(tokens(1, 2, 3, 4, 5))).toEqual({ kept: long, length: 4 });
    expect(store.lookup(tokens(1, 2, 3))).toEqual({ kept: short, length: 2 });
    expect(store.lookup(tokens(1, 3))).toBeUndefined();
    expect(store.lookup(tokens(1, 2, 3, 4), "user")).toEqual({ kept: other, length: 3 });
    expect(store.lookup(tokens(1, 2, 3, 4), "other")).toBeUndefined();
    expect([store.known(tokens(1, 2, 3)), store.known(tokens(2))]).toEqual([2, 0]);
    expect([store.size, store.bytes]).toEqual([3, 102 + 102 + 103]);
    expect(store.insert(tokens(), () => new Fake())).toBe(true);
    expect(store.lookup(tokens(9))?.length).toBe(0);
  });

  test("what exists stays, and is not made again; what throws leaves nothing", () => {
    using store = make(1e6);
    const first = new Fake();
    store.insert(tokens(1), () => first);
    expect(store.insert(tokens(1), () => { throw new Error("made again"); })).toBe(true);
    expect(() => store.insert(tokens(2), () => { throw new Error("no state"); })).toThrow("no state");
    expect([store.size, store.bytes]).toEqual([1, 101]);
    expect(store.lookup(tokens(2))).toBeUndefined();
  });

  test("entries that have become invalid are not found and go", () => {
    using store = make(1e6);
    const [short, long] = [new Fake(), new Fake()];
    store.insert(tokens(1), () => short);
    store.insert(tokens(1, 2), () => long);
    long.valid = false;
    expect(store.lookup(tokens(1, 2))?.kept).toBe(short);
    expect([store.size, long.disposed]).toEqual([1, true]);
  });

  test("an invalid entry is replaced, and `make` may give none", () => {
    using store = make(1e6);
    const [lost, sound] = [new Fake(), new Fake()];
    store.insert(tokens(1), () => lost);
    lost.valid = false;
    expect(store.insert(tokens(1), () => undefined)).toBe(false);
    expect([store.size, store.bytes, lost.disposed]).toEqual([0, 0, true]);
    expect(store.insert(tokens(1), () => sound)).toBe(true);
    expect(store.lookup(tokens(1))?.kept).toBe(sound);
  });

  test("by age the entry not used for longest goes, however many tokens it saves, and there is room before one is made", () => {
    using store = new PrefixStore<Fake>({ budget: 4 * 100 + 30, bytes, evict: "age" });
    const long = Array.from({ length: 20 }, (_, i) => i);
    for (const key of [long, [20], [21], [20, 1]]) store.insert(tokens(...key), () => new Fake());
    store.lookup(tokens(20, 1)); // of its prefixes, only the longest is marked as used
    store.insert(tokens(22), () => {
      expect(store.size).toBe(3);
      return new Fake();
    });
    expect([store.known(tokens(...long)), store.known(tokens(20)), store.size]).toEqual([0, 1, 4]);
    store.evict();
    expect([store.known(tokens(20)), store.known(tokens(20, 1)), store.known(tokens(21))]).toEqual([0, 2, 1]);
  });

  test("above the budget the least valuable goes: few tokens saved, long unused, many bytes", () => {
    using store = make(100 * 3 + 500);
    store.insert(tokens(...Array.from({ length: 200 }, (_, i) => i)), () => new Fake()); // a long system prompt
    store.insert(tokens(7, 1), () => new Fake());
    store.insert(tokens(8, 1, 2, 3, 4), () => new Fake());
    for (let i = 0; i < 40; i++) store.lookup(tokens(7, 1));
    expect(store.size).toBe(3);
    store.insert(tokens(9, ...Array.from({ length: 200 }, (_, i) => i)), () => new Fake());
    expect(store.known(tokens(8, 1, 2, 3, 4))).toBe(0); // little saved and long unused
    expect(store.known(tokens(7, 1))).toBe(2);
    expect(store.size).toBe(3);
    expect(store.insert(tokens(...Array.from({ length: 701 }, (_, i) => i + 1)), () => new Fake())).toBe(false);
  });

  test("evict takes the least, of those that are asked for", () => {
    using store = make(1e6);
    const [a, b] = [new Fake(), new Fake()];
    store.insert(tokens(1, 2, 3), () => a);
    store.insert(tokens(4), () => b);
    expect(store.evict((kept) => kept === a)).toBe(true);
    expect([a.disposed, b.disposed]).toEqual([true, false]);
    expect(store.evict(() => false)).toBe(false);
    expect(store.evict()).toBe(true);
    expect(store.evict()).toBe(false);
    expect([store.size, store.bytes]).toEqual([0, 0]);
  });

  test("after random calls: what is found is what a plain list finds, bytes are those of what is there, nothing is lost", () => {
    const before = alive;
    const ids = fc.array(fc.nat({ max: 2 }), { maxLength: 8 });
    const call = fc.record({ kind: fc.constantFrom("insert", "insert", "insert", "lookup", "evict", "clear"), ids, salt: fc.constantFrom("", "x") });
    fc.assert(
      fc.property(fc.array(call, { maxLength: 60 }), fc.integer({ min: 100, max: 900 }), (calls, budget) => {
        using store = new PrefixStore<Fake>({ budget, bytes });
        let plain: { key: string; salt: string; kept: Fake; ids: number[] }[] = [];
        for (const { kind, ids: some, salt } of calls) {
          const key = some.map((id) => `${id},`).join("");
          if (kind === "insert") {
            const kept = new Fake();
            let used = false;
            const there = store.insert(tokens(...some), () => ((used = true), kept), salt);
            if (used) plain.push({ key, salt, kept, ids: some });
            else kept[Symbol.dispose]();
            expect(there).toBe(plain.some((one) => one.key === key && one.salt === salt && !one.kept.disposed));
          } else if (kind === "evict") {
            expect(store.evict()).toBe(plain.length > 0);
          } else if (kind === "clear") {
            if (some.length > 6) store.clear();
          } else {
            const found = store.lookup(tokens(...some), salt);
            const expected = plain.filter((one) => one.salt === salt && key.startsWith(one.key)).sort((a, b) => b.ids.length - a.ids.length)[0];
            expect(found?.kept).toBe(expected?.kept as Fake);
            expect(found?.length).toBe(expected?.ids.length as number);
          }
          plain = plain.filter((one) => !one.kept.disposed);
          expect(store.size).toBe(plain.length);
          const sum = plain.map((one) => {
            const shared = plain.filter((other) => other !== one && other.salt === one.salt && one.key.startsWith(other.key));
            return bytes(one.ids.length, Math.max(0, ...shared.map((other) => other.ids.length)));
          });
          expect(store.bytes).toBe(sum.reduce((total, each) => total + each, 0));
          expect(store.bytes).toBeLessThanOrEqual(budget);
        }
      }),
      { numRuns: 800, seed: 20260 },
    );
    expect(alive).toBe(before);
  });
});
