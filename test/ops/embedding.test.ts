import fc from "fast-check";
import { describe, expect, test } from "bun:test";
import { embedding } from "../../lib/index.ts";
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
