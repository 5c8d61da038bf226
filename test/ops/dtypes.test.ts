/**
 * Every mixture of dtypes: near float64, with the bits that float32 inputs of the same numbers give, and each narrow
 * result rounded once from the float32 one.
 */
import { expect, test } from "bun:test";
import { causalConv1d } from "../reference/causal-conv1d.ts";
import type { CausalConv1dCase } from "../reference/causal-conv1d.ts";
import { gatedDelta } from "../reference/gated-delta.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import type { GatedDeltaStepCase } from "../reference/gated-delta-step.ts";
import { gatedRmsNorm } from "../reference/gated-rms-norm.ts";
import type { GatedRmsNormCase } from "../reference/gated-rms-norm.ts";
import { rounded } from "../reference/rounding.ts";
import type { Format } from "../reference/rounding.ts";
import type { Reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import type { Backend } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep, buildGatedRmsNorm } from "../support/cases.ts";
import type { GatedDeltaSpec, StepSpec } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { plainConv, plainDelta, plainNorm, plainStep } from "../support/plain-specs.ts";
import { shareOf } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { allF32, runCausalConv1d, runGatedDelta, runGatedDeltaStep, runGatedRmsNorm } from "../support/run-ops.ts";

const formats: readonly Format[] = ["f32", "f16", "bf16"];

/** All mixtures of the choices, the last one changing fastest. */
function mixtures<K extends string>(choices: Readonly<Record<K, readonly Format[]>>): Record<K, Format>[] {
  let all: Record<string, Format>[] = [{}];
  for (const [name, options] of Object.entries<readonly Format[]>(choices)) {
    all = all.flatMap((one) => options.map((option) => ({ ...one, [name]: option })));
  }
  return all;
}

/** The mixtures under each activation format; `own` names those that are the activation's or float32. */
function activationMixtures<O extends string, A extends string>(
  own: readonly O[],
  any: readonly A[],
): Record<O | A | "format", Format>[] {
  return formats.flatMap((format) => {
    const two = format === "f32" ? [format] : [format, "f32" as const];
    const choices = Object.fromEntries([
      ["format", [format]],
      ...own.map((name) => [name, two]),
      ...any.map((name) => [name, formats]),
    ]);
    return mixtures(choices) as Record<O | A | "format", Format>[];
  });
}

/** Chooses a share of the mixtures for each forced instruction set. */
const turn = (process.env["GATED_DELTA_ISA"] ?? "").length;

/** A backend's share of mixtures: a random selection, so that runs of equal choices are broken up. */
function some<T>({ emulated }: Backend, all: readonly T[], most: number, mostEmulated: number): T[] {
  const count = Math.min(all.length, emulated ? mostEmulated : most);
  return shareOf(new Random(all.length).distinct(count, all.length), turn).map((i) => all[i]!);
}

const batch = { lengths: [4, 0, 2], rowsBeyond: 0, slots: 3, readSlots: [0, 1, -1], writeSlots: [0, 1, 2] };

/** Raw gates and betas: every tensor is in use. */
const spec: GatedDeltaSpec = {
  ...plainDelta,
  seed: 61,
  keyHeads: 1,
  valueDim: 8,
  gateForm: "raw",
  betaForm: "sigmoid",
  batch,
};

const words = (mixture: object) =>
  Object.entries(mixture)
    .map(([name, format]) => `${name} ${format}`)
    .join(", ");

/** A case whose tensors are rounded to a mixture's formats. */
function inFormats<C extends object>(given: C, choose: (name: string) => Format | undefined): C {
  const entries = Object.entries(given).map(([name, value]) => {
    const format = choose(name);
    const isTensor = typeof value === "object" && value !== null && "data" in value;
    return [name, format !== undefined && isTensor ? rounded(format, value as Reference) : value];
  });
  return Object.fromEntries(entries) as C;
}

