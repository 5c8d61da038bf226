/**
 * NaN and infinity stay where they belong: the reference, given a NaN, tells which results depend on that number. All
 * other results keep their bits, whatever the number is.
 */
import { expect, test } from "bun:test";
import { linear } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import { causalConv1d } from "../reference/causal-conv1d.ts";
import { gatedDelta } from "../reference/gated-delta.ts";
import { gatedDeltaStep } from "../reference/gated-delta-step.ts";
import { gatedRmsNorm } from "../reference/gated-rms-norm.ts";
import { linear as linearOf } from "../reference/linear.ts";
import { copyOf } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep, buildGatedRmsNorm, fill } from "../support/cases.ts";
import type { StepSpec } from "../support/cases.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { plainConv, plainNorm, plainStep } from "../support/plain-specs.ts";
import { Random } from "../support/random.ts";
import {
  allF32,
  runCausalConv1d,
  runChecked,
  runGatedDelta,
  runGatedDeltaStep,
  runGatedRmsNorm,
} from "../support/run-ops.ts";

type Results = readonly (Float32Array | Float64Array)[];
type Tensors = Readonly<Record<string, Reference | undefined>>;

interface Subject {
  readonly name: string;
  readonly inputs: Tensors;
  /** The op on changed inputs, on the library and on the reference: the same results in the same order. */
  readonly run: (device: Device, inputs: Tensors) => Results;
  readonly reference: (inputs: Tensors) => Results;
}

const spec: StepSpec = {
  ...plainStep,
  seed: 41,
  ratio: 2,
  // A key dimension that does not fill a vector: its padding must not turn an infinity into NaN elsewhere.
  keyDim: 24,
  valueDim: 8,
  width: 3,
  slots: 4,
  readSlots: [3, 1, 0],
};

const batch = { lengths: [5, 9, 2], rowsBeyond: 0, slots: 4, readSlots: [3, 1, 0], writeSlots: [0, 1, 2] };

function deltaSubject(name: string, more: Partial<StepSpec>): Subject {
  const { query, key, value, gate, beta, aLog, dtBias, state, ...rest } = buildGatedDelta({ ...spec, ...more, batch });
  const given = (inputs: Tensors) => ({ ...rest, ...inputs }) as Parameters<typeof gatedDelta>[0];
  return {
    name,
    inputs: { query, key, value, gate, beta, aLog, dtBias, state },
    run: (device, inputs) => {
      const { out, state: after } = runGatedDelta(device, given(inputs), allF32);
      return [out, after!];
    },
    reference: (inputs) => {
      const { out, state: after } = gatedDelta(given(inputs));
      return [out.data, after!.data];
    },
  };
}

function convSubject(): Subject {
  const { x, weight, bias, state, ...rest } = buildCausalConv1d({ ...plainConv, channels: 21, width: 3, batch });
  const given = (inputs: Tensors) => ({ ...rest, ...inputs }) as Parameters<typeof causalConv1d>[0];
  return {
    name: "causalConv1d",
    inputs: { x, weight, bias, state },
    run: (device, inputs) => {
      const { out, state: after } = runCausalConv1d(device, given(inputs), allF32);
      return [out, after!];
    },
    reference: (inputs) => {
      const { out, state: after } = causalConv1d(given(inputs));
      return [out.data, after!.data];
    },
  };
}

function normSubject(order: "norm-then-gate" | "gate-then-norm"): Subject {
  const { x, z, weight, ...rest } = buildGatedRmsNorm({ ...plainNorm, dim: 19, activation: "sigmoid", order });
  const given = (inputs: Tensors) => ({ ...rest, ...inputs }) as Parameters<typeof gatedRmsNorm>[0];
  return {
    name: `gatedRmsNorm ${order}`,
    inputs: { x, z, weight },
    run: (device, inputs) => [runGatedRmsNorm(device, given(inputs), allF32)],
    reference: (inputs) => [gatedRmsNorm(given(inputs)).data],
  };
}

function stepSubject(name: string, more: Partial<StepSpec>): Subject {
  const { x, convWeight, convBias, convState, gate, beta, aLog, dtBias, state, z, normWeight, ...rest } =
    buildGatedDeltaStep({ ...spec, ...more });
  const given = (inputs: Tensors) => ({ ...rest, ...inputs }) as Parameters<typeof gatedDeltaStep>[0];
  return {
    name,
    inputs: { x, convWeight, convBias, convState, gate, beta, aLog, dtBias, state, z, normWeight },
    run: (device, inputs) => {
      const got = runGatedDeltaStep(device, given(inputs), allF32);
      return [got.out, got.state, got.convState];
    },
    reference: (inputs) => {
      const got = gatedDeltaStep(given(inputs));
      return [got.out.data, got.state.data, got.convState.data];
    },
  };
}

