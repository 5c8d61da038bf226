/** Terms of int8 products and offsets whose sum differs when it is rounded twice instead of once. */
import { test } from "bun:test";
import { linear } from "../../lib/index.ts";
import { fused, int8Affine } from "../reference/int8.ts";
import { reference } from "../reference/tensor.ts";
import { onOnly } from "../support/backends.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { placeQuantised, randomQuantised } from "../support/quantised.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

const f = Math.fround;

onOnly("cpu", "offsets of int8 terms", ({ device }) => {
  test("are added in one rounding, also next to the middle between two numbers", () => {
    const random = new Random(15);
    const [features, columns] = [40, 32];
    const weight = randomQuantised(random, [features, columns], 4, columns, "f32");
    // One column matters: it has 127 in x, and 1 in the weight. Its product, with `unit` as a scale, exceeds 1 by less than 2^-30.
    weight.words.data.fill(0x11111111);
    let [value, scale, unit, product] = [0, 0, 0, 0];
    while (!(product > 1 && product < 1 + 2 ** -30)) {
      value = f(random.uniform(1, 2));
      scale = f(value / 127);
      unit = f(f(1 / (127 * scale)) + (random.below(3) - 1) * 2 ** -24);
      product = f(127 * unit) * scale;
    }
    const sum = f(127 * scale);
    for (let o = 0; o < features; o++) {
      let [twice, once] = [0, 0];
      while (twice === once) {
        const offset = f(random.uniform(1, 2));
        const added = f(offset * sum);
        const factor = unit * 2 ** (Math.floor(Math.log2(added)) - 24);
        [twice, once] = [f(f(127 * factor) * scale + added), fused(f(127 * factor), scale, added)];
        weight.scales.data[o] = factor;
        weight.biases.data[o] = offset;
      }
    }
    for (const rows of [1, 3, 8, 20]) {
      const x = reference([rows, columns]);
      for (let row = 0; row < rows; row++) x.data[row * columns] = value;
      using layouts = new Layouts(device, random);
      const out = layouts.out("out", "f32", [rows, features]);
      runChecked(device, layouts, linear({ x: layouts.rows("x", "f32", x), ...placeQuantised(layouts, weight, "f32"), out, activations: "int8" }));
      expectSameBits(`${rows} rows`, download(out), int8Affine(x, weight));
    }
  });
});