onEachBackend("dtypes", (backend) => {
  const { device } = backend;

  test("gatedDelta", () => {
    for (const gateDims of ["head", "key"] as const) {
      const all = activationMixtures(["gate", "beta", "out"], ["aLog", "dtBias", "state"]);
      expect(all.length).toBe(27 + 2 * 8 * 27);
      for (const mixture of some(backend, all, 300, 100)) {
        const activations = ["query", "key", "value"];
        const choose = (name: string) =>
          activations.includes(name) ? mixture.format : (mixture as Record<string, Format>)[name];
        const given: GatedDeltaCase = inFormats(buildGatedDelta({ ...spec, gateDims }), choose);
        const wide = runGatedDelta(device, given, { ...mixture, state: "f32", out: "f32" });
        const expected = gatedDelta({ ...given, decayFormat: "f32" });
        expectNear(`${words(mixture)}: out`, wide.out, expected.out.data, bounds.f32);
        expectNear(`${words(mixture)}: state`, wide.state!, expected.state!.data, bounds.f32);
        const exact = runGatedDelta(device, given, allF32);
        expectSameBits("out of float32 inputs", exact.out, wide.out);
        expectSameBits("state of float32 inputs", exact.state!, wide.state!);
        const got = runGatedDelta(device, given, mixture);
        expectRounded("out", mixture.out, got.out, wide.out);
        expectRounded("state", mixture.state, got.state!, wide.state!);
      }
    }
  });

  test("causalConv1d", () => {
    for (const mixture of some(backend, activationMixtures(["state", "out"], ["weight", "bias"]), 100, 100)) {
      const choose = (name: string) => (name === "x" ? mixture.format : (mixture as Record<string, Format>)[name]);
      const built = buildCausalConv1d({ ...plainConv, channels: 19, batch });
      const given: CausalConv1dCase = inFormats(built, choose);
      const wide = runCausalConv1d(device, given, { ...mixture, out: "f32" });
      const expected = causalConv1d(given);
      expectNear(`${words(mixture)}: out`, wide.out, expected.out.data, bounds.f32);
      expectSameBits("state", wide.state!, Float32Array.from(expected.state!.data));
      expectSameBits("out of float32 inputs", runCausalConv1d(device, given, allF32).out, wide.out);
      const got = runCausalConv1d(device, given, mixture);
      expectRounded("out", mixture.out, got.out, wide.out);
      expectSameBits("state", got.state!, wide.state!);
    }
  });

  test("gatedRmsNorm", () => {
    for (const mixture of some(backend, activationMixtures(["x", "out"], ["weight"]), 100, 100)) {
      const choose = (name: string) => (name === "z" ? mixture.format : (mixture as Record<string, Format>)[name]);
      const built = buildGatedRmsNorm({ ...plainNorm, tokens: 3, heads: 2, dim: 21 });
      const given: GatedRmsNormCase = inFormats(built, choose);
      const wide = runGatedRmsNorm(device, given, { ...mixture, out: "f32" });
      expectNear(`${words(mixture)}: out`, wide, gatedRmsNorm(given).data, bounds.f32);
      expectSameBits("out of float32 inputs", runGatedRmsNorm(device, given, allF32), wide);
      expectRounded("out", mixture.out, runGatedRmsNorm(device, given, mixture), wide);
    }
  });

  test("gatedDeltaStep", () => {
    const stepSpec: StepSpec = { ...plainStep, keyHeads: 1, ratio: 2, valueDim: 8, readSlots: [0, 1, -1] };
    const any = ["aLog", "dtBias", "state", "convWeight", "convBias", "normWeight"] as const;
    const all = activationMixtures(["gate", "beta", "convState", "out"], any);
    for (const mixture of some(backend, all, 400, 100)) {
      const choose = (name: string) =>
        name === "x" || name === "z" ? mixture.format : (mixture as Record<string, Format>)[name];
      const given: GatedDeltaStepCase = inFormats(buildGatedDeltaStep(stepSpec), choose);
      const wide = runGatedDeltaStep(device, given, { ...mixture, state: "f32", out: "f32" });
      const got = runGatedDeltaStep(device, given, mixture);
      expectRounded("out", mixture.out, got.out, wide.out);
      expectRounded("state", mixture.state, got.state, wide.state);
      expectSameBits("convState", got.convState, wide.convState);
      if (mixture.format !== "f32") continue; // narrow ones round the convolution's output
      const exact = runGatedDeltaStep(device, given, allF32);
      expectSameBits("out of float32 inputs", exact.out, wide.out);
      expectSameBits("state of float32 inputs", exact.state, wide.state);
    }
  });

  test("results too large for f16 become infinite, tiny ones subnormal or 0, ties go to even", () => {
    // A state of one number per row, read out by a query of one 1: out is that number.
    const numbers = [
      65504,
      65519.99,
      65520,
      -1e6,
      6e-8,
      2.9e-8,
      2.98e-8,
      -4e-8,
      2049,
      2051,
      1 + 2 ** -11,
      1 + 3 * 2 ** -11,
      -0,
      3.4e38,
      1e-40,
      5,
    ];
    const read = (format: Format) => {
      const state = device.tensor("f32", [1, 1, 16, 8]);
      numbers.forEach((number, row) => (state.data[row * 8] = number));
      const one = (name: Format, shape: number[], first: number) =>
        device.tensorFrom(
          name,
          shape,
          Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => (i === 0 ? first : 0)),
        );
      const given = {
        query: one(format, [1, 1, 8], 1),
        key: one(format, [1, 1, 8], 0),
        value: device.tensor(format, [1, 1, 16]),
      };
      const gates = { gate: one("f32", [1, 1], 1), beta: one("f32", [1, 1], 0), gateForm: "decay", scale: 1 } as const;
      return { state, given, gates };
    };
    for (const format of ["f16", "bf16"] as const) {
      const { state, given, gates } = read(format);
      const out = device.tensor(format, [1, 1, 16]);
      const wide = device.tensor("f32", [1, 1, 16]);
      device.run((pass) => {
        pass.gatedDelta({ ...given, ...gates, state, out: wide });
        pass.gatedDelta({ ...given, ...gates, state, out });
      });
      device.wait();
      expect(wide.data.some((value) => value === Math.fround(65520))).toBe(true);
      expectRounded("out", format, out.toFloat32(), wide.toFloat32());
    }
  });
});