function linearSubject(): Subject {
  const random = new Random(3);
  const matrix = (rows: number) => fill([rows, 37], "f32", () => random.normal());
  return {
    name: "linear",
    inputs: { x: matrix(5), weight: matrix(11) },
    run: (device, { x, weight }) => {
      using layouts = new Layouts(device);
      const out = layouts.out("out", "f32", [5, 11]);
      runChecked(
        device,
        layouts,
        linear({ x: layouts.rows("x", "f32", x!), weight: layouts.packed("weight", "f32", weight!), out }),
      );
      return [download(out)];
    },
    reference: ({ x, weight }) => [linearOf(x!, weight!).data],
  };
}

const subjects = [
  deltaSubject("gatedDelta", {}),
  deltaSubject("gatedDelta, gates per key", { gateDims: "key", headMap: "tiled", qkNorm: "none", gateForm: "log" }),
  deltaSubject("gatedDelta, l2-max", { qkNorm: "l2-max", gateForm: "neg-log", betaForm: "given" }),
  convSubject(),
  normSubject("norm-then-gate"),
  normSubject("gate-then-norm"),
  stepSubject("gatedDeltaStep", {}),
  stepSubject("gatedDeltaStep, gates per key", {
    gateDims: "key",
    headMap: "tiled",
    qkNorm: "rms",
    gateForm: "raw-bounded",
  }),
  linearSubject(),
];

onEachBackend("NaN and infinity", ({ device }) => {
  test.each(subjects)("$name: only what depends on a number changes with it", ({ inputs, run, reference, name }) => {
    const random = new Random(name.length);
    const clean = run(device, inputs);
    for (const [input, tensor] of Object.entries(inputs)) {
      if (tensor === undefined) continue;
      for (let round = 0; round < 4; round++) {
        const at = random.below(tensor.data.length);
        const changed = (value: number): Tensors => {
          const copy = copyOf(tensor);
          copy.data[at] = value;
          return { ...inputs, [input]: copy };
        };
        const dependent = reference(changed(NaN)).map((result) => [...result].map(Number.isNaN));
        for (const value of [NaN, Infinity, -Infinity]) {
          const got = run(device, changed(value));
          got.forEach((result, r) => {
            const depends = dependent[r]!;
            const elsewhere = (numbers: ArrayLike<number>) => Float32Array.from(numbers).filter((_, i) => !depends[i]);
            expectSameBits(`${input}[${at}] = ${value}, result ${r}`, elsewhere(result), elsewhere(clean[r]!));
            if (!Number.isNaN(value)) return;
            const lost = depends.findIndex((yes, i) => yes && !Number.isNaN(result[i]!));
            expect(`${input}[${at}]: first result ${r} that lost NaN: ${lost}`).toBe(
              `${input}[${at}]: first result ${r} that lost NaN: -1`,
            );
          });
        }
      }
    }
  });

  test("infinity stays infinity where keys and queries are positive, whatever pads a row", () => {
    for (const keyDim of [8, 16, 24, 32, 40, 72]) {
      const given = buildGatedDelta({
        ...spec,
        keyDim,
        gateForm: "log",
        qkNorm: "none",
        betaForm: "given",
        batch: { ...batch, readSlots: [-1, -1, -1] },
      });
      const positive = (tensor: Reference) => ({
        shape: tensor.shape,
        data: tensor.data.map((x) => Math.fround(Math.abs(x) + 0.01)),
      });
      const value = copyOf(given.value);
      const at = 2 * 4 * 8 + 3; // token 2, head 0, row 3
      value.data[at] = Infinity;
      // No correction after it: infinity minus infinity would be NaN.
      const beta = {
        shape: given.beta.shape,
        data: given.beta.data.map((b, i) => (i < 3 * 4 ? b + 0.01 : 0)).map(Math.fround),
      };
      const sound = { ...given, query: positive(given.query), key: positive(given.key), value, beta };
      const expected = gatedDelta(sound).out.data;
      const got = runGatedDelta(device, sound, allF32).out;
      const infinite = (numbers: ArrayLike<number>) =>
        Array.from(numbers, (x, i) => (Number.isFinite(x) ? -1 : x === Infinity ? i : NaN));
      expect(expected[at]).toBe(Infinity);
      // A decayed infinity times beta 0 is NaN from the next token on, in both.
      expect(infinite(got)).toEqual(infinite(expected));
    }
  });
});
