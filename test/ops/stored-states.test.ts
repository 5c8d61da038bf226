/**
 * States that an op stores besides the final ones, that it reads from elsewhere, and that are committed from records:
 * each has the bits that simpler calls give, in every kernel.
 */
import { expect, test } from "bun:test";
import { causalConv1d, commitCausalConv1d, commitGatedDelta, gatedDelta } from "../../lib/index.ts";
import type { Device, DType, Tensor } from "../../lib/index.ts";
import { onEachBackend } from "../support/backends.ts";
import { thrownBy } from "../support/devices.ts";
import { buildCausalConv1d, buildGatedDelta, cuSeqlensOf } from "../support/cases.ts";
import { expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";

type Format = "f32" | "f16" | "bf16";

/** The tokens of each sequence after which a state is stored: all of a short sequence, block edges of a long one. */
const positionsOf = (length: number) =>
  length < 8 ? Array.from({ length: length + 1 }, (_, t) => t) : [length, 0, 17, 1, 16, 15].filter((t) => t <= length);

/** Checkpoints of every sequence, to slots from `first` on. */
function checkpointsOf(lengths: readonly number[], first: number) {
  const [offsets, tokens, slots]: number[][] = [[0], [], []];
  for (const length of lengths) {
    for (const t of new Set(positionsOf(length))) {
      tokens!.push(t);
      slots!.push(first + slots!.length);
    }
    offsets!.push(tokens!.length);
  }
  return { offsets: offsets!, tokens: tokens!, slots: slots! };
}

const bits = (tensor: Tensor, slot: number) => tensor.slice(slot, slot + 1).toFloat32();

/** An op over part of its tokens, on a pool. */
type Run = (rows: readonly [number, number], pool: Tensor, slot: number) => void;

/** Checks every stored state of a run against runs of that many tokens. */
function checkStores(
  device: Device, lengths: readonly number[], reads: readonly number[], before: Tensor, after: Tensor,
  snapshots: Tensor, snapshotSlots: readonly number[], checkpoints: ReturnType<typeof checkpointsOf>, run: Run,
) {
  const K = snapshots.shape[0]!;
  const starts = cuSeqlensOf(lengths);
  const untouched = new Float32Array(bits(after, 0).length).fill(7);
  for (const [s, length] of lengths.entries()) {
    const kept = checkpoints.tokens.slice(checkpoints.offsets[s], checkpoints.offsets[s + 1]);
    const expected = (tokens: number) => {
      using pool = device.tensor(before.dtype, [1, ...before.shape.slice(1)]);
      if (reads[s]! >= 0) pool.copyFrom(before.slice(reads[s]!, reads[s]! + 1));
      run([starts[s]!, starts[s]! + tokens], pool, 0);
      device.wait();
      return bits(pool, 0);
    };
    for (const [i, tokens] of kept.entries()) {
      const slot = checkpoints.slots[checkpoints.offsets[s]! + i]!;
      expectSameBits(`sequence ${s} after ${tokens}`, bits(after, slot), expected(tokens));
    }
    for (let j = 0; j < K; j++) {
      const entry = snapshots.view({ offset: (j * lengths.length + s) * untouched.length, shape: [untouched.length] }).toFloat32();
      expectSameBits(`snapshot ${j} of sequence ${s}`, entry, j < length ? expected(length - j) : untouched);
      const slot = snapshotSlots[s * K + j]!;
      if (slot >= 0) expectSameBits(`snapshot ${j} of sequence ${s} in slot ${slot}`, bits(after, slot), j < length ? expected(length - j) : untouched);
    }
  }
}

const deltaSpec = {
  seed: 71, keyHeads: 2, ratio: 2, gateForm: "raw", betaForm: "sigmoid", headMap: "tiled", qkNorm: "l2", scale: undefined,
  gatesF32: false, weightFormat: "f32", outFormat: "f32",
} as const;

const deltaCases = [
  { keyDim: 24, valueDim: 40, stateFormat: "f32", gateDims: "head", format: "f32", lengths: [3, 0, 5] },
  { keyDim: 64, valueDim: 8, stateFormat: "f16", gateDims: "key", format: "f16", lengths: [4, 1, 0] },
  { keyDim: 128, valueDim: 16, stateFormat: "bf16", gateDims: "head", format: "bf16", lengths: [2, 0, 1] },
  { keyDim: 24, valueDim: 24, stateFormat: "bf16", gateDims: "key", format: "f32", lengths: [20, 0, 3] },
  { keyDim: 64, valueDim: 40, stateFormat: "f32", gateDims: "head", format: "bf16", lengths: [2, 33, 1] },
  { keyDim: 128, valueDim: 8, stateFormat: "f32", gateDims: "key", format: "f32", lengths: [18, 1, 0] },
] as const;

onEachBackend("stored states", ({ name, device }) => {
  const algorithms = name === "cpu" ? (["recurrent", "chunked"] as const) : (["recurrent"] as const);

  /** A recurrence's tensors except for the pool, which the caller provides. */
  function deltaOf(given: (typeof deltaCases)[number]) {
    const { lengths } = given;
    const spec = { ...deltaSpec, ...given, batch: { lengths, rowsBeyond: 1, slots: 4, readSlots: [0, 1, -1], writeSlots: [0, 1, 2] } };
    const built = buildGatedDelta(spec);
    const make = (format: DType, { shape, data }: { shape: readonly number[]; data: ArrayLike<number> }) => device.tensorFrom(format, shape, data);
    const raw = spec.format;
    const rows = {
      query: make(spec.format, built.query), key: make(spec.format, built.key), value: make(spec.format, built.value),
      gate: make(raw, built.gate), beta: make(raw, built.beta), out: device.tensor("f32", built.value.shape),
    };
    const options = {
      aLog: make("f32", built.aLog!), dtBias: make("f32", built.dtBias!), gateForm: spec.gateForm, gateDims: spec.gateDims,
      betaForm: spec.betaForm, headMap: spec.headMap, qkNorm: spec.qkNorm,
    };
    const part = (from: number, to: number) =>
      Object.fromEntries(Object.entries(rows).map(([argument, tensor]) => [argument, tensor.slice(from, to)])) as typeof rows;
    const slotShape = [built.value.shape[1]!, spec.valueDim, spec.keyDim];
    /** A pool of random states; slots from 3 on hold 7. */
    const poolOf = (slots: number) => {
      const random = new Random(5);
      const size = slotShape.reduce((a, b) => a * b);
      const pool = device.tensorFrom(spec.stateFormat, [slots, ...slotShape], Array.from({ length: slots * size }, (_, i) => (i < 3 * size ? random.uniform(-0.5, 0.5) : 7)));
      return pool;
    };
    return { rows, options, part, poolOf, slotShape, starts: cuSeqlensOf(lengths), tokens: built.query.shape[0]!, heads: built.query.shape[1]! };
  }

  for (const algorithm of algorithms) {
    test.each(deltaCases)(`${algorithm}: keyDim $keyDim, $stateFormat, gates per $gateDims, $lengths tokens: what shorter calls end with`, (given) => {
      const { rows, options, part, poolOf, slotShape, starts } = deltaOf(given);
      const { lengths, stateFormat } = given;
      const K = 3;
      const snapshotSlots = [3, -1, 4, 5, 6, -1, -1, 7, 8];
      const checkpoints = checkpointsOf(lengths, 9);
      const state = poolOf(9 + checkpoints.slots.length);
      const before = poolOf(3);
      const snapshots = device.tensorFrom(stateFormat, [K, 3, ...slotShape], new Float32Array(K * 3 * slotShape.reduce((a, b) => a * b)).fill(7));
      device.run(gatedDelta({
        ...rows, ...options, state, algorithm, snapshots, snapshotSlots, checkpoints, cuSeqlens: starts,
        readSlots: [1, 0, -1], writeSlots: [0, 1, 2],
      }));
      device.wait();
      checkStores(device, lengths, [1, 0, -1], before, state, snapshots, snapshotSlots, checkpoints, ([from, to], pool, slot) =>
        device.run(gatedDelta({ ...part(from, to), ...options, state: pool, algorithm, readSlots: [slot] })));
    });
  }

  test.each(deltaCases)("keyDim $keyDim, $stateFormat, $lengths tokens: a source is read, and only read", (given) => {
    const { rows, options, poolOf, starts } = deltaOf(given);
    const batch = { cuSeqlens: starts, readSlots: [2, -1, 2], writeSlots: [0, 2, 1] };
    const [plain, pool, source] = [poolOf(3), device.tensor(given.stateFormat, poolOf(3).shape), poolOf(3)];
    for (const algorithm of algorithms) {
      plain.copyFrom(source);
      pool.copyFrom(new Float32Array(pool.size).fill(NaN));
      device.run(gatedDelta({ ...rows, ...options, ...batch, state: plain, algorithm }));
      device.wait();
      const out = rows.out.toFloat32();
      device.run(gatedDelta({ ...rows, ...options, ...batch, state: pool, source, algorithm }));
      device.wait();
      expectSameBits("out", rows.out.toFloat32(), out);
      expectSameBits("state", pool.toFloat32(), plain.toFloat32());
      expectSameBits("source", source.toFloat32(), poolOf(3).toFloat32());
    }
    // By default a final state is written to the slot of the source's number, which the smaller pool lacks.
    const small = device.tensor(given.stateFormat, [1, ...pool.shape.slice(1)]);
    const op = gatedDelta({ ...rows, ...options, cuSeqlens: starts, readSlots: [0, 2, -1], state: small, source });
    expect(thrownBy(() => device.run(op))).toMatchObject({ code: "range", argument: "writeSlots[1]", received: "2" });
  });

  test.each(deltaCases)("keyDim $keyDim, $stateFormat, gates per $gateDims, $lengths tokens: a commit is as many steps", (given) => {
    const { rows, options, part, poolOf, starts, tokens, heads } = deltaOf(given);
    const { lengths, keyDim, valueDim, gateDims, stateFormat } = given;
    const valueHeads = rows.value.shape[1]!;
    const records = {
      key: device.tensor("f32", [tokens, heads, keyDim]), delta: device.tensor("f32", [tokens, valueHeads, valueDim]),
      decay: device.tensor("f32", gateDims === "key" ? [tokens, valueHeads, keyDim] : [tokens, valueHeads]),
    };
    const readSlots = [1, 0, -1];
    const state = poolOf(3);
    device.run(gatedDelta({ ...rows, ...options, state, cuSeqlens: starts, readSlots, writeSlots: [-1, -1, -1] }));
    device.wait();
    const out = rows.out.toFloat32();
    device.run(gatedDelta({ ...rows, ...options, state, records, cuSeqlens: starts, readSlots, writeSlots: [-1, -1, -1] }));
    device.wait();
    expectSameBits("out", rows.out.toFloat32(), out);
    expectSameBits("a verified state", state.toFloat32(), poolOf(3).toFloat32());
    for (const share of [1, 0.5, 0]) {
      const counts = lengths.map((length) => Math.ceil(length * share));
      // A swap of 0 and 1, and a new state.
      state.copyFrom(poolOf(3));
      device.run(commitGatedDelta({ records, state, headMap: "tiled", cuSeqlens: starts, counts, readSlots, writeSlots: [0, 1, 2] }));
      for (const [s, count] of counts.entries()) {
        const pool = device.tensor(stateFormat, [1, ...state.shape.slice(1)]);
        if (readSlots[s]! >= 0) pool.copyFrom(poolOf(3).slice(readSlots[s]!, readSlots[s]! + 1));
        // A 16-bit state is rounded once per call.
        const calls = stateFormat === "f32" ? Array.from({ length: count }, () => 1) : [count];
        let at = starts[s]!;
        for (const call of calls) {
          device.run(gatedDelta({ ...part(at, at + call), ...options, state: pool }));
          at += call;
        }
        device.wait();
        expectSameBits(`sequence ${s} after ${count}`, bits(state, s), bits(pool, 0));
      }
    }
  });

  test("a store into what its own or another sequence reads comes after the read", () => {
    for (const stateFormat of ["f32", "bf16"] as const) {
      for (const algorithm of algorithms) {
        const { rows, options, poolOf, starts } = deltaOf({ ...deltaCases[3], stateFormat: stateFormat as never });
        const results = [[0, 1], [3, 4]].map((slots) => {
          const state = poolOf(7);
          device.run(gatedDelta({
            ...rows, ...options, state, algorithm, cuSeqlens: starts, readSlots: [0, -1, 1], writeSlots: [5, -1, 6],
            checkpoints: { offsets: [0, 2, 2, 2], tokens: [17, 1], slots },
          }));
          device.wait();
          return [rows.out.toFloat32(), ...[...slots, 5, 6].map((slot) => bits(state, slot))];
        });
        for (const [i, result] of results[0]!.entries()) expectSameBits(`${algorithm} ${i}`, result, results[1]![i]!);
      }
    }
  });

  const convCases = [
    { width: 2, format: "f32", stateFormat: "f32", lengths: [3, 0, 1] },
    { width: 4, format: "bf16", stateFormat: "bf16", lengths: [40, 2, 0] },
    { width: 9, format: "f16", stateFormat: "f32", lengths: [5, 20, 7] },
  ] as const satisfies readonly { width: number; format: Format; stateFormat: Format; lengths: readonly number[] }[];

  test.each(convCases)("conv of width $width, $format with $stateFormat states: stores, a source, commits", ({ width, format, stateFormat, lengths }) => {
    const channels = 150;
    const built = buildCausalConv1d({
      seed: 8, channels, width, bias: true, activation: "silu", format, weightFormat: "f32", stateFormat, outFormat: "f32",
      batch: { lengths, rowsBeyond: 1, slots: 0, readSlots: [-1, -1, -1], writeSlots: [-1, -1, -1] },
    });
    const x = device.tensorFrom(format, built.x.shape, built.x.data);
    const out = device.tensor("f32", built.x.shape);
    const filters = { weight: device.tensorFrom("f32", built.weight.shape, built.weight.data), bias: device.tensorFrom("f32", built.bias!.shape, built.bias!.data), activation: "silu" as const };
    const starts = cuSeqlensOf(lengths);
    const slot = [channels, width - 1];
    const size = channels * (width - 1);
    const poolOf = (slots: number) => {
      const random = new Random(6);
      // A state holds values of x.
      const from = device.tensorFrom(format, [3 * size], Array.from({ length: 3 * size }, () => random.uniform(-1, 1))).toFloat32();
      return device.tensorFrom(stateFormat, [slots, ...slot], Array.from({ length: slots * size }, (_, i) => from[i] ?? 7));
    };
    const readSlots = [1, 0, -1];
    const run: Run = ([from, to], pool, at) => device.run(causalConv1d({ x: x.slice(from, to), out: out.slice(from, to), ...filters, state: pool, readSlots: [at] }));

    const snapshotSlots = [3, -1, 4, 5, 6, -1, -1, 7, 8];
    const checkpoints = checkpointsOf(lengths, 9);
    const state = poolOf(9 + checkpoints.slots.length);
    const snapshots = device.tensorFrom(stateFormat, [3, 3, ...slot], new Float32Array(9 * size).fill(7));
    device.run(causalConv1d({ x, out, ...filters, state, snapshots, snapshotSlots, checkpoints, cuSeqlens: starts, readSlots, writeSlots: [0, 1, 2] }));
    device.wait();
    checkStores(device, lengths, readSlots, poolOf(3), state, snapshots, snapshotSlots, checkpoints, run);

    const [plain, pool, source] = [poolOf(3), device.tensor(stateFormat, [3, ...slot]), poolOf(3)];
    pool.copyFrom(new Float32Array(3 * size).fill(NaN));
    device.run(causalConv1d({ x, out, ...filters, state: plain, cuSeqlens: starts, readSlots, writeSlots: [0, 1, 2] }));
    device.wait();
    const outs = out.toFloat32();
    device.run(causalConv1d({ x, out, ...filters, state: pool, source, cuSeqlens: starts, readSlots, writeSlots: [0, 1, 2] }));
    device.wait();
    expectSameBits("out", out.toFloat32(), outs);
    expectSameBits("state", pool.toFloat32(), plain.toFloat32());

    // A store into the slot that its own sequence reads comes after the read.
    const results = [0, 3].map((stored) => {
      const own = poolOf(4);
      const store = { offsets: [0, 0, 1, 1], tokens: [lengths[1]!], slots: [stored] };
      device.run(causalConv1d({ x, out, ...filters, state: own, checkpoints: store, cuSeqlens: starts, readSlots, writeSlots: [-1, 2, -1] }));
      device.wait();
      return [out.toFloat32(), bits(own, stored), bits(own, 2)];
    });
    for (const [i, result] of results[0]!.entries()) expectSameBits(`stored in its own slot, ${i}`, result, results[1]![i]!);

    for (const share of [1, 0.5, 0]) {
      const counts = lengths.map((length) => Math.ceil(length * share));
      const committed = poolOf(3);
      device.run(commitCausalConv1d({ x, state: committed, cuSeqlens: starts, counts, readSlots, writeSlots: [0, 1, 2] }));
      for (const [s, count] of counts.entries()) {
        const steps = device.tensor(stateFormat, [1, ...slot]);
        if (readSlots[s]! >= 0) steps.copyFrom(poolOf(3).slice(readSlots[s]!, readSlots[s]! + 1));
        for (let t = 0; t < count; t++) run([starts[s]! + t, starts[s]! + t + 1], steps, 0);
        device.wait();
        expectSameBits(`sequence ${s} after ${count}`, bits(committed, s), bits(steps, 0));
      }
    }
  });

  test("snapshots need no pool", () => {
    const { rows, options, poolOf, slotShape, starts } = deltaOf(deltaCases[0]);
    const snapshots = device.tensor("f32", [1, 3, ...slotShape]);
    const state = poolOf(3);
    device.run(
      gatedDelta({ ...rows, ...options, snapshots, cuSeqlens: starts }),
      gatedDelta({ ...rows, ...options, state, cuSeqlens: starts, readSlots: [-1, -1, -1], writeSlots: [0, 1, 2] }),
    );
    device.wait();
    const whole = snapshots.toFloat32();
    const size = whole.length / 3;
    for (const s of [0, 2]) expectSameBits(`${s}`, whole.slice(s * size, (s + 1) * size), bits(state, s));
    expect(whole.subarray(size, 2 * size).every((value) => value === 0)).toBe(true);
  });
});
