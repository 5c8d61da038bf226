/** The benchmarks' own calls, at their own sizes: each result is compared with the float64 reference, and its time is printed. */
import { afterAll, describe, expect, test } from "bun:test";
import { Device, causalConv1d, copySlots, gatedDelta, gatedDeltaStep, gatedRmsNorm, linear } from "../lib/index.ts";
import type { GatedDeltaArguments, Op, Tensor } from "../lib/index.ts";
import { causalConv1d as convReference } from "../test/reference/causal-conv1d.ts";
import { copySlots as copyReference } from "../test/reference/copy-slots.ts";
import { gatedDeltaStep as stepReference } from "../test/reference/gated-delta-step.ts";
import { gatedDelta as deltaReference } from "../test/reference/gated-delta.ts";
import { gatedRmsNorm as normReference } from "../test/reference/gated-rms-norm.ts";
import { linear as linearReference } from "../test/reference/linear.ts";
import { dequantiseGgml } from "../test/reference/gguf.ts";
import type { GgmlName } from "../test/reference/gguf.ts";
import { dequantiseMicro, microFormats } from "../test/reference/micro.ts";
import type { MicroName } from "../test/reference/micro.ts";
import { dequantise } from "../test/reference/quantised.ts";
import { reference } from "../test/reference/tensor.ts";
import type { Reference } from "../test/reference/tensor.ts";
import { bounds, relRms } from "../lib/cli/verify/compare.ts";
import { firstDifference } from "../test/support/difference.ts";
import { convCalls } from "./cases/causal-conv1d.ts";
import { stepCalls } from "./cases/gated-delta-step.ts";
import { deltaCalls } from "./cases/gated-delta.ts";
import { normCalls } from "./cases/gated-rms-norm.ts";
import { linearFormCalls, linearName, linearShapes } from "./cases/linear.ts";
import { copyCalls, linearCalls } from "./cases/plain.ts";
import { numbers, printFigure } from "./figures.ts";
import type { Calls } from "./operands.ts";
import { nameOf } from "./shapes.ts";
import type { Shape } from "./shapes.ts";
import { chainOf } from "./step-chain.ts";

const device = Device.open({ backend: "cpu", threads: 1 });
afterAll(() => device.close());

const decode: Shape = { dtype: "f32", sequences: 1, tokens: 1, valueHeads: 32, threads: 1, temperature: "hot" };
const shapes: readonly Shape[] = [
  decode,
  { ...decode, sequences: 8 },
  { ...decode, tokens: 16 },
  { ...decode, dtype: "bf16" },
];

function run(...ops: readonly Op[]): void {
  device.run(...ops);
  device.wait();
}

/** A 16-bit result is rounded once, and so is the reference's, by the comparison's own bound. */
function expectNear(tensor: Tensor, expected: Reference): void {
  expect(relRms(numbers(tensor).data, expected.data)).toBeLessThanOrEqual(bounds[tensor.dtype as "f32" | "bf16"]);
}

/** The first call of a benchmark, and a function that frees its tensors. */
function first<Arguments>({ calls, tensors }: Calls<Arguments>): { readonly call: Arguments } & Disposable {
  return { call: calls[0]!, [Symbol.dispose]: () => tensors.forEach((tensor) => tensor[Symbol.dispose]()) };
}

function deltaExpected({ query, key, value, gate, beta, state, cuSeqlens }: GatedDeltaArguments) {
  return deltaReference({
    query: numbers(query),
    key: numbers(key),
    value: numbers(value),
    gate: numbers(gate),
    beta: numbers(beta),
    state: numbers(state!),
    cuSeqlens: cuSeqlens as readonly number[],
    gateForm: "log",
    qkNorm: "l2",
    decayFormat: "f32",
  });
}

describe("gatedDelta", () => {
  for (const shape of shapes) {
    const name = nameOf("gatedDelta", shape);
    test(name, async () => {
      using made = first(deltaCalls(device, shape));
      const expected = deltaExpected(made.call);
      const op = gatedDelta(made.call);
      run(op);
      expectNear(made.call.out, expected.out);
      expectNear(made.call.state!, expected.state!);
      await printFigure(name, () => run(op));
    });
  }

  const prompt: Shape = { ...decode, tokens: 40 };
  test(nameOf("gatedDelta-chunked", prompt), async () => {
    using made = first(deltaCalls(device, prompt, "chunked"));
    const expected = deltaExpected(made.call);
    const op = gatedDelta(made.call);
    run(op);
    expect(relRms(numbers(made.call.out).data, expected.out.data)).toBeLessThanOrEqual(bounds.chunked);
    expect(relRms(numbers(made.call.state!).data, expected.state!.data)).toBeLessThanOrEqual(bounds.chunked);
    await printFigure(nameOf("gatedDelta-chunked", prompt), () => run(op));
  });

  test("a cold rotation's calls each have states of their own", () => {
    const { calls, tensors } = deltaCalls(device, { ...decode, valueHeads: 64, temperature: "cold" });
    try {
      const bytes = calls.reduce((sum, { state }) => sum + state!.bytes, 0);
      expect(bytes).toBeGreaterThan(512 * 2 ** 20);
      const before = calls[1]!.state!.toFloat32();
      run(gatedDelta(calls[0]!));
      expect(firstDifference(calls[1]!.state!.toFloat32(), before)).toBeUndefined();
      run(gatedDelta(calls[1]!));
      expect(firstDifference(calls[1]!.state!.toFloat32(), before)).toBeDefined();
    } finally {
      for (const tensor of tensors) tensor[Symbol.dispose]();
    }
  });
});

