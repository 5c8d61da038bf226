/** The kit of these tests detects the mistakes that it must. */
import { expect, test } from "bun:test";
import { gatedDelta as deltaOf } from "../reference/gated-delta.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import { causalConv1d as convOf } from "../reference/causal-conv1d.ts";
import { gatedRmsNorm as normOf } from "../reference/gated-rms-norm.ts";
import { reference } from "../reference/tensor.ts";
import { backendsWanted, onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedRmsNorm } from "../support/cases.ts";
import type { GatedDeltaSpec } from "../support/cases.ts";
import { bounds, relRms } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, bytesOf } from "../support/layouts.ts";
import { plainConv, plainDelta, plainNorm } from "../support/plain-specs.ts";
import { Random } from "../support/random.ts";
import { allF32, runCausalConv1d, runGatedDelta, runGatedRmsNorm } from "../support/run-ops.ts";
import { deltaOfSpans, randomCuts, sequenceRows, slotOf, tokenByToken } from "../support/spans.ts";

const spec: GatedDeltaSpec = {
  ...plainDelta,
  seed: 101,
  batch: { lengths: [5, 0, 4], rowsBeyond: 2, slots: 4, readSlots: [0, 1, 2], writeSlots: [0, 1, 3] },
};

test("verdicts: bounds, bits and roundings", () => {
  expect(() => expectNear("x", [1 + 3e-6], [1], 2e-6)).toThrow(/relRms/);
  expect(() => expectNear("x", [NaN], [1], 2e-6)).toThrow();
  expect(() => expectNear("x", [1e-30], [0], 2e-6)).toThrow();
  expectNear("x", [1 + 1e-6], [1], 2e-6);
  expect(() => expectSameBits("x", Float32Array.of(1, 0), Float32Array.of(1, -0))).toThrow(/x\[1\]/);
  expect(() => expectSameBits("x", Float32Array.of(1), Float32Array.of(1, 2))).toThrow();
  expectSameBits("x", Float32Array.of(1, -0), Float32Array.of(1, -0));
  const tie = Float32Array.of(1 + 2 ** -8);
  expectRounded("x", "bf16", Float32Array.of(1), tie);
  expect(() => expectRounded("x", "bf16", Float32Array.of(1 + 2 ** -7), tie)).toThrow();
});

test("GATED_DELTA_TEST_BACKENDS", () => {
  expect(backendsWanted("")).toBeUndefined();
  expect(backendsWanted("cpu")).toEqual(["cpu"]);
  expect(backendsWanted("cpu, metal")).toEqual(["cpu", "metal"]);
  expect(() => backendsWanted("gpu")).toThrow(/gpu/);
});

test("spans cover each token once, and rows are gathered from where they were", () => {
  const given = buildGatedDelta(spec);
  const random = new Random(1);
  for (const calls of [tokenByToken(given), randomCuts(random, given, 1), randomCuts(random, given, 4)]) {
    const next = [0, 0, 0];
    for (const spans of calls) {
      expect(new Set(spans.map(({ sequence }) => sequence)).size).toBe(spans.length);
      for (const { sequence, start, end } of spans) {
        expect(start).toBe(next[sequence]!);
        next[sequence] = end;
      }
    }
    expect(next).toEqual([5, 0, 4]);
  }
  const part = deltaOfSpans(given, [{ sequence: 2, start: 1, end: 3 }], { readSlots: [2], writeSlots: [3] });
  expect(part.cuSeqlens).toEqual([0, 2]);
  expect([...part.beta.data]).toEqual([...given.beta.data.subarray(6 * 4, 8 * 4)]);
  expect([...sequenceRows(given.beta.data.subarray(0, 9 * 4), given, 2)]).toEqual([
    ...given.beta.data.subarray(5 * 4, 9 * 4),
  ]);
  expect([...slotOf(Float32Array.of(1, 2, 3, 4), 2, 1)]).toEqual([3, 4]);
});

