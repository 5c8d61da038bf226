/** Batches of unequal sequences: none, empty ones, rows of no sequence, and all lengths around a block's edge. */
import { expect, test } from "bun:test";
import { causalConv1d, gatedDelta, gatedDeltaStep } from "../../lib/index.ts";
import { causalConv1d as convOf } from "../reference/causal-conv1d.ts";
import { gatedDelta as deltaOf } from "../reference/gated-delta.ts";
import type { Format } from "../reference/rounding.ts";
import { edgeLengths } from "../support/adversarial.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep } from "../support/cases.ts";
import type { BatchSpec, ConvSpec, GatedDeltaSpec, StepSpec } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectSameBits } from "../support/judge.ts";
import { Layouts, bytesOf } from "../support/layouts.ts";
import { plainConv, plainDelta, plainStep } from "../support/plain-specs.ts";
import { Random } from "../support/random.ts";
import {
  allF32,
  placeCausalConv1d,
  placeGatedDelta,
  placeGatedDeltaStep,
  runCausalConv1d,
  runChecked,
  runGatedDelta,
} from "../support/run-ops.ts";
import { slotOf } from "../support/spans.ts";

function deltaSpec(batch: BatchSpec, more: Partial<GatedDeltaSpec> = {}): GatedDeltaSpec {
  return { ...plainDelta, seed: 31, batch, ...more };
}

function convSpec(batch: BatchSpec, more: Partial<ConvSpec> = {}): ConvSpec {
  return { ...plainConv, seed: 32, channels: 40, batch, ...more };
}

const stepSpec: StepSpec = { ...plainStep, sequences: 0, readSlots: [], writeSlots: [] };

