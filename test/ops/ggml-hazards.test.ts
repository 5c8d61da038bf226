/**
 * Which slot a sequence reads and which it writes: swaps, rotations, fan-outs, sources inside and outside the written
 * slots, fresh starts over NaN. Results have the bits of each sequence alone on a copy of the cache.
 */
import { expect, test } from "bun:test";
import { gatedDeltaNetInplace, gatedDeltaNetInplaceIds, ssmConvUpdateInplace, ssmConvUpdateInplaceIds } from "../../lib/ggml.ts";
import { gatedDelta } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import { rows } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { thrownBy } from "../support/devices.ts";
import { buildNet, buildUpdate, judgeNet, judgeUpdate, runNet, runUpdate } from "../support/ggml-runs.ts";
import type { GatedDeltaNetCase, SsmConvUpdateCase } from "../reference/ggml.ts";
import { Random } from "../support/random.ts";

/** Sources by name, for four sequences that write the slots 2 to 5 of 8. */
const sources: Readonly<Record<string, readonly number[]>> = {
  identity: [2, 3, 4, 5],
  swap: [3, 2, 5, 4],
  rotate: [3, 4, 5, 2],
  "rotate back": [5, 2, 3, 4],
  "fan-out from inside": [4, 4, 4, 4],
  "fan-out from the first": [2, 2, 2, 2],
  "fan-out from outside": [7, 7, 7, 7],
  outside: [0, 1, 6, 7],
  chain: [0, 2, 3, 4],
  "chain back": [3, 4, 5, 6],
  fresh: [-1, -1, -1, -1],
  "fresh and fan-out": [3, -1, 3, -1],
};

/** One sequence of a case, alone. */
function aloneNet(given: GatedDeltaNetCase, s: number): GatedDeltaNetCase {
  const one = <T extends keyof GatedDeltaNetCase>(key: T) => rows(given[key] as never, s, s + 1);
  const { cache, decayFormat } = given;
  return { q: one("q"), k: one("k"), v: one("v"), gate: one("gate"), beta: one("beta"), cache, decayFormat, ids: [given.ids![s]!], rsHead: given.rsHead + s };
}

function slotOf(cache: Float32Array<ArrayBuffer>, slots: number, slot: number): Float32Array {
  const size = cache.length / slots;
  return cache.slice(slot * size, (slot + 1) * size);
}

/** Runs a case and each of its sequences alone, which must give the same bits; the slots that nothing writes stay. */
function expectAsAlone(device: Device, given: GatedDeltaNetCase): void {
  const slots = given.cache.shape[0]!;
  const result = runNet(device, given);
  const before = Float32Array.from(given.cache.data);
  const written = given.ids!.map((_, s) => given.rsHead + s);
  for (const s of given.ids!.keys()) {
    const alone = runNet(device, aloneNet(given, s));
    const size = alone.out.length;
    expect(result.out.slice(s * size, (s + 1) * size)).toEqual(alone.out);
    expect(slotOf(result.cache, slots, written[s]!)).toEqual(slotOf(alone.cache, slots, written[s]!));
  }
  for (let slot = 0; slot < slots; slot++) {
    if (!written.includes(slot)) expect(slotOf(result.cache, slots, slot)).toEqual(slotOf(before, slots, slot));
  }
}

