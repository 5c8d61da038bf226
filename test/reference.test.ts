import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { encode, toFloat32 } from "../lib/tensor/dtype.ts";
import { causalConv1d } from "./reference/causal-conv1d.ts";
import { gatedDelta } from "./reference/gated-delta.ts";
import { gatedRmsNorm } from "./reference/gated-rms-norm.ts";
import { gatedDeltaNet, ssmConvUpdate } from "./reference/ggml.ts";
import { mix, projectInterleaved, projectSplit } from "./reference/layer.ts";
import type { LayerConfig } from "./reference/layer.ts";
import { round } from "./reference/rounding.ts";
import { reference, rows } from "./reference/tensor.ts";
import type { Reference } from "./reference/tensor.ts";
import { bitsEqual, bounds, relRms } from "../lib/cli/verify/compare.ts";
import {
  goldenFiles,
  loadCausalConv,
  loadFusedConv,
  loadFusedGdn,
  loadGatedDelta,
  loadGatedRmsNorm,
  loadLayer,
} from "./support/golden.ts";

/** float64 against float64, each summing in its own order. */
const sameNumbers = 1e-12;

function agree(ours: Reference | undefined, golden: Reference | undefined): void {
  expect(ours?.shape).toEqual(golden?.shape);
  expect(relRms(ours?.data ?? [], golden?.data ?? [])).toBeLessThan(sameNumbers);
}

describe("the reference gives the golden files' float64 results", () => {
  test.each(goldenFiles("gated-delta").map(loadGatedDelta))("$name", (golden) => {
    const given = { ...golden, state: golden.stateIn, gateForm: "log" } as const;
    const { out, state } = gatedDelta({ ...given, out: undefined });
    agree(out, golden.out);
    agree(state, golden.stateOut);
    // transformers' own float32 results are close, too: layouts and heads are those of the file.
    expect(relRms(golden.outRecurrentF32.data, out.data)).toBeLessThan(1e-5);
    expect(relRms(golden.outChunkF32.data, out.data)).toBeLessThan(1e-5);
    expect(relRms(golden.stateChunkF32.data, state!.data)).toBeLessThan(1e-5);
  });

  test.each(goldenFiles("causal-conv").map(loadCausalConv))("$name", (golden) => {
    const { out, state } = causalConv1d({ ...golden, state: golden.stateIn, out: undefined });
    agree(out, golden.out);
    expect(bitsEqual(state!.data, golden.stateOut.data)).toBe(true);
  });

  test.each(goldenFiles("gated-rmsnorm").map(loadGatedRmsNorm))("$name", (golden) => {
    const out = gatedRmsNorm(golden);
    agree(out, golden.out);
    expect(relRms(golden.outHfF32.data, out.data)).toBeLessThan(bounds[golden.format]);
  });

  test.each(goldenFiles("fused-gdn").map(loadFusedGdn))("$name", (golden) => {
    const after = gatedDeltaNet({ ...golden, cache: golden.cacheBefore, snapshots: golden.snapshotsBefore });
    agree(after.out, golden.out);
    agree(after.cache, golden.cacheAfter);
    agree(after.snapshots, golden.snapshots);
  });

  test.each(goldenFiles("fused-conv").map(loadFusedConv))("$name", (golden) => {
    const after = ssmConvUpdate({ ...golden, cache: golden.cacheBefore });
    agree(after.out, golden.out);
    expect(bitsEqual(after.cache.data, golden.cacheAfter.data)).toBe(true);
  });
});