onEachBackend("ragged batches", ({ device, emulated }) => {
  test("every edge length in one batch, in every rotation", () => {
    for (let shift = 0; shift < edgeLengths.length; shift++) {
      const lengths = [...edgeLengths.slice(shift), ...edgeLengths.slice(0, shift)];
      const slots = lengths.map((_, s) => s);
      const batch = { lengths, rowsBeyond: shift % 3, slots: lengths.length, readSlots: slots, writeSlots: slots };
      const delta = buildGatedDelta(deltaSpec(batch, { keyHeads: 1, keyDim: 8, valueDim: 8, seed: shift + 1 }));
      const got = runGatedDelta(device, delta, allF32, { layouts: new Random(shift) });
      const expected = deltaOf({ ...delta, decayFormat: "f32" });
      expectNear("out", got.out, expected.out.data.subarray(0, got.out.length), bounds.f32);
      expectNear("state", got.state!, expected.state!.data, bounds.f32);
      const conv = buildCausalConv1d(convSpec(batch, { channels: 12, seed: shift + 1 }));
      const convolved = runCausalConv1d(device, conv, allF32, { layouts: new Random(shift) });
      expectNear("conv out", convolved.out, convOf(conv).out.data.subarray(0, convolved.out.length), bounds.f32);
      expectSameBits("conv state", convolved.state!, Float32Array.from(convOf(conv).state!.data));
    }
  });

  test("an empty sequence's state goes from the slot it reads to the slot it writes, bit for bit", () => {
    const batch = {
      lengths: [0, 4, 0, 0, 0],
      rowsBeyond: 0,
      slots: 6,
      readSlots: [0, 1, 5, -1, 2],
      writeSlots: [3, 1, 0, 4, -1],
    };
    for (const format of ["f32", "f16", "bf16"] as const satisfies Format[]) {
      const spec = deltaSpec(batch, { stateFormat: format });
      const given = buildGatedDelta(spec);
      const got = runGatedDelta(device, given, { ...allF32, state: format });
      const before = Float32Array.from(given.state!.data);
      const zero = new Float32Array(before.length / 6);
      expectSameBits("0 to 3", slotOf(got.state!, 6, 3), slotOf(before, 6, 0));
      expectSameBits("5 to 0", slotOf(got.state!, 6, 0), slotOf(before, 6, 5));
      expectSameBits("zeros to 4", slotOf(got.state!, 6, 4), zero);
      expectSameBits("2 stays", slotOf(got.state!, 6, 2), slotOf(before, 6, 2));
      const conv = buildCausalConv1d(convSpec(batch, { format, stateFormat: format }));
      const convolved = runCausalConv1d(device, conv, { ...allF32, format, state: format });
      expectSameBits("conv state", convolved.state!, Float32Array.from(convOf(conv).state!.data));
    }
  });

  test("only empty sequences: states move, no row is read or written", () => {
    const batch = { lengths: [0, 0], rowsBeyond: 5, slots: 2, readSlots: [1, 0], writeSlots: [0, 1] };
    const given = buildGatedDelta(deltaSpec(batch));
    const got = runGatedDelta(device, given, allF32, { layouts: new Random(1) });
    const before = Float32Array.from(given.state!.data);
    expectSameBits("1 to 0", slotOf(got.state!, 2, 0), slotOf(before, 2, 1));
    expectSameBits("0 to 1", slotOf(got.state!, 2, 1), slotOf(before, 2, 0));
    const conv = buildCausalConv1d(convSpec(batch));
    const convolved = runCausalConv1d(device, conv, allF32, { layouts: new Random(1) });
    expectSameBits("conv state", convolved.state!, Float32Array.from(convOf(conv).state!.data));
  });

  test("no sequences: nothing is read or written, with rows and without", () => {
    for (const rowsBeyond of [0, 4]) {
      const batch = { lengths: [], rowsBeyond, slots: 2, readSlots: [], writeSlots: [] };
      using layouts = new Layouts(device, new Random(2));
      const delta = placeGatedDelta(layouts, buildGatedDelta(deltaSpec(batch)), allF32);
      const conv = placeCausalConv1d(layouts, buildCausalConv1d(convSpec(batch)), allF32);
      const step = placeGatedDeltaStep(layouts, buildGatedDeltaStep(stepSpec), allF32);
      const before = layouts.snapshot();
      runChecked(device, layouts, gatedDelta(delta), causalConv1d(conv), gatedDeltaStep(step));
      expect(layouts.snapshot()).toEqual(before);
    }
  });

  test("rows beyond the last sequence keep every byte, and NaN in them reaches nothing", () => {
    const batch = { lengths: [3, 0, 6], rowsBeyond: 11, slots: 3, readSlots: [0, 1, 2], writeSlots: [0, 1, 2] };
    // The inputs' rows beyond are NaN; the outputs' rows beyond are guarded: see Layouts.
    for (const seed of [1, 2, 3]) {
      const delta = buildGatedDelta(deltaSpec(batch));
      const got = runGatedDelta(device, delta, allF32, { layouts: new Random(seed) });
      expect([...got.out, ...got.state!].every(Number.isFinite)).toBe(true);
      const conv = runCausalConv1d(device, buildCausalConv1d(convSpec(batch)), allF32, { layouts: new Random(seed) });
      expect([...conv.out, ...conv.state!].every(Number.isFinite)).toBe(true);
    }
  });

  test("thousands of sequences, most of them of one token or none", () => {
    const count = emulated ? 1000 : 5000;
    const random = new Random(12);
    const lengths = Array.from({ length: count }, () => random.pick([0, 1, 1, 1, 2]));
    const slots = random.distinct(count, count);
    const batch = { lengths, rowsBeyond: 0, slots: count, readSlots: [...slots].reverse(), writeSlots: slots };
    const delta = buildGatedDelta(deltaSpec(batch, { keyHeads: 1, ratio: 1, keyDim: 8, valueDim: 8 }));
    const got = runGatedDelta(device, delta, allF32);
    const expected = deltaOf({ ...delta, decayFormat: "f32" });
    expectNear("out", got.out, expected.out.data, bounds.f32);
    expectNear("state", got.state!, expected.state!.data, bounds.f32);
    const conv = buildCausalConv1d(convSpec(batch, { channels: 3, width: 3 }));
    const convolved = runCausalConv1d(device, conv, allF32);
    expectSameBits("conv state", convolved.state!, Float32Array.from(convOf(conv).state!.data));
  });

  test("no pool: every sequence starts from zero", () => {
    const without = { lengths: [5, 0, 9], rowsBeyond: 1, slots: 0, readSlots: [], writeSlots: [] };
    const given = buildGatedDelta(deltaSpec(without));
    const fresh = { lengths: [5, 0, 9], rowsBeyond: 1, slots: 1, readSlots: [-1, -1, -1], writeSlots: [-1, -1, -1] };
    const pooled = buildGatedDelta(deltaSpec(fresh));
    const parts = {
      ...pooled,
      query: given.query,
      key: given.key,
      value: given.value,
      gate: given.gate,
      beta: given.beta,
    };
    expectSameBits("out", runGatedDelta(device, given, allF32).out, runGatedDelta(device, parts, allF32).out);
    const conv = buildCausalConv1d(convSpec(without));
    const { out } = runCausalConv1d(device, conv, allF32);
    expectNear("conv out", out, convOf(conv).out.data.subarray(0, out.length), bounds.f32);
  });

  test("tensors without rows are legal", () => {
    const q = device.tensor("f32", [0, 2, 8]);
    const perHead = device.tensor("f32", [0, 2]);
    const state = device.tensorFrom("f32", [1, 2, 8, 8], new Float32Array(128).fill(3));
    const x = device.tensor("f32", [0, 5]);
    const weight = device.tensor("f32", [5, 2]);
    const none = device.tensor("f32", [0, 2, 8, 8]);
    const args = { query: q, key: q, value: q, gate: perHead, beta: perHead, gateForm: "log" } as const;
    device.run(
      gatedDelta({ ...args, out: device.tensor("f32", [0, 2, 8]), state }),
      gatedDelta({ ...args, out: device.tensor("f32", [0, 2, 8]), state: none, readSlots: [-1], writeSlots: [-1] }),
      gatedDelta({ ...args, out: device.tensor("f32", [0, 2, 8]) }),
      causalConv1d({ x, weight, out: device.tensor("f32", [0, 5]) }),
    );
    device.wait();
    expect(bytesOf(state)).toEqual(new Uint8Array(new Float32Array(128).fill(3).buffer));
  });
});
