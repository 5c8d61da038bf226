/** Linears in sequence in one submission: while x stays the same, it is rounded, or put into the kernels' order, only once. */
import { expect, test } from "bun:test";
import { Device, add, linear } from "../../lib/index.ts";
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
    const [a, b, c, d, e, f, g, h, i, j, k, l, m] = [out(), out(), out(), out(), out(), out(), out(), out(), out(), out(), out(), out(), out()];
    const outs = [a, b, c, d, e, f, g, h, i, j, k, l, m];
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
      // The second of two linears that run together writes to x.
      linear({ x, ...exact, out: k }),
      linear({ x: b, ...four, out: l, activations }),
      linear({ x: b, ...again, out: x, activations }),
      linear({ x, ...exact, out: m }),
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
    expect(new Set([0, 4, 5, 6, 9, 10, 12].map((k) => together[k])).size).toBe(7);
  });

  // Linears of the same rows run as one job, unless one writes where another reads or writes. These are large enough for several threads.
  for (const activations of ["int8", "exact"] as const) for (const threads of [1, 2, 3]) test(`${activations}, ${threads} threads: any linears give the bits that they give alone`, () => {
    using own = Device.open({ backend: "cpu", threads });
    using layouts = new Layouts(own);
    const [inFeatures, most] = [512, 320];
    const random = new Random(threads);
    const matrices = (["affine4-g64", "affine8-g32", "q8_0"] as const).map((format) => {
      const made = expertMatrices(random, format, [1, most, inFeatures]);
      return made.of(made.place(layouts), 0);
    });
    const numbers = Float32Array.from({ length: 3 * most * inFeatures }, () => random.normal() / 16);
    const arena = own.tensor("f32", [numbers.length]);
    for (let round = 0; round < 24; round++) {
      const rows = random.pick([1, 1, 2, 7, 16, 17]);
      const rowsAt = (at: number) => arena.slice(at, at + rows * inFeatures).reshape([rows, inFeatures]);
      let kind = 0;
      const ops = Array.from({ length: 16 }, (): Op => {
        const at = random.below(6) === 0 ? numbers.length - rows * inFeatures : 0;
        const taken: (readonly [number, number])[] = [[at, at + rows * inFeatures]];
        /** A matrix somewhere in the arena, separate from the op's others. Places are few, so different ops' matrices often overlap. */
        const place = (places: number, height: number, width: number) => {
          for (;;) {
            const [start, size] = [random.below(places) * 128 * inFeatures + 16 * random.below(3), height * width];
            if (taken.some(([first, end]) => start < end && first < start + size)) continue;
            taken.push([start, start + size]);
            return arena.slice(start, start + size).reshape([height, width]);
          }
        };
        const features = 160 + random.below(most - 159);
        if (random.below(3) === 0) kind = random.below(4);
        const { weightFormat, weight, scales, biases } = matrices[kind % 3]!;
        const packed = { weightFormat, weight: weight.slice(0, features), scales: scales?.slice(0, features), biases: biases?.slice(0, features) };
        const matrix = kind === 3 ? { weight: place(4, features, inFeatures) } : packed;
        const out = place(7, rows, features);
        return linear({ x: rowsAt(at), ...matrix, out, residual: random.below(10) === 0 ? out : undefined, activations });
      });
      const bitsAfter = (submit: () => void) => {
        arena.copyFrom(numbers);
        submit();
        own.wait();
        return Buffer.from(download(arena).buffer);
      };
      const alone = bitsAfter(() => ops.forEach((op) => own.run(op)));
      expect(bitsAfter(() => own.run(...ops)).equals(alone)).toBe(true);
    }
  });
});