describe("a layer", () => {
  const layers = goldenFiles("layer").map(loadLayer);
  const configOf = (config: Readonly<Record<string, number>>): LayerConfig => ({
    keyHeads: config["linear_num_key_heads"]!,
    valueHeads: config["linear_num_value_heads"]!,
    keyDim: config["linear_key_head_dim"]!,
    valueDim: config["linear_value_head_dim"]!,
    normEps: config["rms_norm_eps"]!,
    outputGate: "silu",
  });

  test.each(layers)("$name: what transformers computes in float32", (golden) => {
    const config = configOf(golden.config);
    const weights = (name: string) => golden.weights.get(name)!;
    const { out } = mix(projectSplit(golden.hidden, weights), weights, config, { cuSeqlens: golden.cuSeqlens });
    expect(out.shape).toEqual(golden.out.shape);
    expect(relRms(golden.out.data, out.data)).toBeLessThan(2e-6);
  });

  test("interleaved projections are the split ones in another order", () => {
    const golden = layers[0]!;
    const config = configOf(golden.config);
    const split = (name: string) => golden.weights.get(name)!;
    const hidden = rows(golden.hidden, 0, 5);
    const { keyHeads, valueHeads, keyDim, valueDim } = config;
    const ratio = valueHeads / keyHeads;
    const qkv = split("in_proj_qkv.weight");
    const stack = (parts: Reference[]) => {
      const data = parts.flatMap((part) => [...part.data]);
      return reference([data.length / hidden.shape[1]!, hidden.shape[1]!], data);
    };
    const qkvz = [];
    const ba = [];
    for (let h = 0; h < keyHeads; h++) {
      const values = 2 * keyHeads * keyDim + h * ratio * valueDim;
      qkvz.push(
        rows(qkv, h * keyDim, (h + 1) * keyDim),
        rows(qkv, (keyHeads + h) * keyDim, (keyHeads + h + 1) * keyDim),
        rows(qkv, values, values + ratio * valueDim),
        rows(split("in_proj_z.weight"), h * ratio * valueDim, (h + 1) * ratio * valueDim),
      );
      ba.push(rows(split("in_proj_b.weight"), h * ratio, (h + 1) * ratio));
      ba.push(rows(split("in_proj_a.weight"), h * ratio, (h + 1) * ratio));
    }
    const packed: Record<string, Reference> = { "in_proj_qkvz.weight": stack(qkvz), "in_proj_ba.weight": stack(ba) };
    const interleaved = projectInterleaved(hidden, (name) => packed[name]!, config);
    expect(interleaved).toEqual(projectSplit(hidden, split));
  });
});

