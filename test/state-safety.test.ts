/** Mistakes that would put one conversation's state into another, or mix up states. */
import { existsSync } from "node:fs";
import { afterAll, describe, expect, test } from "bun:test";
import { GatedDeltaNet, PrefixCache, StatePool, gatedDelta, linear } from "../lib/index.ts";
import type { Draft, GatedDeltaError, Op, PoolStep } from "../lib/index.ts";
import { openDevice, thrownBy } from "./support/devices.ts";
import { failAt } from "./support/faults.ts";
import { scratch } from "./support/files.ts";
import { loadRandom, smallConfig, writeLayer } from "./support/layers.ts";
import { channels, finish, sizes, statesOn } from "./support/states.ts";

const device = openDevice();
afterAll(() => device.close());
const files = scratch();
const { newPool, fromScratch, contentOf, run, advance } = statesOn(device);
const { layer, weights } = loadRandom(device, smallConfig, 1);
const width = smallConfig.hidden_size;
const rows = (count: number) => device.tensor("f32", [count, width]);

/** The tensors of a recurrence for a sequence of one token, of the sizes of the small pools. */
function recurrenceParts() {
  const f32 = (...shape: number[]) => device.tensor("f32", shape);
  return { query: f32(1, 1, 8), key: f32(1, 1, 8), value: f32(1, 2, 8), gate: f32(1, 2), beta: f32(1, 2), out: f32(1, 2, 8) };
}

/** One layer's recurrence for a sequence of one token. */
function recurrence(step: PoolStep | Draft, at: number): Op {
  return gatedDelta({ ...recurrenceParts(), gateForm: "log", states: step.layer(at) });
}

const failureOf = (use: () => unknown): Pick<GatedDeltaError, "code" | "message"> => thrownBy(use);

describe("a step belongs to its pool, and to its layers", () => {
  test("a layer takes a step alone: there is no pool to mix up", () => {
    using a = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
    const step = a.step([a.allocate()]);
    const other = StatePool.create(device, { slots: 1, layers: 1, ...layer.stateShape });
    expect(thrownBy(() => layer.forward({ hidden: rows(1), out: rows(1), step, pool: other } as never)).argument).toBe("pool");
    step.abort();
    other[Symbol.dispose]();
  });

  test("objects that only have the prototype of a step, a draft, a placeholder or their layers are none", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    const step = pool.step([handle]);
    const fake = (value: object) => Object.create(Object.getPrototypeOf(value) as object) as never;
    for (const wrong of [fake(step), fake(pool.placeholder(1)), {}, 3]) {
      expect(thrownBy(() => layer.forward({ hidden: rows(1), out: rows(1), step: wrong as never })).argument).toBe("step");
    }
    const parts = { ...recurrenceParts(), gateForm: "log" as const };
    for (const wrong of [fake(step.layer(0)), fake(pool.placeholder(1).layer(0)), {}, 3]) {
      expect(thrownBy(() => device.run(gatedDelta({ ...parts, states: wrong as never }))).argument).toBe("states");
    }
    step.abort();
    const draft = pool.draft([handle], [1]);
    expect(thrownBy(() => layer.forward({ hidden: rows(1), out: rows(1), draft: fake(draft) })).argument).toBe("draft");
    expect(thrownBy(() => pool.run([pool.allocate()], fake(device.plan(() => {})))).argument).toBe("build");
    draft.abort();
  });

  test("pool tensors are refused by ops, as states, inputs and outputs", () => {
    using pool = newPool(2);
    const step = pool.step([pool.allocate()]);
    const f32 = (...shape: number[]) => device.tensor("f32", shape);
    const parts = recurrenceParts();
    const raw = gatedDelta({ ...parts, gateForm: "log", state: pool.state(0), readSlots: [0], writeSlots: [1] });
    expect(thrownBy(() => device.run(raw)).argument).toBe("state");
    const source = gatedDelta({ ...parts, gateForm: "log", source: pool.state(1), readSlots: [0], writeSlots: [-1] });
    expect(thrownBy(() => device.run(source)).argument).toBe("source");
    const view = pool.state(0).reshape([2, 2 * 64]);
    expect(thrownBy(() => device.run(linear({ x: f32(2, 8), weight: f32(128, 8), out: view }))).argument).toBe("out");
    expect(thrownBy(() => gatedDelta({ ...parts, gateForm: "log", states: step.layer(0), readSlots: [0] })).argument).toBe("readSlots");
    step.abort();
  });

  test("two mixers with one poolLayer are found when the second is encoded", () => {
    using twin = GatedDeltaNet.load(device, writeLayer(smallConfig, weights, "f32"), { layer: 0, poolLayer: 0 });
    using pool = StatePool.create(device, { slots: 2, layers: 2, ...layer.stateShape });
    using handle = pool.allocate();
    const build = (step: PoolStep) => [twin, twin].flatMap((each) => each.decode({ hidden: rows(1), out: rows(1), step }));
    const { code, message } = failureOf(() => pool.run([handle], build));
    expect([code, message]).toEqual(["state", expect.stringContaining("layer 0")]);
    expect([handle.slot, handle.step]).toEqual([-1, undefined]);
  });
});