onEachBackend("layouts", ({ device }) => {
  const numbers = (shape: readonly number[]) => {
    const random = new Random(2);
    const out = reference(shape);
    for (let i = 0; i < out.data.length; i++) out.data[i] = Math.fround(random.normal());
    return out;
  };

  test("elements are where the tensor says, NaN is between and behind them", () => {
    for (let seed = 1; seed < 30; seed++) {
      using layouts = new Layouts(device, new Random(seed));
      const given = numbers([4, 3, seed % 2 === 0 ? 8 : 5]);
      const tensor = layouts.rows("x", "f32", given, 3);
      expect([...tensor.slice(0, 3).toFloat32()]).toEqual([...given.data.subarray(0, 3 * 3 * given.shape[2]!)]);
      expect(tensor.slice(3, 4).toFloat32().every(Number.isNaN)).toBe(true);
      expect(layouts.trespasses()).toEqual([]);
    }
  });

  test("a byte that changes where none may is found: guards, gaps, inputs, rows beyond, slots not written", () => {
    const places: readonly [string, (layouts: Layouts) => Uint8Array, number][] = [
      ["an input's element", (layouts) => bytesOf(layouts.packed("w", "f32", numbers([8]))), 5],
      [
        "the guard behind an input",
        (layouts) => memoryOf(bytesOf(layouts.packed("w", "f32", numbers([8])))),
        32 * 4 + 8 * 4 + 1,
      ],
      ["the guard before an output", (layouts) => memoryOf(bytesOf(layouts.out("o", "f32", [2, 8]))), 32 * 4 - 1],
      ["the guard behind an output", (layouts) => memoryOf(bytesOf(layouts.out("o", "bf16", [2, 8]))), (32 + 16) * 2],
      ["a row beyond", (layouts) => bytesOf(layouts.out("o", "f16", [4, 8], 3)), 3 * 8 * 2],
      ["a slot not written", (layouts) => bytesOf(layouts.pool("p", "f32", numbers([3, 8]), [0, 2])), 8 * 4],
    ];
    for (const [place, make, at] of places) {
      using layouts = new Layouts(device);
      const bytes = make(layouts);
      expect(layouts.trespasses()).toEqual([]);
      bytes[at]! ^= 1;
      expect([place, layouts.trespasses().length]).toEqual([place, 1]);
      bytes[at]! ^= 1;
      expect(layouts.trespasses()).toEqual([]);
    }
    // Outputs may change.
    using layouts = new Layouts(device, new Random(4));
    const out = layouts.out("o", "f32", [3, 2, 8], 2);
    out.slice(0, 2).copyFrom(new Array<number>(32).fill(1));
    layouts
      .pool("p", "f16", numbers([2, 8]), [1])
      .slice(1, 2)
      .copyFrom(new Array<number>(8).fill(1));
    expect(layouts.trespasses()).toEqual([]);
    out.slice(2, 3).copyFrom(new Array<number>(16).fill(1));
    expect(layouts.trespasses().length).toBe(1);
  });
});

/** The whole memory of the buffer to which these bytes belong. */
const memoryOf = ({ buffer }: Uint8Array) => new Uint8Array(buffer);

onEachBackend("options", ({ device }) => {
  test("each option changes the result by far more than a bound: mistaken ones would be found", () => {
    const given = buildGatedDelta(spec);
    const got = runGatedDelta(device, given, allF32);
    const distance = (change: Partial<GatedDeltaCase>) => {
      const { out, state } = deltaOf({ ...given, ...change });
      return [relRms(got.out, out.data.subarray(0, got.out.length)), relRms(got.state!, state!.data)] as const;
    };
    expect(Math.max(...distance({}))).toBeLessThan(bounds.f32);
    const negative = reference(
      given.gate.shape,
      given.gate.data.map((g) => -g),
    );
    const changes: Partial<GatedDeltaCase>[] = [
      { headMap: "tiled" },
      { qkNorm: "none" },
      { betaForm: "sigmoid" },
      { betaForm: "2-sigmoid" },
      { gateForm: "neg-log" },
      { gateForm: "decay" },
      { gate: negative },
      { readSlots: [-1, 1, 2] },
      { cuSeqlens: [0, 4, 5, 9] },
      { qkNormEps: 0.1 },
      { query: given.key },
      { key: given.query },
    ];
    for (const change of changes)
      expect([Object.keys(change), Math.max(...distance(change)) > 50 * bounds.f32]).toEqual([
        Object.keys(change),
        true,
      ]);
    expect(distance({ scale: 0.2501 })[0]).toBeGreaterThan(50 * bounds.f32);
    expect(distance({ readSlots: [0, 2, 2] })[1]).toBeGreaterThan(50 * bounds.f32);
  });

  test("so do those of convolution and norm", () => {
    const conv = buildCausalConv1d({ ...plainConv, batch: spec.batch });
    const { out } = runCausalConv1d(device, conv, allF32);
    for (const change of [
      { activation: "none" },
      { bias: undefined },
      { state: undefined },
      { cuSeqlens: [0, 4, 5, 9] },
    ] as const) {
      expect(relRms(out, convOf({ ...conv, ...change }).out.data.subarray(0, out.length))).toBeGreaterThan(1e-3);
    }
    const norm = buildGatedRmsNorm({ ...plainNorm, tokens: 3, heads: 2, dim: 24 });
    const normed = runGatedRmsNorm(device, norm, allF32);
    for (const change of [{ activation: "sigmoid" }, { order: "gate-then-norm" }, { eps: 1 }] as const) {
      expect(relRms(normed, normOf({ ...norm, ...change }).data)).toBeGreaterThan(1e-6 * 50);
    }
  });
});
