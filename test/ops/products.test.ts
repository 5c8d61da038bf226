/** Products by a GPU's matrix units: near the sums in order, and the same however rows are combined. */
import { describe, expect, test } from "bun:test";
import { expertLinear, linear } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import type { WeightFormat } from "../../lib/native/options.ts";
import { expertLinear as referenceOf } from "../reference/expert-linear.ts";
import { linear as linearReference } from "../reference/linear.ts";
import { reshape } from "../reference/tensor.ts";
import { onOnly } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { Attention, plainLayer, randomTokens } from "../support/conversations.ts";
import { expertMatrices } from "../support/experts.ts";
import { expectNear, expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

const allFormats = Object.keys(weightLayouts) as WeightFormat[];

onOnly("metal", "products by matrices", ({ device }) => {
  const normal = (random: Random, shape: readonly number[], dtype: FloatDType = "f32") => fill([...shape], dtype, () => random.normal());

  describe.each(allFormats)("%s", (format) => {
    test("linear: near float64, with a residual; a row has its bits in any company", () => {
      const random = new Random(1 + allFormats.indexOf(format));
      const { elements } = weightLayouts[format];
      const [rows, outputs, columns] = [70, 75, elements === 1 ? 37 : Math.max(elements, 32)];
      using layouts = new Layouts(device, random);
      const dtype = random.pick(["f32", "f16", "bf16"] as const);
      const x = normal(random, [rows, columns], dtype);
      const matrices = expertMatrices(random, format, [1, outputs, columns]);
      const weight = matrices.of(matrices.place(layouts), 0);
      const added = normal(random, [rows, outputs]);
      const [placed, residual] = [layouts.rows("x", dtype, x), layouts.rows("residual", "f32", added)];
      const out = layouts.out("out", "f32", [rows, outputs]);
      runChecked(device, layouts, linear({ x: placed, ...weight, residual, out, products: "matrix" }));
      const got = download(out);
      const wanted = linearReference(x, reshape(matrices.values, [outputs, columns])).data;
      expectNear(`linear, ${format}`, got, wanted.map((v, i) => v + added.data[i]!), bounds.f32);
      for (const [first, count] of [[0, 1], [69, 1], [3, 9], [5, 64]] as const) {
        const part = device.tensor("f32", [count, outputs]);
        device.run(linear({ x: placed.slice(first, first + count), ...weight, residual: residual.slice(first, first + count), out: part, products: "matrix" }));
        device.wait();
        expectSameBits(`rows from ${first}`, part.toFloat32(), got.slice(first * outputs, (first + count) * outputs));
      }
    });

    test("expertLinear: near float64, with the bits of linear", () => {
      const random = new Random(50 + allFormats.indexOf(format));
      const columns = Math.max(weightLayouts[format].elements, 32);
      for (const [tokens, k, experts, outputs] of [[1, 3, 5, 20], [25, 3, 2, 70]] as const) {
        using layouts = new Layouts(device, random);
        const x = normal(random, [tokens, columns]);
        const matrices = expertMatrices(random, format, [experts, outputs, columns]);
        const weight = matrices.place(layouts);
        const ids = Int32Array.from({ length: tokens * k }, () => random.below(experts));
        const [placed, out] = [layouts.rows("x", "f32", x), layouts.out("out", "f32", [tokens, k, outputs])];
        const given = device.tensor("id32", [tokens, k]).copyFrom(ids);
        runChecked(device, layouts, expertLinear({ x: placed, ...weight, ids: given, out, products: "matrix" }));
        const got = download(out);
        expectNear(`expertLinear, ${format}`, got, referenceOf(x, matrices.values, ids, k).data, bounds.f32);
        const alone = device.tensor("f32", [1, outputs]);
        for (const row of [0, tokens * k - 1]) {
          const token = Math.floor(row / k);
          device.run(linear({ x: placed.slice(token, token + 1), ...matrices.of(weight, ids[row]!), out: alone, products: "matrix" }));
          device.wait();
          expectSameBits(`row ${row}`, alone.toFloat32(), got.slice(row * outputs, (row + 1) * outputs));
        }
      }
    });
  });

  describe.each(["f32", "affine4-g64", "q4_k"] as WeightFormat[])("NaN and infinity, %s", (format) => {
    const columns = 256;
    const others = (all: Float32Array, row: number, width: number) => Float32Array.from([...all.subarray(0, row * width), ...all.subarray((row + 1) * width)]);

    test("linear: those of a row stay in it, and those of an output's weights in its column", () => {
      const random = new Random(7);
      const [rows, outputs] = [37, 70];
      using layouts = new Layouts(device, random);
      const weight = expertMatrices(random, format, [1, outputs, columns]);
      const placed = weight.of(weight.place(layouts), 0);
      const run = (x: Float32Array, given = placed) => {
        using input = device.tensorFrom("f32", [rows, columns], x);
        using out = device.tensor("f32", [rows, outputs]);
        device.run(linear({ x: input, ...given, out, products: "matrix" }));
        device.wait();
        return out.toFloat32();
      };
      const x = Float32Array.from({ length: rows * columns }, () => random.normal());
      const clean = run(x);
      for (const value of [NaN, Infinity, -Infinity]) {
        const row = random.below(rows);
        const changed = x.slice();
        changed[row * columns + random.below(columns)] = value;
        const got = run(changed);
        expectSameBits(`${value} in row ${row}`, others(got, row, outputs), others(clean, row, outputs));
        expect(got.subarray(row * outputs, (row + 1) * outputs).some(Number.isFinite)).toBe(false);
        if (format !== "f32") continue;
        const output = random.below(outputs);
        using strange = device.tensorFrom("f32", [outputs, columns], weight.values.data);
        strange.data[output * columns + random.below(columns)] = value;
        const by = run(x, { weightFormat: "f32", weight: strange });
        const besides = (all: Float32Array) => all.filter((_, i) => i % outputs !== output);
        expectSameBits(`${value} in the weights of output ${output}`, besides(by), besides(clean));
      }
    });

    test("expertLinear: those of a token stay in its rows", () => {
      const random = new Random(8);
      const [tokens, k, experts, outputs] = [21, 3, 2, 40];
      using layouts = new Layouts(device, random);
      const weight = expertMatrices(random, format, [experts, outputs, columns]).place(layouts);
      using ids = device.tensor("id32", [tokens, k]).copyFrom(Int32Array.from({ length: tokens * k }, () => random.below(experts)));
      const run = (x: Float32Array) => {
        using input = device.tensorFrom("f32", [tokens, columns], x);
        using out = device.tensor("f32", [tokens, k, outputs]);
        device.run(expertLinear({ x: input, ...weight, ids, out, products: "matrix" }));
        device.wait();
        return out.toFloat32();
      };
      const x = Float32Array.from({ length: tokens * columns }, () => random.normal());
      const clean = run(x);
      for (const value of [NaN, Infinity, -Infinity]) {
        const token = random.below(tokens);
        const changed = x.slice();
        changed[token * columns + random.below(columns)] = value;
        expectSameBits(`${value} in token ${token}`, others(run(changed), token, k * outputs), others(clean, token, k * outputs));
      }
    });
  });

  describe.each(["f32", "f16", "bf16"] as const)("attention, pages of %s", (pageDtype) => {
    test.each([8, 40, 64, 128, 256])("heads of %i: near the sums in order, and alike however a prompt is cut", (headDim) => {
      const layer = { ...plainLayer, headDim, heads: 6, kvHeads: 2, rotaryDim: 8, pageDtype };
      const random = new Random(headDim);
      const tokens = randomTokens(device, layer, 97, random);
      const run = (products: "rows" | "matrix", pieces: readonly number[]) => {
        using op = new Attention(device, { ...layer, products }, 16, 12, new Random(3));
        return op.whole(tokens, pieces).out;
      };
      const whole = run("matrix", [97]);
      expectNear("attention", whole, run("rows", [97]), bounds.f32);
      expectSameBits("in pieces", run("matrix", [1, 35, 2, 42, 17]), whole);
    });
  });
});
