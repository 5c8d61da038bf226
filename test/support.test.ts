/** Tests of the test kit: a comparison that cannot fail proves nothing. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { causalConv1d } from "./reference/causal-conv1d.ts";
import { gatedDelta } from "./reference/gated-delta.ts";
import { gatedDeltaStep } from "./reference/gated-delta-step.ts";
import { gatedRmsNorm } from "./reference/gated-rms-norm.ts";
import { rounded } from "./reference/rounding.ts";
import type { Reference } from "./reference/tensor.ts";
import { adversarialBound, convAdversarial, gatedDeltaAdversarial, longSequence } from "./support/adversarial.ts";
import { convSpecs, gatedDeltaSpecs, normSpecs, stepSpecs } from "./support/arbitraries.ts";
import { betaFormatOf, buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep, buildGatedRmsNorm, gateFormatOf } from "./support/cases.ts";
import { bitsEqual, maxAbs, relRms } from "../lib/cli/verify/compare.ts";
import { firstDifference } from "./support/difference.ts";
import { nmse } from "./support/ggml-runs.ts";
import { Random } from "./support/random.ts";

describe("comparison", () => {
  test("relRms, nmse and maxAbs by hand", () => {
    expect(relRms([3, 4], [3, 4])).toBe(0);
    expect(relRms([3, 5], [3, 4])).toBeCloseTo(1 / 5, 15);
    expect(nmse([3, 5], [3, 4])).toBeCloseTo(1 / 25, 15);
    expect(maxAbs([1, 2, 3], [1, 2.5, 2.75])).toBe(0.5);
    expect(relRms([0, 0], [0, 0])).toBe(0);
    expect(relRms([0, 1e-300], [0, 0])).toBe(Infinity);
    expect(relRms([], [])).toBe(0);
  });

  test("NaN and infinity never pass a bound", () => {
    for (const [x, ref] of [[[NaN], [1]], [[1], [NaN]], [[Infinity], [1]], [[NaN], [0]], [[-Infinity], [Infinity]]] as const) {
      expect(relRms(x, ref) <= 1e6).toBe(false);
      expect(maxAbs(x, ref) <= 1e6).toBe(false);
    }
    expect(maxAbs([NaN, Infinity], [NaN, Infinity])).toBe(0);
    expect(() => relRms([1], [1, 2])).toThrow();
    expect(() => maxAbs([1], [])).toThrow();
  });

  test("bits, not numbers", () => {
    expect(bitsEqual(new Float32Array([0]), new Float32Array([-0]))).toBe(false);
    expect(firstDifference(new Float32Array([1, 2]), new Float32Array([1, 2, 3]))).toBe(8);
    expect(firstDifference(new Uint8Array([1, 2, 3]), new Uint8Array([1, 9, 3]))).toBe(1);
    expect(bitsEqual(new Float32Array([NaN, 1]), new Float32Array([NaN, 1]))).toBe(true);
    expect(bitsEqual(new Float32Array([9, 1]).subarray(1), new Float32Array([1]))).toBe(true);
  });

  test("the adversarial bound grows with the states' lives", () => {
    expect(adversarialBound(0, 0.5)).toBe(2e-6);
    expect(adversarialBound(1000, 0.5)).toBeCloseTo(2e-6 + 8 * 2 ** -24, 12);
    expect(adversarialBound(100, 1)).toBeCloseTo(2e-6 + 400 * 2 ** -24, 12);
  });
});

describe("random numbers", () => {
  test("the same for the same seed, and another for another", () => {
    const draw = (seed: number) => {
      const random = new Random(seed);
      return Array.from({ length: 50 }, () => random.uniform());
    };
    expect(draw(5)).toEqual(draw(5));
    expect(draw(5)).not.toEqual(draw(6));
    expect(draw(5).every((x) => x >= 0 && x < 1)).toBe(true);
  });

  test("normal and uniform numbers have their moments", () => {
    const random = new Random(1);
    const count = 20000;
    const normal = Array.from({ length: count }, () => random.normal());
    const mean = normal.reduce((sum, x) => sum + x, 0) / count;
    const variance = normal.reduce((sum, x) => sum + (x - mean) ** 2, 0) / count;
    expect(Math.abs(mean)).toBeLessThan(0.03);
    expect(Math.abs(variance - 1)).toBeLessThan(0.05);
    const counts = [0, 0, 0, 0, 0];
    for (let i = 0; i < count; i++) counts[random.below(5)]!++;
    for (const each of counts) expect(Math.abs(each / count - 0.2)).toBeLessThan(0.02);
    const distinct = random.distinct(5, 9);
    expect(new Set(distinct).size).toBe(5);
    expect(distinct.every((x) => x >= 0 && x < 9)).toBe(true);
  });
});

describe("generated cases", () => {
  const exact = (tensor: Reference | undefined, format: "f32" | "f16" | "bf16") => {
    if (tensor) expect(rounded(format, tensor).data).toEqual(tensor.data);
  };
  const finite = (tensor: Reference | undefined) => expect(tensor?.data.every(Number.isFinite) ?? true).toBe(true);

  test("the gated delta rule's run, stay finite, and are stored without rounding", () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(gatedDeltaSpecs, (spec) => {
        const given = buildGatedDelta(spec);
        for (const tensor of [given.query, given.key, given.value]) exact(tensor, spec.format);
        exact(given.gate, gateFormatOf(spec));
        exact(given.beta, betaFormatOf(spec));
        exact(given.state, spec.stateFormat);
        exact(given.aLog, spec.weightFormat);
        exact(given.dtBias, spec.weightFormat);
        const { out, state, sizes } = gatedDelta(given);
        finite(out);
        finite(state);
        // A result is no larger than its summands, which stay in range.
        for (const [result, size] of [[out, sizes.out], [state, sizes.state]] as const) {
          const within = result?.data.every((value, i) => Math.abs(value) <= Math.abs(size!.data[i]!) * (1 + 1e-9));
          expect(within ?? true).toBe(true);
          expect(size?.data.every((value) => Math.abs(value) < 1e4) ?? true).toBe(true);
        }
        for (const name of [spec.gateForm, spec.gateDims, spec.betaForm, spec.headMap, spec.qkNorm, spec.format]) seen.add(name);
      }),
      { numRuns: 60, seed: 1 },
    );
    expect(seen.size).toBe(6 + 2 + 3 + 2 + 4 + 3);
  });

  test("those of convolution, norm and step run and stay finite", () => {
    fc.assert(
      fc.property(convSpecs, (spec) => {
        const { out, state } = causalConv1d(buildCausalConv1d(spec));
        finite(out);
        exact(state, spec.stateFormat);
      }),
      { numRuns: 40, seed: 2 },
    );
    fc.assert(fc.property(normSpecs, (spec) => finite(gatedRmsNorm(buildGatedRmsNorm(spec)))), { numRuns: 40, seed: 3 });
    fc.assert(
      fc.property(stepSpecs, (spec) => {
        const { out, state } = gatedDeltaStep(buildGatedDeltaStep(spec));
        finite(out);
        finite(state);
      }),
      { numRuns: 30, seed: 4 },
    );
  });

  test("adversarial cases run, and their names are their own", () => {
    const cases = [...gatedDeltaAdversarial(), longSequence()];
    expect(new Set(cases.map(({ name }) => name)).size).toBe(cases.length);
    for (const { name, given, bound } of cases) {
      const { out, state } = gatedDelta({ ...given, decayFormat: "f32" });
      expect([name, out.data.every(Number.isFinite), state!.data.length > 0]).toEqual([name, true, true]);
      expect(bound).toBeGreaterThanOrEqual(2e-6);
      // The output differs from the input, so an op that only copies fails.
      if (given.query.shape[0]! > 0 && name !== "all rows zero") expect(relRms(out.data, given.value.data)).toBeGreaterThan(1e-3);
    }
    for (const { given } of convAdversarial()) finite(causalConv1d(given).out);
  });
});