describe("a pass that is over", () => {
  test("refuses its slots to ops, when they are made and when they are encoded", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    const step = pool.step([handle]);
    const op = recurrence(step, 0);
    finish(step);
    const encoded = failureOf(() => device.run(op));
    expect([encoded.code, encoded.message]).toEqual(["state", expect.stringContaining("has ended")]);
    expect(failureOf(() => step.layer(0)).code).toBe("state");
    const draft = pool.draft([handle], [1]);
    const states = draft.layer(0);
    draft.abort();
    expect(failureOf(() => draft.layer(0)).code).toBe("state");
    expect(failureOf(() => device.run(gatedDelta({ ...recurrenceParts(), gateForm: "log", states }))).code).toBe("state");
  });
});

describe("a layer that was not written", () => {
  test("done() names the layer and kind that is missing; the step stays open", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    const step = pool.step([handle]);
    const message = () => failureOf(() => step.done()).message;
    expect(message()).toContain("the state of layer 0");
    device.run(recurrence(step, 0));
    expect(message()).toContain("the conv of layer 0");
    step.wrote(0, "conv");
    step.wrote(1, "conv");
    device.encode(recurrence(step, 1));
    expect(message()).toContain("encoded but not committed");
    device.submit();
    step.done();
    expect(step.open).toBe(false);
    expect(failureOf(() => step.wrote(0, "conv")).code).toBe("state");
  });

  test("what was dropped was not written", () => {
    using pool = newPool(1);
    const step = pool.step([pool.allocate()]);
    device.encode(recurrence(step, 0));
    device.discard();
    expect(failureOf(() => step.done()).message).toContain("the state of layer 0");
    device.run(recurrence(step, 0)); // and can be written again
    expect(failureOf(() => device.run(recurrence(step, 0))).message).toContain("already written the state of layer 0");
  });

  test("pool.run commits nothing that is incomplete", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const ticket = device.lastTicket;
    expect(failureOf(() => pool.run([handle], (step) => [recurrence(step, 0)])).message).toContain("the conv of layer 0");
    expect(failureOf(() => pool.run([handle], () => [])).message).toContain("the state of layer 0");
    expect([device.lastTicket, handle.step]).toEqual([ticket, undefined]);
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([1]));
  });

  test("a pool of recurrent states alone wants no others", () => {
    using pool = newPool(2, { conv: false });
    const handle = pool.allocate();
    pool.run([handle], (step) => [recurrence(step, 0), recurrence(step, 1)]);
    expect(thrownBy(() => pool.conv(0)).code).toBe("invalid-argument");
    const step = pool.step([handle]);
    expect(thrownBy(() => step.wrote(0, "conv")).code).toBe("invalid-argument");
    step.abort();
    const path = files.newPath();
    pool.save([handle], path);
    expect(pool.load(path).length).toBe(1);
    using full = newPool(1);
    expect(thrownBy(() => full.load(path)).code).toBe("file");
    expect(pool.slotBytes).toBe(2 * 2 * 64 * 4);
  });

  test("a draft whose layers did not run is not committed", () => {
    using pool = newPool(2, { conv: false });
    const handle = pool.allocate();
    const draft = pool.draft([handle], [1]);
    expect(failureOf(() => draft.commit([1])).message).toContain("the state of layer 0");
    expect(failureOf(() => draft.run(() => [])).message).toContain("the state of layer 0");
    draft.abort();
  });
});

