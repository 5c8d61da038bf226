import { describe, expect, test } from "bun:test";
import { rmsNorm } from "../../lib/index.ts";
import type { FloatDType, Tensor } from "../../lib/index.ts";
import { rmsNorm as reference } from "../reference/rms-norm.ts";
import { onEachBackend } from "../support/backends.ts";
import { bounds, relRms } from "../../lib/cli/verify/compare.ts";
import { expectRounded } from "../support/judge.ts";
import { Random } from "../support/random.ts";

const forms = ["weight", "one-plus-weight"] as const;

onEachBackend("rmsNorm", ({ device }) => {
  const random = new Random(41);
  const filled = (dtype: FloatDType, shape: readonly number[]): Tensor => {
    const size = shape.reduce((product, length) => product * length, 1);
    return device.tensor(dtype, shape).copyFrom(Float32Array.from({ length: size }, () => random.normal()));
  };
  const numbers = (tensor: Tensor) => ({ shape: tensor.shape, data: Float64Array.from(tensor.toFloat32()) });

  describe.each(["f32", "f16", "bf16"] as const)("%s", (dtype) => {
    test.each([1, 2, 3, 7, 8, 9, 31, 33, 64, 100, 127, 128, 1000, 1025, 4096])("rows of %d", (dim) => {
      const x = filled(dtype, [3, dim]);
      for (const weightDtype of ["f32", "bf16", "f16"] as const) {
        const weight = filled(weightDtype, [dim]);
        for (const [i, weightForm] of forms.entries()) {
          const eps = [1e-6, 0.5][i]!;
          const run = (out: Tensor) => {
            device.run(rmsNorm({ x, weight, out, weightForm, eps }));
            device.wait();
            return out.toFloat32();
          };
          const wide = run(device.tensor("f32", [3, dim]));
          const expected = reference({ x: numbers(x), weight: numbers(weight), eps, weightForm });
          expect(relRms(wide, expected.data)).toBeLessThanOrEqual(bounds.f32);
          if (dtype !== "f32") expectRounded("out", dtype, run(device.tensor(dtype, [3, dim])), wide);
        }
      }
    });
  });

  test("what is left out has the documented defaults", () => {
    const [x, weight] = [filled("f32", [2, 48]), filled("f32", [48])];
    const [first, second] = [device.tensor("f32", [2, 48]), device.tensor("f32", [2, 48])];
    device.run(rmsNorm({ x, weight, out: first }), rmsNorm({ x, weight, out: second, weightForm: "weight", eps: 1e-6 }));
    device.wait();
    expect(first.data).toEqual(second.data);
    expect(first.data.some((value) => value !== 0)).toBe(true);
  });

  test("rows have the same bits as heads, as strided views and one by one", () => {
    const [tokens, heads, dim] = [3, 2, 40];
    const [x, weight] = [filled("f32", [tokens, heads, dim]), filled("bf16", [dim])];
    const whole = device.tensor("f32", [tokens, heads, dim]);
    device.run(rmsNorm({ x, weight, out: whole, weightForm: "one-plus-weight" }));
    // Heads outside tokens in memory, with a gap behind each row.
    const strides = [56, 56 * tokens, 1];
    const wide = device.tensor("f32", [heads * tokens * 56]).view({ shape: [tokens, heads, dim], strides }).copyFrom(x);
    const target = device.tensor("f32", [heads * tokens * 56]);
    target.data.fill(7);
    device.run(rmsNorm({ x: wide, weight, out: target.view({ shape: [tokens, heads, dim], strides }), weightForm: "one-plus-weight" }));
    const rows = device.tensor("f32", [tokens * heads, dim]);
    const flat = x.reshape([tokens * heads, dim]);
    for (let row = 0; row < tokens * heads; row++) {
      device.encode(rmsNorm({ x: flat.slice(row, row + 1), weight, out: rows.slice(row, row + 1), weightForm: "one-plus-weight" }));
    }
    device.submit();
    device.wait();
    expect(target.view({ shape: [tokens, heads, dim], strides }).toFloat32()).toEqual(whole.toFloat32());
    expect(rows.toFloat32()).toEqual(whole.toFloat32());
    for (let row = 0; row < tokens * heads; row++) {
      expect([...target.data.subarray(row * 56 + dim, row * 56 + 56)]).toEqual(Array(16).fill(7));
    }
  });

  test("empty tensors are legal", () => {
    device.run(rmsNorm({ x: device.tensor("f32", [0, 8]), weight: device.tensor("f32", [8]), out: device.tensor("f32", [0, 8]) }));
    device.run(rmsNorm({ x: device.tensor("f32", [2, 0]), weight: device.tensor("f32", [0]), out: device.tensor("f32", [2, 0]) }));
    device.wait();
  });
});
