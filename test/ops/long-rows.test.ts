/** A few rows of `linear` that are longer than the CPU multiplies at a time. */
import { test } from "bun:test";
import { linear } from "../../lib/index.ts";
import type { WeightFormat } from "../../lib/native/options.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { onOnly } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { expertMatrices } from "../support/experts.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts } from "../support/layouts.ts";
import { Random } from "../support/random.ts";

onOnly("cpu", "a few long rows", ({ device }) => {
  test.each(Object.keys(weightLayouts) as WeightFormat[])("%s: have the bits of one", (format) => {
    const random = new Random(3);
    const { elements } = weightLayouts[format];
    const [outputs, columns] = [5, Math.ceil(2561 / elements) * elements];
    using layouts = new Layouts(device, random);
    const matrices = expertMatrices(random, format, [1, outputs, columns]);
    const weight = matrices.of(matrices.place(layouts), 0);
    for (const rows of [3, 8]) {
      const x = layouts.rows("x", "f32", fill([rows, columns], "f32", () => random.normal()));
      using together = device.tensor("f32", [rows, outputs]);
      using alone = device.tensor("f32", [rows, outputs]);
      device.run(linear({ x, ...weight, out: together }));
      for (let row = 0; row < rows; row++) device.run(linear({ x: x.narrow(0, row, 1), ...weight, out: alone.narrow(0, row, 1) }));
      device.wait();
      expectSameBits(`${rows} rows`, together.toFloat32(), alone.toFloat32());
    }
  });
});
