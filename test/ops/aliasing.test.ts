/** Inputs may share memory; outputs share none. */
import { expect, test } from "bun:test";
import { causalConv1d, copySlots, gatedDelta, gatedDeltaStep, gatedRmsNorm, linear } from "../../lib/index.ts";
import type { Device, FloatDType, Op, Tensor } from "../../lib/index.ts";
import { reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, fill } from "../support/cases.ts";
import type { GatedDeltaSpec } from "../support/cases.ts";
import { thrownBy } from "../support/devices.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, bytesOf, download } from "../support/layouts.ts";
import { plainConv, plainDelta } from "../support/plain-specs.ts";
import { Random } from "../support/random.ts";
import { allF32, placeGatedDelta, runChecked, runGatedDelta } from "../support/run-ops.ts";

const spec: GatedDeltaSpec = {
  ...plainDelta,
  seed: 81,
  gateForm: "raw",
  betaForm: "sigmoid",
  batch: { lengths: [6, 0, 3], rowsBeyond: 1, slots: 3, readSlots: [0, 1, 2], writeSlots: [0, 1, 2] },
};

onEachBackend("shared inputs", ({ device }) => {
  test.each(["f32", "f16", "bf16"] as const)(
    "query, key and value as views of one packed convolution output, %s",
    (format) => {
      const given = buildGatedDelta({ ...spec, format });
      const [tokens, keyHeads, keyDim] = given.query.shape as [number, number, number];
      const [, valueHeads, valueDim] = given.value.shape as [number, number, number];
      const keys = keyHeads * keyDim;
      const channels = 2 * keys + valueHeads * valueDim;
      const conv = buildCausalConv1d({ ...plainConv, seed: 81, format, channels, batch: spec.batch });
      const run = (separate: boolean) => {
        using layouts = new Layouts(device);
        const args = placeGatedDelta(layouts, given, allF32);
        using x = device.tensorFrom(format, conv.x.shape, conv.x.data);
        using weight = device.tensorFrom("f32", conv.weight.shape, conv.weight.data);
        using packed = device.tensor(format, [tokens, channels]);
        const part = (offset: number, heads: number, dim: number) =>
          packed.view({ offset, shape: [tokens, heads, dim], strides: [channels, dim, 1] });
        const views = [part(0, keyHeads, keyDim), part(keys, keyHeads, keyDim), part(2 * keys, valueHeads, valueDim)];
        const convolve = causalConv1d({ x, weight, out: packed, cuSeqlens: given.cuSeqlens });
        if (separate) {
          device.run(convolve);
          device.wait();
        }
        const [query, key, value] = views.map((view) =>
          separate ? device.tensor(format, view.shape).copyFrom(view) : view,
        );
        const delta = gatedDelta({ ...args, query: query!, key: key!, value: value! });
        runChecked(device, layouts, ...(separate ? [delta] : [convolve, delta]));
        return { out: download(args.out, 9), state: download(args.state!) };
      };
      const [views, copies] = [run(false), run(true)];
      expectSameBits("out", views.out, copies.out);
      expectSameBits("state", views.state, copies.state);
      expect(views.out.some((value) => value !== 0)).toBe(true);
    },
  );

  test("one tensor for several inputs", () => {
    const square = buildGatedDelta({ ...spec, ratio: 1, valueDim: 16 });
    const shared = { ...square, key: square.query, value: square.query, beta: square.gate, dtBias: square.aLog };
    const expected = runGatedDelta(device, shared, allF32);
    using layouts = new Layouts(device);
    const args = placeGatedDelta(layouts, shared, allF32);
    const { query, gate, aLog } = args;
    runChecked(device, layouts, gatedDelta({ ...args, key: query, value: query, beta: gate, dtBias: aLog }));
    expectSameBits("out", download(args.out, 9), expected.out);
    expectSameBits("state", download(args.state!), expected.state!);
  });

  test("norm: x is z; linear: x is the weight; step: weights in one buffer", () => {
    const random = new Random(2);
    const numbers = fill([6, 6], "f32", () => random.normal());
    using x = device.tensorFrom("f32", [6, 6], numbers.data);
    using z = device.tensorFrom("f32", [6, 6], numbers.data);
    const weight = x.view({ shape: [6] });
    const ownWeight = device.tensorFrom("f32", [6], numbers.data.subarray(0, 6));
    const outs = Array.from({ length: 4 }, () => device.tensor("f32", [6, 6]));
    device.run(
      gatedRmsNorm({ x, z: x, weight, out: outs[0]! }),
      gatedRmsNorm({ x, z, weight: ownWeight, out: outs[1]! }),
      linear({ x, weight: x, out: outs[2]! }),
      linear({ x, weight: z, out: outs[3]! }),
    );
    device.wait();
    expectSameBits("norm", outs[0]!.data.slice(), outs[1]!.data.slice());
    expectSameBits("linear", outs[2]!.data.slice(), outs[3]!.data.slice());
  });
});

