import { describe, expect, test } from "bun:test";
import { BoundsError, Device, combineExperts, expertLinear, linear, route, siluMul } from "../../lib/index.ts";
import type { FloatDType, Tensor } from "../../lib/index.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import type { WeightFormat } from "../../lib/native/options.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { expertLinear as referenceOf } from "../reference/expert-linear.ts";
import { onEachBackend } from "../support/backends.ts";
import { expertMatrices } from "../support/experts.ts";
import { fill } from "../support/cases.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

const allFormats = Object.keys(weightLayouts) as WeightFormat[];

onEachBackend("expertLinear", (backend) => {
  const { device } = backend;
  const normal = (random: Random, shape: readonly number[], format: FloatDType = "f32") => fill(shape, format, () => random.normal());
  const idsOf = (values: ArrayLike<number>, tokens: number, of = device): Tensor<"id32"> => of.tensor("id32", [tokens, values.length / Math.max(tokens, 1)]).copyFrom(values);
  const choose = (random: Random, rows: number, experts: number) => Int32Array.from({ length: rows }, () => random.below(experts));

  describe.each(allFormats)("%s", (format) => {
    test("near float64, and the bits of linear with each expert's matrix", () => {
      const random = new Random(allFormats.indexOf(format));
      const group = Math.max(weightLayouts[format].elements, 32);
      for (const [tokens, k, experts, features, columns, ranked] of [
        [1, 4, 9, 37, 3 * group, false], [6, 2, 3, 20, group, true], [25, 3, 2, 18, 2 * group, false],
      ] as const) {
        using layouts = new Layouts(device, random);
        const dtype = random.pick(["f32", "f16", "bf16"] as const);
        const x = normal(random, ranked ? [tokens, k, columns] : [tokens, columns], dtype);
        const matrices = expertMatrices(random, format, [experts, features, columns]);
        const weight = matrices.place(layouts);
        const ids = choose(random, tokens * k, experts);
        const [placed, out] = [layouts.rows("x", dtype, x), layouts.out("out", "f32", [tokens, k, features])];
        runChecked(device, layouts, expertLinear({ x: placed, ...weight, ids: idsOf(ids, tokens), out }));
        const got = download(out);
        expectNear(`${backend.name} expertLinear, ${format}`, got, referenceOf(x, matrices.values, ids, k).data, bounds.f32);
        const alone = device.tensor("f32", [1, features]);
        for (let row = 0; row < ids.length; row++) {
          const own = ranked ? placed.view({ offset: Math.floor(row / k) * placed.strides[0]! + (row % k) * placed.strides[1]!, shape: [1, columns] }) : placed.slice(Math.floor(row / k), Math.floor(row / k) + 1);
          device.run(linear({ x: own, ...matrices.of(weight, ids[row]!), out: alone }));
          device.wait();
          expectSameBits(`row ${row}`, got.slice(row * features, (row + 1) * features), alone.toFloat32());
        }
        if (dtype === "f32") continue;
        const narrow = layouts.out("narrow", dtype, [tokens, k, features]);
        runChecked(device, layouts, expertLinear({ x: placed, ...weight, ids: idsOf(ids, tokens), out: narrow }));
        expectRounded("narrow", dtype, download(narrow), got);
      }
    });
  });

  test("a token has the same bits in any company: alone, with all tokens at one expert, with experts that have none", () => {
    const random = new Random(11);
    const [tokens, k, experts, features, columns] = [70, 3, 6, 40, 192];
    const x = device.tensor("f32", [tokens, columns]).copyFrom(normal(random, [tokens, columns]).data);
    using layouts = new Layouts(device);
    const weight = expertMatrices(random, "affine4-g64", [experts, features, columns]).place(layouts);
    const out = device.tensor("f32", [tokens, k, features]);
    for (const chosen of [choose(random, tokens * k, experts), new Int32Array(tokens * k).fill(4), Int32Array.from({ length: tokens * k }, (_, i) => (i % 2) * 5)]) {
      const ids = idsOf(chosen, tokens);
      device.run(expertLinear({ x, ...weight, ids, out }));
      device.wait();
      const together = out.toFloat32();
      for (const [first, count] of [[0, 1], [69, 1], [5, 2], [10, 7], [3, 33]] as const) {
        const part = device.tensor("f32", [count, k, features]);
        device.run(expertLinear({ x: x.slice(first, first + count), ...weight, ids: ids.slice(first, first + count), out: part }));
        device.wait();
        expectSameBits(`${count} tokens from ${first}`, part.toFloat32(), together.slice(first * k * features, (first + count) * k * features));
      }
    }
  });

  if (backend.name === "cpu") test("any number of threads gives the same bits", () => {
    const random = new Random(9);
    const [tokens, k, experts, features, columns] = [50, 4, 16, 130, 256];
    const matrices = expertMatrices(random, "affine4-g64", [experts, features, columns]);
    const [x, ids] = [normal(random, [tokens, columns]).data, choose(random, tokens * k, experts)];
    const results = [1, 2, 3, 8].map((threads) => {
      using other = Device.open({ backend: "cpu", threads });
      using layouts = new Layouts(other);
      const out = other.tensor("f32", [tokens, k, features]);
      other.run(expertLinear({ x: other.tensor("f32", [tokens, columns]).copyFrom(x), ...matrices.place(layouts), ids: idsOf(ids, tokens, other), out }));
      other.wait();
      return out.toFloat32();
    });
    for (const result of results) expectSameBits("out", result, results[0]!);
  });

  test("ids of no expert give zeros and fail the submission, whose other ops run; the next one is sound", async () => {
    const random = new Random(12);
    using layouts = new Layouts(device);
    const [tokens, k, experts, features, columns] = [4, 2, 3, 9, 32];
    const matrices = expertMatrices(random, "f32", [experts, features, columns]);
    const weight = matrices.place(layouts);
    const x = normal(random, [tokens, columns]);
    const placed = layouts.rows("x", "f32", x);
    for (const wrong of [-1, experts, 2 ** 31 - 1, -(2 ** 31)]) {
      const ids = idsOf([0, 1, 2, wrong, 1, 0, wrong, 2], tokens);
      const out = layouts.out("out", "f32", [tokens, k, features]);
      const sum = layouts.out("sum", "f32", [tokens, features]);
      const weights = device.tensor("f32", [tokens, k]).copyFrom(Array(tokens * k).fill(1));
      device.run(expertLinear({ x: placed, ...weight, ids, out }), combineExperts({ experts: out, weights, out: sum }));
      const failure = (() => {
        try {
          device.wait();
        } catch (error) {
          return error;
        }
        return undefined;
      })();
      expect(failure).toBeInstanceOf(BoundsError);
      expect(failure).toMatchObject({ code: "range", op: "expertLinear", argument: "ids[1, 1]", expected: "an expert, 0..2", received: `${wrong}` });
      const wanted = referenceOf(x, matrices.values, ids.data, k).data;
      expectNear("out", download(out), wanted, bounds.f32);
      expect(download(out).slice(3 * features, 4 * features).every((value) => value === 0)).toBe(true);
      const sums = Float64Array.from({ length: tokens * features }, (_, i) => {
        const at = Math.floor(i / features) * k * features + (i % features);
        return wanted[at]! + wanted[at + features]!;
      });
      expectNear("sum", download(sum), sums, bounds.f32);
      expect(layouts.trespasses()).toEqual([]);
      device.run(expertLinear({ x: placed, ...weight, ids, out }));
      await expect(device.finish()).rejects.toThrow("ids[1, 1]");
      ids.data.fill(0);
      device.run(expertLinear({ x: placed, ...weight, ids, out }));
      await device.finish();
    }
  });

  test("a mixture in a plan, rerun with other tokens: ids and weights never leave the device", () => {
    const random = new Random(13);
    using layouts = new Layouts(device);
    const [tokens, k, experts, hidden, inner] = [5, 2, 8, 64, 24];
    const tensor = (shape: readonly number[]) => device.tensor("f32", shape);
    const router = tensor([experts, hidden]).copyFrom(normal(random, [experts, hidden]).data);
    const gateUp = expertMatrices(random, "affine8-g32", [experts, 2 * inner, hidden]);
    const down = expertMatrices(random, "f32", [experts, hidden, inner]);
    const [first, second] = [gateUp.place(layouts), down.place(layouts)];
    const [x, logits, weights, both, product, parts, out] = [tensor([tokens, hidden]), tensor([tokens, experts]), tensor([tokens, k]), tensor([tokens, k, 2 * inner]), tensor([tokens, k, inner]), tensor([tokens, k, hidden]), tensor([tokens, hidden])];
    const ids = device.tensor("id32", [tokens, k]);
    const ops = [
      linear({ x, weight: router, out: logits }),
      route({ logits, ids, weights, normalize: true }),
      expertLinear({ x, ...first, ids, out: both }),
      siluMul({ gate: both.narrow(2, 0, inner), up: both.narrow(2, inner, inner), out: product }),
      expertLinear({ x: product, ...second, ids, out: parts }),
      combineExperts({ experts: parts, weights, residual: x, out }),
    ];
    using plan = device.plan((pass) => ops.forEach((op) => pass.encode(op)));
    const seen = new Set<string>();
    for (let turn = 0; turn < 4; turn++) {
      x.copyFrom(normal(random, [tokens, hidden]).data);
      plan.run();
      device.wait();
      const planned = out.toFloat32();
      seen.add(ids.data.join());
      out.data.fill(0);
      for (const op of ops) {
        device.run(op);
        device.wait();
      }
      expectSameBits("plan", planned, out.toFloat32());
    }
    expect(seen.size).toBe(4);
  });

  test("no tokens, no experts of a token, no features and no inputs", () => {
    const [none, some] = [device.tensor("id32", [0, 2]), device.tensor("id32", [2, 1])];
    const weight = device.tensor("f32", [3, 4, 8]);
    const out = device.tensor("f32", [2, 1, 4]);
    out.data.fill(7);
    device.run(
      expertLinear({ x: device.tensor("f32", [0, 8]), weight, ids: none, out: device.tensor("f32", [0, 2, 4]) }),
      expertLinear({ x: device.tensor("f32", [2, 8]), weight, ids: device.tensor("id32", [2, 0]), out: device.tensor("f32", [2, 0, 4]) }),
      expertLinear({ x: device.tensor("f32", [2, 8]), weight: device.tensor("f32", [3, 0, 8]), ids: some, out: device.tensor("f32", [2, 1, 0]) }),
      expertLinear({ x: device.tensor("f32", [2, 0]), weight: device.tensor("f32", [3, 4, 0]), ids: some, out }),
    );
    device.wait();
    expect([...out.data]).toEqual(Array(8).fill(0));
    some.data.fill(3);
    device.run(expertLinear({ x: device.tensor("f32", [2, 8]), weight: device.tensor("f32", [3, 0, 8]), ids: some, out: device.tensor("f32", [2, 1, 0]) }));
    expect(() => device.wait()).toThrow("ids[0, 0]");
  });
});
