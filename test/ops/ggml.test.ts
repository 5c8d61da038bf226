/** `linear` and `embedding` with weights in ggml's types of blocks. */
import fc from "fast-check";
import { expect, test } from "bun:test";
import { embedding, linear } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { encode, toFloat32 } from "../../lib/tensor/dtype.ts";
import { ggmlFormats } from "../reference/gguf.ts";
import { columns as columnsOf, rows as rowsOf } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { formats } from "../support/arbitraries.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { blockNames, placeBlocks, randomBlocks, valuesOf } from "../support/ggml.ts";
import type { BlockName, Blocks } from "../support/ggml.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { forAll, shareOf } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

const names = blockNames as BlockName[];

/** The same numbers with a single form of NaN: the bits of a result's NaN are not specified. */
function withOneNaN(numbers: Float32Array): Float32Array {
  return numbers.map((value) => (value !== value ? NaN : value));
}

onEachBackend("ggml's blocks", (backend) => {
  const { device } = backend;

  interface Running {
    readonly x?: FloatDType;
    readonly out?: FloatDType;
    readonly residual?: Reference;
    readonly random?: Random;
  }

  /** linear with the blocks, or with `values` as f32. */
  function run(x: Reference, weight: Blocks, values: Reference | null, { random, residual, ...running }: Running = {}): Float32Array {
    using layouts = new Layouts(device, random);
    const out = layouts.out("out", running.out ?? "f32", [x.shape[0]!, weight.bytes.shape[0]!]);
    const args = {
      x: layouts.rows("x", running.x ?? "f32", x),
      ...(values === null ? placeBlocks(layouts, weight) : { weight: layouts.packed("weight", "f32", values) }),
      ...(residual && { residual: layouts.rows("residual", "f32", residual) }),
      out,
    };
    runChecked(device, layouts, linear(args));
    return download(out);
  }

  /** Fails unless both give the same bits. `values` are the weight's. */
  function expectSame(subject: string, x: Reference, weight: Blocks, running: Running = {}, values = valuesOf(weight)): void {
    const [blocks, floats] = [run(x, weight, null, running), run(x, weight, values, running)];
    expectSameBits(`${weight.format}, ${subject}`, withOneNaN(blocks), withOneNaN(floats));
  }
  const filled = (random: Random, shape: readonly number[], format: FloatDType = "f32") => fill(shape, format, () => random.normal());
  const blocksOf = (name: BlockName, columns: number) => Math.ceil(columns / ggmlFormats[name].elements);

  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
    format: fc.constantFrom(...names),
    columns: fc.integer({ min: 1, max: 1500 }),
    rows: fc.nat({ max: 20 }),
    outFeatures: fc.integer({ min: 1, max: 60 }),
    x: formats,
    out: fc.boolean(),
    residual: fc.boolean(),
  });

  test("linear: the bits of f32 weights of the same values, at any byte, for any sizes, dtypes and layouts", () => {
    forAll(backend, 200, cases, ({ seed, format, columns, rows, outFeatures, x, out, residual }) => {
      const random = new Random(seed);
      const weight = randomBlocks(random, format, outFeatures, blocksOf(format, columns));
      const numbers = filled(random, [rows, weight.columns], x);
      expectSame("linear", numbers, weight, { x, out: out ? x : "f32", random, ...(residual && { residual: filled(random, [rows, outFeatures]) }) });
    });
  });

  test.each(names)("%s: every weight is ggml's, for any bits of its scales", (format) => {
    const random = new Random(ggmlFormats[format].type + 1);
    const weight = randomBlocks(random, format, 40, blocksOf(format, 2100), true);
    if (format === "gguf-mxfp4" && device.backend === "metal") {
      // A scale of 0 or 1 is a subnormal float32 number, which a GPU may treat as zero; with 3 all products are normal, too.
      const { bytes } = ggmlFormats[format];
      for (let at = 0; at < weight.bytes.data.length; at += bytes) weight.bytes.data[at] = Math.max(3, weight.bytes.data[at]!);
    }
    using layouts = new Layouts(device, random);
    const ids = Int32Array.from({ length: 40 }, (_, i) => (i * 7) % 40);
    const values = Float32Array.from(valuesOf(weight).data);
    const wide = Float32Array.from([...ids].flatMap((id) => [...values.subarray(id * weight.columns, (id + 1) * weight.columns)]));
    if (format !== "gguf-mxfp4") expect(values.some((value) => value !== value)).toBe(true);
    for (const outFormat of ["f32", "f16", "bf16"] as const) {
      const out = layouts.out("out", outFormat, [40, weight.columns]);
      runChecked(device, layouts, embedding({ ...placeBlocks(layouts, weight), ids, out }));
      expectSameBits(`embedding of ${format}`, withOneNaN(download(out)), withOneNaN(toFloat32(outFormat, encode(outFormat, wide))));
    }
    const x = filled(random, [1, weight.columns]);
    expectSame("any bits", x, weight);
  });

  test.each(names)("%s: one row, many outputs; many rows, deep", (format) => {
    const random = new Random(3);
    const narrow = randomBlocks(random, format, 2500, blocksOf(format, 512));
    expectSame("one row", filled(random, [1, narrow.columns]), narrow, { random });
    const deep = randomBlocks(random, format, 6, blocksOf(format, 9000));
    for (const rows of [1, 2, 5, 9]) expectSame(`${rows} rows`, filled(random, [rows, deep.columns]), deep, { random });
  });

  test.each(names)("%s: a few rows, about as many blocks and outputs as the CPU takes at a time", (format) => {
    if (device.backend !== "cpu") return;
    const random = new Random(5);
    const whole = randomBlocks(random, format, 50, 33);
    const wholeValues = valuesOf(whole);
    for (const blocks of [1, 15, 16, 17, 33]) {
      for (const features of shareOf([1, 2, 3, 4, 24, 29, 50], blocks + names.indexOf(format))) {
        const columns = blocks * ggmlFormats[format].elements;
        const weight = { format, columns, bytes: columnsOf(rowsOf(whole.bytes, 0, features), 0, blocks * ggmlFormats[format].bytes) };
        const values = columnsOf(rowsOf(wholeValues, 0, features), 0, columns);
        // A row's bits do not depend on the number of rows, with floats or with blocks.
        const x = filled(random, [8, columns]);
        const residual = random.below(3) === 0 ? filled(random, [8, features]) : undefined;
        const given = (rows: number) => ({ random, ...(residual && { residual: rowsOf(residual, 0, rows) }) });
        const expected = run(x, weight, values, given(8));
        for (const rows of [2, 3, 4, 6, 7, 8]) {
          const out = run(rowsOf(x, 0, rows), weight, null, given(rows));
          expectSameBits(`${format}, ${rows} rows, ${blocks} blocks, ${features} outputs`, out, expected.subarray(0, rows * features));
        }
      }
    }
  });

  test("the longest rows", () => {
    const random = new Random(4);
    for (const format of ["q4_k", "q8_0"] as const) {
      const weight = randomBlocks(random, format, 3, blocksOf(format, 50000));
      expectSame("long", filled(random, [1, weight.columns]), weight);
    }
  });

  test("no rows and no features are legal", () => {
    const random = new Random(6);
    expect(run(filled(random, [0, 256]), randomBlocks(random, "q6_k", 3, 1), null).length).toBe(0);
    expect(run(filled(random, [3, 256]), randomBlocks(random, "q6_k", 0, 1), null).length).toBe(0);
  });
});
