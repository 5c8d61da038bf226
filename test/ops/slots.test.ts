/** Every read sees the pool as it was before the op, and only the slots to write are written. */
import { expect, test } from "bun:test";
import { copySlots } from "../../lib/index.ts";
import { causalConv1d as convOf } from "../reference/causal-conv1d.ts";
import { gatedDelta as deltaOf } from "../reference/gated-delta.ts";
import { gatedDeltaStep as stepOf } from "../reference/gated-delta-step.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep } from "../support/cases.ts";
import type { StepSpec } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectSameBits } from "../support/judge.ts";
import { plainConv, plainStep } from "../support/plain-specs.ts";
import { Random } from "../support/random.ts";
import { allF32, runCausalConv1d, runGatedDelta, runGatedDeltaStep } from "../support/run-ops.ts";
import type { Slots } from "../support/spans.ts";
import { slotOf } from "../support/spans.ts";

const spec: StepSpec = {
  ...plainStep,
  seed: 51,
  keyHeads: 1,
  ratio: 2,
  keyDim: 24,
  valueDim: 16,
  gateForm: "log",
  betaForm: "given",
};

/** Slots with every hazard. */
function hazards(): (Slots & { readonly name: string; readonly slots: number })[] {
  const random = new Random(1);
  const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
  const ring = upTo(9);
  return [
    { name: "in place", slots: 9, readSlots: ring, writeSlots: ring },
    {
      name: "in place in random order",
      slots: 12,
      ...((order) => ({ readSlots: order, writeSlots: order }))(random.distinct(9, 12)),
    },
    { name: "a swap", slots: 2, readSlots: [1, 0], writeSlots: [0, 1] },
    { name: "a ring forwards", slots: 9, readSlots: ring.map((i) => (i + 1) % 9), writeSlots: ring },
    { name: "a ring backwards", slots: 9, readSlots: ring.map((i) => (i + 8) % 9), writeSlots: ring },
    { name: "a random permutation", slots: 9, readSlots: random.distinct(9, 9), writeSlots: random.distinct(9, 9) },
    { name: "one slot to all, itself included", slots: 9, readSlots: ring.map(() => 4), writeSlots: ring },
    { name: "one slot to all others", slots: 10, readSlots: ring.map(() => 9), writeSlots: ring },
    { name: "a chain", slots: 10, readSlots: ring, writeSlots: ring.map((i) => i + 1) },
    { name: "a chain from its end", slots: 10, readSlots: [...ring].reverse(), writeSlots: ring.map((i) => 9 - i) },
    {
      name: "fresh and dropped among rings",
      slots: 7,
      readSlots: [-1, 2, 1, -1, 5, 5, 0],
      writeSlots: [1, 0, 2, -1, -1, 6, 5],
    },
    { name: "all fresh", slots: 3, readSlots: [-1, -1, -1], writeSlots: [2, 0, 1] },
    { name: "all dropped", slots: 2, readSlots: [0, 0, 1], writeSlots: [-1, -1, -1] },
  ];
}

/** A pool with NaN in the chosen slots. */
function withNaN(pool: Reference, slots: readonly number[]): Reference {
  const size = pool.data.length / pool.shape[0]!;
  return reference(
    pool.shape,
    pool.data.map((value, i) => (slots.includes(Math.floor(i / size)) ? NaN : value)),
  );
}

