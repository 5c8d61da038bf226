/** `linear` and `embedding` with weights in MLX's micro-scaled forms. */
import fc from "fast-check";
import { describe, expect, test } from "bun:test";
import { embedding, linear } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { encode, toFloat32 } from "../../lib/tensor/dtype.ts";
import { linear as referenceOf } from "../reference/linear.ts";
import { dequantiseMicro, microFormats } from "../reference/micro.ts";
import type { Micro } from "../reference/micro.ts";
import { reference, rows as rowsOf } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { formats } from "../support/arbitraries.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { loadMicro, microNames, placeMicro, randomMicro } from "../support/micro.ts";
import { forAll } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

/** The same numbers with a single form of NaN, and zeros for the numbers that a GPU may treat as zero. */
function comparable(numbers: Float32Array, flushes: boolean): Float32Array {
  return numbers.map((value) => (value !== value ? NaN : flushes && Math.abs(value) < 2 ** -126 ? 0 : value));
}

describe("the reference gives MLX's numbers", () => {
  test.each(microNames)("%s", (format) => {
    const { all, values } = loadMicro(format);
    const float32 = ({ data }: Reference) => comparable(Float32Array.from(data), false);
    expectSameBits(format, float32(dequantiseMicro(all)), float32(values));
  });
});