describe("pool.run", () => {
  test("undoes everything if the callback throws, and passes the error on", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const mine = new Error("mine");
    for (const build of [
      () => { throw mine; },
      (step: PoolStep) => { device.encode(recurrence(step, 0)); throw mine; },
      (step: PoolStep) => { step.done(); return []; },
    ]) expect(() => pool.run([handle], build)).toThrow();
    expect([handle.step, handle.valid, pool.free]).toEqual([undefined, true, 1]);
    device.submit(); // no encoded op is left
    expect(() => pool.run([handle], () => { throw mine; })).toThrow(mine);
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([1]));
  });

  test("a promise, a nested run of the same handle, and what is no list of ops are typed errors", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    const code = (build: unknown) => thrownBy(() => pool.run([handle], build as never)).code;
    expect(code(async () => [])).toBe("invalid-argument");
    expect(code(async () => { throw new Error("unseen"); })).toBe("invalid-argument");
    for (const build of [undefined, null, 3, () => 3, () => undefined, () => [3], () => [undefined]]) expect(code(build)).toBe("invalid-argument");
    expect(code(() => { pool.run([handle], () => []); return []; })).toBe("state");
    expect(code(() => { pool.step([handle]); return []; })).toBe("state");
    expect(thrownBy(() => pool.run([handle], () => [], { undo: true } as never)).argument).toBe("undo");
    expect(handle.step).toBeUndefined();
  });

  test("checkpoints are the step's; undoable is one of its options", () => {
    using pool = newPool(4);
    const handle = pool.allocate();
    let saved: PoolStep["saved"] = [];
    const step = pool.step([handle], { undoable: true, checkpoints: [[1]] });
    run(step, [[1, 2]]);
    step.done();
    saved = step.saved;
    device.wait();
    expect(contentOf(pool, saved[0]![0]!)).toEqual(fromScratch([1]));
    expect(contentOf(pool, handle)).toEqual(fromScratch([1, 2]));
  });
});

describe("a step that is undone by disposal", () => {
  test("abort is refused while its ops are encoded, and what is left encoded is never committed", () => {
    using pool = newPool(1);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const step = pool.step([handle]);
    device.encode(recurrence(step, 0));
    expect(failureOf(() => step.abort()).message).toContain("device.discard()");
    step[Symbol.dispose]();
    expect([step.open, handle.step]).toEqual([false, undefined]);
    expect(failureOf(() => device.submit()).message).toContain("was undone");
    expect(failureOf(() => device.run(linear({ x: rows(1), weight: rows(1), out: device.tensor("f32", [1, 1]) }))).code).toBe("state");
    device.run(); // the failed run dropped the encoded ops
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([1]));
  });

  test("using never hides the caller's error; a state that was overwritten is invalid by name", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const mine = new Error("mine");
    const attempt = () => {
      using step = pool.step([handle]);
      device.run(recurrence(step, 0));
      throw mine;
    };
    expect(attempt).toThrow(mine);
    expect([handle.valid, handle.step]).toEqual([false, undefined]);
    for (const use of [() => pool.step([handle]), () => handle.fork(), () => pool.save([handle], files.newPath()), () => pool.draft([handle], [1])]) {
      const { code, message } = failureOf(use);
      expect([code, message]).toEqual(["state", expect.stringContaining("pool.zero")]);
    }
    pool.zero(handle);
    advance(pool, [handle], [[3]]);
    device.wait();
    expect(contentOf(pool, handle)).toEqual(fromScratch([3]));
  });

  test("a fork's step that is undone loses nothing: its parent's slot was not written", () => {
    using pool = newPool(3);
    const parent = pool.allocate();
    advance(pool, [parent], [[1]]);
    const child = parent.fork();
    {
      using step = pool.step([child]);
      run(step, [[2]]);
    }
    device.wait();
    expect([child.valid, contentOf(pool, child), contentOf(pool, parent)]).toEqual([true, fromScratch([1]), fromScratch([1])]);
  });
});

