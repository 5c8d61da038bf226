/** Linears that follow each other in one submission: x is rounded, or put into the kernels' order, once for all of them while it stays the same. */
import { expect, test } from "bun:test";
import { add, linear } from "../../lib/index.ts";
import type { Op, WeightFormat } from "../../lib/index.ts";
import { onEachBackend } from "../support/backends.ts";
import { fill } from "../support/cases.ts";
import { expertMatrices } from "../support/experts.ts";
import { Layouts, download } from "../support/layouts.ts";
import { Random } from "../support/random.ts";

onEachBackend("linears in a row", ({ device, name }) => {
  if (name !== "cpu") return;

  const columns = 128;

  for (const activations of ["int8", "exact"] as const) for (const rows of [1, 4, 7, 20]) test(`${activations}: x that an op has written is read again, ${rows} rows`, () => {
    const random = new Random(rows);
    using layouts = new Layouts(device);
    const matrix = (format: WeightFormat) => {
      const matrices = expertMatrices(random, format, [1, columns, columns]);
      return matrices.of(matrices.place(layouts), 0);
    };
    const [four, again, eight, blocks, exact] = [matrix("affine4-g64"), matrix("affine4-g64"), matrix("affine8-g64"), matrix("q4_0"), matrix("f32")];
    const numbers = fill([rows, columns], "f32", () => random.normal());
    const x = device.tensor("f32", [rows, columns]);
    const out = () => device.tensor("f32", [rows, columns]);
    const [a, b, c, d, e, f, g, h, i, j] = [out(), out(), out(), out(), out(), out(), out(), out(), out(), out()];
    const outs = [a, b, c, d, e, f, g, h, i, j];
    const ops: Op[] = [
      linear({ x, ...four, out: a, activations }),
      linear({ x, ...again, out: b, activations }),
      linear({ x, ...eight, out: c, activations }),
      linear({ x, ...blocks, out: d, activations }),
      add({ a, b, out: x }),
      linear({ x, ...four, out: e, activations }),
      linear({ x: a, ...exact, out: x }),
      linear({ x, ...four, out: f, activations }),
      linear({ x, ...four, residual: b, out: b, activations }),
      linear({ x: b, ...four, out: x, activations }),
      linear({ x, ...four, out: g, activations }),
      linear({ x: x.slice(0, Math.ceil(rows / 2)), ...four, out: h.slice(0, Math.ceil(rows / 2)), activations }),
      linear({ x, ...four, out: i, activations }),
      // One row is read as it lies.
      linear({ x: a.slice(0, 1), ...again, out: x.slice(0, 1), activations }),
      linear({ x, ...four, out: j, activations }),
    ];
    const results = (submit: () => void) => {
      x.copyFrom(Float32Array.from(numbers.data));
      for (const tensor of outs) tensor.copyFrom(new Float32Array(rows * columns));
      submit();
      device.wait();
      return [...outs, x].map((tensor) => Buffer.from(download(tensor).buffer).toString("hex"));
    };
    const alone = results(() => {
      for (const op of ops) {
        device.run(op);
        device.wait();
      }
    });
    const together = results(() => device.run(...ops));
    expect(together).toEqual(alone);
    expect(together[8]).toBe(together[6]!);
    expect(new Set([0, 4, 5, 6, 9].map((k) => together[k])).size).toBe(5);
  });
});
