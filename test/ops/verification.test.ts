/** Drafts: verified in one pass, and committed up to the first wrong token; and states that a pass stores on the way. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { GatedDeltaNet, StatePool } from "../../lib/index.ts";
import type { StateHandle } from "../../lib/index.ts";
import { onEachBackend } from "../support/backends.ts";
import { thrownBy } from "../support/devices.ts";
import { randomHidden } from "../support/drive.ts";
import { Random } from "../support/random.ts";

const goldenLayer = join(import.meta.dir, "..", "golden", "layer-f32.safetensors");

onEachBackend("drafts", ({ device, emulated }) => {
  const layers = [0, 1].map((poolLayer) => GatedDeltaNet.load(device, goldenLayer, { layer: 0, poolLayer }));
  const [layer] = layers as [GatedDeltaNet];
  const width = layer.config.hiddenSize;
  const newPool = (slots: number, dtypes: { stateDtype?: "f32" | "bf16" } = {}) =>
    StatePool.create(device, { slots, layers: 2, ...layer.stateShape, ...dtypes });
  const longest = emulated ? 2 : 6;
  const rows = randomHidden(new Random(3), [64], width)[0]!.data;
  const inputOf = (tokens: readonly number[]) => tokens.flatMap((t) => [...rows.subarray(t * width, (t + 1) * width)]);

  const bitsOf = (pool: StatePool, handle: StateHandle) => {
    device.wait();
    const { slot } = handle;
    return [0, 1].flatMap((index) => [pool.state(index), pool.conv(index)].map((tensor) => [...tensor.slice(slot, slot + 1).toFloat32()]));
  };

  /** Runs tokens through both layers, the second on the first's output. Returns the output. */
  function advance(pool: StatePool, handles: readonly StateHandle[], lists: readonly (readonly number[])[], checkpoints?: number[][]) {
    const step = pool.step(handles, { checkpoints });
    const out = through(lists, (args) => layers.flatMap((each) => each.forward({ ...args, step })));
    step.done();
    return { out, saved: step.saved };
  }

  function through(lists: readonly (readonly number[])[], ops: (args: { hidden: never; out: never; cuSeqlens: number[] }) => never[] | ReturnType<GatedDeltaNet["forward"]>) {
    const tokens = lists.flat();
    const cuSeqlens = [0];
    for (const list of lists) cuSeqlens.push(cuSeqlens.at(-1)! + list.length);
    using hidden = device.tensorFrom("f32", [tokens.length, width], inputOf(tokens));
    device.run(...ops({ hidden: hidden as never, out: hidden as never, cuSeqlens }));
    device.wait();
    return hidden.data.slice();
  }

  /** One token a call. */
  function decoded(tokens: readonly number[]) {
    using pool = newPool(1);
    const handle = pool.allocate();
    const outs = tokens.map((token) => [...advance(pool, [handle], [[token]]).out]);
    return { bits: tokens.length === 0 ? [] : bitsOf(pool, handle), outs };
  }

  describe.each(["deltas", "snapshots"] as const)("records of %s", (records) => {
    test("every number of accepted tokens leaves the bits of as many single steps, convolution included", () => {
      const drafted = Array.from({ length: longest }, (_, i) => 10 + i);
      const all = decoded([1, 2, ...drafted]);
      for (let n = 0; n <= longest; n++) {
        using pool = newPool(12);
        const handle = pool.allocate();
        advance(pool, [handle], [[1, 2]]);
        const draft = pool.draft([handle], [longest], { records });
        const before = bitsOf(pool, handle);
        const out = through([drafted], (args) => layers.flatMap((each) => each.forward({ ...args, cuSeqlens: undefined, draft })));
        expect([...out]).toEqual(all.outs.slice(2).flat());
        expect(bitsOf(pool, handle)).toEqual(before); // verifying writes no state
        draft.commit([n]);
        expect(bitsOf(pool, handle)).toEqual(decoded([1, 2, ...drafted.slice(0, n)]).bits);
        advance(pool, [handle], [[5]]);
        expect(bitsOf(pool, handle)).toEqual(decoded([1, 2, ...drafted.slice(0, n), 5]).bits);
        expect(pool.free).toBe(11);
      }
    });

    test("a ragged batch of new states, forks and old ones, each with its own count", () => {
      using pool = newPool(20);
      const parent = pool.allocate();
      advance(pool, [parent], [[1]]);
      const child = parent.fork();
      const fresh = pool.allocate();
      const lists = [[10, 11, 12], [20, 21], [30], []];
      const other = parent.fork();
      const draft = pool.draft([child, fresh, parent, other], lists.map((list) => list.length), { records });
      through(lists, (args) => layers.flatMap((each) => each.forward({ ...args, cuSeqlens: undefined, draft })));
      draft.commit([2, 1, 1, 0]);
      expect([child, fresh, parent, other].map((handle) => bitsOf(pool, handle))).toEqual(
        [[1, 10, 11], [20], [1, 30], [1]].map((tokens) => decoded(tokens).bits),
      );
      expect(pool.free).toBe(16);
      for (const handle of [child, fresh, parent, other]) handle.free();
      expect(pool.free).toBe(20);
    });

    test("it is the state's step: a second one, a fork, a free are errors until it is over; abort changes nothing", () => {
      using pool = newPool(8);
      const handle = pool.allocate();
      advance(pool, [handle], [[1]]);
      const bits = bitsOf(pool, handle);
      const draft = pool.draft([handle], [2], { records });
      for (const misuse of [
        () => pool.draft([handle], [1]), () => pool.step([handle]), () => handle.fork(), () => handle.free(), () => pool.zero(handle),
        () => pool.save([handle], "never"),
      ]) expect(thrownBy(misuse).code).toBe("state");
      through([[2, 3]], (args) => layers.flatMap((each) => each.forward({ ...args, cuSeqlens: undefined, draft })));
      for (const [counts, code] of [[[3], "range"], [[-1], "range"], [[1.5], "invalid-argument"], [[1, 1], "shape"], [undefined, "invalid-argument"]] as const) {
        expect(thrownBy(() => draft.commit(counts as never)).code).toBe(code);
      }
      expect(draft.open).toBe(true);
      draft.abort();
      expect([bitsOf(pool, handle), pool.free, handle.step]).toEqual([bits, 7, undefined]);
      expect(thrownBy(() => draft.commit([1])).code).toBe("state");
      expect(thrownBy(() => draft.abort()).code).toBe("state");
      {
        using _dropped = pool.draft([handle], [2], { records });
      }
      expect([handle.step, pool.free]).toEqual([undefined, 7]);
    });
  });

  test("a layer that was left out is an error, and the draft stays open", () => {
    using pool = newPool(4);
    const handle = pool.allocate();
    const draft = pool.draft([handle], [1]);
    through([[1]], (args) => layer.forward({ ...args, cuSeqlens: undefined, draft }));
    const error = thrownBy(() => draft.commit([1]));
    expect([error.code, error.message.includes("layer 1"), draft.open]).toEqual(["state", true, true]);
    draft.abort();
  });

  test("what a caller writes into a draft's arrays does not reach its commit", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const draft = pool.draft([handle], [2]);
    through([[2, 3]], (args) => layers.flatMap((each) => each.forward({ ...args, cuSeqlens: undefined, draft })));
    draft.cuSeqlens.fill(7);
    expect(Object.isFrozen(draft)).toBe(true);
    draft.commit([2]);
    expect(bitsOf(pool, handle)).toEqual(decoded([1, 2, 3]).bits);
  });

  test("checkpoints that were not written are not states: done is refused, and the step can be aborted", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    const step = pool.step([handle], { checkpoints: [[1]] });
    const { code, message } = thrownBy(() => step.done());
    expect([code, message.includes("layer 0"), step.open, thrownBy(() => step.saved).code]).toEqual(["state", true, true, "state"]);
    step.abort();
    expect(pool.free).toBe(1);
  });

  test("options and counts are checked by name; too few slots for snapshots change nothing", () => {
    using pool = newPool(3);
    const handle = pool.allocate();
    for (const [args, argument] of [
      [[[handle], [1, 2]], "counts"],
      [[[handle], [-1]], "counts[0]"],
      [[[handle], [0.5]], "counts[0]"],
      [[handle, [1]], "handles"],
      [[[handle], [1], { records: "both" }], "records"],
      [[[handle], [1], { gates: "key" }], "gates"],
    ] as const) expect(thrownBy(() => pool.draft(...(args as unknown as Parameters<typeof pool.draft>))).argument).toBe(argument);
    expect(thrownBy(() => pool.draft([handle], [3], { records: "snapshots" })).code).toBe("range");
    expect([pool.free, handle.step]).toEqual([2, undefined]);
    pool.draft([handle], [2], { records: "snapshots" }).abort();
    expect(pool.free).toBe(2);
  });

  test("checkpoints of a prefill are the states of its beginnings", () => {
    using pool = newPool(12);
    const [a, b] = [pool.allocate(), pool.allocate()];
    advance(pool, [a], [[1]]);
    const lists = [[2, 3, 4], [7, 8]];
    const { saved } = advance(pool, [a, b], lists, [[0, 2, 3], [1]]);
    const plain = [[1], [1, 2, 3], [1, 2, 3, 4], [7]].map((tokens) => decoded(tokens).bits);
    expect(saved.flat().map((handle) => bitsOf(pool, handle))).toEqual(plain);
    expect([bitsOf(pool, a), bitsOf(pool, b)]).toEqual([decoded([1, 2, 3, 4]).bits, decoded([7, 8]).bits]);
    expect(pool.free).toBe(6);
    advance(pool, [saved[0]![1]!], [[9]]);
    expect(bitsOf(pool, saved[0]![1]!)).toEqual(decoded([1, 2, 3, 9]).bits);
  });

  test("checkpoints: positions beyond the tokens, too many, or before they are there", () => {
    using pool = newPool(3);
    const handle = pool.allocate();
    const step = pool.step([handle], { checkpoints: [[2]] });
    expect(thrownBy(() => step.saved).code).toBe("state");
    expect(pool.free).toBe(1);
    expect(thrownBy(() => through([[1]], (args) => layers.flatMap((each) => each.forward({ ...args, step })))).code).toBe("range");
    expect(thrownBy(() => layer.decode({ hidden: device.tensor("f32", [1, width]), out: device.tensor("f32", [1, width]), step })).argument).toBe("states");
    step.abort();
    expect(pool.free).toBe(2);
    for (const [checkpoints, code] of [[[[0, 0, 0]], "range"], [[[1], [1]], "shape"], [[[-1]], "range"], [[["1"]], "invalid-argument"], [[1], "invalid-argument"], [1, "invalid-argument"]] as const) {
      expect(thrownBy(() => pool.step([handle], { checkpoints: checkpoints as never })).code).toBe(code);
    }
    expect([pool.free, handle.step]).toEqual([2, undefined]);
  });

  test("many children of one parent in one batch; the parent stepped or freed before them", () => {
    for (const how of ["stays", "steps", "frees", "checkpoints"] as const) {
      using pool = newPool(9);
      const parent = pool.allocate();
      advance(pool, [parent], [[1, 2]]);
      const children = Array.from({ length: emulated ? 3 : 7 }, () => parent.fork());
      if (how === "frees") parent.free();
      if (how === "steps") advance(pool, [parent], [[3]]);
      if (how === "checkpoints") {
        const [kept] = advance(pool, [parent], [[3]], [[0]]).saved[0]!;
        expect(bitsOf(pool, kept!)).toEqual(decoded([1, 2]).bits);
        kept!.free();
      }
      advance(pool, children, children.map((_, i) => [10 + i]));
      expect(children.map((child) => bitsOf(pool, child))).toEqual(children.map((_, i) => decoded([1, 2, 10 + i]).bits));
      if (how !== "frees") expect(bitsOf(pool, parent)).toEqual(decoded(how === "stays" ? [1, 2] : [1, 2, 3]).bits);
    }
  });
});
