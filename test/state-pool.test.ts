import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DisposedError, StateHandle, StatePool } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { channels, finish, sizes, statesOn } from "./support/states.ts";

const device = openDevice();
const { newPool, fromScratch, contentOf, run, advance, poison } = statesOn(device);

describe("a pool of states", () => {
  test("has one contiguous buffer for each layer and kind", () => {
    using pool = newPool(3, { stateDtype: "bf16", convDtype: "f16", convWidth: 5 });
    expect([pool.device, pool.layers, pool.capacity, pool.free]).toEqual([device, 2, 3, 3]);
    for (const layer of [0, 1]) {
      expect([pool.state(layer).dtype, [...pool.state(layer).shape]]).toEqual(["bf16", [3, 2, 8, 8]]);
      expect([pool.conv(layer).dtype, [...pool.conv(layer).shape]]).toEqual(["f16", [3, channels, 4]]);
      expect(pool.state(layer)).toBe(pool.state(layer));
    }
    using plain = newPool(1);
    expect([plain.state(0).dtype, plain.conv(0).dtype]).toEqual(["f32", "f32"]);
    using wide = newPool(1, { convChannels: 7 });
    expect([...wide.conv(1).shape]).toEqual([1, 7, 3]);
    for (const layer of [-1, 2]) expect(thrownBy(() => pool.state(layer)).code).toBe("range");
    for (const layer of [0.5, "0", undefined, NaN])
      expect(thrownBy(() => pool.conv(layer as number)).code).toBe("invalid-argument");
  });

  test("options are checked by name", () => {
    const bad: [object, string, string?][] = [
      [{ slots: 0 }, "slots"],
      [{ slots: 1.5 }, "slots"],
      [{ slots: "4" }, "slots"],
      [{ layers: 0 }, "layers"],
      [{ layers: 65_537 }, "layers"],
      [{ keyHeads: 0 }, "keyHeads"],
      [{ keyDim: 12 }, "keyDim"],
      [{ keyDim: 264 }, "keyDim"],
      [{ valueDim: 0 }, "valueDim"],
      [{ convWidth: 1 }, "convWidth"],
      [{ convWidth: 10 }, "convWidth"],
      [{ convChannels: 0 }, "convChannels"],
      [{ stateDtype: "i32" }, "stateDtype"],
      [{ convDtype: "f64" }, "convDtype"],
      [{ dtype: "f32" }, "dtype"],
      [{ slots: undefined }, "slots"],
      [{ keyHeads: 3, valueHeads: 4 }, "valueHeads", "shape"],
      [{ slots: 2 ** 30 }, "slots", "shape"],
    ];
    for (const [options, argument, code = "invalid-argument"] of bad) {
      const error = thrownBy(() => newPool(4, options as never));
      expect([argument, error.code, error.argument]).toEqual([argument, code as never, argument]);
    }
    for (const options of [undefined, null, 3, []]) {
      expect(thrownBy(() => StatePool.create(device, options as never)).code).toBe("invalid-argument");
    }
    expect(thrownBy(() => StatePool.create({} as never, { slots: 1, ...sizes })).argument).toBe("device");
    using closed = openDevice();
    closed.close();
    expect(thrownBy(() => StatePool.create(closed, { slots: 1, ...sizes }))).toBeInstanceOf(DisposedError);
  });

  test("a new state starts from zeros by store, whatever memory held", () => {
    using pool = newPool(2);
    poison(pool);
    const handle = pool.allocate();
    expect(handle.slot).toBe(-1);
    advance(pool, [handle], [[1, 2]]);
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([1, 2]));
    poison(pool);
    pool.zero(handle);
    expect(handle.slot).toBe(-1);
    advance(pool, [handle], [[]]); // without a token, the zeros themselves are stored
    device.wait();
    expect(contentOf(pool, handle).every((bits) => bits === 0)).toBe(true);
    poison(pool);
    pool.zero(handle);
    advance(pool, [handle], [[3]]);
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([3]));
  });

  test("an agent's branches: prefill once, fork eight, decode them as one batch, keep the best", () => {
    for (const freeParentFirst of [false, true]) {
      using pool = newPool(9);
      const parent = pool.allocate();
      advance(pool, [parent], [[1, 2, 3]]);
      const branches = Array.from({ length: 8 }, () => parent.fork());
      expect(pool.free).toBe(0);
      if (freeParentFirst) parent.free();
      for (const round of [10, 20, 30])
        advance(
          pool,
          branches,
          branches.map((_, i) => [round + i]),
        );
      device.wait();
      for (const [i, branch] of branches.entries()) {
        expect(contentOf(pool, branch)).toEqual(fromScratch([1, 2, 3, 10 + i, 20 + i, 30 + i]));
      }
      if (!freeParentFirst) expect(contentOf(pool, parent)).toEqual(fromScratch([1, 2, 3]));
      for (const branch of branches.slice(1)) branch.free();
      expect(pool.free).toBe(freeParentFirst ? 8 : 7);
    }
  });

  test("abort before anything ran leaves everything as it was", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const before = handle.slot;
    const step = pool.step([handle]);
    expect([handle.step, step.open, pool.free]).toEqual([step, true, 1]);
    step.abort();
    expect([handle.step, step.open, handle.slot, pool.free]).toEqual([undefined, false, before, 1]);
    {
      using _dropped = pool.step([handle]);
    }
    expect(handle.step).toBeUndefined();
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([1]));
  });

  test("abort after the work has run takes it back where it was written elsewhere", () => {
    using pool = newPool(3);
    const parent = pool.allocate();
    const fresh = parent.fork(); // of nothing: its own zeros
    advance(pool, [parent], [[1]]);
    const undoable = pool.step([parent], { undoable: true });
    run(undoable, [[2]]);
    undoable.abort();
    const first = pool.step([fresh]);
    run(first, [[5]]);
    first.abort();
    device.wait();
    expect(contentOf(pool, parent)).toEqual(fromScratch([1]));
    expect(fresh.slot).toBe(-1);
    const child = parent.fork();
    const shared = pool.step([child]);
    run(shared, [[2]]);
    shared.abort();
    device.wait();
    expect(contentOf(pool, child)).toEqual(fromScratch([1]));
    advance(pool, [child, fresh], [[3], [4]]);
    device.wait();
    expect([contentOf(pool, parent), contentOf(pool, child), contentOf(pool, fresh)]).toEqual([
      fromScratch([1]),
      fromScratch([1, 3]),
      fromScratch([4]),
    ]);
  });

  test("abort does not pretend to take back what was overwritten", () => {
    using pool = newPool(1);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const step = pool.step([handle]);
    run(step, [[2]]);
    const error = thrownBy(() => step.abort());
    expect([error.code, error.op, step.open]).toEqual(["state", "step.abort", true]);
    expect(error.message).toContain("undoable");
    step.done();
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([1, 2]));
    expect(thrownBy(() => pool.step([handle], { undoable: true })).code).toBe("range"); // no second slot to write to
  });

  test("the slots a step gives away are copies", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    const step = pool.step([handle]);
    const [write] = step.writeSlots;
    step.writeSlots[0] = 1 - write!;
    step.readSlots[0] = 99;
    finish(step);
    expect(handle.slot).toBe(write!);
  });
});

