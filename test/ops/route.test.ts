import { describe, expect, test } from "bun:test";
import { route } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { route as referenceOf } from "../reference/route.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { expectNear, expectSameBits } from "../support/judge.ts";
import { Layouts } from "../support/layouts.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

onEachBackend("route", (backend) => {
  const { device } = backend;

  function run(logits: Reference, k: number, normalize: boolean, format: FloatDType = "f32", random?: Random) {
    using layouts = new Layouts(device, random);
    const tokens = logits.shape[0]!;
    const [ids, weights] = [device.tensor("id32", [tokens, k]), device.tensor("f32", [tokens, k])];
    ids.data.fill(-7);
    runChecked(device, layouts, route({ logits: layouts.rows("logits", format, logits), ids, weights, normalize }));
    return { ids: ids.data.slice(), weights: weights.toFloat32() };
  }

  const normal = (seed: number, shape: readonly number[], format: FloatDType = "f32"): Reference => {
    const random = new Random(seed);
    return fill(shape, format, () => 3 * random.normal());
  };

  describe.each(["f32", "f16", "bf16"] as const)("%s", (format) => {
    test.each([
      [1, 1], [2, 2], [5, 3], [16, 16], [17, 1], [60, 4], [128, 8], [256, 8], [512, 10], [1024, 1024], [4096, 6],
    ])("of %d experts the best %d", (experts, k) => {
      // This many take an emulated GPU seconds.
      if (experts > 1024 && backend.emulated && format !== "f32") return;
      for (const normalize of [false, true]) {
        const logits = normal(experts, [experts > 1024 ? 1 : 3, experts], format);
        const got = run(logits, k, normalize, format, new Random(experts));
        const wanted = referenceOf(logits, k, normalize);
        expect([...got.ids]).toEqual([...wanted.ids]);
        expectNear(`${backend.name} route`, got.weights, wanted.weights.data, bounds.f32);
      }
    });
  });

  test("ties go to the lower id, 0 and -0 among them", () => {
    const { ids, weights } = run(reference([2, 6], [1, 2, 2, 1, 2, 1, -0, 0, -0, 0, -1, 0]), 5, false);
    expect([...ids]).toEqual([1, 2, 4, 0, 3, 0, 1, 2, 3, 5]);
    expect(new Set(weights.slice(0, 3)).size).toBe(1);
  });

  test("logits that differ are not tied, though their shares are", () => {
    expect([...run(reference([1, 4], [-300, 0, -200, -400]), 4, false).ids]).toEqual([1, 2, 0, 3]);
    // Shares so close that they are the same float32.
    expect([...run(reference([1, 3], [Math.fround(0.1), Math.fround(0.1 + 2 ** -26), 5]), 3, false).ids]).toEqual([2, 1, 0]);
  });

  test("NaN comes last and makes every weight NaN; so does a maximum that is infinite", () => {
    const [inf, nan] = [Infinity, NaN];
    const rows = [
      [1, nan, -inf, 3, nan], [nan, nan, nan, nan, nan], [inf, 1, inf, -inf, 0], [-inf, -inf, -inf, -inf, -inf], [-nan, -inf, inf, nan, 2],
    ];
    const { ids, weights } = run(reference([5, 5], rows.flat()), 5, true);
    expect([...ids]).toEqual([3, 0, 2, 1, 4, 0, 1, 2, 3, 4, 0, 2, 1, 4, 3, 0, 1, 2, 3, 4, 2, 4, 1, 0, 3]);
    expect(weights.every(Number.isNaN)).toBe(true);
    // If a row has finite numbers, -Infinity gets no share at all.
    const some = run(reference([1, 4], [0, -inf, 0, -inf]), 4, false);
    expect([[...some.ids], [...some.weights]]).toEqual([[0, 2, 1, 3], [0.5, 0.5, 0, 0]]);
  });

  test("large logits do not overflow", () => {
    const { weights } = run(reference([1, 3], [3e38, -3e38, 3e38]), 3, true);
    expect([...weights]).toEqual([0.5, 0.5, 0]);
  });

  test("a row has the same bits in any company, and the same experts for any k", () => {
    const logits = normal(3, [40, 130]);
    const together = run(logits, 9, true);
    for (const row of [0, 7, 39]) {
      const alone = run(reference([1, 130], logits.data.subarray(row * 130, (row + 1) * 130)), 9, true);
      expectSameBits(`row ${row}`, alone.weights, together.weights.slice(row * 9, (row + 1) * 9));
      expect([...alone.ids]).toEqual([...together.ids.slice(row * 9, (row + 1) * 9)]);
    }
    const all = run(logits, 130, false);
    for (const k of [1, 2, 64, 129]) {
      const some = run(logits, k, false);
      for (let row = 0; row < 40; row++) {
        expectSameBits(`${k}`, some.weights.slice(row * k, (row + 1) * k), all.weights.slice(row * 130, row * 130 + k));
        expect([...some.ids.slice(row * k, (row + 1) * k)]).toEqual([...all.ids.slice(row * 130, row * 130 + k)]);
      }
    }
  });

  test("no tokens are legal", () => {
    expect(run(reference([0, 4]), 2, true).ids.length).toBe(0);
  });
});
