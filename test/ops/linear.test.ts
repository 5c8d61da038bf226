import fc from "fast-check";
import { expect, test } from "bun:test";
import { linear } from "../../lib/index.ts";
import { linear as referenceOf } from "../reference/linear.ts";
import { round } from "../reference/rounding.ts";
import type { Format } from "../reference/rounding.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { formats } from "../support/arbitraries.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { forAll } from "../support/property.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

interface Formats {
  readonly x: Format;
  readonly weight: Format;
  readonly out: Format;
}

const f32: Formats = { x: "f32", weight: "f32", out: "f32" };

/** A case's matrices. */
function build(
  seed: number,
  [rows, inFeatures, outFeatures]: readonly [number, number, number],
  { x, weight }: Formats = f32,
) {
  const random = new Random(seed);
  return {
    x: fill([rows, inFeatures], x, () => random.normal()),
    weight: fill([outFeatures, inFeatures], weight, () => random.normal() / Math.sqrt(inFeatures)),
  };
}

onEachBackend("linear", (backend) => {
  const { device } = backend;

  function run(x: Reference, weight: Reference, given: Formats = f32, random?: Random): Float32Array<ArrayBuffer> {
    using layouts = new Layouts(device, random);
    const out = layouts.out("out", given.out, [x.shape[0]!, weight.shape[0]!]);
    const args = { x: layouts.rows("x", given.x, x), weight: layouts.packed("weight", given.weight, weight), out };
    runChecked(device, layouts, linear(args));
    return download(out);
  }

  const size = (most: number) =>
    fc.oneof(
      fc.integer({ min: 1, max: most }),
      fc.integer({ min: 1, max: most / 8 }).map((n) => n * 8),
    );
  const cases = fc.record({
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
    sizes: fc.tuple(fc.nat({ max: 28 }), size(200), size(80)),
    x: formats,
    weight: formats,
    narrow: fc.boolean(),
  });

  test("near float64 for any sizes, dtypes and layouts; narrow results are rounded once", () => {
    forAll(backend, 300, cases, ({ seed, sizes, x, weight, narrow }) => {
      const wide = { x, weight, out: "f32" } as const;
      const given = build(seed, sizes, wide);
      const out = run(given.x, given.weight, wide, new Random(seed));
      expectNear(`${backend.name} linear, ${x} inputs`, out, referenceOf(given.x, given.weight).data, bounds.f32);
      if (narrow) expectRounded("out", x, run(given.x, given.weight, { ...wide, out: x }, new Random(seed + 1)), out);
    });
  });

  test("long sums", () => {
    for (const inFeatures of [1000, 20483]) {
      const given = build(inFeatures, [2, inFeatures, 3]);
      expectNear(
        `${inFeatures} terms`,
        run(given.x, given.weight),
        referenceOf(given.x, given.weight).data,
        bounds.f32,
      );
    }
  });

  test("more rows, and more features, than 16 bits count", () => {
    if (backend.emulated) return;
    for (const [rows, outFeatures] of [
      [70_000, 3],
      [3, 70_000],
    ] as const) {
      const given = build(rows, [rows, 5, outFeatures]);
      expectNear(`${rows} rows`, run(given.x, given.weight), referenceOf(given.x, given.weight).data, bounds.f32);
    }
  });

  test("a row has the same bits alone and among as many as share what is read of a weight, or more", () => {
    for (const [i, rows] of [2, 5, 9, 13, 16, 17, 21, 24, 25].entries()) {
      for (const weight of ["f32", "bf16", "f16"] as const) {
        const [columns, features] = [i % 2 ? 64 : 83, 24 * (i % 3) + 7 + (i % 2)];
        const given = build(rows, [rows, columns, features], { ...f32, weight });
        const together = run(given.x, given.weight, { ...f32, weight });
        for (let row = 0; row < rows; row++) {
          const alone = reference([1, columns], given.x.data.subarray(row * columns, (row + 1) * columns));
          const label = `row ${row} of ${rows} by ${weight}`;
          expectSameBits(label, run(alone, given.weight, { ...f32, weight }), together.slice(row * features, (row + 1) * features));
        }
      }
    }
  });

  test("a row and a feature have the same bits in any company", () => {
    const given = build(3, [9, 75, 21]);
    const together = run(given.x, given.weight);
    for (let row = 0; row < 9; row++) {
      const alone = reference([1, 75], given.x.data.subarray(row * 75, (row + 1) * 75));
      expectSameBits(`row ${row}`, run(alone, given.weight), together.slice(row * 21, (row + 1) * 21));
    }
    for (let feature = 0; feature < 21; feature++) {
      const alone = run(given.x, reference([1, 75], given.weight.data.subarray(feature * 75, (feature + 1) * 75)));
      expectSameBits(
        `feature ${feature}`,
        alone,
        Float32Array.from({ length: 9 }, (_, row) => together[row * 21 + feature]!),
      );
    }
  });

  test("sums of nothing are zero; no rows and no features are legal", () => {
    const out = run(reference([3, 0]), reference([2, 0]));
    expect([...out]).toEqual([0, 0, 0, 0, 0, 0]);
    expect(run(reference([0, 5]), reference([2, 5])).length).toBe(0);
    expect(run(reference([3, 5]), reference([0, 5])).length).toBe(0);
  });

  test("float32 accumulation: narrow inputs are not summed in their own format", () => {
    // 2049 ones: sums in f16 and bf16 would stop growing at 2048 and 256.
    const ones = reference([1, 2049], new Float64Array(2049).fill(1));
    for (const format of ["f16", "bf16"] as const) {
      expect([...run(ones, ones, { x: format, weight: format, out: "f32" })]).toEqual([2049]);
      expect([...run(ones, ones, { x: format, weight: format, out: format })]).toEqual([round(format, 2049)]);
    }
  });
});