describe("a pool against from-scratch runs", () => {
  test("any history of forks, frees, zeros, steps and aborts gives every state its bits", () => {
    const command = fc.record({
      kind: fc.constantFrom("allocate", "fork", "fork", "free", "zero", "step", "step", "step", "undo", "abort"),
      a: fc.nat(100),
      b: fc.nat(255),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(command, { minLength: 5, maxLength: 25 }),
        (slots, commands) => {
          using pool = newPool(slots);
          poison(pool);
          const live: { readonly handle: StateHandle; tokens: number[] }[] = [];
          for (const { kind, a, b } of commands) {
            const one = live[a % Math.max(live.length, 1)];
            if (kind === "allocate" && pool.free > 0) live.push({ handle: pool.allocate(), tokens: [] });
            else if (kind === "fork" && one && pool.free > 0)
              live.push({ handle: one.handle.fork(), tokens: [...one.tokens] });
            else if (kind === "free" && one) live.splice(live.indexOf(one), 1)[0]!.handle.free();
            else if (kind === "zero" && one) {
              pool.zero(one.handle);
              one.tokens = [];
            } else if (one) {
              const members = live.filter((_, i) => (b >> i) & 1 || i === a % live.length);
              const lists = members.map((_, i) => Array.from({ length: (b >> i) % 3 }, (_, t) => (a + i + t) % 4));
              const undoable = kind === "undo" && pool.free >= members.length;
              const step = pool.step(
                members.map(({ handle }) => handle),
                { undoable },
              );
              if (kind !== "abort") run(step, lists);
              if (kind === "abort" || undoable) {
                step.abort();
              } else {
                step.done();
                for (const [i, member] of members.entries()) member.tokens.push(...lists[i]!);
              }
            }
          }
          device.wait();
          for (const { handle, tokens } of live) {
            // A state without tokens may have no slot, or be stored zeros.
            expect(contentOf(pool, handle)).toEqual(fromScratch(tokens));
          }
          for (const { handle } of live) handle.free();
          expect(pool.free).toBe(slots);
        },
      ),
      { numRuns: 60 },
    );
  });
});
