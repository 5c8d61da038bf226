import fc from "fast-check";
import { describe, expect, test } from "bun:test";
import { BoundsError, embedding, topK } from "../../lib/index.ts";
import type { FloatDType, Indices, Tensor } from "../../lib/index.ts";
import { encode, toFloat32 } from "../../lib/tensor/dtype.ts";
import { dequantise } from "../reference/quantised.ts";
import { affineFiles, loadAffine } from "../support/affine.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { forAll } from "../support/property.ts";
import { bitWidths, groupSizes, placeQuantised, randomQuantised } from "../support/quantised.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

const formats = ["f32", "f16", "bf16"] as const;
/** The largest relative change of a number by rounding. */
const halfUnit = { f32: 2 ** -24, f16: 2 ** -11, bf16: 2 ** -8 } as const;

onEachBackend("embedding", (backend) => {
  const { device } = backend;
  /** Without fused multiply-add an element is rounded twice. */
  const fuses = device.isa !== "baseline";

  /** Runs over strided outputs and compares with rows of `matrix`, rounded once. */
  function expectRows(matrix: Float32Array, dim: number, outFormat: FloatDType, ids: Indices, order: readonly number[], exact: boolean, place: (layouts: Layouts) => object, random?: Random): void {
    using layouts = new Layouts(device, random);
    const out = layouts.out("out", outFormat, [order.length, dim]);
    runChecked(device, layouts, embedding({ ...(place(layouts) as { weight: Tensor }), ids, out }));
    const wide = Float32Array.from(order.flatMap((id) => [...matrix.subarray(id * dim, (id + 1) * dim)]));
    if (exact) expectSameBits("out", download(out), toFloat32(outFormat, encode(outFormat, wide)));
    else expectNear("embedding without fused multiply-add", download(out), wide, halfUnit[outFormat] + bounds.f32);
  }

  describe.each(formats)("of %s", (format) => {
    test.each(formats)("to %s: rows of any length, each element rounded once", (outFormat) => {
      const random = new Random(51);
      for (const dim of [1, 3, 8, 17, 64, 1000, 1030, 2048]) {
        const matrix = fill([9, dim], format, () => random.normal());
        const order = [8, 0, 3, 3, 7];
        expectRows(Float32Array.from(matrix.data), dim, outFormat, order, order, true, (layouts) => ({ weight: layouts.packed("weight", format, matrix) }), random);
      }
    });
  });

  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
    bits: fc.constantFrom(...bitWidths),
    group: fc.constantFrom(...groupSizes),
    groups: fc.integer({ min: 1, max: 20 }),
    vocabulary: fc.integer({ min: 1, max: 40 }),
    rows: fc.nat({ max: 12 }),
    scales: fc.constantFrom(...formats),
    out: fc.constantFrom(...formats),
  });

  test("packed words: every element is one fused multiply-add, rounded once", () => {
    forAll(backend, 300, cases, ({ seed, bits, group, groups, vocabulary, rows, scales, out }) => {
      const random = new Random(seed);
      const weight = randomQuantised(random, [vocabulary, group * groups], bits, group, scales);
      const ids = Int32Array.from({ length: rows }, () => random.below(vocabulary));
      expectRows(Float32Array.from(dequantise(weight).data), group * groups, out, ids, [...ids], fuses, (layouts) => placeQuantised(layouts, weight, scales), random);
    });
  });

  test.each(affineFiles())("%s, quantised by MLX", (path) => {
    for (const { weight, q, format } of loadAffine(path)) {
      const matrix = dequantise(weight);
      matrix.data.forEach((value, i) => {
        const at = Math.floor(i / weight.group);
        expect(value).toBe(Math.fround(q[i]! * weight.scales.data[at]! + weight.biases.data[at]!));
      });
      expectRows(Float32Array.from(matrix.data), 256, "f32", [4, 1, 0], [4, 1, 0], fuses, (layouts) => placeQuantised(layouts, weight, format));
    }
  });

  test("no rows, and rows of no elements, are legal", () => {
    device.run(embedding({ weight: device.tensor("f32", [3, 8]), out: device.tensor("f32", [0, 8]), ids: [] }));
    device.run(embedding({ weight: device.tensor("f32", [3, 0]), out: device.tensor("f32", [2, 0]), ids: [2, 2] }));
    device.run(embedding({ weight: device.tensor("f32", [0, 8]), out: device.tensor("f32", [0, 8]), ids: [] }));
    device.wait();
  });

  test("ids that are out of range are refused by position, and nothing is written", () => {
    const weight = device.tensor("f32", [5, 4]);
    const out = device.tensor("f32", [3, 4]);
    out.data.fill(7);
    for (const [ids, argument] of [[[0, 5, 1], "ids[1]"], [[0, 1, -1], "ids[2]"], [[2 ** 31 - 1, 0, 0], "ids[0]"], [[0, -(2 ** 31), 9], "ids[1]"]] as const) {
      for (const given of [ids, Int32Array.from(ids), device.tensorFrom("i32", [3], ids)] as const) {
        expect(() => device.run(embedding({ weight, out, ids: given as Indices }))).toThrow(expect.objectContaining({ code: "range", op: "embedding", argument }));
      }
    }
    device.wait();
    expect([...out.data]).toEqual(Array(12).fill(7));
  });

  test("a plan reads its ids again at each replay, and refuses what has become wrong", () => {
    const weight = device.tensorFrom("f32", [4, 2], [0, 1, 10, 11, 20, 21, 30, 31]);
    const ids = device.tensorFrom("i32", [2], [0, 3]);
    const out = device.tensor("f32", [2, 2]);
    using plan = device.plan((pass) => pass.embedding({ weight, ids, out }));
    const replay = () => {
      plan.run();
      device.wait();
      return [...out.data];
    };
    expect(replay()).toEqual([0, 1, 30, 31]);
    ids.data.set([2, 1]);
    expect(replay()).toEqual([20, 21, 10, 11]);
    for (const wrong of [4, -1]) {
      ids.data.set([1, wrong]);
      expect(replay).toThrow(expect.objectContaining({ code: "range", op: "embedding", argument: "ids[1]" }));
      device.wait();
      expect([...out.data]).toEqual([20, 21, 10, 11]);
    }
    ids.data.set([3, 3]);
    expect(replay()).toEqual([30, 31, 30, 31]);
  });

  /** Runs with ids in a tensor of the device; returns the submission's error. */
  function failureOf(run: () => void): unknown {
    run();
    try {
      device.wait();
    } catch (error) {
      return error;
    }
    return undefined;
  }

  test("ids that another op leaves on the device give the bits of those from the host", () => {
    forAll(backend, 200, fc.record({ seed: fc.integer({ min: 1, max: 2 ** 30 }), rows: fc.nat({ max: 9 }), vocabulary: fc.integer({ min: 1, max: 40 }), dim: fc.integer({ min: 1, max: 40 }), packed: fc.boolean(), out: fc.constantFrom(...formats) }), ({ seed, rows, vocabulary, dim, packed, out: outFormat }) => {
      const random = new Random(seed);
      using layouts = new Layouts(device, random);
      const quantised = randomQuantised(random, [vocabulary, 32 * dim], 4, 32, "f32");
      const weight = packed ? placeQuantised(layouts, quantised, "f32") : { weight: layouts.packed("weight", outFormat, fill([vocabulary, dim], outFormat, () => random.normal())) };
      const width = packed ? 32 * dim : dim;
      const logits = device.tensor("f32", [rows, vocabulary]);
      for (let i = 0; i < logits.data.length; i++) logits.data[i] = random.normal();
      const [values, ids] = [device.tensor("f32", [rows, 1]), device.tensor("id32", [rows, 1])];
      const out = layouts.out("out", outFormat, [rows, width]);
      const deviceIds = ids.view({ shape: [rows] });
      device.run(topK({ x: logits, values, ids }));
      runChecked(device, layouts, embedding({ ...weight, deviceIds, out }));
      const alone = device.tensor(outFormat, [rows, width]);
      device.run(embedding({ ...weight, ids: [...ids.data], out: alone }));
      device.wait();
      expectSameBits("out", download(out), alone.toFloat32());
    });
  });

  test("an id on the device that is out of range is not followed: zeros, the other rows, and a failure that names it", () => {
    const random = new Random(71);
    for (const [format, dim] of [["f32", 5], ["bf16", 1], ["f16", 1030], ["f32", 2048]] as const) {
      using layouts = new Layouts(device, random);
      const matrix = fill([6, dim], format, () => random.normal());
      const weight = layouts.packed("weight", format, matrix);
      const out = layouts.out("out", "f32", [5, dim]);
      const deviceIds = device.tensor("id32", [5]);
      for (const wrong of [-1, 6, 2 ** 31 - 1, -(2 ** 31)]) {
        deviceIds.copyFrom([5, 0, wrong, 1, wrong]);
        const after = device.tensor("f32", [5, dim]);
        const failure = failureOf(() => device.run(embedding({ weight, deviceIds, out }), embedding({ weight, ids: [4, 4, 4, 4, 4], out: after })));
        expect(failure).toBeInstanceOf(BoundsError);
        expect(failure).toMatchObject({ code: "range", op: "embedding", argument: "deviceIds[2]", expected: "a row in 0..<6", received: `${wrong}` });
        const row = (id: number) => [...matrix.data.subarray(id * dim, (id + 1) * dim)];
        const zeros = Array<number>(dim).fill(0);
        expect([...download(out)]).toEqual([...row(5), ...row(0), ...zeros, ...row(1), ...zeros]);
        expect([...after.data]).toEqual(Array.from({ length: 5 }, () => row(4)).flat());
        expect(layouts.trespasses()).toEqual([]);
      }
      deviceIds.copyFrom([0, 0, 0, 0, 0]);
      expect(failureOf(() => device.run(embedding({ weight, deviceIds, out })))).toBeUndefined();
    }
  });

  test("ids on the device are checked where there is nothing to write, or no row of the matrix", () => {
    const deviceIds = device.tensorFrom("id32", [2], [0, 3]);
    const none = (vocabulary: number) => embedding({ weight: device.tensor("f32", [vocabulary, 0]), out: device.tensor("f32", [2, 0]), deviceIds });
    expect(failureOf(() => device.run(none(4)))).toBeUndefined();
    expect(failureOf(() => device.run(none(3)))).toMatchObject({ code: "range", argument: "deviceIds[1]" });
    const out = device.tensor("f32", [2, 3]);
    out.data.fill(7);
    expect(failureOf(() => device.run(embedding({ weight: device.tensor("f32", [0, 3]), out, deviceIds })))).toMatchObject({ code: "range", argument: "deviceIds[0]" });
    expect([...out.data]).toEqual([0, 0, 0, 0, 0, 0]);
    expect(failureOf(() => device.run(embedding({ weight: device.tensor("f32", [0, 3]), out: device.tensor("f32", [0, 3]), deviceIds: device.tensor("id32", [0]) })))).toBeUndefined();
  });

  test("a plan that feeds itself: each replay looks up what the one before found", () => {
    // Row i has its largest element at column i + 1, wrapping around at the end.
    const next = device.tensor("f32", [5, 5]);
    for (let row = 0; row < 5; row++) next.data[row * 5 + ((row + 1) % 5)] = 1;
    const [values, ids, row] = [device.tensor("f32", [1, 1]), device.tensor("id32", [1, 1]), device.tensor("f32", [1, 5])];
    using plan = device.plan((pass) => {
      pass.embedding({ weight: next, deviceIds: ids.view({ shape: [1] }), out: row });
      pass.topK({ x: row, values, ids });
    });
    for (let i = 0; i < 7; i++) plan.run();
    device.wait();
    expect([...ids.data]).toEqual([2]);
  });

  test("ids of a plan are those of its encoding where they are a JavaScript array", () => {
    const weight = device.tensorFrom("f32", [4, 1], [0, 1, 2, 3]);
    const out = device.tensor("f32", [2, 1]);
    const ids = Int32Array.of(3, 1);
    device.encode(embedding({ weight, ids, out }));
    ids.fill(-5);
    device.submit();
    device.wait();
    expect([...out.data]).toEqual([3, 1]);
  });
});
