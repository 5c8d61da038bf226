/** `linear` with MLX's affine weights, and with a residual. */
import fc from "fast-check";
import { expect, test } from "bun:test";
import { add, linear } from "../../lib/index.ts";
import type { FloatDType, Op, Tensor } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { linear as referenceOf } from "../reference/linear.ts";
import { dequantise } from "../reference/quantised.ts";
import type { Quantised } from "../reference/quantised.ts";
import { reference, rows as rowsOf } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { affineFiles, loadAffine } from "../support/affine.ts";
import { formats } from "../support/arbitraries.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { linearByThreads } from "../support/linear-threads.ts";
import { forAll } from "../support/property.ts";
import { bitWidths, groupSizes, placeQuantised, randomQuantised } from "../support/quantised.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

interface Running {
  readonly x?: FloatDType;
  readonly scales?: FloatDType;
  readonly out?: FloatDType;
  readonly residual?: { readonly numbers: Reference; readonly format: FloatDType };
  /** Whether out is the residual itself. */
  readonly inPlace?: boolean;
  readonly random?: Random;
}

onEachBackend("linear of packed weights", (backend) => {
  const { device } = backend;

  function run(x: Reference, weight: Quantised, running: Running = {}): Float32Array<ArrayBuffer> {
    const { residual, inPlace = false, random } = running;
    using layouts = new Layouts(device, random);
    const shape = [x.shape[0]!, weight.words.shape[0]!];
    const added = residual && layouts[inPlace ? "updated" : "rows"]("residual", residual.format, residual.numbers);
    const out = inPlace ? added! : layouts.out("out", running.out ?? "f32", shape);
    const args = {
      x: layouts.rows("x", running.x ?? "f32", x),
      ...placeQuantised(layouts, weight, running.scales ?? "f32"),
      ...(added && { residual: added }),
      out,
    };
    runChecked(device, layouts, linear(args));
    return download(out);
  }

  const wanted = (x: Reference, weight: Quantised, residual?: Reference) => {
    const out = referenceOf(x, dequantise(weight));
    residual?.data.forEach((value, i) => (out.data[i]! += value));
    return out.data;
  };
  const filled = (random: Random, shape: readonly number[], format: FloatDType = "f32") => fill(shape, format, () => random.normal());

  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
    bits: fc.constantFrom(...bitWidths),
    group: fc.constantFrom(...groupSizes),
    groups: fc.integer({ min: 1, max: 5 }),
    rows: fc.nat({ max: 20 }),
    outFeatures: fc.integer({ min: 1, max: 90 }),
    x: formats,
    scales: formats,
    narrow: fc.boolean(),
    residual: fc.constantFrom("none", "f32", "x"),
    inPlace: fc.boolean(),
  });

  test("near float64 for any bits, groups, sizes, dtypes and layouts; narrow results are rounded once", () => {
    forAll(backend, 300, cases, ({ seed, bits, group, groups, rows, outFeatures, x, scales, narrow, ...given }) => {
      const random = new Random(seed);
      const numbers = filled(random, [rows, group * groups], x);
      const weight = randomQuantised(random, [outFeatures, group * groups], bits, group, scales);
      const format = given.residual === "f32" ? "f32" : x;
      const residual = given.residual === "none" ? undefined : { numbers: filled(random, [rows, outFeatures], format), format };
      const running = { x, scales, ...(residual && { residual }), random };
      const out = run(numbers, weight, running);
      expectNear(`${backend.name} linear, ${bits} bits`, out, wanted(numbers, weight, residual?.numbers), bounds.f32);
      if (narrow) expectRounded("out", x, run(numbers, weight, { ...running, out: x }), out);
      if (given.inPlace && residual) expectRounded("residual", format, run(numbers, weight, { ...running, inPlace: true }), out);
    });
  });

  test.each(affineFiles())("%s, quantised by MLX", (path) => {
    for (const golden of loadAffine(path)) {
      const { x, weight, q, format } = golden;
      // Scales of 1 and biases of 0 give the numbers themselves; each row of the identity takes a column of them.
      const groups = [weight.words.shape[0]!, 256 / weight.group] as const;
      const plain = { ...weight, scales: reference(groups, Array(groups[0] * groups[1]).fill(1)), biases: reference(groups) };
      const identity = reference([256, 256]);
      for (let i = 0; i < 256; i++) identity.data[i * 257] = 1;
      const columns = run(identity, plain);
      const numbers = Array.from({ length: q.length }, (_, i) => columns[(i % 256) * groups[0] + Math.floor(i / 256)]);
      expect(numbers).toEqual(Array.from(q));
      const out = run(x, weight, { scales: format });
      expectNear(`${backend.name} linear, MLX's matrices`, out, wanted(x, weight), bounds.f32);
      expectNear(`${backend.name} linear, against MLX itself`, out, golden.out, 1e-5);
    }
  });

  test.each(bitWidths)("%d bits: a row has the same bits in any company, and a feature too", (bits) => {
    const random = new Random(bits);
    for (const [columns, group] of [[1152, 128], [96, 32], [2112, 64]] as const) {
      const x = filled(random, [14, columns]);
      const weight = randomQuantised(random, [70, columns], bits, group, "bf16");
      const together = run(x, weight, { scales: "bf16" });
      for (let row = 0; row < 14; row++) {
        expectSameBits(`row ${row}`, run(rowsOf(x, row, row + 1), weight, { scales: "bf16" }), together.slice(row * 70, (row + 1) * 70));
      }
      for (const count of [2, 3, 4, 5, 6, 7, 13]) {
        expectSameBits(`${count} rows`, run(rowsOf(x, 0, count), weight, { scales: "bf16" }), together.slice(0, count * 70));
      }
      const part = (tensor: Reference, from: number) => rowsOf(tensor, from, from + 1);
      for (const feature of [0, 15, 16, 33, 69]) {
        const { words, scales, biases } = weight;
        const one = { ...weight, words: part(words, feature), scales: part(scales, feature), biases: part(biases, feature) };
        const alone = run(x, one, { scales: "bf16" });
        expectSameBits(`feature ${feature}`, alone, Float32Array.from({ length: 14 }, (_, row) => together[row * 70 + feature]!));
      }
    }
  });

  /** How a bias follows from its scale. Up to four rows of 8 bits take another path if biases are large enough (affine.h). */
  const far = { equal: 1, opposite: -1, "far larger": -3e5, "far smaller": 1e-3, "smaller by chance": 0.37, none: 0 } as const;
  test.each(bitWidths)("%d bits: scales and biases of any sizes leave a row its bits in any company", (bits) => {
    const random = new Random(20 + bits);
    const x = filled(random, [5, 256]);
    for (const format of ["bf16", "f16", "f32"] as const) {
      for (const group of groupSizes) {
        for (const [name, factor] of Object.entries(far)) {
          const weight = randomQuantised(random, [37, 256], bits, group, format);
          const { scales, biases } = weight;
          scales.data.forEach((scale, i) => {
            if (i % 11 === 5) scales.data[i] = 0;
            else if (i % 3 === 0) scales.data[i] = -scale;
            biases.data[i] = factor * scales.data[i]!;
          });
          // These groups need a different path from those around them: one in the middle, and the last.
          if (factor === -1) for (const i of [40, scales.data.length - 1]) biases.data[i] = 2 ** -12 * scales.data[i]!;
          const together = run(x, weight, { scales: format });
          for (const rows of [1, 2, 3]) {
            expectSameBits(`${name}, ${format}, groups of ${group}`, run(rowsOf(x, 0, rows), weight, { scales: format }), together.slice(0, 37 * rows));
          }
        }
      }
    }
  });

  test("a weight of -0 stays one where every product is too small for a number", () => {
    const group = 32;
    const words = reference([1, (2 * group * 8) / 32]);
    words.data.fill(0x01010101, 0, group / 4);
    const weight: Quantised = { bits: 8, group, words, scales: reference([1, 2], [2 ** -100, -1]), biases: reference([1, 2], [0, -0]) };
    const x = reference([5, 2 * group]);
    x.data.forEach((_, i) => (x.data[i] = i % (2 * group) < group ? -1e-30 : 1));
    for (const rows of [1, 4]) expectSameBits(`${rows} rows`, run(rowsOf(x, 0, rows), weight), run(x, weight).slice(0, rows));
  });

  if (backend.name === "cpu") test("any number of threads gives the same bits", () => {
    const random = new Random(9);
    // For a few rows, several threads share the outputs in multiples of 48, from an x that was put into order once.
    const shapes = [[1, 512, 700], [3, 512, 700], [7, 3584, 100], [8, 1024, 259], [130, 1152, 100], [310, 1088, 35], [40, 64, 17]] as const;
    for (const [rows, columns, features] of shapes) {
      const results = linearByThreads(random, { rows, columns, features });
      for (const result of results) expectSameBits("out", result, results[0]!);
    }
  });

  /** Runs an op whose result is `out`. */
  const after = (out: Tensor, ...ops: Op[]) => {
    device.run(...ops);
    device.wait();
    return out.toFloat32();
  };

  test("with a residual: the bits of linear and then add, for every form of weight", () => {
    const random = new Random(5);
    using layouts = new Layouts(device, random);
    const [rows, columns, features] = [5, 192, 37];
    const x = layouts.rows("x", "f32", filled(random, [rows, columns]));
    const residual = layouts.rows("residual", "f32", filled(random, [rows, features]));
    const [product, sum, fused] = ["product", "sum", "fused"].map((name) => layouts.out(name, "f32", [rows, features]));
    const packed = bitWidths.map((bits) => placeQuantised(layouts, randomQuantised(random, [features, columns], bits, 64, "f16"), "f16"));
    const floats = (["f32", "f16", "bf16"] as const).map((format) => ({ weight: layouts.packed("weight", format, filled(random, [features, columns], format)) }));
    for (const weight of [...packed, ...floats]) {
      const apart = after(sum!, linear({ x, ...weight, out: product! }), add({ a: product!, b: residual, out: sum! }));
      expectSameBits("fused", after(fused!, linear({ x, ...weight, residual, out: fused! })), apart);
      // In place, and with both in one submission.
      expectSameBits("in place", after(product!, linear({ x, ...weight, out: product! }), add({ a: product!, b: residual, out: product! })), apart);
      fused!.copyFrom(residual);
      expectSameBits("onto the residual", after(fused!, linear({ x, ...weight, residual: fused!, out: fused! })), apart);
    }
  });

  test("many rows have the bits of one, for every form of weight", () => {
    const random = new Random(8);
    /** More than the CPU multiplies at a time: rows, and columns. */
    const panels = backend.name === "cpu" ? ([[300, 64, 5], [50, 4128, 29]] as const) : [];
    for (const [rows, columns, features] of [[37, 288, 35], [16, 288, 7], [17, 32, 33], [65, 544, 5], ...panels] as const) {
      using layouts = new Layouts(device, random);
      const numbers = filled(random, [rows, columns]);
      const x = layouts.rows("x", "f32", numbers);
      const all = layouts.out("all", "f32", [rows, features]);
      const one = layouts.out("one", "f32", [1, features]);
      const packed = bitWidths.map((bits) => placeQuantised(layouts, randomQuantised(random, [features, columns], bits, 32, "bf16"), "bf16"));
      const floats = (["f32", "f16", "bf16"] as const).map((format) => ({ weight: layouts.packed("weight", format, filled(random, [features, columns], format)) }));
      for (const weight of [...packed, ...floats]) {
        const together = after(all, linear({ x, ...weight, out: all }));
        for (const row of [0, 3, 15, rows >> 1, rows - 1]) {
          const alone = after(one, linear({ x: x.narrow(0, row, 1), ...weight, out: one }));
          expectSameBits(`row ${row}`, alone, together.slice(row * features, (row + 1) * features));
        }
      }
    }
  });

  // A GPU may treat subnormal numbers as zero.
  if (backend.name === "cpu") test("many rows have the bits of one and of two by the least scales that a dtype has", () => {
    const random = new Random(10);
    const [rows, features] = [20, 5];
    for (const [format, least] of [["f32", 2 ** -149], ["bf16", 2 ** -133], ["f16", 2 ** -24]] as const) for (const group of groupSizes) for (const bits of bitWidths) {
      const shape = [features, 2 * group] as const;
      const weight = { ...randomQuantised(random, shape, bits, group, format), scales: fill([features, 2], format, () => least * (1 + random.below(100))), biases: reference([features, 2]) };
      const x = fill([rows, 2 * group], "f32", () => random.normal() * 2 ** 100);
      const together = run(x, weight, { scales: format });
      for (const own of [1, 2]) expectSameBits(`${own} rows, ${bits} bits, ${format}`, run(rowsOf(x, 3, 3 + own), weight, { scales: format }), together.slice(3 * features, (3 + own) * features));
    }
  });

  test("a format by name: the bits that the shapes give", () => {
    const random = new Random(10);
    using layouts = new Layouts(device, random);
    const x = layouts.rows("x", "f32", filled(random, [3, 256]));
    const [named, shaped] = ["named", "shaped"].map((name) => layouts.out(name, "f32", [3, 9]));
    const formats = bitWidths.flatMap((bits) => groupSizes.map((group) => {
      return { weightFormat: `affine${bits}-g${group}` as const, ...placeQuantised(layouts, randomQuantised(random, [9, 256], bits, group, "f16"), "f16") };
    }));
    const floats = (["f32", "f16", "bf16"] as const).map((format) => ({ weightFormat: format, weight: layouts.packed("weight", format, filled(random, [9, 256], format)) }));
    for (const { weightFormat, ...weight } of [...formats, ...floats]) {
      const out = after(shaped!, linear({ x, ...weight, out: shaped! }));
      expectSameBits(weightFormat, after(named!, linear({ x, weightFormat, ...weight, out: named! })), out);
    }
  });

  test("no input features: the residual", () => {
    const residual = device.tensorFrom("f32", [2, 3], [1, 2, 3, 4, 5, 6]);
    const out = device.tensor("f32", [2, 3]);
    const [x, weight] = [device.tensor("f32", [2, 0]), device.tensor("f32", [3, 0])];
    expect([...after(out, linear({ x, weight, residual, out }))]).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test("no rows, and no features, are legal", () => {
    const random = new Random(6);
    expect(run(reference([0, 64]), randomQuantised(random, [3, 64], 3, 32, "f32")).length).toBe(0);
    expect(run(filled(random, [3, 64]), randomQuantised(random, [0, 64], 3, 32, "f32")).length).toBe(0);
  });

  test("NaN and infinity in x, scales and biases go where arithmetic takes them, and nowhere else", () => {
    const random = new Random(7);
    for (const bits of bitWidths) {
      const weight = randomQuantised(random, [20, 128], bits, 64, "f32");
      const x = filled(random, [7, 128]);
      const clean = run(x, weight);
      x.data[3 * 128 + 70] = NaN;
      x.data[5 * 128 + 1] = Infinity;
      weight.scales.data[2 * 2 + 1] = NaN;
      weight.biases.data[9 * 2] = -Infinity;
      const out = run(x, weight);
      const exact = wanted(x, weight);
      for (let i = 0; i < out.length; i++) {
        const touched = [3, 5].includes(Math.floor(i / 20)) || [2, 9].includes(i % 20);
        if (touched) expect(Number.isFinite(out[i]!)).toBe(Number.isFinite(exact[i]!));
        else expect(out[i]).toBe(clean[i]!);
        if (touched && !Number.isFinite(exact[i]!)) expect(out[i]).toBe(exact[i]!);
      }
    }
  });
});