onEachBackend("slots", ({ device }) => {
  test.each(hazards())("$name: as if every read came first", ({ slots, readSlots, writeSlots }) => {
    const lengths = readSlots.map((_, s) => (s % 4 === 3 ? 0 : ((s * 5) % 7) + 1));
    const batch = { lengths, rowsBeyond: 1, slots, readSlots, writeSlots };
    const delta = buildGatedDelta({ ...spec, batch });
    const got = runGatedDelta(device, delta, allF32);
    const expected = deltaOf({ ...delta, decayFormat: "f32" });
    expectNear("out", got.out, expected.out.data.subarray(0, got.out.length), bounds.f32);
    expectNear("state", got.state!, expected.state!.data, bounds.f32);

    const conv = buildCausalConv1d({ ...plainConv, channels: 20, batch });
    const convolved = runCausalConv1d(device, conv, allF32);
    expectSameBits("conv state", convolved.state!, Float32Array.from(convOf(conv).state!.data));

    const step = buildGatedDeltaStep({ ...spec, sequences: readSlots.length, slots, readSlots, writeSlots });
    const stepped = runGatedDeltaStep(device, step, allF32);
    const after = stepOf({ ...step, decayFormat: "f32" });
    expectNear("step out", stepped.out, after.out.data, bounds.f32);
    expectNear("step state", stepped.state, after.state.data, bounds.f32);
    expectSameBits("step conv state", stepped.convState, Float32Array.from(after.convState.data));
  });

  test("large states of single tokens have the same bits written in place and elsewhere", () => {
    for (const [gateForm, keyDim, valueDim] of [["log", 128, 128], ["decay", 256, 64], ["log", 120, 144]] as const) {
      const run = (writeSlots: readonly number[]) => {
        const slots = { slots: 6, readSlots: [0, 1, 2], writeSlots };
        const large = { ...spec, gateForm, keyDim, valueDim };
        const step = runGatedDeltaStep(device, buildGatedDeltaStep({ ...large, ...slots, sequences: 3 }), allF32);
        const runs = [step, runGatedDelta(device, buildGatedDelta({ ...large, batch: { ...slots, lengths: [1, 1, 1], rowsBeyond: 0 } }), allF32)];
        return runs.flatMap(({ out, state }) => [out, ...writeSlots.map((slot) => slotOf(state!, 6, slot))]);
      };
      const here = run([0, 1, 2]);
      run([4, 5, 3]).forEach((numbers, i) => expectSameBits(`${keyDim} by ${valueDim}, ${i}`, numbers, here[i]!));
    }
  });

  test("NaN in a slot cannot survive a fresh start in it, whatever the state's dtype", () => {
    const batch = { lengths: [3, 0, 1], rowsBeyond: 0, slots: 4, readSlots: [-1, -1, -1], writeSlots: [0, 1, 2] };
    for (const format of ["f32", "f16", "bf16"] as const) {
      const delta = buildGatedDelta({ ...spec, stateFormat: format, batch });
      const conv = buildCausalConv1d({ ...plainConv, channels: 20, format, stateFormat: format, batch });
      const step = buildGatedDeltaStep({
        ...spec,
        format,
        stateFormat: format,
        convStateFormat: format,
        sequences: 3,
        slots: 4,
        readSlots: [-1, -1, -1],
        writeSlots: [0, 1, 2],
      });
      const formats = { ...allF32, format, state: format, convState: format };
      const all = [0, 1, 2, 3];
      const clean = [
        runGatedDelta(device, delta, { ...formats, format: "f32" }),
        runCausalConv1d(device, conv, formats),
        runGatedDeltaStep(device, step, formats),
      ];
      const dirty = [
        runGatedDelta(device, { ...delta, state: withNaN(delta.state!, all) }, { ...formats, format: "f32" }),
        runCausalConv1d(device, { ...conv, state: withNaN(conv.state!, all) }, formats),
        runGatedDeltaStep(
          device,
          { ...step, state: withNaN(step.state, all), convState: withNaN(step.convState, all) },
          formats,
        ),
      ];
      dirty.forEach((got, i) => {
        expectSameBits(`out ${i}`, got.out, clean[i]!.out);
        for (const slot of [0, 1, 2]) {
          expectSameBits(`slot ${slot}`, slotOf(got.state!, 4, slot), slotOf(clean[i]!.state!, 4, slot));
          expect(slotOf(got.state!, 4, slot).every(Number.isFinite)).toBe(true);
        }
        expect(slotOf(got.state!, 4, 3).every(Number.isNaN)).toBe(true);
      });
    }
    using pool = device.tensorFrom("f32", [2, 3], new Array(6).fill(NaN));
    device.run(copySlots({ pool, readSlots: [-1], writeSlots: [1] }));
    device.wait();
    expect([...pool.data]).toEqual([NaN, NaN, NaN, 0, 0, 0]);
  });

  test("a state that is only moved keeps -0, subnormal numbers, infinity and NaN", () => {
    const batch = { lengths: [0, 0, 0], rowsBeyond: 0, slots: 4, readSlots: [1, 0, 2], writeSlots: [0, 1, 3] };
    const numbers = {
      f32: [-0, 1e-45, -1e-40, Infinity, -Infinity, NaN, 3e38],
      f16: [-0, 6e-8, -5e-7, Infinity, NaN, 65504],
      bf16: [-0, 1e-40, -Infinity, NaN],
    };
    for (const format of ["f32", "f16", "bf16"] as const) {
      const of = numbers[format];
      const delta = buildGatedDelta({ ...spec, stateFormat: format, batch });
      const state = reference(
        delta.state!.shape,
        delta.state!.data.map((_, i) => of[(i * 7) % of.length]!),
      );
      const uploaded = runGatedDelta(
        device,
        { ...delta, state, readSlots: [0, 1, 2], writeSlots: [-1, -1, -1] },
        { ...allF32, state: format },
      );
      const moved = runGatedDelta(device, { ...delta, state }, { ...allF32, state: format });
      for (const [from, to] of [
        [1, 0],
        [0, 1],
        [2, 3],
      ] as const) {
        expectSameBits(`${from} to ${to}`, slotOf(moved.state!, 4, to), slotOf(uploaded.state!, 4, from));
      }
    }
  });
});
