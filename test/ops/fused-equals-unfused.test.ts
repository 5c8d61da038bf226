/** The fused step has the bits of the chain of ops that it replaces. */
import { test } from "bun:test";
import { causalConv1d, gatedDelta, gatedDeltaStep, gatedRmsNorm } from "../../lib/index.ts";
import type { Tensor } from "../../lib/index.ts";
import type { GatedDeltaStepCase } from "../reference/gated-delta-step.ts";
import { onEachBackend } from "../support/backends.ts";
import type { Backend } from "../support/backends.ts";
import { buildGatedDeltaStep } from "../support/cases.ts";
import type { StepSpec } from "../support/cases.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { plainStep } from "../support/plain-specs.ts";
import { forAll, specsFor } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { placeGatedDeltaStep, runChecked, runGatedDeltaStep, stepFormats } from "../support/run-ops.ts";
import type { StepFormats, StepResults } from "../support/run-ops.ts";

type Placed = ReturnType<typeof placeGatedDeltaStep>;

/** The chain of ops over the tensors of a step. */
function chainOf(args: Placed, mixed: Tensor, delta: Tensor) {
  const [sequences, valueHeads, valueDim] = args.z.shape as [number, number, number];
  const keyDim = args.state.shape[3]!;
  const { keyHeads } = args;
  const channels = mixed.shape[1]!;
  const keys = keyHeads * keyDim;
  const batch = {
    cuSeqlens: Array.from({ length: sequences + 1 }, (_, s) => s),
    readSlots: args.readSlots,
    writeSlots: args.writeSlots,
  };
  // Query, key and value are views of the one convolution output.
  const part = (offset: number, heads: number, dim: number) =>
    mixed.view({ offset, shape: [sequences, heads, dim], strides: [channels, dim, 1] });
  return [
    causalConv1d({
      ...batch,
      x: args.x,
      weight: args.convWeight,
      bias: args.convBias,
      state: args.convState,
      out: mixed,
      activation: args.convActivation,
    }),
    gatedDelta({
      ...batch,
      query: part(0, keyHeads, keyDim),
      key: part(keys, keyHeads, keyDim),
      value: part(2 * keys, valueHeads, valueDim),
      gate: args.gate,
      beta: args.beta,
      aLog: args.aLog,
      dtBias: args.dtBias,
      state: args.state,
      out: delta,
      gateForm: args.gateForm,
      gateDims: args.gateDims,
      gateBound: args.gateBound,
      betaForm: args.betaForm,
      headMap: args.headMap,
      qkNorm: args.qkNorm,
      qkNormEps: args.qkNormEps,
      scale: args.scale,
    }),
    gatedRmsNorm({
      x: delta,
      z: args.z,
      weight: args.normWeight,
      out: args.out,
      eps: args.normEps,
      activation: args.normActivation,
      order: args.normOrder,
    }),
  ];
}

function runChain({ device }: Backend, given: GatedDeltaStepCase, formats: StepFormats, random: Random): StepResults {
  using layouts = new Layouts(device, random);
  const args = placeGatedDeltaStep(layouts, given, formats);
  if (given.x.shape[0] === 0)
    return { out: download(args.out), state: download(args.state), convState: download(args.convState) };
  using mixed = device.tensor(formats.format, given.x.shape);
  using delta = device.tensor("f32", given.z.shape);
  runChecked(device, layouts, ...chainOf(args, mixed, delta));
  return { out: download(args.out), state: download(args.state), convState: download(args.convState) };
}

function expectSame(one: StepResults, other: StepResults): void {
  expectSameBits("out", one.out, other.out);
  expectSameBits("state", one.state, other.state);
  expectSameBits("convState", one.convState, other.convState);
}

onEachBackend("the fused step", (backend) => {
  const { device } = backend;

  test("equals convolution, recurrence and norm one after the other, for any options, dtypes and slots", () => {
    forAll(backend, 300, specsFor.gatedDeltaStep(backend), (spec) => {
      const given = buildGatedDeltaStep(spec);
      const formats = stepFormats(spec);
      const fused = runGatedDeltaStep(device, given, formats, { layouts: new Random(spec.seed) });
      expectSame(fused, runChain(backend, given, formats, new Random(spec.seed + 1)));
    });
  });

  test("equals it over many steps in place, with 16-bit states as well", () => {
    for (const stateFormat of ["f32", "bf16", "f16"] as const) {
      const random = new Random(99);
      const spec = { ...stepOf(stateFormat), sequences: 2, slots: 2, readSlots: [0, 1], writeSlots: [0, 1] };
      const given = buildGatedDeltaStep(spec);
      const formats = stepFormats(spec);
      using one = new Layouts(device, new Random(1));
      using other = new Layouts(device, new Random(2));
      const fused = placeGatedDeltaStep(one, given, formats);
      const apart = placeGatedDeltaStep(other, given, formats);
      using mixed = device.tensor(spec.format, given.x.shape);
      using delta = device.tensor("f32", given.z.shape);
      for (let step = 0; step < 12; step++) {
        const x = given.x.data.map(() => random.normal());
        fused.x.copyFrom(x);
        apart.x.copyFrom(x);
        device.run(gatedDeltaStep(fused), ...chainOf(apart, mixed, delta));
        device.wait();
        const results = ({ out, state, convState }: Placed) => ({
          out: download(out),
          state: download(state),
          convState: download(convState),
        });
        expectSame(results(fused), results(apart));
      }
    }
  });
});

/** A small step like those of real models. */
function stepOf(stateFormat: "f32" | "f16" | "bf16"): StepSpec {
  const bf16 = {
    format: "bf16",
    gatesF32: false,
    weightFormat: "bf16",
    convStateFormat: "bf16",
    outFormat: "bf16",
  } as const;
  return { ...plainStep, ...bf16, stateFormat, ratio: 2, keyDim: 64, valueDim: 32, bias: false };
}
