/** Free strides: any valid layout gives the bits of a contiguous one, and an invalid one is refused by name. */
import fc from "fast-check";
import { expect, test } from "bun:test";
import { causalConv1d, gatedDelta, gatedRmsNorm, linear } from "../../lib/index.ts";
import type { ErrorCode, Op, Tensor } from "../../lib/index.ts";
import { reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { buildCausalConv1d, buildGatedDelta, buildGatedDeltaStep, buildGatedRmsNorm } from "../support/cases.ts";
import { thrownBy } from "../support/devices.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { plainDelta, twoSequences } from "../support/plain-specs.ts";
import { forAll, specsFor } from "../support/property.ts";
import { Random } from "../support/random.ts";
import {
  allF32,
  convFormats,
  deltaFormats,
  normFormats,
  placeGatedDelta,
  runCausalConv1d,
  runChecked,
  runGatedDelta,
  runGatedDeltaStep,
  runGatedRmsNorm,
  stepFormats,
} from "../support/run-ops.ts";

onEachBackend("strides", (backend) => {
  const { device } = backend;
  const layouts = fc.integer({ min: 1, max: 2 ** 30 });

  test("gatedDelta: every layout gives the bits of the contiguous one", () => {
    forAll(backend, 150, fc.tuple(specsFor.gatedDelta(backend), layouts), ([one, seed]) => {
      const given = buildGatedDelta(one);
      const plain = runGatedDelta(device, given, deltaFormats(one));
      const strided = runGatedDelta(device, given, deltaFormats(one), { layouts: new Random(seed) });
      expectSameBits("out", strided.out, plain.out);
      if (plain.state) expectSameBits("state", strided.state!, plain.state);
    });
  });

  test("causalConv1d, gatedRmsNorm, gatedDeltaStep: the same", () => {
    forAll(backend, 150, fc.tuple(specsFor.causalConv1d(backend), layouts), ([one, seed]) => {
      const given = buildCausalConv1d(one);
      const plain = runCausalConv1d(device, given, convFormats(one));
      const strided = runCausalConv1d(device, given, convFormats(one), { layouts: new Random(seed) });
      expectSameBits("out", strided.out, plain.out);
      if (plain.state) expectSameBits("state", strided.state!, plain.state);
    });
    forAll(backend, 150, fc.tuple(specsFor.gatedRmsNorm(backend), layouts), ([one, seed]) => {
      const given = buildGatedRmsNorm(one);
      const plain = runGatedRmsNorm(device, given, normFormats(one));
      expectSameBits("out", runGatedRmsNorm(device, given, normFormats(one), { layouts: new Random(seed) }), plain);
    });
    forAll(backend, 100, fc.tuple(specsFor.gatedDeltaStep(backend), layouts), ([one, seed]) => {
      const given = buildGatedDeltaStep(one);
      const plain = runGatedDeltaStep(device, given, stepFormats(one));
      const strided = runGatedDeltaStep(device, given, stepFormats(one), { layouts: new Random(seed) });
      expectSameBits("out", strided.out, plain.out);
      expectSameBits("state", strided.state, plain.state);
      expectSameBits("convState", strided.convState, plain.convState);
    });
  });

  test("input rows may overlap: a window that moves by 8 elements a token", () => {
    const batch = { ...twoSequences, lengths: [5, 2] };
    const given = buildGatedDelta({ ...plainDelta, keyHeads: 1, ratio: 1, keyDim: 32, valueDim: 32, batch });
    const random = new Random(9);
    const windows = { offset: 8, strides: [8, 32, 1] };
    const line = Array.from({ length: 8 + 6 * 8 + 32 }, () => Math.fround(random.normal()));
    const window = reference(
      [7, 1, 32],
      Array.from({ length: 7 * 32 }, (_, i) => line[8 + Math.floor(i / 32) * 8 + (i % 32)]!),
    );
    const expected = runGatedDelta(device, { ...given, query: window, key: window, value: window }, allF32);
    using placed = new Layouts(device);
    const args = placeGatedDelta(placed, given, allF32);
    using base = device.tensorFrom("f32", [line.length], line);
    const view = base.view({ ...windows, shape: [7, 1, 32] });
    runChecked(device, placed, gatedDelta({ ...args, query: view, key: view, value: view }));
    expectSameBits("out", download(args.out), expected.out);
    expectSameBits("state", download(args.state!), expected.state!);
  });

  test("strides far larger than the tensor", () => {
    const far = 3_000_000;
    using base = device.tensor("bf16", [2 * far + 8]);
    using weight = device.tensorFrom(
      "f32",
      [8, 2],
      Array.from({ length: 16 }, (_, i) => i),
    );
    using out = device.tensor("f32", [3, 8]);
    using packed = device.tensor("bf16", [3, 8]);
    const x = base.view({ shape: [3, 8], strides: [far, 1] });
    const numbers = Array.from({ length: 24 }, (_, i) => i - 11);
    x.copyFrom(numbers);
    packed.copyFrom(numbers);
    using expected = device.tensor("f32", [3, 8]);
    device.run(causalConv1d({ x, weight, out }), causalConv1d({ x: packed, weight, out: expected }));
    device.wait();
    expectSameBits("out", out.data.slice(), expected.data.slice());
  });
});

/** A refused call: nothing is written, and the error names the argument. */
onEachBackend("illegal layouts", ({ device }) => {
  const memory = (fill: number) => {
    const base = device.tensor("f32", [4096]);
    base.data.fill(fill);
    return base;
  };
  const bases = {
    query: memory(1),
    key: memory(2),
    value: memory(3),
    out: memory(4),
    gate: memory(0.5),
    beta: memory(0.25),
  };
  const good = { shape: [4, 2, 16], strides: [48, 24, 1], offset: 8 };
  const views = (change: Partial<Record<keyof typeof bases, object>>) => {
    const per = { shape: [4, 2] };
    const layout = (name: keyof typeof bases) => ({
      ...(name === "gate" || name === "beta" ? per : good),
      ...change[name],
    });
    return Object.fromEntries(
      Object.entries(bases).map(([name, base]) => [name, base.view(layout(name as keyof typeof bases))]),
    ) as Record<keyof typeof bases, Tensor>;
  };
  const refused = (make: () => Op, argument: string, code: ErrorCode) => {
    const before = Object.values(bases).map(({ data }) => data.slice());
    const error = thrownBy(() => device.run(make()));
    expect([error.code, error.argument]).toEqual([code, argument]);
    device.wait();
    Object.values(bases).forEach(({ data }, i) => expect(data).toEqual(before[i]!));
  };

  test("the layouts that the others differ from are legal", () => {
    device.run(gatedDelta({ ...views({}), gateForm: "decay" }));
    device.wait();
    bases.out.data.fill(4);
  });

  test.each(["query", "key", "value", "out"] as const)(
    "%s: offsets and strides that are no multiple of 8 elements",
    (name) => {
      const delta = (change: object) => () => gatedDelta({ ...views({ [name]: change }), gateForm: "decay" });
      refused(delta({ offset: 4 }), name, "range");
      refused(delta({ strides: [52, 24, 1] }), name, "shape");
      refused(delta({ strides: [48, 20, 1] }), name, "shape");
    },
  );

  test("rows of an output that overlap each other", () => {
    refused(() => gatedDelta({ ...views({ out: { strides: [8, 64, 1] } }), gateForm: "decay" }), "out", "overlap");
    refused(() => gatedDelta({ ...views({ out: { strides: [48, 8, 1] } }), gateForm: "decay" }), "out", "overlap");
    refused(() => gatedDelta({ ...views({ out: { strides: [16, 16, 1] } }), gateForm: "decay" }), "out", "overlap");
    const flat = { x: bases.query.view({ shape: [4, 16] }), weight: bases.key.view({ shape: [16, 2] }) };
    refused(
      () => causalConv1d({ ...flat, out: bases.out.view({ shape: [4, 16], strides: [8, 1] }) }),
      "out",
      "overlap",
    );
    const norm = {
      x: bases.query.view({ shape: [4, 16] }),
      z: bases.key.view({ shape: [4, 16] }),
      weight: bases.value.view({ shape: [16] }),
    };
    refused(
      () => gatedRmsNorm({ ...norm, out: bases.out.view({ shape: [4, 16], strides: [8, 1] }) }),
      "out",
      "overlap",
    );
    const product = { x: bases.query.view({ shape: [4, 16] }), weight: bases.key.view({ shape: [16, 16] }) };
    refused(() => linear({ ...product, out: bases.out.view({ shape: [4, 16], strides: [8, 1] }) }), "out", "overlap");
  });

  test("rows that are no vectors lie anywhere", () => {
    const odd = { shape: [4, 5], strides: [7, 1], offset: 3 };
    const x = bases.query.view(odd);
    const weight = bases.key.view({ shape: [5, 3], offset: 1 });
    const out = bases.out.view({ ...odd, strides: [6, 1], offset: 1 });
    device.run(causalConv1d({ x, weight, out, activation: "none" }));
    device.wait();
    // Ones times twos: one, two, then three taps.
    expect([...out.toFloat32()]).toEqual([2, 4, 6, 6].flatMap((value) => new Array<number>(5).fill(value)));
    bases.out.data.fill(4);
  });
});
