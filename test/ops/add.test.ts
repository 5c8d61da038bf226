import { describe, expect, test } from "bun:test";
import { add } from "../../lib/index.ts";
import type { FloatDType, Tensor } from "../../lib/index.ts";
import { encodeInto } from "../../lib/tensor/dtype.ts";
import { onEachBackend } from "../support/backends.ts";
import { Random } from "../support/random.ts";

onEachBackend("add", ({ device }) => {
  const random = new Random(43);
  const filled = (dtype: FloatDType, shape: readonly number[]): Tensor => {
    const size = shape.reduce((product, length) => product * length, 1);
    return device.tensor(dtype, shape).copyFrom(Float32Array.from({ length: size }, () => random.normal()));
  };
  /** The float32 sum, rounded once: exact to the bit. */
  const expected = (a: Tensor, b: Tensor, dtype: FloatDType): Float32Array<ArrayBuffer> => {
    const [left, right] = [a.toFloat32(), b.toFloat32()];
    const sum = left.map((value, i) => Math.fround(value + right[i]!));
    const out = device.tensor(dtype, [Math.max(1, sum.length)]);
    encodeInto(dtype, sum, out.data as never);
    return out.toFloat32().subarray(0, sum.length);
  };

  describe.each([
    ["f32", "f32", "f32"], ["f16", "f16", "f16"], ["bf16", "bf16", "bf16"],
    ["f32", "bf16", "f32"], ["f32", "bf16", "bf16"], ["f32", "f16", "f16"], ["bf16", "bf16", "f32"], ["f16", "f16", "f32"],
  ] as const)("%s + %s to %s", (aDtype, bDtype, outDtype) => {
    test.each([1, 3, 7, 8, 15, 16, 17, 100, 1023, 1025, 4096])("rows of %d", (dim) => {
      const [a, b] = [filled(aDtype, [3, dim]), filled(bDtype, [3, dim])];
      const out = device.tensor(outDtype, [3, dim]);
      const sum = expected(a, b, outDtype);
      device.run(add({ a, b, out }));
      device.wait();
      expect(out.toFloat32()).toEqual(sum);
      if (outDtype === aDtype) {
        device.run(add({ a, b, out: a }));
        device.wait();
        expect(a.toFloat32()).toEqual(sum);
      } else if (outDtype === bDtype) {
        device.run(add({ a, b, out: b }));
        device.wait();
        expect(b.toFloat32()).toEqual(sum);
      }
    });
  });

  test("in place of b, and of both", () => {
    const [a, b] = [filled("f32", [2, 3, 20]), filled("f32", [2, 3, 20])];
    const [sum, twice] = [expected(a, b, "f32"), expected(a, a, "f32")];
    device.run(add({ a, b, out: b }), add({ a, b: a, out: a }));
    device.wait();
    expect(b.toFloat32()).toEqual(sum);
    expect(a.toFloat32()).toEqual(twice);
  });

  test("strided views, in place too, and nothing between their rows", () => {
    const [tokens, heads, dim, strides] = [3, 2, 24, [80, 40, 1]];
    const memory = device.tensor("f32", [tokens * 80]);
    memory.data.fill(7);
    const a = memory.view({ shape: [tokens, heads, dim], strides }).copyFrom(filled("f32", [tokens, heads, dim]));
    const b = filled("f32", [tokens, heads, dim]);
    const sum = expected(a, b, "f32");
    device.run(add({ a, b, out: a }));
    device.wait();
    expect(a.toFloat32()).toEqual(sum);
    for (let row = 0; row < tokens * heads; row++) {
      expect([...memory.data.subarray(row * 40 + dim, (row + 1) * 40)]).toEqual(Array(16).fill(7));
    }
  });

  test("a chain of additions in one submission runs in order", () => {
    const [a, b] = [filled("bf16", [1, 300]), filled("bf16", [1, 300])];
    const first = expected(a, b, "bf16");
    const halfway = device.tensor("bf16", [1, 300]).copyFrom(first);
    const second = expected(halfway, b, "bf16");
    device.run(add({ a, b, out: a }), add({ a, b, out: a }));
    device.wait();
    expect(a.toFloat32()).toEqual(second);
  });

  test("empty tensors are legal", () => {
    const [none, long] = [device.tensor("f32", [0, 8]), device.tensor("f32", [2, 0])];
    device.run(add({ a: none, b: none, out: device.tensor("f32", [0, 8]) }), add({ a: long, b: long, out: long }));
    device.wait();
  });
});
