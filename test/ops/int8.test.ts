/** `linear` and `expertLinear` with int8 activations. */
import fc from "fast-check";
import { describe, expect, test } from "bun:test";
import { UnsupportedError, expertLinear, linear } from "../../lib/index.ts";
import type { FloatDType, WeightFormat } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { expertLinear as expertReference } from "../reference/expert-linear.ts";
import { groupOf, int8Affine, int8Micro, rounded } from "../reference/int8.ts";
import { linear as referenceOf } from "../reference/linear.ts";
import { reference, reshape, rows as rowsOf } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { formats } from "../support/arbitraries.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { runProgram } from "../support/children.ts";
import { expertMatrices } from "../support/experts.ts";
import { blockNames, isScale, placeBlocks, randomBlocks, valuesOf } from "../support/ggml.ts";
import type { BlockName } from "../support/ggml.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { linearByThreads } from "../support/linear-threads.ts";
import { placeMicro, randomMicro } from "../support/micro.ts";
import { forAll } from "../support/property.ts";
import { bitWidths, groupSizes, placeQuantised, randomQuantised } from "../support/quantised.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

const allFormats = Object.keys(weightLayouts) as WeightFormat[];
const packed = allFormats.filter((format) => groupOf(format) > 0);
const floats = allFormats.filter((format) => groupOf(format) === 0);
const activations = "int8";

/** Rows whose elements are of all magnitudes, with groups of zeros among them. */
function numbersOf(random: Random, shape: readonly [number, number], format: FloatDType): Reference {
  const spans = Array.from({ length: shape[0] * Math.ceil(shape[1] / 16) }, () => (random.below(8) === 0 ? 0 : 2 ** (random.below(13) - 6)));
  let at = 0;
  return fill(shape, format, () => {
    const row = Math.floor(at / shape[1]);
    return random.normal() * spans[row * Math.ceil(shape[1] / 16) + Math.floor((at++ % shape[1]) / 16)]!;
  });
}