describe("a submission that fails", () => {
  test("makes the step's states invalid, and all that was taken from them; what was shared before stays", () => {
    using pool = newPool(10);
    using cache = new PrefixCache(pool, { bytes: 1e6 });
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const before = handle.fork();
    cache.insert([1], handle);
    const wide = device.tensor("f32", [1024, 4096]);
    device.run(linear({ x: wide, weight: wide, out: device.tensor("f32", [1024, 1024]) })); // keeps the device busy
    failAt(device, "run", 3);
    const step = pool.step([handle], { checkpoints: [[1]] });
    run(step, [[2, 3]]);
    step.done();
    const [kept] = step.saved[0]!;
    const fork = handle.fork(); // its failure is not yet known
    cache.insert([1, 2, 3], fork);
    advance(pool, [fork], [[4]]);
    expect(failureOf(() => device.wait()).code).toBe("device");
    expect([handle, kept!, fork, before].map(({ valid }) => valid)).toEqual([false, false, false, true]);
    expect(failureOf(() => pool.step([before, fork])).message).toContain("invalid");
    expect(cache.lookup([1, 2, 3])!.length).toBe(1); // the entry of the lost state is gone
    expect(cache.size).toBe(1);
    device.wait();
    expect(contentOf(pool, before)).toEqual(fromScratch([1]));
    advance(pool, [before], [[9]]);
    device.wait();
    expect(contentOf(pool, before)).toEqual(fromScratch([1, 9]));
    for (const lost of [handle, kept!, fork]) lost.free();
  });

  test("is known to save, which refuses", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    failAt(device, "run", 1);
    advance(pool, [handle], [[1]]);
    const path = files.newPath();
    // Whether the wait's report or the refusal of the handle comes first, nothing is written.
    for (let i = 0; i < 2; i++) expect(["device", "state"]).toContain(failureOf(() => pool.save([handle], path)).code);
    expect(failureOf(() => pool.save([handle], path)).code).toBe("state");
    expect(existsSync(path)).toBe(false);
    try {
      device.wait();
    } catch {} // the report, if save left it
  });

  test("undone, leaves the state that was", async () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    const step = pool.step([handle], { undoable: true });
    failAt(device, "run", 1);
    run(step, [[2]]);
    await device.finish().catch(() => {});
    step.abort();
    expect([handle.valid, contentOf(pool, handle)]).toEqual([true, fromScratch([1])]);
  });

  test("of a draft refuses its commit; the states stay", () => {
    using pool = newPool(2, { conv: false });
    const handle = pool.allocate();
    const draft = pool.draft([handle], [1]);
    failAt(device, "run", 1);
    draft.run(() => [recurrence(draft, 0), recurrence(draft, 1)]);
    expect(failureOf(() => device.wait()).code).toBe("device");
    expect(failureOf(() => draft.commit([1])).message).toContain("call abort()");
    draft.abort();
    expect(handle.valid).toBe(true);
  });

  test("at encode or commit changes nothing", () => {
    using pool = newPool(2);
    const handle = pool.allocate();
    advance(pool, [handle], [[1]]);
    for (const stage of ["encode", "commit"] as const) {
      failAt(device, stage, 1);
      expect(failureOf(() => pool.run([handle], (step) => [recurrence(step, 0), recurrence(step, 1)])).code).toBe(stage === "encode" ? "device" : "state");
      failAt(device, stage, 0);
    }
    device.wait();
    expect([handle.valid, contentOf(pool, handle)]).toEqual([true, fromScratch([1])]);
  });
});