onEachBackend("slots of the fused ops", ({ device, emulated }) => {
  const tokens = emulated ? 2 : 5;
  const sizes = { keyHeads: 2, dim: 16, tokens, sequences: 4, slots: 8, rsHead: 2, repeat: 2 };

  test.each(Object.keys(sources))("the recurrence: %s", (name) => {
    const ids = sources[name]!;
    for (const kda of [false, true]) {
      const given = buildNet({ ...sizes, kda, ids, keep: 3, remember: true });
      judgeNet(given, runNet(device, given));
      expectAsAlone(device, buildNet({ ...sizes, kda, ids, remember: true }));
    }
  });

  test.each(Object.keys(sources))("the convolution: %s", (name) => {
    for (const width of [2, 3, 4, 9]) {
      const given = buildUpdate({ width, channels: 24, sequences: 4, cells: 8, rsHead: 2, ids: sources[name]!, silu: width !== 3 });
      judgeUpdate(given, runUpdate(device, given));
    }
  });

  test("random sources, inside and outside", () => {
    const random = new Random(11);
    for (let round = 0; round < (emulated ? 4 : 40); round++) {
      const sequences = 1 + random.below(5);
      const slots = sequences + random.below(4);
      const ids = Array.from({ length: sequences }, () => random.below(slots + 1) - 1);
      const rsHead = random.below(slots - sequences + 1);
      const common = { sequences, ids, rsHead };
      const net = buildNet({ ...common, keyHeads: 1, dim: 8, tokens: 1 + random.below(3), slots, kda: random.below(2) === 1, keep: 2, remember: true }, round);
      judgeNet(net, runNet(device, net));
      const update = buildUpdate({ ...common, width: 2 + random.below(8), channels: 8, cells: slots, silu: random.below(2) === 1 }, round);
      judgeUpdate(update, runUpdate(device, update));
    }
  });

  test("a fresh start is zeros by store: NaN in the slot and in the rest of the cache does not survive", () => {
    const ids = [-1, -1, -1, -1];
    const given = buildNet({ ...sizes, ids, remember: true });
    const poisoned = { ...given, cache: { ...given.cache, data: given.cache.data.map(() => NaN) } };
    const result = runNet(device, poisoned);
    const clean = runNet(device, given);
    expect(result.out).toEqual(clean.out);
    for (let slot = 2; slot < 6; slot++) expect(slotOf(result.cache, 8, slot)).toEqual(slotOf(clean.cache, 8, slot));
    const update = buildUpdate({ width: 4, channels: 16, sequences: 4, cells: 8, rsHead: 2, ids });
    const ring: SsmConvUpdateCase = { ...update, cache: { ...update.cache, data: update.cache.data.map(() => NaN) } };
    const after = runUpdate(device, ring);
    expect(after.out).toEqual(runUpdate(device, update).out);
    for (let cell = 2; cell < 6; cell++) expect(slotOf(after.cache, 8, cell).some(Number.isNaN)).toBe(false);
  });

  test("a destination that is the state's own range, or apart from it", () => {
    const given = buildNet({ keyHeads: 1, dim: 32, tokens, sequences: 3, slots: 5, rsHead: 1, remember: true, keep: 2 });
    const inPlace = runNet(device, given);
    const apart = runNet(device, given, true);
    judgeNet(given, inPlace);
    judgeNet(given, apart);
    expect(apart).toEqual(inPlace);
  });

  test("every dim has the scale of the general op: equal bits", () => {
    // float32's 1 / √S is off by one rounding at 24, 72, 96, 112, 136 and 232.
    for (const dim of emulated ? [24, 96] : Array.from({ length: 32 }, (_, i) => 8 * (i + 1))) {
      const given = buildNet({ keyHeads: 1, dim, tokens: 1, sequences: 1, repeat: 1, remember: true });
      using stack = new DisposableStack();
      const place = ({ shape, data }: { shape: readonly number[]; data: Float64Array }) => stack.use(device.tensorFrom("f32", shape, data));
      const one = ({ shape, data }: { shape: readonly number[]; data: Float64Array }) => place({ shape: [1, ...shape.slice(2)], data });
      const out = stack.use(device.tensor("f32", [1, 1, dim]));
      device.run(gatedDelta({
        query: one(given.q), key: one(given.k), value: one(given.v), gate: one(given.gate), beta: one(given.beta),
        state: place(given.cache), out, gateForm: "log", headMap: "tiled",
      }));
      device.wait();
      expect([dim, runNet(device, given).out]).toEqual([dim, out.data.slice()]);
    }
  });

  test("ids, rsHead and destinations that can't be are refused, and nothing is written", () => {
    const given = buildNet({ ...sizes, keep: 2 });
    using stack = new DisposableStack();
    const place = ({ shape, data }: { shape: readonly number[]; data: Float64Array }) => stack.use(device.tensorFrom("f32", shape, data));
    const out = stack.use(device.tensor("f32", given.v.shape));
    const [q, k, v, gate, beta, cache, snapshots] = [given.q, given.k, given.v, given.gate, given.beta, given.cache, given.snapshots!].map(place);
    const net = { q: q!, k: k!, v: v!, gate: gate!, beta: beta!, snapshots, out };
    const update = buildUpdate({ width: 4, channels: 8, sequences: 4, cells: 8 });
    const ring = place(update.cache);
    const conv = { weight: place(update.weight), x: place(update.x), silu: true, out: stack.use(device.tensor("f32", [4, 8])) };
    const before = [cache!, snapshots!, out, ring, conv.out].map((tensor) => tensor.data.slice());

    for (const [ids, rsHead, code, argument] of [
      [[0, 1, 2, 8], 0, "range", "ids[3]"],
      [[0, -2, 2, 3], 0, "range", "ids[1]"],
      [[0, 1, 2, 2 ** 31 - 1], 0, "range", "ids[3]"],
      [[0, 1, 2, 3], 5, "range", "rsHead"],
      [[0, 1, 2, 3], -1, "range", "rsHead"],
      [[0, 1, 2, 3], 0.5, "invalid-argument", "rsHead"],
      [[0, 1, 2], 0, "shape", "ids"],
    ] as const) {
      for (const op of [
        () => gatedDeltaNetInplaceIds({ ...net, cache: cache!, ids, rsHead }),
        () => ssmConvUpdateInplaceIds({ ...conv, convCache: ring, ids, rsHead }),
      ]) {
        const error = thrownBy(() => device.run(op()));
        expect([error.code, error.argument]).toEqual([code, argument]);
      }
    }
    for (const [at, to] of [[0, 1], [1, 2], [3, 0]] as const) {
      const part = (start: number) => ({ net: cache!.slice(start, start + 4), conv: ring.slice(start, start + 4) });
      const refused = [
        () => gatedDeltaNetInplace({ ...net, state: part(at).net, stateDst: part(to).net }),
        () => ssmConvUpdateInplace({ ...conv, convStates: part(at).conv, convStateDst: part(to).conv }),
      ];
      for (const op of refused) expect(thrownBy(() => device.run(op())).code).toBe("overlap");
    }
    device.wait();
    expect([cache!, snapshots!, out, ring, conv.out].map((tensor) => tensor.data)).toEqual(before);
  });

  test("in plans, ids are read anew at every replay", () => {
    const given = buildNet({ ...sizes, remember: true });
    using stack = new DisposableStack();
    const place = ({ shape, data }: { shape: readonly number[]; data: Float64Array }) => stack.use(device.tensorFrom("f32", shape, data));
    const cache = place(given.cache);
    const out = stack.use(device.tensor("f32", given.v.shape));
    const args = { q: place(given.q), k: place(given.k), v: place(given.v), gate: place(given.gate), beta: place(given.beta), out };
    const ids = Int32Array.of(0, 1, 6, 7);
    using plan = device.plan((pass) => pass.gatedDeltaNetInplaceIds({ ...args, cache, ids, rsHead: 2 }));
    for (const list of [[0, 1, 6, 7], [3, 2, 5, 4], [-1, 2, 2, 0]]) {
      ids.set(list);
      const now = { ...given, cache: { shape: cache.shape, data: Float64Array.from(cache.data) }, ids: list };
      plan.run();
      device.wait();
      judgeNet(now, { out: out.data.slice(), cache: cache.data.slice(), snapshots: undefined });
    }
    ids[2] = 8;
    expect(thrownBy(() => plan.run()).code).toBe("range");
  });
});