describe("what no golden file has", () => {
  const numbers = (shape: number[], seed: number) => {
    const out = reference(shape);
    out.data.forEach((_, i) => (out.data[i] = Math.sin(seed + i * 1.7) * 0.9));
    return out;
  };
  const small = () => ({
    query: numbers([7, 1, 8], 1),
    key: numbers([7, 1, 8], 2),
    value: numbers([7, 2, 8], 3),
    gate: numbers([7, 2], 4),
    beta: numbers([7, 2], 5),
    state: numbers([4, 2, 8, 8], 6),
  });

  test("a step written out by hand", () => {
    // One head with two key and two value dimensions, in numbers that can be followed by hand.
    const { out, state } = gatedDelta({
      query: reference([1, 1, 2], [1, 2]),
      key: reference([1, 1, 2], [3, 4]),
      value: reference([1, 1, 2], [10, 20]),
      gate: reference([1, 1], [0.5]),
      beta: reference([1, 1], [0.25]),
      state: reference([1, 1, 2, 2], [2, 4, 6, 8]),
      gateForm: "decay",
      scale: 1,
    });
    // Decayed: [1 2] [3 4]; S k = 11, 25; d = (10 - 11) / 4, (20 - 25) / 4.
    expect([...state!.data]).toEqual([1 - 0.75, 2 - 1, 3 - 3.75, 4 - 5]);
    expect([...out.data]).toEqual([0.25 + 2, -0.75 - 2]);
  });

  test("the six gate forms agree where they say the same", () => {
    const given = { ...small(), cuSeqlens: [0, 7] };
    const aLog = reference([2], [-1, 0.5]);
    const dtBias = reference([2], [0.25, -2]);
    const raw = given.gate;
    const logs = reference([7, 2], raw.data.map((a, i) => -Math.exp(aLog.data[i % 2]!) * Math.log(1 + Math.exp(a + dtBias.data[i % 2]!))));
    const run = (gate: Reference, options: object) => gatedDelta({ ...given, gateForm: "log", ...options, gate }).out.data;
    const expected = run(logs, {});
    const ssmA = reference([2], aLog.data.map((a) => -Math.exp(a)));
    const others = [
      run(reference([7, 2], logs.data.map(Math.exp)), { gateForm: "decay" }),
      run(reference([7, 2], logs.data.map((g) => -g)), { gateForm: "neg-log" }),
      run(raw, { gateForm: "raw", aLog, dtBias }),
      run(raw, { gateForm: "raw-ssm", aLog: ssmA, dtBias }),
    ];
    for (const other of others) expect(relRms(other, expected)).toBeLessThan(sameNumbers);
    const bounded = logs.data.map((_, i) => -5 / (1 + Math.exp(-Math.exp(aLog.data[i % 2]!) * (raw.data[i]! + dtBias.data[i % 2]!))));
    const boundedOut = run(raw, { gateForm: "raw-bounded", aLog, dtBias, gateBound: -5 });
    expect(relRms(boundedOut, run(reference([7, 2], bounded), {}))).toBeLessThan(sameNumbers);
  });

  test("a gate per key dimension, all alike, is a gate per head", () => {
    const given = small();
    const gateForm = "raw";
    const aLog = reference([2], [-1, 0.5]);
    const dtBias = reference([2], [0.25, -2]);
    const spread = (tensor: Reference, shape: number[]) => reference(shape, [...tensor.data].flatMap((x) => Array<number>(8).fill(x)));
    const perHead = gatedDelta({ ...given, gateForm, aLog, dtBias });
    const perKey = gatedDelta({ ...given, gateForm, aLog, gate: spread(given.gate, [7, 2, 8]), dtBias: spread(dtBias, [2, 8]) });
    expect(perKey).toEqual(perHead);
    const oneAway = spread(given.gate, [7, 2, 8]);
    oneAway.data[5] = 3;
    expect(gatedDelta({ ...given, gateForm, aLog, gate: oneAway, dtBias: spread(dtBias, [2, 8]) })).not.toEqual(perHead);
  });

  test("norms and betas by their formulas", () => {
    const given = { ...small(), gateForm: "neg-log", state: undefined } as const;
    const one = { ...given, gate: reference([7, 2]) };
    const scaled = (factor: (squares: number) => number) => {
      const change = (tensor: Reference) => {
        const out = reference(tensor.shape, tensor.data);
        for (let r = 0; r < out.data.length; r += 8) {
          const row = out.data.subarray(r, r + 8);
          const by = factor(row.reduce((sum, x) => sum + x * x, 0));
          row.forEach((x, i) => (row[i] = x * by));
        }
        return out;
      };
      return gatedDelta({ ...one, query: change(one.query), key: change(one.key) }).out.data;
    };
    const eps = 0.3;
    const run = (options: object) => gatedDelta({ ...one, qkNormEps: eps, ...options }).out.data;
    expect(relRms(run({ qkNorm: "l2" }), scaled((s) => 1 / Math.sqrt(s + eps)))).toBeLessThan(sameNumbers);
    expect(relRms(run({ qkNorm: "rms" }), scaled((s) => 1 / Math.sqrt(s + 8 * eps)))).toBeLessThan(sameNumbers);
    expect(relRms(run({ qkNorm: "l2-max" }), scaled((s) => 1 / Math.max(Math.sqrt(s), eps)))).toBeLessThan(sameNumbers);
    expect(relRms(run({ qkNorm: "l2-max", qkNormEps: 9 }), scaled(() => 1 / 9))).toBeLessThan(sameNumbers);
    const sigmoid = reference([7, 2], given.beta.data.map((b) => 1 / (1 + Math.exp(-b))));
    expect(relRms(run({ betaForm: "sigmoid" }), run({ beta: sigmoid }))).toBeLessThan(sameNumbers);
    const twice = reference([7, 2], sigmoid.data.map((b) => 2 * b));
    expect(relRms(run({ betaForm: "2-sigmoid" }), run({ beta: twice }))).toBeLessThan(sameNumbers);
  });

  test("calls split anywhere, slots permuted, snapshots and checkpoints are all the same states", () => {
    const given = { ...small(), gateForm: "neg-log" } as const;
    const cut = (start: number, end: number) => ({
      query: rows(given.query, start, end),
      key: rows(given.key, start, end),
      value: rows(given.value, start, end),
      gate: rows(given.gate, start, end),
      beta: rows(given.beta, start, end),
    });
    // Two sequences of 4 and 3 tokens; each starts where the other ends up, and the first is forked from slot 1.
    const snapshots = reference([5, 2, 2, 8, 8], new Float64Array(5 * 256).fill(-7));
    const whole = gatedDelta({
      ...given,
      cuSeqlens: [0, 4, 7],
      readSlots: [1, 0],
      writeSlots: [0, 1],
      snapshots,
      snapshotSlots: [[-1, 2], []],
      checkpoints: [{ sequence: 1, tokens: 2, slot: 3 }],
    });
    const steps = (start: number, end: number, slot: number) => {
      let pool = reference([1, 2, 8, 8], rows(given.state, slot, slot + 1).data);
      const states = [pool];
      for (let t = start; t < end; t++) {
        const step = gatedDelta({ ...given, ...cut(t, t + 1), state: pool });
        expect(step.out.data).toEqual(rows(whole.out, t, t + 1).data);
        states.push((pool = step.state!));
      }
      return states.map((state) => state.data);
    };
    const first = steps(0, 4, 1);
    const second = steps(4, 7, 0);
    const slot = (index: number) => rows(whole.state!, index, index + 1).data;
    expect(slot(0)).toEqual(first[4]!);
    expect(slot(1)).toEqual(second[3]!);
    expect(slot(2)).toEqual(first[3]!); // snapshot 1 of the first sequence
    expect(slot(3)).toEqual(second[2]!); // checkpoint after two tokens of the second
    const kept = new Float64Array(128).fill(-7);
    const snapshot = (age: number, sequence: number) => whole.snapshots!.data.slice((age * 2 + sequence) * 128, (age * 2 + sequence + 1) * 128);
    for (const age of [0, 1, 2, 3]) expect(snapshot(age, 0)).toEqual(first[4 - age]!);
    for (const age of [0, 1, 2]) expect(snapshot(age, 1)).toEqual(second[3 - age]!);
    for (const [age, sequence] of [[4, 0], [3, 1], [4, 1]] as const) expect(snapshot(age, sequence)).toEqual(kept);
  });

  test("slots of -1, empty sequences and rows beyond the last", () => {
    const given = { ...small(), gateForm: "neg-log", out: reference([7, 2, 8], new Float64Array(112).fill(9)) } as const;
    given.state.data.fill(NaN, 0, 128);
    const fresh = gatedDelta({ ...given, cuSeqlens: [0, 0, 3, 3], readSlots: [2, -1, -1], writeSlots: [1, -1, 3] });
    expect(rows(fresh.state!, 1, 2).data).toEqual(rows(given.state, 2, 3).data);
    expect(rows(fresh.state!, 3, 4).data).toEqual(new Float64Array(128));
    expect(bitsEqual(rows(fresh.state!, 0, 1).data, rows(given.state, 0, 1).data)).toBe(true); // NaN and all
    expect(rows(fresh.state!, 2, 3).data).toEqual(rows(given.state, 2, 3).data);
    expect(rows(fresh.out, 3, 7).data).toEqual(new Float64Array(64).fill(9));
    const stateless = gatedDelta({ ...given, state: undefined, cuSeqlens: [0, 3] });
    expect(stateless.state).toBeUndefined();
    expect(stateless.out.data).toEqual(fresh.out.data);
    expect(gatedDelta({ ...given, cuSeqlens: [0] }).out.data).toEqual(given.out.data);
  });

  test("convolution: token by token, bias, no activation, every width", () => {
    for (let width = 2; width <= 9; width++) {
      const given = { weight: numbers([3, width], 1), bias: numbers([3], 2), activation: "none" } as const;
      const x = numbers([11, 3], 3);
      const state = numbers([1, 3, width - 1], 4);
      const whole = causalConv1d({ ...given, x, state });
      let pool = state;
      for (let t = 0; t < 11; t++) {
        const step = causalConv1d({ ...given, x: rows(x, t, t + 1), state: pool });
        expect(step.out.data).toEqual(rows(whole.out, t, t + 1).data);
        pool = step.state!;
      }
      expect(pool).toEqual(whole.state!);
      // By hand, for the first output of channel 2.
      const taps = [...state.data.slice(2 * (width - 1)), x.data[2]!];
      const sum = taps.reduce((total, tap, j) => total + tap * given.weight.data[2 * width + j]!, given.bias.data[2]!);
      expect(whole.out.data[2]).toBeCloseTo(sum, 12);
      const silu = causalConv1d({ ...given, x, state, activation: "silu" }).out.data[2]!;
      expect(silu).toBeCloseTo(sum / (1 + Math.exp(-sum)), 12);
    }
  });

  test("gated norm: both orders, both activations, by hand", () => {
    const x = reference([1, 2], [3, -4]);
    const z = reference([1, 2], [0.5, -1]);
    const weight = reference([2], [2, 0.5]);
    const sigmoid = (v: number) => 1 / (1 + Math.exp(-v));
    const cases = [
      ["silu", "norm-then-gate", (v: number) => v * sigmoid(v)],
      ["sigmoid", "norm-then-gate", sigmoid],
      ["silu", "gate-then-norm", (v: number) => v * sigmoid(v)],
      ["sigmoid", "gate-then-norm", sigmoid],
    ] as const;
    for (const [activation, order, act] of cases) {
      const out = gatedRmsNorm({ x, z, weight, eps: 0.1, activation, order }).data;
      const [u, v] = order === "norm-then-gate" ? [3, -4] : [3 * act(0.5), -4 * act(-1)];
      const norm = Math.sqrt((u! * u! + v! * v!) / 2 + 0.1);
      const gates = order === "norm-then-gate" ? [act(0.5), act(-1)] : [1, 1];
      expect(out[0]).toBeCloseTo((2 * u! * gates[0]!) / norm, 12);
      expect(out[1]).toBeCloseTo((0.5 * v! * gates[1]!) / norm, 12);
    }
  });
});

describe("rounding", () => {
  test("agrees with the library's and the engine's own, which work on bits", () => {
    const anywhere = fc.oneof(
      fc.double({ noNaN: true }),
      fc.float({ noNaN: true }),
      fc.tuple(fc.double({ min: -2, max: 2, noNaN: true }), fc.integer({ min: -160, max: 130 })).map(([m, e]) => m * 2 ** e),
      // Ties of each format.
      fc.tuple(fc.integer({ min: 0, max: 4096 }), fc.integer({ min: -150, max: 120 })).map(([m, e]) => (m + 0.5) * 2 ** e),
    );
    fc.assert(
      fc.property(anywhere, (x) => {
        for (const format of ["f32", "f16", "bf16"] as const) {
          if (!Object.is(round(format, x), toFloat32(format, encode(format, [x]))[0])) throw new Error(`${format}: ${x}`);
        }
        expect(round("f32", x)).toBe(Math.fround(x));
      }),
      { numRuns: 3000 },
    );
  });
});
