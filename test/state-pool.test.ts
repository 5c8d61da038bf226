import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { DisposedError, PoolStep, StateHandle, StatePool, copySlots } from "../lib/index.ts";
import type { StatePoolOptions, Tensor } from "../lib/index.ts";
import { counting, openDevice, thrownBy } from "./support/devices.ts";
import { Random } from "./support/random.ts";

const device = openDevice();
const sizes = { layers: 2, keyHeads: 1, valueHeads: 2, keyDim: 8, valueDim: 8, convWidth: 4 } as const;
const { keyHeads, valueHeads, keyDim, valueDim } = sizes;
const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;

function newPool(slots: number, options: Partial<StatePoolOptions> = {}): StatePool {
  return StatePool.create(device, { slots, ...sizes, ...options });
}

/** The input of one token, the same for the same seed. */
function tokenOf(seed: number): { readonly x: number[]; readonly gate: number[]; readonly beta: number[] } {
  const random = new Random(seed);
  const many = (count: number, next: () => number) => Array.from({ length: count }, next);
  return {
    x: many(channels, () => random.normal()),
    gate: many(valueHeads, () => -Math.exp(random.uniform(-4, 1))),
    beta: many(valueHeads, () => random.uniform()),
  };
}

/** A state in all layers, as bits. */
type Content = readonly number[];

const bitsOf = (tensor: Tensor, slot: number): number[] => {
  const row = tensor.slice(slot, slot + 1).toFloat32();
  return [...new Uint32Array(row.buffer)];
};

/** Where a pass reads and writes. */
interface Slots {
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;
}

/** One forward pass of both layers: sequence i gets `lists[i]`'s tokens. Encodes and commits. */
function forward(
  states: readonly Tensor[],
  convs: readonly Tensor[],
  lists: readonly (readonly number[])[],
  slots: Slots,
): void {
  const tokens = lists.flat().map(tokenOf);
  const cuSeqlens = [0];
  for (const list of lists) cuSeqlens.push(cuSeqlens.at(-1)! + list.length);
  const from = (shape: number[], values: number[]) => device.tensorFrom("f32", shape, values);
  const count = tokens.length;
  const gate = from(
    [count, valueHeads],
    tokens.flatMap((token) => token.gate),
  );
  const beta = from(
    [count, valueHeads],
    tokens.flatMap((token) => token.beta),
  );
  const weight = counting(device, "f32", [channels, 4], -0.3, 0.01);
  let x = from(
    [count, channels],
    tokens.flatMap((token) => token.x),
  );
  device.run((pass) => {
    for (const [layer, state] of states.entries()) {
      const packed = device.tensor("f32", [count, channels]);
      pass.causalConv1d({ x, weight, state: convs[layer]!, out: packed, cuSeqlens, ...slots });
      const part = (start: number, heads: number, dim: number) =>
        packed.narrow(1, start, heads * dim).reshape([count, heads, dim]);
      const next = device.tensor("f32", [count, channels]);
      const out = next.narrow(1, 0, valueHeads * valueDim).reshape([count, valueHeads, valueDim]);
      pass.gatedDelta({
        query: part(0, keyHeads, keyDim),
        key: part(keyHeads * keyDim, keyHeads, keyDim),
        value: part(2 * keyHeads * keyDim, valueHeads, valueDim),
        gate,
        beta,
        state,
        out,
        gateForm: "log",
        qkNorm: "l2",
        cuSeqlens,
        ...slots,
      });
      x = next;
    }
  });
}

/** What a state is after these tokens, from scratch and alone. */
const contents = new Map<string, Content>();
function fromScratch(tokens: readonly number[]): Content {
  const key = tokens.join();
  let content = contents.get(key);
  if (content === undefined) {
    using pool = newPool(1);
    const states = [pool.state(0), pool.state(1)];
    const convs = [pool.conv(0), pool.conv(1)];
    for (const [i, token] of tokens.entries()) {
      forward(states, convs, [[token]], { readSlots: Int32Array.of(i === 0 ? -1 : 0), writeSlots: Int32Array.of(0) });
    }
    device.wait();
    content = [...states, ...convs].flatMap((tensor) => bitsOf(tensor, 0));
    contents.set(key, content);
  }
  return content;
}

/** What a handle's state is now; the content of no tokens for one that is all zeros. */
function contentOf(pool: StatePool, handle: StateHandle): Content {
  const { slot } = handle;
  if (slot < 0) return fromScratch([]);
  return [pool.state(0), pool.state(1), pool.conv(0), pool.conv(1)].flatMap((tensor) => bitsOf(tensor, slot));
}

/** Runs tokens through a pool's states. */
function run(pool: StatePool, slots: Slots, lists: readonly (readonly number[])[]): void {
  forward([pool.state(0), pool.state(1)], [pool.conv(0), pool.conv(1)], lists, slots);
}

function advance(pool: StatePool, handles: readonly StateHandle[], lists: readonly (readonly number[])[]): void {
  const step = pool.step(handles);
  run(pool, step, lists);
  step.done();
}

