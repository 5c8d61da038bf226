/** The ops on elements of two tensors: each against its reference, with every pair of dtypes, in place and strided. */
import { describe, expect, test } from "bun:test";
import { add, siluMul } from "../../lib/index.ts";
import type { FloatDType, Op, Tensor } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import * as reference from "../reference/elementwise.ts";
import type { Reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";

interface Elementwise {
  readonly name: string;
  readonly op: (a: Tensor, b: Tensor, out: Tensor) => Op;
  readonly reference: (a: Reference, b: Reference) => Reference;
  /** Whether float32 arithmetic gives the rounded reference. */
  readonly exact: boolean;
}

const elementwise: readonly Elementwise[] = [
  { name: "add", op: (a, b, out) => add({ a, b, out }), reference: reference.add, exact: true },
  { name: "siluMul", op: (gate, up, out) => siluMul({ gate, up, out }), reference: reference.siluMul, exact: false },
];

for (const { name, op, reference, exact } of elementwise) {
  onEachBackend(name, ({ device }) => {
    const random = new Random(47);
    const filled = (dtype: FloatDType, shape: readonly number[]): Tensor => {
      const size = shape.reduce((product, length) => product * length, 1);
      return device.tensor(dtype, shape).copyFrom(Float32Array.from({ length: size }, () => 3 * random.normal()));
    };
    const numbers = (tensor: Tensor): Reference => ({ shape: tensor.shape, data: Float64Array.from(tensor.toFloat32()) });
    const run = (a: Tensor, b: Tensor, out: Tensor): Float32Array => {
      device.run(op(a, b, out));
      device.wait();
      return out.toFloat32();
    };
    /** Compares an f32 result with the reference, to the bit where that is exact. */
    const expectRight = (result: Float32Array, truth: Reference): void => {
      if (exact) expectSameBits(name, result, Float32Array.from(truth.data));
      else expectNear(name, result, truth.data, bounds.f32);
    };

    describe.each([
      ["f32", "f32"], ["f16", "f16"], ["bf16", "bf16"], ["f32", "bf16"], ["f32", "f16"],
    ] as const)("%s and %s", (aDtype, bDtype) => {
      test.each([1, 3, 7, 8, 15, 16, 17, 100, 1023, 1025, 4096])("rows of %d", (dim) => {
        const [a, b] = [filled(aDtype, [3, dim]), filled(bDtype, [3, dim])];
        const wide = run(a, b, device.tensor("f32", [3, dim]));
        expectRight(wide, reference(numbers(a), numbers(b)));
        if (bDtype !== "f32") expectRounded("out", bDtype, run(a, b, device.tensor(bDtype, [3, dim])), wide);
        // In place, on either input.
        const before = a.toFloat32();
        if (aDtype === bDtype || aDtype === "f32") {
          expectRounded("a", aDtype, run(a, b, a), wide);
          a.copyFrom(before);
        }
        expectRounded("b", bDtype, run(a, b, b), wide);
      });
    });

    test("of one tensor with itself, in place", () => {
      const x = filled("f32", [2, 3, 20]);
      const wanted = reference(numbers(x), numbers(x));
      expectRight(run(x, x, x), wanted);
    });

    test("strided views, in place too, and nothing between their rows", () => {
      const [tokens, heads, dim, strides] = [3, 2, 24, [80, 40, 1]];
      const memory = device.tensor("f32", [tokens * 80]);
      memory.data.fill(7);
      const a = memory.view({ shape: [tokens, heads, dim], strides }).copyFrom(filled("f32", [tokens, heads, dim]));
      const b = filled("f32", [tokens, heads, dim]);
      const packed = device.tensor("f32", [tokens, heads, dim]).copyFrom(a);
      const wanted = run(packed, b, device.tensor("f32", [tokens, heads, dim]));
      expectSameBits("strided", run(a, b, a), wanted);
      for (let row = 0; row < tokens * heads; row++) {
        expect([...memory.data.subarray(row * 40 + dim, (row + 1) * 40)]).toEqual(Array(16).fill(7));
      }
    });

    test("a chain in one submission runs in order", () => {
      const [a, b] = [filled("bf16", [1, 300]), filled("bf16", [1, 300])];
      const halfway = device.tensor("bf16", [1, 300]);
      run(a, b, halfway);
      const wanted = run(halfway, b, device.tensor("bf16", [1, 300]));
      device.run(op(a, b, a), op(a, b, a));
      device.wait();
      expectSameBits("chain", a.toFloat32(), wanted);
    });

    test("empty tensors are legal", () => {
      const [none, long] = [device.tensor("f32", [0, 8]), device.tensor("f32", [2, 0])];
      device.run(op(none, none, device.tensor("f32", [0, 8])), op(long, long, long));
      device.wait();
    });

    if (name !== "siluMul") return;
    test("at the ends: large gates pass up through or end it, infinities and NaN as arithmetic has them", () => {
      const gate = device.tensorFrom("f32", [1, 8], [1e30, -1e30, 0, -0, Infinity, -Infinity, NaN, -88]);
      const up = device.tensorFrom("f32", [1, 8], [2, 2, 5, 5, 1, 1, 1, 1]);
      const out = run(gate, up, device.tensor("f32", [1, 8]));
      expect([out[0], out[2], out[3], out[4]]).toEqual([Math.fround(Math.fround(1e30) * 2), 0, -0, Infinity]);
      expect(Math.abs(out[1]!)).toBeLessThan(1e-30);
      expect(out[6]).toBeNaN();
      expect(Math.abs(out[7]!)).toBeLessThan(1e-30);
    });
  });
}
