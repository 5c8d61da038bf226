import { describe, expect, test } from "bun:test";
import { bounds } from "../../lib/cli/verify/compare.ts";
import { attention } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { round } from "../reference/rounding.ts";
import { onEachBackend } from "../support/backends.ts";
import { Attention, expected, plainLayer, randomTokens } from "../support/conversations.ts";
import type { Layer } from "../support/conversations.ts";
import { expectNear, expectRounded, expectSameBits } from "../support/judge.ts";
import { everyOp, small } from "../support/every-op.ts";
import { Layouts } from "../support/layouts.ts";
import { Random } from "../support/random.ts";
import { runChecked } from "../support/run-ops.ts";

onEachBackend("attention", ({ device, emulated }) => {
  /** A whole prompt against the definition: first the stored keys and values, then the output, from row `from` on. */
  function compare(layer: Layer, count: number, pageTokens = 16, from = 0): void {
    const random = new Random(count * 31 + layer.headDim);
    using op = new Attention(device, layer, pageTokens, Math.ceil(count / pageTokens) + 3, random);
    const tokens = randomTokens(device, layer, count, random);
    const one = op.whole(tokens);
    const right = expected(op, tokens, from);
    const [keys, values] = [op.stored(one, op.keyPages), op.stored(one, op.valuePages)];
    expectNear("keys", keys, right.key.data, bounds[layer.pageDtype]);
    const format = layer.pageDtype;
    expectSameBits("values", values, tokens.value.map((value) => round(format, value)));
    // The f32 output is compared with the definition; in every row, a narrower output must be the rounded f32 output.
    const out = one.out.subarray(from * layer.heads * layer.headDim);
    if (layer.outDtype === "f32") expectNear("out", out, right.out(keys, values).data, bounds.f32);
    else {
      using wide = new Attention(device, { ...layer, outDtype: "f32" }, pageTokens, Math.ceil(count / pageTokens) + 3, random);
      expectRounded("out", layer.outDtype, Float32Array.from(one.out), wide.whole(tokens).out);
    }
  }

  describe("agrees with the definition", () => {
    const dims = [8, 16, 24, 40, 64, 72, 96, 128, 136, 192, 200, 248, 256];
    test.each(emulated ? dims.filter((_, i) => i % 3 === 0) : dims)("heads of %d", (headDim) => {
      const rotaryDim = [0, headDim / 4 - ((headDim / 4) % 2), headDim][(headDim / 8) % 3]!;
      compare({ ...plainLayer, headDim, rotaryDim }, 37);
    });

    test.each([[1, 1], [2, 2], [2, 1], [6, 2], [4, 1], [8, 1], [16, 2]])("%d heads on %d", (heads, kvHeads) => {
      compare({ ...plainLayer, heads, kvHeads, headDim: 32 }, 41);
    });

    test.each(["f32", "f16", "bf16"] as const)("activations of %s over pages of each dtype", (dtype) => {
      for (const pageDtype of ["f32", "f16", "bf16"] as const) {
        for (const outDtype of new Set<FloatDType>(["f32", dtype])) {
          compare({ ...plainLayer, dtype, pageDtype, outDtype, normDtype: dtype }, 19);
          compare({ ...plainLayer, dtype, pageDtype, outDtype, headDim: 40, heads: 2, kvHeads: 2 }, 19);
        }
      }
    });

    test("without norms, gate or rotation, with the plain weight, another scale, base and epsilon", () => {
      compare({ ...plainLayer, norms: false, gated: false, rotaryDim: 0 }, 23);
      compare({ ...plainLayer, weightForm: "weight", scale: 0.3, ropeTheta: 1e7, normEps: 0.5, rotaryDim: 64 }, 23);
      compare({ ...plainLayer, gated: false, scale: 0 }, 23);
    });

    test("more keys than a span", () => {
      const count = emulated ? 530 : 1100;
      for (const pageDtype of emulated ? (["bf16"] as const) : (["f32", "bf16"] as const)) {
        compare({ ...plainLayer, headDim: 32, pageDtype, kvHeads: 1 }, count, 64, count - 30);
      }
    });

    test("scores far from zero", () => {
      // Sharp softmax: scores of thousands, whose exp would overflow.
      const layer = { ...plainLayer, norms: false, scale: 40, headDim: 64, rotaryDim: 0 };
      const random = new Random(3);
      using op = new Attention(device, layer, 16, 4, random);
      const one = op.whole(randomTokens(device, layer, 33, random));
      expect(one.out.every(Number.isFinite)).toBe(true);
      const right = expected(op, one.tokens).out(op.stored(one, op.keyPages), op.stored(one, op.valuePages));
      // A score of 1e3 is off by about 1e-4, and so is its weight.
      expectNear("out of large scores", one.out, right.data, 1e-4);
    });
  });

  test("what is left out has the documented defaults", () => {
    const random = new Random(5);
    const filled = (shape: readonly number[]) =>
      device.tensor("f32", shape).copyFrom(Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () => random.normal()));
    const given = { query: filled([5, 2, 16]), key: filled([5, 1, 16]), value: filled([5, 1, 16]), queryNorm: filled([16]) };
    const run = (more: object) => {
      const [keyPages, valuePages] = [device.tensor("f32", [2, 1, 4, 16]), device.tensor("f32", [2, 1, 4, 16])];
      const out = device.tensor("f32", [5, 2, 16]);
      device.run(attention({ ...given, keyPages, valuePages, out, pageTable: [1, 0], pastTokens: [0], ...more }));
      device.wait();
      return out.toFloat32();
    };
    const plain = run({});
    expect(plain.some((value) => value !== 0)).toBe(true);
    expectSameBits("out", run({ rotaryDim: 0, weightForm: "weight", normEps: 1e-6, scale: 0.25, cuSeqlens: [0, 5] }), plain);
    expectSameBits("rotated", run({ rotaryDim: 8, ropeTheta: 10000, positions: [0, 1, 2, 3, 4] }), run({ rotaryDim: 8 }));
    expect(run({ rotaryDim: 8 })).not.toEqual(plain);
  });

  test.each([0, 1, 777, 1023, 1024, 100_003, 262_143, 1_000_000_007, 2 ** 31 - 2])("the rotation of position %d", (position) => {
    // A key of ones, then zeros, is stored as its cosines and sines.
    for (const [dim, theta] of [[8, 10000], [64, 1e7], [256, 10000]] as const) {
      const half = dim / 2;
      const key = device.tensor("f32", [2, 1, dim]).copyFrom(Float32Array.from({ length: 2 * dim }, (_, i) => (i % dim < half ? 1 : 0)));
      const [query, value, out] = [device.tensor("f32", [2, 1, dim]), device.tensor("f32", [2, 1, dim]), device.tensor("f32", [2, 1, dim])];
      const [keyPages, valuePages] = [device.tensor("f32", [1, 1, 2, dim]), device.tensor("f32", [1, 1, 2, dim])];
      device.run(
        attention({
          query, key, value, keyPages, valuePages, out, pageTable: [0], pastTokens: [0], positions: [position, position + 1],
          rotaryDim: dim, ropeTheta: theta,
        }),
      );
      device.wait();
      for (let row = 0; row < 2; row++) {
        for (let i = 0; i < half; i++) {
          const angle = (position + row) * theta ** ((-2 * i) / dim);
          // Half a unit of the rounding, and float64's error of an angle.
          const allowed = (x: number) => 2 ** -24 * Math.max(Math.abs(x), 2 ** -20) * 1.01 + angle * 2 ** -51;
          const [c, s] = [keyPages.data[row * dim + i]!, keyPages.data[row * dim + half + i]!];
          expect(Math.abs(c - Math.cos(angle))).toBeLessThanOrEqual(allowed(Math.cos(angle)));
          expect(Math.abs(s - Math.sin(angle))).toBeLessThanOrEqual(allowed(Math.sin(angle)));
        }
      }
    }
  });

  test("nothing is written but its own rows, in any layout", () => {
    for (let seed = 0; seed < 4; seed++) {
      using layouts = new Layouts(device, new Random(seed));
      const { op } = everyOp(layouts, small).find(({ name }) => name === "attention")!;
      runChecked(device, layouts, op);
    }
  });

  test("empty batches, and sequences without rows", () => {
    const nothing = (shape: readonly number[]) => device.tensor("f32", shape);
    const pages = { keyPages: nothing([2, 1, 4, 8]), valuePages: nothing([2, 1, 4, 8]) };
    const none = { query: nothing([0, 2, 8]), key: nothing([0, 1, 8]), value: nothing([0, 1, 8]), out: nothing([0, 2, 8]), ...pages };
    device.run(attention({ ...none, pageTable: [], pastTokens: [], cuSeqlens: [0] }));
    device.run(attention({ ...none, pageTable: [-1], pastTokens: [2 ** 31 - 1] }));
    const three = { query: nothing([3, 2, 8]), key: nothing([3, 1, 8]), value: nothing([3, 1, 8]), out: nothing([3, 2, 8]) };
    three.out.data.fill(9);
    device.run(attention({ ...three, ...pages, pageTable: [], pastTokens: [], cuSeqlens: [0] }));
    device.run(attention({ ...three, ...pages, pageTable: [1, 1, 1], pastTokens: [0, 3, 9], cuSeqlens: [0, 0, 0, 0] }));
    device.wait();
    expect(three.out.data.every((value) => value === 9)).toBe(true);
    expect(pages.keyPages.data.every((value) => value === 0)).toBe(true);
  });
});
