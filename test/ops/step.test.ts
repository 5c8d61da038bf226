import { test } from "bun:test";
import { gatedDeltaStep as referenceOf } from "../reference/gated-delta-step.ts";
import type { GatedDeltaStepCase } from "../reference/gated-delta-step.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildGatedDeltaStep } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { plainStep } from "../support/plain-specs.ts";
import { forAll, specsFor } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { recurrenceOptions } from "../support/recurrence-options.ts";
import { allF32, runGatedDeltaStep, stepFormats } from "../support/run-ops.ts";
import type { StepResults } from "../support/run-ops.ts";

/** The convolution's state is a copy of inputs; the rest is near. */
function expectReference(subject: string, got: StepResults, given: GatedDeltaStepCase, bound: number): void {
  const expected = referenceOf({ ...given, decayFormat: "f32" });
  expectNear(`${subject} out`, got.out, expected.out.data, bound);
  expectNear(`${subject} state`, got.state, expected.state.data, bound);
  expectSameBits("convState", got.convState, Float32Array.from(expected.convState.data));
}

onEachBackend("gatedDeltaStep", (backend) => {
  const { device } = backend;

  test("near float64 for any shapes, options, slots and layouts; narrow results are rounded once", () => {
    forAll(backend, 150, specsFor.gatedDeltaStep(backend), (spec) => {
      const given = buildGatedDeltaStep(spec);
      const formats = stepFormats(spec);
      const wide = runGatedDeltaStep(
        device,
        given,
        { ...formats, state: "f32", out: "f32" },
        { layouts: new Random(spec.seed) },
      );
      // The reference rounds the convolution's output as the library does, but near a tie it may pick the other neighbour:
      // with narrow activations, single inputs of the recurrence may differ in their last bit.
      expectReference(`${backend.name} gatedDeltaStep, ${spec.format} inputs`, wide, given, bounds[spec.format]);
      const narrow = runGatedDeltaStep(device, given, formats, { layouts: new Random(spec.seed + 1) });
      expectRounded("out", formats.out, narrow.out, wide.out);
      expectRounded("state", formats.state, narrow.state, wide.state);
      expectSameBits("convState", narrow.convState, wide.convState);
    });
  });

  test("every combination of the recurrence's options is near float64", () => {
    for (const [seed, options] of recurrenceOptions(backend).entries()) {
      const given = buildGatedDeltaStep({ ...plainStep, ...options, seed });
      expectReference(Object.values(options).join(" "), runGatedDeltaStep(device, given, allF32), given, bounds.f32);
    }
  });

  test("every width, bias and activation of the convolution; every activation and order of the norm", () => {
    const norms = (["silu", "sigmoid"] as const).flatMap((normActivation) =>
      (["norm-then-gate", "gate-then-norm"] as const).map((normOrder) => ({ normActivation, normOrder })));
    const convs = [false, true].flatMap((bias) => (["none", "silu"] as const).map((convActivation) => ({ bias, convActivation })));
    for (let width = 2; width <= 9; width++) {
      for (const [i, conv] of convs.entries()) {
        // An emulated GPU takes a tenth of a second for each: it tests one norm, in turn, so that each pair of options occurs.
        for (const norm of backend.emulated ? [norms[(i + width) % norms.length]!] : norms) {
          const options = { width, ...conv, ...norm };
          const given = buildGatedDeltaStep({ ...plainStep, ...options, seed: width * 16 + i });
          expectReference(Object.values(options).join(" "), runGatedDeltaStep(device, given, allF32), given, bounds.f32);
        }
      }
    }
  });

  test("every key and value dimension, 8 to 256", () => {
    for (let n = 1; n <= 32; n++) {
      const dims = {
        keyDim: n * 8,
        valueDim: ((n * 7) % 33) * 8 || 256,
        keyHeads: 1,
        ratio: (n % 3) + 1,
        sequences: 1,
        slots: 1,
      };
      const given = buildGatedDeltaStep({ ...plainStep, ...dims, seed: n, readSlots: [0], writeSlots: [0] });
      expectReference(`${dims.keyDim} × ${dims.valueDim}`, runGatedDeltaStep(device, given, allF32), given, bounds.f32);
    }
  });

  test("epsilons and the scale are those that are given", () => {
    for (const eps of [0, 1e-3, 3]) {
      const fixed = { qkNormEps: Math.fround(eps), normEps: Math.fround(eps / 2 + 1e-6), scale: -0.625 };
      const given = { ...buildGatedDeltaStep(plainStep), ...fixed };
      expectReference(`eps ${eps}`, runGatedDeltaStep(device, given, allF32), given, bounds.f32);
    }
  });

  test("what is left out has the documented defaults", () => {
    const given = buildGatedDeltaStep({ ...plainStep, qkNorm: "none", betaForm: "given" });
    const full = {
      ...given,
      headMap: "block",
      scale: 16 ** -0.5,
      qkNormEps: 1e-6,
      normEps: 1e-6,
      convActivation: "silu",
      normActivation: "silu",
      normOrder: "norm-then-gate",
    } as const;
    const bare = {
      ...given,
      headMap: undefined,
      scale: undefined,
      qkNorm: undefined,
      betaForm: undefined,
      convActivation: undefined,
      normActivation: undefined,
      normOrder: undefined,
      readSlots: undefined,
      writeSlots: undefined,
    };
    const [one, other] = [runGatedDeltaStep(device, full, allF32), runGatedDeltaStep(device, bare, allF32)];
    expectSameBits("out", one.out, other.out);
    expectSameBits("state", one.state, other.state);
    expectSameBits("convState", one.convState, other.convState);
  });
});