onEachBackend("micro-scaled weights", (backend) => {
  const { device } = backend;
  const flushes = device.backend === "metal";

  interface Running {
    readonly x?: FloatDType;
    readonly out?: FloatDType;
    readonly residual?: Reference;
    readonly random?: Random;
  }

  function run(x: Reference, weight: Micro, { random, residual, ...running }: Running = {}): Float32Array<ArrayBuffer> {
    using layouts = new Layouts(device, random);
    const out = layouts.out("out", running.out ?? "f32", [x.shape[0]!, weight.words.shape[0]!]);
    const args = { x: layouts.rows("x", running.x ?? "f32", x), ...placeMicro(layouts, weight), ...(residual && { residual: layouts.rows("residual", "f32", residual) }), out };
    runChecked(device, layouts, linear(args));
    return download(out);
  }

  const filled = (random: Random, shape: readonly number[], format: FloatDType = "f32") => fill(shape, format, () => random.normal());
  const wanted = (x: Reference, weight: Micro, residual?: Reference) => {
    const out = referenceOf(x, dequantiseMicro(weight));
    residual?.data.forEach((value, i) => (out.data[i]! += value));
    return out.data;
  };

  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
    format: fc.constantFrom(...microNames),
    groups: fc.integer({ min: 1, max: 40 }),
    rows: fc.nat({ max: 20 }),
    outFeatures: fc.integer({ min: 1, max: 90 }),
    x: formats,
    narrow: fc.boolean(),
    residual: fc.boolean(),
  });

  test("near float64 at any byte, for any sizes, dtypes and layouts; narrow results are rounded once", () => {
    forAll(backend, 200, cases, ({ seed, format, groups, rows, outFeatures, x, narrow, ...given }) => {
      const random = new Random(seed);
      const weight = randomMicro(random, format, [outFeatures, groups * microFormats[format].group]);
      const numbers = filled(random, [rows, groups * microFormats[format].group], x);
      const residual = given.residual ? filled(random, [rows, outFeatures]) : undefined;
      const running = { x, random, ...(residual && { residual }) };
      const out = run(numbers, weight, running);
      expectNear(`${backend.name} linear, ${format}`, out, wanted(numbers, weight, residual), bounds.f32);
      if (narrow) expectRounded("out", x, run(numbers, weight, { ...running, out: x }), out);
    });
  });

  test.each(microNames)("%s: every weight is MLX's, with any scale", (format) => {
    const { all, values, matrix, x, out } = loadMicro(format);
    const random = new Random(12);
    using layouts = new Layouts(device, random);
    const [count, columns] = values.shape as [number, number];
    const ids = Int32Array.from({ length: count }, (_, i) => (i * 7) % count);
    const wide = Float32Array.from([...ids].flatMap((id) => [...values.data.subarray(id * columns, (id + 1) * columns)]));
    // A GPU may treat a scale of 2^-127 as zero, but does not have to.
    const ofNormalScale = (numbers: Float32Array): Float32Array =>
      numbers.map((value, i) => (flushes && format !== "nvfp4" && all.scales.data[Math.floor((ids[Math.floor(i / columns)]! * columns + (i % columns)) / microFormats[format].group)] === 0 ? 0 : value));
    for (const dtype of ["f32", "f16", "bf16"] as const) {
      const rows = layouts.out("out", dtype, [count, columns]);
      runChecked(device, layouts, embedding({ ...placeMicro(layouts, all), ids, out: rows }));
      const expected = toFloat32(dtype, encode(dtype, comparable(wide, flushes)));
      expectSameBits(`embedding in ${dtype}`, ofNormalScale(comparable(download(rows), flushes)), ofNormalScale(comparable(expected, flushes)));
    }
    const product = run(x, matrix);
    expectNear(`${backend.name} linear, MLX's ${format}`, product, wanted(x, matrix), bounds.f32);
    expectNear(`${backend.name} linear, against MLX's ${format}`, product, out.data, 1e-5);
  });

  test.each(microNames)("%s: one weight of any bits in a row of zeros is what x is multiplied by", (format) => {
    const random = new Random(13);
    const { bits, group } = microFormats[format];
    const columns = 5 * group;
    const weight = randomMicro(random, format, [60, columns], true);
    // A GPU may treat a scale of 2^-127 as zero.
    if (flushes && format !== "nvfp4") for (const [i, scale] of weight.scales.data.entries()) if (scale === 0) weight.scales.data[i] = 1;
    const values = dequantiseMicro(weight);
    const finite = values.data.map((value) => (Number.isFinite(value) ? value : 0));
    for (let i = 0; i < weight.scales.data.length; i++) {
      if (values.data.subarray(i * group, (i + 1) * group).every(Number.isFinite)) continue;
      for (let k = 0; k < (group * bits) / 32; k++) weight.words.data[(i * group * bits) / 32 + k] = 0;
      weight.scales.data[i] = 0;
      finite.fill(0, i * group, (i + 1) * group);
    }
    const identity = reference([columns, columns]);
    for (let i = 0; i < columns; i++) identity.data[i * (columns + 1)] = 1;
    const expected = Float32Array.from({ length: columns * 60 }, (_, i) => finite[(i % 60) * columns + Math.floor(i / 60)]!);
    // A sum of zeros and a weight of -0 is 0.
    const plain = (numbers: Float32Array) => comparable(numbers, flushes).map((value) => value + 0);
    expectSameBits(format, plain(run(identity, weight)), plain(expected));
    for (const row of [0, 17, columns - 1]) expectSameBits(`row ${row}`, plain(run(rowsOf(identity, row, row + 1), weight)), plain(expected.slice(row * 60, (row + 1) * 60)));
  });

  test.each(microNames)("%s: a row has the same bits in any company, and a feature too", (format) => {
    const random = new Random(14);
    const { group } = microFormats[format];
    for (const [columns, features] of [[32 * 36, 70], [3 * group, 70], [4096 + group, 35], [512, 2500]] as const) {
      const x = filled(random, [9, columns]);
      const weight = randomMicro(random, format, [features, columns]);
      const together = run(x, weight);
      for (let row = 0; row < 9; row += 4) expectSameBits(`row ${row}`, run(rowsOf(x, row, row + 1), weight), together.slice(row * features, (row + 1) * features));
      for (const count of [2, 4, 5]) expectSameBits(`${count} rows`, run(rowsOf(x, 0, count), weight), together.slice(0, count * features));
      for (const feature of [0, 15, features - 1]) {
        const one = { ...weight, words: rowsOf(weight.words, feature, feature + 1), scales: rowsOf(weight.scales, feature, feature + 1) };
        expectSameBits(`feature ${feature}`, run(x, one), Float32Array.from({ length: 9 }, (_, row) => together[row * features + feature]!));
      }
    }
  });

  test("the longest rows", () => {
    const random = new Random(15);
    for (const format of microNames) {
      const weight = randomMicro(random, format, [3, 50048]);
      const x = filled(random, [2, 50048]);
      const out = run(x, weight);
      expectNear(`${backend.name} linear, long rows`, out, wanted(x, weight), bounds.f32);
      expectSameBits("one of two", run(rowsOf(x, 1, 2), weight), out.slice(3));
    }
  });

  test("no rows and no features are legal", () => {
    const random = new Random(16);
    for (const format of microNames) {
      expect(run(filled(random, [0, 64]), randomMicro(random, format, [3, 64])).length).toBe(0);
      expect(run(filled(random, [3, 64]), randomMicro(random, format, [0, 64])).length).toBe(0);
    }
  });
});
