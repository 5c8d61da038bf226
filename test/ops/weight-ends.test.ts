/** Kernels read nothing beyond the end of a weight, its scales and its biases: here, such a read would end the process. */
import { test } from "bun:test";
import { expertLinear, linear } from "../../lib/index.ts";
import type { WeightFormat } from "../../lib/index.ts";
import { weightLayouts } from "../../lib/native/weight-formats.ts";
import { groupOf } from "../reference/int8.ts";
import { onEachBackend } from "../support/backends.ts";
import { expertMatrices, type PlacedMatrices } from "../support/experts.ts";
import { Guarded } from "../support/guarded.ts";
import { expectSameBits } from "../support/judge.ts";
import { Layouts, download } from "../support/layouts.ts";
import { Random } from "../support/random.ts";

/** Row counts for each kernel: one row, a few, tiles, panels. */
const rowCounts = [1, 2, 3, 4, 6, 8, 13, 40, 70];

onEachBackend("the end of a weight", ({ device, name }) => {
  if (name !== "cpu") return;

  test.each(Object.keys(weightLayouts) as WeightFormat[])("%s", (format) => {
    const random = new Random(format.length);
    const { elements } = weightLayouts[format];
    for (const activations of groupOf(format) > 0 ? (["exact", "int8"] as const) : (["exact"] as const)) {
      for (const rows of rowCounts) {
        const [features, block] = [random.pick([5, 16, 35, 48]), Math.max(elements, 8)];
        // One row takes sixteen groups at a time, and copies the last ones if they are fewer.
        const columns = block * (rows === 1 ? 15 : 1 + random.below(Math.ceil(600 / block)));
        using layouts = new Layouts(device);
        using tensors = new DisposableStack();
        using guarded = new Guarded(device);
        const matrices = expertMatrices(random, format, [2, features, columns]);
        const placed = matrices.place(layouts);
        const { weightFormat, ...parts } = placed;
        const atEnd = { weightFormat, ...Object.fromEntries(Object.entries(parts).map(([key, tensor]) => [key, guarded.copy(tensor)])) } as PlacedMatrices;
        const x = tensors.use(device.tensorFrom("f32", [rows, columns], Float32Array.from({ length: rows * columns }, () => random.normal())));
        const ids = tensors.use(device.tensorFrom("id32", [rows, 1], Int32Array.from({ length: rows }, () => random.below(2))));
        const [here, there] = [placed, atEnd].map((weights) => {
          const out = tensors.use(device.tensor("f32", [rows, features]));
          const experts = tensors.use(device.tensor("f32", [rows, 1, features]));
          device.run(linear({ x, ...matrices.of(weights, 1), out, activations }), expertLinear({ x, ...weights, ids, out: experts, activations }));
          device.wait();
          return [download(out), download(experts)];
        }) as [Float32Array[], Float32Array[]];
        here.forEach((numbers, i) => expectSameBits(`${activations}, ${rows} by ${features} by ${columns}, ${i}`, there[i]!, numbers));
      }
    }
  });
});
