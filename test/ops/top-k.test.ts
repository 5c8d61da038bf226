import { describe, expect, test } from "bun:test";
import { topK } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { topK as referenceOf } from "../reference/top-k.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { Layouts } from "../support/layouts.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

/** The length of the kernel's pieces of a row (GDM_TOP_K_THREADS * GDM_TOP_K_EACH). */
const piece = 4096;

onEachBackend("topK", (backend) => {
  const { device } = backend;

  function run(x: Reference, k: number, format: FloatDType = "f32", random?: Random) {
    using layouts = new Layouts(device, random);
    const rows = x.shape[0]!;
    const [values, ids] = [device.tensor("f32", [rows, k]), device.tensor("id32", [rows, k])];
    ids.data.fill(-7);
    runChecked(device, layouts, topK({ x: layouts.rows("x", format, x), values, ids }));
    return { values: [...values.data], ids: [...ids.data] };
  }

  const normal = (seed: number, shape: readonly number[], format: FloatDType = "f32"): Reference => {
    const random = new Random(seed);
    return fill(shape, format, () => 3 * random.normal());
  };

  describe.each(["f32", "f16", "bf16"] as const)("%s", (format) => {
    test.each([
      [1, 1], [2, 2], [5, 3], [31, 31], [64, 1], [257, 128], [300, 20], [piece, 7], [piece + 1, 1], [2 * piece + 5, 40],
    ])("of %d columns the largest %d", (columns, k) => {
      // 16-bit elements of long rows have many ties.
      const x = normal(columns, [columns > piece ? 2 : 3, columns], format);
      expect(run(x, k, format, new Random(columns))).toEqual(referenceOf(x, k));
    });
  });

  test("ties go to the lower column, 0 and -0 among them, whose signs stay", () => {
    const { values, ids } = run(reference([2, 6], [1, 2, 2, 1, 2, 1, -0, 0, -0, 0, -1, 0]), 5);
    expect(ids).toEqual([1, 2, 4, 0, 3, 0, 1, 2, 3, 5]);
    expect(values.slice(5).map((value) => Object.is(value, -0))).toEqual([true, false, true, false, false]);
  });

  test("ties between pieces, simdgroups and lanes", () => {
    const columns = 3 * piece + 9;
    const x = reference([1, columns], new Float64Array(columns).fill(-1));
    const places = [0, 31, 32, 511, 512, 513, piece - 1, piece, piece + 700, 2 * piece, columns - 1];
    for (const place of places) x.data[place] = 4;
    expect(run(x, 11).ids).toEqual(places);
    expect(run(x, 13).ids).toEqual([...places, 1, 2]);
    expect(run(reference([1, columns], new Float64Array(columns)), 128).ids).toEqual(Array.from({ length: 128 }, (_, i) => i));
  });

  test("the largest ones in some threads of a threadgroup alone", () => {
    const random = new Random(8);
    for (const [threads, k] of [[128, 128], [127, 128], [3, 40], [1, 5]] as const) {
      const x = reference([1, piece + 300]);
      for (let column = 0; column < x.data.length; column++) x.data[column] = Math.fround(random.normal() + (column % 256 < threads ? 100 : 0));
      expect(run(x, k)).toEqual(referenceOf(x, k));
    }
  });

  test("subnormal numbers are not zeros", () => {
    expect(run(reference([1, 4], [0, 2 ** -149, -(2 ** -149), 2 ** -140]), 4).ids).toEqual([3, 1, 0, 2]);
  });

  test("NaN comes first, then ∞; −∞ is last", () => {
    const [inf, nan] = [Infinity, NaN];
    const rows = [[1, nan, -inf, 3, nan], [nan, nan, nan, nan, nan], [inf, 1, inf, -inf, 0], [-inf, -inf, -inf, -inf, -inf], [-nan, -inf, inf, nan, 2]];
    const { ids } = run(reference([5, 5], rows.flat()), 5);
    expect(ids).toEqual([1, 4, 3, 0, 2, 0, 1, 2, 3, 4, 0, 2, 1, 4, 3, 0, 1, 2, 3, 4, 0, 3, 2, 4, 1]);
    const long = reference([1, piece + 50], new Float64Array(piece + 50).fill(7));
    long.data[piece + 3] = long.data[77] = nan;
    expect(run(long, 3)).toEqual({ values: [nan, nan, 7], ids: [77, piece + 3, 0] });
  });

  test("a row has the same results in any company, and the first of them for a smaller k", () => {
    const x = normal(3, [20, 300]);
    const all = run(x, 128);
    for (const k of [1, 2, 64, 127]) {
      const some = run(x, k);
      for (let row = 0; row < 20; row++) expect(some.ids.slice(row * k, (row + 1) * k)).toEqual(all.ids.slice(row * 128, row * 128 + k));
    }
    expect(run(reference([1, 300], x.data.subarray(7 * 300, 8 * 300)), 9).ids).toEqual(all.ids.slice(7 * 128, 7 * 128 + 9));
  });

  test("more rows than the lists of their pieces have memory for", () => {
    const x = normal(5, [130, piece + 1]);
    expect(run(x, 128)).toEqual(referenceOf(x, 128));
  });

  test("no rows are legal", () => {
    expect(run(reference([0, 4]), 2).ids.length).toBe(0);
  });
});