describe("causalConv1d", () => {
  for (const shape of shapes) {
    const name = nameOf("causalConv1d", shape);
    test(name, async () => {
      using made = first(convCalls(device, shape));
      const { x, weight, state, out, cuSeqlens } = made.call;
      const expected = convReference({
        x: numbers(x),
        weight: numbers(weight),
        state: numbers(state!),
        cuSeqlens: cuSeqlens as readonly number[],
        activation: "silu",
      });
      const op = causalConv1d(made.call);
      run(op);
      expectNear(out, expected.out);
      expect([...numbers(state!).data]).toEqual([...expected.state!.data]);
      await printFigure(name, () => run(op));
    });
  }
});

describe("gatedRmsNorm", () => {
  for (const shape of shapes) {
    const name = nameOf("gatedRmsNorm", shape);
    test(name, async () => {
      using made = first(normCalls(device, shape));
      const { x, z, weight, out } = made.call;
      const op = gatedRmsNorm(made.call);
      run(op);
      expectNear(out, normReference({ x: numbers(x), z: numbers(z), weight: numbers(weight) }));
      await printFigure(name, () => run(op));
    });
  }
});

describe("gatedDeltaStep", () => {
  for (const shape of shapes.filter(({ tokens }) => tokens === 1)) {
    const name = nameOf("gatedDeltaStep", shape);
    test(name, async () => {
      using made = first(stepCalls(device, shape));
      using again = first(stepCalls(device, shape));
      const { between: _, ...args } = made.call;
      const {
        x,
        convWeight,
        convState,
        gate,
        beta,
        aLog,
        dtBias,
        state,
        z,
        normWeight,
        keyHeads,
        gateForm,
        betaForm,
        qkNorm,
      } = args;
      const expected = stepReference({
        ...{
          keyHeads,
          gateForm,
          betaForm: betaForm!,
          qkNorm: qkNorm!,
          format: shape.dtype as "f32" | "bf16",
          decayFormat: "f32",
        },
        x: numbers(x),
        convWeight: numbers(convWeight),
        convState: numbers(convState!),
        gate: numbers(gate),
        beta: numbers(beta),
        aLog: numbers(aLog!),
        dtBias: numbers(dtBias!),
        state: numbers(state!),
        z: numbers(z),
        normWeight: numbers(normWeight),
      });
      const op = gatedDeltaStep(args);
      run(op);
      expectNear(args.out, expected.out);
      expectNear(state!, expected.state);
      await printFigure(name, () => run(op));
      const chain = chainOf(again.call);
      run(...chain);
      expectNear(again.call.out, expected.out);
      await printFigure(nameOf("gatedDeltaStep-unfused", shape), () => run(...chain));
    });
  }
});

describe("plain ops", () => {
  test(nameOf("linear", decode), async () => {
    using made = first(linearCalls(device, decode));
    const { x, weight, out } = made.call;
    const op = linear(made.call);
    run(op);
    expectNear(out, linearReference(numbers(x), numbers(weight)));
    await printFigure(nameOf("linear", decode), () => run(op));
  });

  const few = { rows: 3, inFeatures: 256, outFeatures: 70, threads: 1, temperature: "hot" } as const;
  for (const form of new Set(linearShapes([1]).map(({ form }) => form))) {
    const shape = { ...few, form };
    test(linearName(shape), async () => {
      using made = first(linearFormCalls(device, shape));
      const { x, weight, scales, biases, out } = made.call;
      const op = linear(made.call);
      run(op);
      const { weightFormat = "f32" } = made.call;
      const matrix = weightFormat in microFormats
        ? dequantiseMicro({ format: weightFormat as MicroName, words: reference(weight.shape, weight.data), scales: reference(scales!.shape, scales!.data) })
        : weight.dtype === "u8"
        ? reference([shape.outFeatures, shape.inFeatures], dequantiseGgml(weightFormat as GgmlName, new Uint8Array(weight.data)))
        : (scales && biases)
        ? dequantise({
            bits: (32 * weight.shape[1]!) / shape.inFeatures,
            group: shape.inFeatures / scales.shape[1]!,
            words: reference(weight.shape, weight.data), // float32 does not hold them
            scales: numbers(scales),
            biases: numbers(biases),
          })
        : numbers(weight);
      expectNear(out, linearReference(numbers(x), matrix));
      await printFigure(linearName(shape), () => run(op));
    });
  }

  test(nameOf("copySlots", decode), async () => {
    using made = first(copyCalls(device, decode));
    const { pool, readSlots, writeSlots } = made.call;
    pool.slice(0, 1).data.fill(3);
    const expected = copyReference(numbers(pool), readSlots as readonly number[], writeSlots as readonly number[]);
    const op = copySlots(made.call);
    run(op);
    expect(firstDifference(numbers(pool).data, expected.data)).toBeUndefined();
    await printFigure(nameOf("copySlots", decode), () => run(op));
  });
});