/** Writes NaN over all of a pool. */
function poison(pool: StatePool): void {
  for (let layer = 0; layer < pool.layers; layer++) {
    pool.state(layer).data.fill(NaN);
    pool.conv(layer).data.fill(NaN);
  }
}

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
      [{ slots: 2 ** 30 }, "shape", "shape"],
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
    advance(pool, [handle], [[]]); // no token: the zeros themselves are stored
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
    run(pool, undoable, [[2]]);
    undoable.abort();
    const first = pool.step([fresh]);
    run(pool, first, [[5]]);
    first.abort();
    device.wait();
    expect(contentOf(pool, parent)).toEqual(fromScratch([1]));
    expect(fresh.slot).toBe(-1);
    const child = parent.fork();
    const shared = pool.step([child]);
    run(pool, shared, [[2]]);
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
    run(pool, step, [[2]]);
    const error = thrownBy(() => step.abort());
    expect([error.code, error.op, step.open]).toEqual(["state", "step.abort", true]);
    expect(error.message).toContain("undoable");
    expect(thrownBy(() => step[Symbol.dispose]()).code).toBe("state");
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
    step.done();
    expect(handle.slot).toBe(write!);
  });

  test("slots serve every op that takes them, in plans too", () => {
    using pool = newPool(3);
    const handle = pool.allocate();
    advance(pool, [handle], [[7]]);
    const copy = pool.allocate();
    const step = pool.step([copy]);
    const source = Int32Array.of(handle.slot);
    for (const tensor of [pool.state(0), pool.state(1), pool.conv(0), pool.conv(1)]) {
      device.run(copySlots({ pool: tensor, readSlots: source, writeSlots: step.writeSlots }));
    }
    step.done();
    device.wait();
    expect(contentOf(pool, copy)).toEqual(fromScratch([7]));
  });
});

describe("handles", () => {
  test("misuse is an error and changes nothing", () => {
    using pool = newPool(2);
    using other = newPool(2);
    const handle = pool.allocate();
    const foreign = other.allocate();
    const hollow = Object.create(StateHandle.prototype) as StateHandle;
    for (const wrong of [undefined, null, 3, {}, hollow, foreign]) {
      expect(thrownBy(() => pool.step([handle, wrong as StateHandle]))).toMatchObject({
        code: "invalid-argument",
        argument: "handles[1]",
      });
      expect(thrownBy(() => pool.zero(wrong as StateHandle)).code).toBe("invalid-argument");
    }
    for (const wrong of [undefined, null, 3, "x", handle, { length: 1, 0: handle }]) {
      expect(thrownBy(() => pool.step(wrong as never)).code).toBe("invalid-argument");
    }
    expect(thrownBy(() => pool.step([handle], { undoable: 1 as never })).argument).toBe("undoable");
    expect(thrownBy(() => pool.step([handle, handle])).code).toBe("state");
    expect(handle.step).toBeUndefined();

    const step = pool.step([handle]);
    for (const use of [() => pool.step([handle]), () => handle.fork(), () => handle.free(), () => pool.zero(handle)]) {
      expect(thrownBy(use).code).toBe("state");
    }
    step.done();
    for (const use of [() => step.done(), () => step.abort()]) expect(thrownBy(use).code).toBe("state");
    step[Symbol.dispose]();

    expect([handle.freed, handle.pool]).toEqual([false, pool]);
    handle.free();
    expect(handle.freed).toBe(true);
    for (const use of [
      () => handle.free(),
      () => handle.fork(),
      () => handle.slot,
      () => pool.zero(handle),
      () => pool.step([handle]),
    ]) {
      expect(thrownBy(use)).toBeInstanceOf(DisposedError);
    }
    handle[Symbol.dispose]();
    expect(pool.free).toBe(2);
  });

  test("an empty batch is a step like any other", () => {
    using pool = newPool(1);
    const step = pool.step([]);
    expect([step.readSlots.length, step.writeSlots.length]).toEqual([0, 0]);
    step.done();
  });

  test("`using` frees, and aborts the step that it is in", () => {
    using pool = newPool(2);
    {
      using handle = pool.allocate();
      const step = pool.step([handle]);
      expect(step.open).toBe(true);
    }
    expect(pool.free).toBe(2);
  });

  test("handles of a disposed pool are freed", () => {
    const pool = newPool(2);
    const handle = pool.allocate();
    const step = pool.step([handle]);
    const state = pool.state(0);
    pool[Symbol.dispose]();
    pool[Symbol.dispose]();
    expect([pool.disposed, handle.freed, step.open, state.disposed]).toEqual([true, true, false, true]);
    for (const use of [
      () => pool.allocate(),
      () => pool.step([]),
      () => pool.state(0),
      () => pool.conv(0),
      () => pool.zero(handle),
      () => handle.fork(),
      () => step.done(),
      () => step.abort(),
    ]) {
      expect(thrownBy(use)).toBeInstanceOf(DisposedError);
    }
    step[Symbol.dispose]();
    handle[Symbol.dispose]();
  });

  test("handles that are garbage free themselves, with the step that they are in", async () => {
    using pool = newPool(64);
    const litter = () => {
      for (let i = 0; i < 40; i++) pool.step([pool.allocate()]);
      for (let i = 0; i < 20; i++) pool.allocate();
    };
    litter();
    for (let i = 0; i < 50 && pool.free < 50; i++) {
      Bun.gc(true);
      await Bun.sleep(5);
    }
    expect(pool.free).toBeGreaterThanOrEqual(50); // the engine may still see one or another
  });

  test("constructors are not a way to make them", () => {
    using pool = newPool(1);
    expect(thrownBy(() => Reflect.construct(StateHandle, [pool, {}, {}])).code).toBe("invalid-argument");
    expect(thrownBy(() => Reflect.construct(PoolStep, [pool, {}, [], {}])).code).toBe("invalid-argument");
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
              if (kind !== "abort") run(pool, step, lists);
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
            // A state of no tokens may lie nowhere, or be stored zeros.
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