describe("plans over a pool", () => {
  const decode = (pool: StatePool, sequences: number) => {
    const placeholder = pool.placeholder(sequences);
    const [hidden, out] = [rows(sequences), rows(sequences)];
    const plan = device.plan((pass) => {
      for (const op of layer.decode({ hidden, out, step: placeholder })) pass.encode(op);
    });
    return { placeholder, plan, hidden, out };
  };

  test("a replay needs a fitting step, and counts as written", () => {
    using pool = StatePool.create(device, { slots: 3, layers: 1, ...layer.stateShape });
    using other = StatePool.create(device, { slots: 3, layers: 1, ...layer.stateShape });
    const { plan } = decode(pool, 1);
    const [a, b, c] = [pool.allocate(), pool.allocate(), other.allocate()];
    const refused = (step: unknown) => thrownBy(() => plan.run({ step } as never));
    expect(refused(undefined).argument).toBe("step");
    expect(refused({}).argument).toBe("step");
    const [two, foreign, kept] = [pool.step([a, b]), other.step([c]), undefined];
    expect([refused(two).code, refused(foreign).argument, kept]).toEqual(["shape", "step", undefined]);
    two.abort();
    const step = pool.step([a]);
    plan.run({ step });
    expect(refused(step).message).toContain("already");
    step.done();
    expect(refused(step).code).toBe("state");
    expect(thrownBy(() => plan.run({ steps: step } as never)).argument).toBe("steps");
    pool.run([b], plan);
    expect(a.slot).not.toBe(b.slot);
    const marked = pool.step([a], { checkpoints: [[1]] });
    expect(refused(marked).argument).toBe("step");
    marked.abort();
    using plain = device.plan(() => {});
    expect(thrownBy(() => plain.run({ step: pool.step([a]) })).argument).toBe("step");
    foreign.abort();
    plan[Symbol.dispose]();
  });

  test("a placeholder is for plans, a step is not; one placeholder a plan, one write a layer", () => {
    using pool = StatePool.create(device, { slots: 2, layers: 1, ...layer.stateShape });
    const [hidden, out] = [rows(1), rows(1)];
    const ops = (step: ReturnType<StatePool["placeholder"]> | PoolStep) => layer.decode({ hidden, out, step });
    const first = pool.placeholder(1);
    expect(thrownBy(() => device.run(...ops(first))).argument).toBe("states");
    const step = pool.step([pool.allocate()]);
    const recorded = (...lists: Op[][]) => thrownBy(() => device.plan((pass) => lists.flat().forEach((op) => pass.encode(op))));
    expect(recorded(ops(step)).argument).toBe("states");
    expect(recorded(ops(first), ops(first)).code).toBe("state");
    expect(recorded(ops(first), ops(pool.placeholder(1))).argument).toBe("states");
    for (const n of [0, 3, 1.5]) expect(["range", "invalid-argument"]).toContain(thrownBy(() => pool.placeholder(n)).code);
    step.abort();
  });

  test("a plan that leaves a layer out is refused by pool.run before it runs", () => {
    using pool = StatePool.create(device, { slots: 2, layers: 2, ...layer.stateShape });
    using first = GatedDeltaNet.load(device, writeLayer(smallConfig, weights, "f32"), { layer: 0, poolLayer: 0 });
    const placeholder = pool.placeholder(1);
    using plan = device.plan((pass) => first.decode({ hidden: rows(1), out: rows(1), step: placeholder }).forEach((op) => pass.encode(op)));
    const handle = pool.allocate();
    const ticket = device.lastTicket;
    expect(failureOf(() => pool.run([handle], plan)).message).toContain("the state of layer 1");
    expect([device.lastTicket, handle.slot]).toEqual([ticket, -1]);
  });
});

test("pools of these sizes hold what the helpers say", () => {
  expect([sizes.layers, channels]).toEqual([2, 32]);
});
