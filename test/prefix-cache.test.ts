/** States by the tokens that led to them, against a plain list of them. */
import { afterAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DisposedError, PrefixCache } from "../lib/index.ts";
import type { StateHandle, StatePool } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { finish, statesOn } from "./support/states.ts";

const device = openDevice();
afterAll(() => device.close());
const { newPool, fromScratch, contentOf, advance } = statesOn(device);

/** A state that was stepped once, so that forks of it share a slot. */
function stepped(pool: StatePool): StateHandle {
  const handle = pool.allocate();
  finish(pool.step([handle]));
  return handle;
}

describe("a prefix cache", () => {
  test("an agent's next turn starts where the shared prefix ended, with the bits of a run from scratch", () => {
    using pool = newPool(8);
    using cache = new PrefixCache(pool, { bytes: 1e6 });
    const prompt = [5, 6, 7, 8, 9, 10];
    using first = pool.allocate();
    advance(pool, [first], [prompt.slice(0, 4)]);
    expect(cache.insert(prompt.slice(0, 4), first)).toBe(true);
    advance(pool, [first], [prompt.slice(4)]);
    expect(cache.insert(prompt, first)).toBe(true);
    const turn = [5, 6, 7, 8, 1, 2, 3];
    const hit = cache.lookup(turn)!;
    expect(hit.length).toBe(4);
    advance(pool, [hit.state], [turn.slice(hit.length)]);
    device.wait();
    expect(contentOf(pool, hit.state)).toEqual(fromScratch(turn));
    expect(contentOf(pool, first)).toEqual(fromScratch(prompt));
    expect(cache.lookup(prompt)!.length).toBe(6);
    expect(cache.lookup([...prompt, 1])!.length).toBe(6);
    expect(cache.lookup(prompt.slice(0, 5))!.length).toBe(4);
    expect(cache.lookup([5, 6, 7])).toBeUndefined();
    expect(cache.lookup([])).toBeUndefined();
  });

  test("an entry stands for its tokens as they were, however they are given", () => {
    using pool = newPool(6);
    using cache = new PrefixCache(pool, { bytes: 1e6 });
    using handle = stepped(pool);
    const tokens = Uint32Array.of(1, 2 ** 32 - 1);
    cache.insert(tokens, handle);
    tokens[0] = 9;
    expect(cache.lookup([1, 2 ** 32 - 1, 4])!.length).toBe(2);
    expect(cache.lookup(tokens)).toBeUndefined();
    expect(cache.lookup(Int32Array.of(1, 7))).toBeUndefined();
    cache.insert([], handle);
    expect(cache.lookup(Int32Array.of(3))!.length).toBe(0);
  });

  test("the least recently used entry is evicted first, whether or not a fork of it exists", () => {
    using pool = newPool(8);
    using cache = new PrefixCache(pool, { bytes: 3 * (pool.slotBytes + 4) });
    const states = [1, 2, 3, 4].map(() => stepped(pool));
    for (const token of [1, 2, 3]) {
      expect(cache.insert([token], states[token - 1]!)).toBe(true);
      states[token - 1]!.free(); // only the cache holds it now
    }
    expect([cache.size, cache.bytes]).toEqual([3, cache.budget]);
    cache.lookup([1])!.state.free(); // used: 2 is the oldest
    const held = cache.lookup([2])!.state; // used, and still held: 3 is the oldest
    expect(cache.insert([4], states[3]!)).toBe(true);
    expect([1, 2, 3, 4].map((token) => cache.lookup([token])?.state[Symbol.dispose]() === undefined && cache.lookup([token]) !== undefined))
      .toEqual([true, true, false, true]);
    held.free();
  });

  test("an entry whose slot an idle handle shares gives a slot back when it goes", () => {
    using pool = newPool(3);
    using cache = new PrefixCache(pool, { bytes: 1e6 });
    using handle = stepped(pool);
    cache.insert([1], handle);
    cache.insert([2], handle);
    expect([pool.free, cache.size]).toEqual([0, 2]);
    expect([cache.makeRoom(1), pool.free, cache.size]).toEqual([true, 1, 1]);
    expect([cache.makeRoom(2), pool.free, cache.size]).toEqual([true, 2, 0]);
    expect(cache.makeRoom(3)).toBe(false);
  });

  test("an entry that gives no slot back, since an open step reads its slot, stays", () => {
    using pool = newPool(2);
    using cache = new PrefixCache(pool, { bytes: 1e6 });
    using handle = stepped(pool);
    cache.insert([1], handle);
    const step = pool.step([handle]); // writes to the other slot and reads the entry's
    expect([pool.free, cache.makeRoom(1), cache.size]).toEqual([0, false, 1]);
    finish(step);
    expect([cache.makeRoom(1), pool.free, cache.size]).toEqual([true, 1, 0]);
  });

  test("where everything is in use nothing more is kept, and nothing is lost", () => {
    using pool = newPool(3);
    using cache = new PrefixCache(pool, { bytes: 1e6 });
    using handle = stepped(pool);
    expect(cache.insert([1], handle)).toBe(true);
    using _other = pool.allocate();
    expect([pool.free, cache.insert([1], handle), cache.size]).toEqual([0, true, 1]); // known already
    expect(thrownBy(() => cache.lookup([1])).code).toBe("out-of-memory"); // the entry itself is not dropped
    expect([cache.insert([3], handle), cache.size]).toEqual([true, 1]); // in the place of the other
    handle.free();
    _other.free();
    cache.clear();
    expect([cache.size, cache.bytes, pool.free]).toEqual([0, 0, 3]);
    using small = new PrefixCache(pool, { bytes: pool.slotBytes });
    using other = stepped(pool);
    expect(small.insert([1], other)).toBe(false);
  });

  test("room for others is made when it is asked for, and a lookup makes its own", () => {
    using pool = newPool(3);
    using cache = new PrefixCache(pool, { bytes: 1e6 });
    for (const token of [1, 2, 3]) {
      const handle = stepped(pool);
      cache.makeRoom(1);
      cache.insert([token], handle);
      handle.free();
    }
    expect([pool.free, cache.size]).toEqual([1, 2]);
    expect([cache.makeRoom(2), pool.free, cache.size]).toEqual([true, 2, 1]);
    expect([cache.makeRoom(4), pool.free]).toEqual([false, 3]);
  });

  test("misuse is a typed error", () => {
    using pool = newPool(4);
    using other = newPool(2);
    const cache = new PrefixCache(pool, { bytes: 1e6 });
    using handle = stepped(pool);
    for (const tokens of [undefined, null, "12", 3, [1.5], [-1], [2 ** 32], ["1"], new Float32Array(2), [undefined]]) {
      expect(thrownBy(() => cache.lookup(tokens as never)).code).toBe("invalid-argument");
      expect(thrownBy(() => cache.insert(tokens as never, handle)).code).toBe("invalid-argument");
    }
    expect(thrownBy(() => cache.insert([1], {} as never)).argument).toBe("handle");
    for (const other of [{}, Object.create(Object.getPrototypeOf(pool)), new Proxy(pool, {}), undefined]) {
      expect(thrownBy(() => new PrefixCache(other as never, { bytes: 1e6 }))).toMatchObject({ code: "invalid-argument", argument: "pool" });
    }
    expect(thrownBy(() => cache.insert([1], stepped(other))).argument).toBe("handle");
    const step = pool.step([handle]);
    expect(thrownBy(() => cache.insert([1], handle)).code).toBe("state");
    step.abort();
    const gone = pool.allocate();
    gone.free();
    expect(thrownBy(() => cache.insert([1], gone))).toBeInstanceOf(DisposedError);
    expect(cache.size).toBe(0);
    for (const options of [undefined, {}, { bytes: -1 }, { bytes: 0.5 }, { bytes: 1, slots: 2 }]) {
      expect(thrownBy(() => new PrefixCache(pool, options as never)).code).toBe("invalid-argument");
    }
    expect(thrownBy(() => new PrefixCache({} as never, { bytes: 1 })).argument).toBe("pool");
    cache[Symbol.dispose]();
    cache[Symbol.dispose]();
    expect(thrownBy(() => cache.lookup([1]))).toBeInstanceOf(DisposedError);
  });

  test("any history finds what a plain list finds, and never more than the budget", () => {
    const tokens = fc.array(fc.nat(2), { maxLength: 6 });
    const command = fc.record({ kind: fc.constantFrom("insert", "insert", "lookup", "lookup", "hold", "release", "room"), tokens, n: fc.nat(9) });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(command, { maxLength: 60 }), (entries, commands) => {
        const slots = 12;
        using pool = newPool(slots);
        const budget = entries * (pool.slotBytes + 8);
        using cache = new PrefixCache(pool, { bytes: budget });
        // The model: tokens and the state's slot, oldest first.
        const strays: StateHandle[] = [];
        let model: { tokens: number[]; bytes: number; held: StateHandle[] }[] = [];
        const same = (a: readonly number[], b: readonly number[]) => a.length === b.length && a.every((x, i) => x === b[i]);
        const evict = (except?: object) => {
          const at = model.findIndex((entry) => entry !== except);
          if (at < 0) return false;
          strays.push(...model.splice(at, 1)[0]!.held);
          return true;
        };
        const bytes = () => model.reduce((sum, entry) => sum + entry.bytes, 0);
        const used = () => model.length + model.flatMap((entry) => entry.held).concat(strays).filter((handle) => !handle.freed).length;
        for (const { kind, tokens: list, n } of commands) {
          if (kind === "insert") {
            if (slots - used() < 2) continue;
            const handle = stepped(pool);
            strays.push(handle);
            const known = model.find((entry) => same(entry.tokens, list));
            const needed = pool.slotBytes + 4 * list.length;
            let fits = known !== undefined || needed <= budget;
            if (known) {
              model = [...model.filter((entry) => entry !== known), known];
            } else if (fits) {
              while (fits && bytes() + needed > budget) fits = evict();
              if (fits) model.push({ tokens: list, bytes: needed, held: [] });
            }
            expect(cache.insert(list, handle)).toBe(fits);
            handle.free();
          } else if (kind === "lookup" || kind === "hold") {
            const best = model.filter((entry) => same(entry.tokens, list.slice(0, entry.tokens.length)))
              .sort((a, b) => b.tokens.length - a.tokens.length)[0];
            if (best) {
              model = [...model.filter((entry) => entry !== best), best];
              while (used() >= slots && evict(best)) continue;
              if (used() >= slots) {
                expect(thrownBy(() => cache.lookup(list)).code).toBe("out-of-memory");
                continue;
              }
            }
            const hit = cache.lookup(list);
            expect(hit?.length).toBe(best?.tokens.length);
            if (hit && kind === "hold") best!.held.push(hit.state);
            else hit?.state.free();
          } else if (kind === "release") {
            const held = model.flatMap((entry) => entry.held).filter((handle) => !handle.freed);
            held[n % Math.max(1, held.length)]?.free();
          } else {
            let room = true;
            while (room && slots - used() < n) room = evict();
            expect(cache.makeRoom(n)).toBe(room);
          }
          expect([cache.size, cache.bytes]).toEqual([model.length, bytes()]);
          expect(cache.bytes).toBeLessThanOrEqual(budget);
          expect(pool.free).toBe(slots - used());
        }
        for (const handle of model.flatMap((entry) => entry.held).concat(strays)) if (!handle.freed) handle.free();
        cache.clear();
        expect(pool.free).toBe(slots);
      }),
      { numRuns: 300 },
    );
  });
});