type Shapes = Readonly<Record<string, readonly number[]>>;

interface Subject {
  readonly name: string;
  readonly shapes: Shapes;
  /** The tensors that the op writes. */
  readonly outputs: readonly string[];
  readonly op: (tensors: Record<string, Tensor>) => Op;
}

const subjects: readonly Subject[] = [
  {
    name: "gatedDelta",
    shapes: {
      query: [4, 1, 8],
      key: [4, 1, 8],
      value: [4, 2, 16],
      gate: [4, 2],
      beta: [4, 2],
      aLog: [2],
      dtBias: [2],
      state: [3, 2, 16, 8],
      out: [4, 2, 16],
    },
    outputs: ["state", "out"],
    op: (tensors) => gatedDelta({ ...(tensors as unknown as Parameters<typeof gatedDelta>[0]), gateForm: "raw" }),
  },
  {
    name: "causalConv1d",
    shapes: { x: [4, 16], weight: [16, 4], bias: [16], state: [2, 16, 3], out: [4, 16] },
    outputs: ["state", "out"],
    op: (tensors) => causalConv1d(tensors as unknown as Parameters<typeof causalConv1d>[0]),
  },
  {
    name: "gatedRmsNorm",
    shapes: { x: [4, 2, 8], z: [4, 2, 8], weight: [8], out: [4, 2, 8] },
    outputs: ["out"],
    op: (tensors) => gatedRmsNorm(tensors as unknown as Parameters<typeof gatedRmsNorm>[0]),
  },
  {
    name: "gatedDeltaStep",
    shapes: {
      x: [2, 48],
      convWeight: [48, 4],
      convBias: [48],
      convState: [3, 48, 3],
      gate: [2, 2],
      beta: [2, 2],
      aLog: [2],
      dtBias: [2],
      state: [3, 2, 16, 8],
      z: [2, 2, 16],
      normWeight: [16],
      out: [2, 2, 16],
    },
    outputs: ["convState", "state", "out"],
    op: (tensors) =>
      gatedDeltaStep({ ...(tensors as unknown as Parameters<typeof gatedDeltaStep>[0]), keyHeads: 1, gateForm: "raw" }),
  },
  {
    name: "linear",
    shapes: { x: [3, 16], weight: [8, 16], out: [3, 8] },
    outputs: ["out"],
    op: (tensors) => linear(tensors as unknown as Parameters<typeof linear>[0]),
  },
];

const sizeOf = (shape: readonly number[]) => shape.reduce((product, length) => product * length, 1);

/** Fresh tensors of an op; the two named ones lie in one buffer, the second starts `gap` elements after the first ends. */
function tensorsWith(
  device: Device,
  shapes: Shapes,
  first: string,
  second: string,
  gap: number,
  dtype: FloatDType = "f32",
) {
  const [a, b] = [shapes[first]!, shapes[second]!];
  const shared = device.tensor(dtype, [sizeOf(a) + sizeOf(b) + 64]);
  const start = Math.ceil(sizeOf(a) / 8) * 8;
  const views = { [first]: shared.view({ shape: a }), [second]: shared.view({ offset: start + gap, shape: b }) };
  const others = Object.entries(shapes).map(
    ([name, shape]) => [name, views[name] ?? device.tensor(dtype, shape)] as const,
  );
  const tensors: Record<string, Tensor> = Object.fromEntries(others);
  const bases = [shared, ...others.filter(([name]) => !(name in views)).map(([, tensor]) => tensor)];
  shared.copyFrom(new Float32Array(shared.size).fill(7));
  // The same numbers, wherever a tensor is placed.
  for (const [i, tensor] of Object.values(tensors).entries()) {
    const random = new Random(i + 1);
    tensor.copyFrom(Float32Array.from({ length: tensor.size }, () => random.normal()));
  }
  return { tensors, bases };
}