onEachBackend("int8 activations", (backend) => {
  const { device } = backend;

  if (backend.name !== "cpu") {
    test("are refused by name", () => {
      using layouts = new Layouts(device);
      const random = new Random(1);
      const matrices = expertMatrices(random, "affine4-g64", [2, 16, 64]);
      const placed = matrices.place(layouts);
      const [x, ids, out] = [device.tensor("f32", [1, 64]), device.tensor("id32", [1, 2]), device.tensor("f32", [1, 2, 16])];
      for (const op of [
        linear({ x, ...matrices.of(placed, 0), out: out.narrow(1, 0, 1).reshape([1, 16]), activations }),
        expertLinear({ x, ...placed, ids, out, activations }),
      ]) {
        expect(() => device.run(op)).toThrow(UnsupportedError);
        expect(() => device.run(op)).toThrow(/activations: expected exact on this backend, got int8/);
      }
    });
    return;
  }

  interface Running {
    readonly x?: FloatDType;
    readonly out?: FloatDType;
    readonly residual?: Reference;
    readonly inPlace?: boolean;
    readonly random?: Random;
    readonly exact?: boolean;
  }
  type Matrices = ReturnType<typeof expertMatrices>;

  /** linear with the only matrix of `matrices`. */
  function run(x: Reference, matrices: Matrices, { random, residual, inPlace = false, exact = false, ...running }: Running = {}): Float32Array<ArrayBuffer> {
    using layouts = new Layouts(device, random);
    const added = residual && layouts[inPlace ? "updated" : "rows"]("residual", "f32", residual);
    const out = inPlace ? added! : layouts.out("out", running.out ?? "f32", [x.shape[0]!, matrices.values.shape[1]!]);
    const args = { x: layouts.rows("x", running.x ?? "f32", x), ...matrices.of(matrices.place(layouts), 0), ...(added && { residual: added }), out };
    runChecked(device, layouts, linear({ ...args, activations: exact ? "exact" : activations }));
    return download(out);
  }

  /** Sums of rounded rows. Their terms may cancel: the bound applies to terms, not sums. */
  function expectModel(subject: string, x: Reference, matrices: Matrices, format: WeightFormat, out: Float32Array, residual?: Reference): void {
    const [, features = 0, columns = 0] = matrices.values.shape;
    const wanted = referenceOf(rounded(x, groupOf(format)), reshape(matrices.values, [features, columns]));
    residual?.data.forEach((value, i) => (wanted.data[i]! += value));
    expectNear(subject, out, wanted.data, bounds.f32);
  }

  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
    format: fc.constantFrom(...packed),
    blocks: fc.integer({ min: 1, max: 9 }),
    rows: fc.oneof({ weight: 9, arbitrary: fc.nat({ max: 30 }) }, { weight: 1, arbitrary: fc.integer({ min: 31, max: 140 }) }),
    features: fc.integer({ min: 1, max: 70 }),
    x: formats,
    narrow: fc.boolean(),
    residual: fc.constantFrom("none", "apart", "in place"),
  });

  test("near float64 over rounded rows, for any format, size, dtype and layout; narrow results are rounded once", () => {
    forAll(backend, 300, cases, ({ seed, format, blocks, rows, features, x, narrow, residual }) => {
      const random = new Random(seed);
      const columns = blocks * weightLayouts[format].elements;
      const numbers = numbersOf(random, [rows, columns], x);
      const matrices = expertMatrices(random, format, [1, features, columns]);
      const added = residual === "none" ? undefined : fill([rows, features], "f32", () => random.normal());
      const running = { x, random, ...(added && { residual: added, inPlace: residual === "in place" }) };
      const out = run(numbers, matrices, running);
      expectModel(`int8 linear, ${format}`, numbers, matrices, format, out, added);
      if (narrow && residual !== "in place") expectRounded("out", x, run(numbers, matrices, { ...running, out: x }), out);
    });
  });

  test("MLX's affine forms to the bit: each product and sum is rounded to float32, in the order of columns", () => {
    const random = new Random(3);
    for (const bits of bitWidths) for (const group of groupSizes) for (const [rows, groups, features] of [[1, 5, 17], [3, 17, 16], [14, 3, 9], [1, 40, 3], [2, 150, 5]] as const) {
      const weight = randomQuantised(random, [features, groups * group], bits, group, "f32");
      const x = numbersOf(random, [rows, groups * group], "f32");
      using layouts = new Layouts(device, random);
      const out = layouts.out("out", "f32", [rows, features]);
      runChecked(device, layouts, linear({ x: layouts.rows("x", "f32", x), ...placeQuantised(layouts, weight, "f32"), out, activations }));
      expectSameBits(`${bits} bits, groups of ${group}`, download(out), int8Affine(x, weight));
    }
  });

  describe("the largest numbers of weights by the largest of x, whose sums kernels add up in 16 bits", () => {
    const rows = [1, 2, 4, 17];
    const constant = (count: number, columns: number): Reference => {
      const x = reference([count, columns]);
      x.data.forEach((_, i) => (x.data[i] = Math.floor(i / columns) % 2 === 0 ? 1 : -1));
      return x;
    };
    test("MLX's affine forms, to the bit", () => {
      const random = new Random(4);
      for (const bits of bitWidths) for (const group of groupSizes) for (const count of rows) {
        const [features, columns] = [19, 8 * group];
        const weight = randomQuantised(random, [features, columns], bits, group, "f32");
        weight.words.data.forEach((_, i) => (weight.words.data[i] = Math.floor((i * features) / weight.words.data.length) % 3 === 2 ? 0 : 2 ** 32 - 1));
        const x = constant(count, columns);
        using layouts = new Layouts(device, random);
        const out = layouts.out("out", "f32", [count, features]);
        runChecked(device, layouts, linear({ x: layouts.rows("x", "f32", x), ...placeQuantised(layouts, weight, "f32"), out, activations }));
        expectSameBits(`${bits} bits, groups of ${group}`, download(out), int8Affine(x, weight));
      }
    });
    test("ggml's blocks, near float64", () => {
      const random = new Random(6);
      for (const format of blockNames as BlockName[]) for (const count of rows) {
        const fills = [0x00, 0xff, 0x80, 0x7f, 0x88];
        const blocks = randomBlocks(random, format, 4 * fills.length, 512 / weightLayouts[format].elements);
        const size = blocks.bytes.data.length / (4 * fills.length) / (512 / weightLayouts[format].elements);
        blocks.bytes.data.forEach((_, i, all) => {
          if (!isScale(format, i % size)) all[i] = fills[Math.floor((i * 4 * fills.length) / all.length) % fills.length]!;
        });
        const x = constant(count, blocks.columns);
        using layouts = new Layouts(device, random);
        const out = layouts.out("out", "f32", [count, 4 * fills.length]);
        runChecked(device, layouts, linear({ x: layouts.rows("x", "f32", x), ...placeBlocks(layouts, blocks), out, activations }));
        expectNear(format, download(out), referenceOf(rounded(x, groupOf(format)), valuesOf(blocks)).data, bounds.f32);
      }
    });
  });

  test("MLX's floats of four bits to the bit, with any elements and finite scales", () => {
    const random = new Random(5);
    for (const format of ["mxfp4", "nvfp4"] as const) for (const [rows, groups, features] of [[1, 5, 17], [3, 17, 16], [14, 3, 9], [9, 33, 20], [1, 40, 3], [2, 150, 5]] as const) {
      const group = groupOf(format);
      const weight = randomMicro(random, format, [features, groups * group], true);
      weight.scales.data.forEach((scale, i) => (weight.scales.data[i] = format === "nvfp4" && scale % 128 === 127 ? scale - 1 : scale > 240 ? scale - 240 : scale));
      const x = numbersOf(random, [rows, groups * group], "f32");
      using layouts = new Layouts(device, random);
      const out = layouts.out("out", "f32", [rows, features]);
      runChecked(device, layouts, linear({ x: layouts.rows("x", "f32", x), ...placeMicro(layouts, weight), out, activations }));
      expectSameBits(`${format}, ${rows} rows`, download(out), int8Micro(x, weight));
    }
  });

  describe.each(packed)("%s", (format) => {
    const { elements } = weightLayouts[format];

    test("a row has the same bits in any company, and a feature too", () => {
      const random = new Random(packed.indexOf(format));
      for (const [rows, blocks, features] of [[27, Math.ceil(2500 / elements), 37], [27, 3, 70], [140, 2, 33]] as const) {
        const x = numbersOf(random, [rows, blocks * elements], "f32");
        const residual = fill([rows, features], "f32", () => random.normal());
        const matrices = expertMatrices(random, format, [1, features, blocks * elements], "bf16");
        const together = run(x, matrices, { residual });
        for (const [from, to] of [[0, 1], [5, 6], [rows - 1, rows], [0, 2], [3, 8], [1, 13], [2, 14], [rows >> 2, rows - 5], [0, rows - 1]] as const) {
          const some = run(rowsOf(x, from, to), matrices, { residual: rowsOf(residual, from, to) });
          expectSameBits(`rows ${from} to ${to}`, some, together.slice(from * features, to * features));
        }
      }
    });

    test("groups of zeros are exact, and NaN and infinity stay in their rows", () => {
      const random = new Random(9);
      const columns = 3 * Math.max(elements, 32);
      const x = numbersOf(random, [6, columns], "f32");
      const matrices = expertMatrices(random, format, [1, 20, columns]);
      const clean = run(x, matrices);
      x.data.fill(0, columns, 2 * columns);
      x.data[2 * columns + 20] = NaN;
      x.data[3 * columns + columns - 1] = Infinity;
      x.data[4 * columns] = -Infinity;
      const out = run(x, matrices);
      for (let i = 0; i < out.length; i++) {
        const row = Math.floor(i / 20);
        if (row === 1) expect(out[i]).toBe(0);
        else if (row >= 2 && row <= 4) expect(out[i]).toBeNaN();
        else expect(out[i]).toBe(clean[i]!);
      }
    });

    test("expertLinear: near float64, and the bits of linear with each expert's matrix", () => {
      const random = new Random(packed.indexOf(format) + 50);
      const group = Math.max(elements, 32);
      for (const [tokens, k, experts, features, columns, ranked] of [
        [1, 4, 9, 37, 3 * group, false], [6, 2, 3, 20, group, true], [60, 3, 2, 18, 2 * group, false],
      ] as const) {
        using layouts = new Layouts(device, random);
        const dtype = random.pick(["f32", "f16", "bf16"] as const);
        const count = ranked ? tokens * k : tokens;
        const flat = numbersOf(random, [count, columns], dtype);
        const x = reshape(flat, ranked ? [tokens, k, columns] : [tokens, columns]);
        const matrices = expertMatrices(random, format, [experts, features, columns]);
        const weight = matrices.place(layouts);
        const ids = Int32Array.from({ length: tokens * k }, () => random.below(experts));
        const [placed, out] = [layouts.rows("x", dtype, x), layouts.out("out", "f32", [tokens, k, features])];
        runChecked(device, layouts, expertLinear({ x: placed, ...weight, ids: device.tensor("id32", [tokens, k]).copyFrom(ids), out, activations }));
        const got = download(out);
        const model = reshape(rounded(flat, groupOf(format)), x.shape);
        expectNear(`int8 expertLinear, ${format}`, got, expertReference(model, matrices.values, ids, k).data, bounds.f32);
        const alone = device.tensor("f32", [1, features]);
        for (let row = 0; row < ids.length; row++) {
          const own = ranked ? placed.view({ offset: Math.floor(row / k) * placed.strides[0]! + (row % k) * placed.strides[1]!, shape: [1, columns] }) : placed.slice(Math.floor(row / k), Math.floor(row / k) + 1);
          device.run(linear({ x: own, ...matrices.of(weight, ids[row]!), out: alone, activations }));
          device.wait();
          expectSameBits(`row ${row}`, got.slice(row * features, (row + 1) * features), alone.toFloat32());
        }
      }
    });
  });

  test.each(floats)("%s weights are multiplied exactly", (format) => {
    const random = new Random(4);
    const x = numbersOf(random, [5, 96], "f32");
    const matrices = expertMatrices(random, format, [1, 19, 96]);
    expectSameBits(format, run(x, matrices), run(x, matrices, { exact: true }));
  });

  test("numbers of any size, also those whose scale is subnormal or 0", () => {
    const random = new Random(12);
    const weight = randomQuantised(random, [18, 128], 4, 32, "f32");
    const x = reference([8, 128]);
    for (const [row, size] of [1e35, 1e30, 1e-30, 1e-38, 1e-40, 3e-43, 1e-44, 0].entries()) {
      for (let i = 0; i < 128; i++) x.data[row * 128 + i] = Math.fround(size * (i % 32 === 0 ? 1 : random.uniform(-1, 1)));
    }
    using layouts = new Layouts(device, random);
    const out = layouts.out("out", "f32", [8, 18]);
    runChecked(device, layouts, linear({ x: layouts.rows("x", "f32", x), ...placeQuantised(layouts, weight, "f32"), out, activations }));
    expectSameBits("out", download(out), int8Affine(x, weight));
  });

  test("numbers in the middle between two integers, and next to it, to the bit", () => {
    const random = new Random(14);
    for (const group of groupSizes) for (const [rows, groups] of [[1, 37], [8, 16], [3, 20]] as const) {
      const x = reference([rows, groups * group]);
      let scale = 0;
      x.data.forEach((_, i) => {
        if (i % group === 0) scale = random.uniform(0.5, 1) * 2 ** (random.below(60) - 30);
        const near = (random.below(255) - 127.5) * (1 + (random.below(9) - 4) * 2 ** -24);
        x.data[i] = Math.fround((scale * (i % group === 0 ? 127 : random.below(2) === 0 ? near : random.uniform(-127, 127))) / 127);
      });
      const weight = randomQuantised(random, [17, groups * group], 4, group, "f32");
      using layouts = new Layouts(device, random);
      const out = layouts.out("out", "f32", [rows, 17]);
      runChecked(device, layouts, linear({ x: layouts.rows("x", "f32", x), ...placeQuantised(layouts, weight, "f32"), out, activations }));
      expectSameBits(`${rows} rows, groups of ${group}`, download(out), int8Affine(x, weight));
    }
  });

  test("more rows and columns than are worked on at a time", () => {
    const random = new Random(13);
    for (const [format, rows, columns, features] of [["affine4-g64", 700, 128, 33], ["q6_k", 3, 40960, 17], ["affine8-g128", 1, 33024, 5], ["q4_0", 3, 17408, 2], ["q4_0", 21, 17408, 17], ["q4_0", 1480, 4096, 17]] as const) {
      const x = numbersOf(random, [rows, columns], "f32");
      const matrices = expertMatrices(random, format, [1, features, columns]);
      const out = run(x, matrices);
      const part = (from: number, to: number) => out.slice(from * features, to * features);
      // The model takes seconds for many rows: the rows in between are compared, to the bit, with runs of other parts.
      for (const [from, to] of rows < 100 ? [[0, rows]] as const : [[0, 60], [rows - 60, rows]] as const) {
        expectModel(`int8 linear, rows ${from} to ${to} of ${rows}, ${columns} columns`, rowsOf(x, from, to), matrices, format, part(from, to));
      }
      for (const [from, to] of [[rows - 1, rows], [0, rows >> 1], [rows >> 1, rows]] as const) {
        if (from < to) expectSameBits(`rows ${from} to ${to}`, run(rowsOf(x, from, to), matrices), part(from, to));
      }
    }
  });

  test("any number of threads gives the same bits", () => {
    const random = new Random(14);
    for (const [rows, columns, features] of [[1, 512, 700], [130, 1152, 100], [40, 64, 17]] as const) {
      const results = linearByThreads(random, { rows, columns, features }, activations);
      for (const result of results) expectSameBits("out", result, results[0]!);
    }
  });

  if (process.env["GATED_DELTA_ISA"] === undefined) test("every instruction set gives the same bits", () => {
    const program = `
      import { Device } from "ROOT/lib/index.ts";
      import { hashOfInt8 } from "ROOT/test/support/int8.ts";
      try { using device = Device.open("cpu"); console.log(hashOfInt8(device)); } catch (error) { console.log(error.message); process.exit(1); }`;
    const hashes = new Map<string, string>();
    for (const isa of ["amx", "avx512bf16", "avx512vnni", "avx512", "avxvnni", "avx2", "baseline", "neondot", "neon"]) {
      const { ok, text } = runProgram({ GATED_DELTA_ISA: isa, GATED_DELTA_TEST_BACKENDS: "cpu" }, program);
      if (ok) hashes.set(isa, text.trim());
      else if (!text.includes("GATED_DELTA_ISA")) throw new Error(`${isa}: ${text}`);
    }
    expect(hashes.size).toBeGreaterThan(0);
    expect(new Set(hashes.values()).size, [...hashes].join("; ")).toBe(1);
    expect([...hashes.values()][0]).toMatch(/^[0-9a-f]{64}$/);
  }, 120_000);
});
