/** Decays at their limits: exactly 0 forgets everything, exactly 1 nothing, in every form of gate. */
import { expect, test } from "bun:test";
import { gatedDelta as deltaOf } from "../reference/gated-delta.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { onEachBackend, onOnly } from "../support/backends.ts";
import { buildGatedDelta } from "../support/cases.ts";
import type { GatedDeltaSpec } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectSameBits } from "../support/judge.ts";
import { plainDelta } from "../support/plain-specs.ts";
import { allF32, runGatedDelta } from "../support/run-ops.ts";

const spec: GatedDeltaSpec = {
  ...plainDelta,
  seed: 111,
  keyHeads: 1,
  keyDim: 24,
  valueDim: 16,
  batch: { lengths: [3, 20], rowsBeyond: 0, slots: 2, readSlots: [0, 1], writeSlots: [0, 1] },
};

const all = (tensor: Reference, value: number) =>
  reference(
    tensor.shape,
    tensor.data.map(() => value),
  );

/** Ways to express a decay of exactly 0, and of exactly 1; A_log and dt_bias are 0 if they are read. */
const limits = {
  0: {
    decay: [0, -0],
    log: [-Infinity, -104, -1e30],
    "neg-log": [Infinity, 104, 1e30],
    raw: [Infinity, 200, 3e38],
    "raw-ssm": [Infinity, 200, 3e38],
  },
  1: {
    decay: [1],
    log: [0, -0],
    "neg-log": [0, -0],
    raw: [-Infinity, -200, -3e38],
    "raw-ssm": [-Infinity, -200, -3e38],
  },
} as const;

type Limited = keyof (typeof limits)[0];

function cases(decay: 0 | 1): { name: string; given: GatedDeltaCase }[] {
  return (["head", "key"] as const).flatMap((gateDims) =>
    (Object.keys(limits[decay]) as Limited[]).flatMap((gateForm) =>
      limits[decay][gateForm].map((gate) => {
        const given = buildGatedDelta({ ...spec, gateForm, gateDims });
        const raw = given.aLog && {
          aLog: all(given.aLog, gateForm === "raw-ssm" ? -1 : 0),
          dtBias: all(given.dtBias!, 0),
        };
        return {
          name: `${gateForm} ${Object.is(gate, -0) ? "-0" : gate} per ${gateDims}`,
          given: { ...given, ...raw, gate: all(given.gate, gate) },
        };
      }),
    ),
  );
}

onEachBackend("decay", ({ device }) => {
  test.each(cases(0))("exactly 0 forgets even the largest state: $name", ({ given }) => {
    const large = reference(
      given.state!.shape,
      given.state!.data.map((x) => Math.fround(x * 1e37)),
    );
    const from = runGatedDelta(device, { ...given, state: large }, allF32);
    const fresh = runGatedDelta(device, { ...given, readSlots: [-1, -1] }, allF32);
    expectSameBits("out", from.out, fresh.out);
    expectSameBits("state", from.state!, fresh.state!);
    expect(from.out.every((value) => value !== 0)).toBe(true);
  });

  test.each(cases(1))("exactly 1 with β 0 keeps every bit of the state: $name", ({ given }) => {
    const still = { ...given, beta: all(given.beta, 0) };
    const { state } = runGatedDelta(device, still, allF32);
    expectSameBits("state", state!, Float32Array.from(given.state!.data));
  });
});

onOnly("cpu", "decay", ({ device }) => {
  test("below the normal numbers, where GPUs may say 0, decays are float32's own", () => {
    const gates = [-80, -87, -87.5, -88, -90, -95, -100, -102, -103];
    for (const gate of gates) {
      const given = buildGatedDelta(spec);
      const large = reference(
        given.state!.shape,
        given.state!.data.map((x) => Math.fround(x * 1e37)),
      );
      const one = { ...given, gate: all(given.gate, gate), state: large };
      const expected = deltaOf({ ...one, decayFormat: "f32" });
      const got = runGatedDelta(device, one, allF32);
      expectNear(`decay exp(${gate})`, got.out, expected.out.data, bounds.f32);
      expectNear(`decay exp(${gate}), state`, got.state!, expected.state!.data, bounds.f32);
    }
  });
});