onEachBackend("shared outputs", ({ device }) => {
  test.each(subjects)(
    "$name: an output that overlaps anything by one row is refused, and nothing is written",
    ({ shapes, outputs, op }) => {
      for (const output of outputs) {
        for (const other of Object.keys(shapes)) {
          if (other === output) continue;
          for (const [first, second] of [
            [output, other],
            [other, output],
          ] as const) {
            // Small tensors are padded to 8 elements: reach back over the padding into the tensor.
            const { tensors, bases } = tensorsWith(device, shapes, first, second, -8);
            const before = bases.map((base) => bytesOf(base).slice());
            const error = thrownBy(() => device.run(op(tensors)));
            expect([output, other, error.code]).toEqual([output, other, "overlap"]);
            expect([first, second]).toContain(error.argument ?? "none");
            expect(thrownBy(() => device.plan((pass) => pass.encode(op(tensors)))).code).toBe("overlap");
            device.wait();
            bases.forEach((base, i) => expect(bytesOf(base)).toEqual(before[i]!));
            for (const base of bases) base[Symbol.dispose]();
          }
        }
      }
    },
  );

  test.each(subjects)("$name: tensors that only touch are legal", ({ shapes, outputs, op }) => {
    for (const output of outputs) {
      for (const other of Object.keys(shapes)) {
        if (other === output) continue;
        const { tensors, bases } = tensorsWith(device, shapes, other, output, 0);
        const { tensors: apart } = tensorsWith(device, shapes, other, output, 8);
        device.run(op(tensors), op(apart));
        device.wait();
        for (const name of outputs)
          expectSameBits(`${output} behind ${other}: ${name}`, download(tensors[name]!), download(apart[name]!));
        for (const base of bases) base[Symbol.dispose]();
      }
    }
  });

  test("an input in the gaps of an output is inside what it covers", () => {
    const packed = device.tensor("f32", [4, 4, 16]);
    const [even, odd] = [0, 16].map((offset) => packed.view({ offset, shape: [4, 2, 16], strides: [64, 32, 1] }));
    const weight = device.tensor("f32", [16]);
    const before = bytesOf(packed).slice();
    const error = thrownBy(() => device.run(gatedRmsNorm({ x: even!, z: even!, weight, out: odd! })));
    expect([error.code, error.argument]).toEqual(["overlap", "out"]);
    device.wait();
    expect(bytesOf(packed)).toEqual(before);
    // Two inputs may interleave.
    device.run(gatedRmsNorm({ x: even!, z: odd!, weight, out: device.tensor("f32", [4, 2, 16]) }));
    device.wait();
  });

  test("one op's output is the next one's input, and the first one's input the next one's output", () => {
    const random = new Random(3);
    const numbers = fill([5, 8], "f32", () => random.normal());
    const matrix = reference([8, 8], fill([8, 8], "f32", () => random.normal()).data);
    const [x, weight] = [numbers, matrix].map(({ shape, data }) => device.tensorFrom("f32", shape, data)) as [
      Tensor,
      Tensor,
    ];
    const [y, z, again] = [0, 1, 2].map(() => device.tensor("f32", [5, 8])) as [Tensor, Tensor, Tensor];
    device.run(linear({ x, weight, out: y }));
    device.run(linear({ x: y, weight, out: z }));
    device.run(linear({ x: z, weight, out: again }));
    device.wait();
    const expected = [download(y), download(z), download(again)];
    device.run(
      linear({ x, weight, out: y }),
      linear({ x: y, weight, out: x }),
      linear({ x, weight, out: again }),
      copySlots({ pool: y, readSlots: [1], writeSlots: [0] }),
    );
    device.wait();
    expectSameBits("second", download(x), expected[1]!);
    expectSameBits("third", download(again), expected[2]!);
    expectSameBits("first, its row 1 copied to row 0", download(y).subarray(0, 8), expected[0]!.subarray(8, 16));
  });
});
