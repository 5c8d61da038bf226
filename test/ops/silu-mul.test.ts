import { describe, expect, test } from "bun:test";
import { siluMul } from "../../lib/index.ts";
import type { FloatDType, Tensor } from "../../lib/index.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { siluMul as reference } from "../reference/silu-mul.ts";
import { onEachBackend } from "../support/backends.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";

onEachBackend("siluMul", ({ device }) => {
  const random = new Random(47);
  const filled = (dtype: FloatDType, shape: readonly number[]): Tensor => {
    const size = shape.reduce((product, length) => product * length, 1);
    return device.tensor(dtype, shape).copyFrom(Float32Array.from({ length: size }, () => 3 * random.normal()));
  };
  const numbers = (tensor: Tensor) => ({ shape: tensor.shape, data: Float64Array.from(tensor.toFloat32()) });
  const run = (gate: Tensor, up: Tensor, out: Tensor) => {
    device.run(siluMul({ gate, up, out }));
    device.wait();
    return out.toFloat32();
  };

  describe.each([
    ["f32", "f32"], ["f16", "f16"], ["bf16", "bf16"], ["f32", "bf16"], ["f32", "f16"],
  ] as const)("%s and %s", (gateDtype, upDtype) => {
    test.each([1, 3, 7, 8, 15, 16, 17, 100, 1023, 1025, 4096])("rows of %d", (dim) => {
      const [gate, up] = [filled(gateDtype, [3, dim]), filled(upDtype, [3, dim])];
      const wide = run(gate, up, device.tensor("f32", [3, dim]));
      expectNear("siluMul", wide, reference(numbers(gate), numbers(up)).data, bounds.f32);
      if (upDtype !== "f32") expectRounded("out", upDtype, run(gate, up, device.tensor(upDtype, [3, dim])), wide);
      // In place of either.
      const before = gate.toFloat32();
      if (gateDtype === upDtype) {
        expectRounded("gate", gateDtype, run(gate, up, gate), wide);
        gate.copyFrom(before);
      }
      expectRounded("up", upDtype, run(gate, up, up), wide);
    });
  });

  test("of one tensor with itself, in place", () => {
    const x = filled("f32", [2, 3, 20]);
    const wanted = reference(numbers(x), numbers(x)).data;
    expectNear("siluMul of itself", run(x, x, x), wanted, bounds.f32);
  });

  test("strided views, in place too, and nothing between their rows", () => {
    const [tokens, heads, dim, strides] = [3, 2, 24, [80, 40, 1]];
    const memory = device.tensor("f32", [tokens * 80]);
    memory.data.fill(7);
    const gate = memory.view({ shape: [tokens, heads, dim], strides }).copyFrom(filled("f32", [tokens, heads, dim]));
    const up = filled("f32", [tokens, heads, dim]);
    const packed = device.tensor("f32", [tokens, heads, dim]).copyFrom(gate);
    const wanted = run(packed, up, device.tensor("f32", [tokens, heads, dim]));
    expectSameBits("strided", run(gate, up, gate), wanted);
    for (let row = 0; row < tokens * heads; row++) {
      expect([...memory.data.subarray(row * 40 + dim, (row + 1) * 40)]).toEqual(Array(16).fill(7));
    }
  });

  test("at the ends: large gates pass up through or end it, infinities and NaN as arithmetic has them", () => {
    const gate = device.tensorFrom("f32", [1, 8], [1e30, -1e30, 0, -0, Infinity, -Infinity, NaN, -88]);
    const up = device.tensorFrom("f32", [1, 8], [2, 2, 5, 5, 1, 1, 1, 1]);
    const out = run(gate, up, device.tensor("f32", [1, 8]));
    expect([out[0], out[2], out[3], out[4]]).toEqual([Math.fround(Math.fround(1e30) * 2), 0, -0, Infinity]);
    expect(Math.abs(out[1]!)).toBeLessThan(1e-30);
    expect(out[6]).toBeNaN();
    expect(Math.abs(out[7]!)).toBeLessThan(1e-30);
  });

  test("empty tensors are legal", () => {
    const [none, long] = [device.tensor("f32", [0, 8]), device.tensor("f32", [2, 0])];
    device.run(siluMul({ gate: none, up: none, out: device.tensor("f32", [0, 8]) }), siluMul({ gate: long, up: long, out: long }));
    device.wait();
  });
});
