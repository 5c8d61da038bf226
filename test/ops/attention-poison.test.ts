/**
 * NaN and infinity in attention: a query's result changes with the keys and values of its own sequence up to its own token, and
 * with nothing else, to the bit. Zero times NaN is NaN, so a weight of zero does not by itself keep a later value out.
 */
import { expect, test } from "bun:test";
import { onEachBackend } from "../support/backends.ts";
import { Attention, plainLayer, randomTokens } from "../support/conversations.ts";
import type { Layer, Tokens } from "../support/conversations.ts";
import { expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";

const poisons = [NaN, Infinity, -Infinity];
const pageTokens = 16;
/** Tokens of both conversations in each call: cuts inside pages, and calls of one token. */
const calls = [[49, 20], [1, 1], [27, 24]] as const;
const [first, second] = [0, 1].map((i) => calls.reduce((sum, call) => sum + call[i]!, 0)) as [number, number];

onEachBackend("NaN and infinity in attention", ({ device, emulated }) => {
  /** Both conversations' results. Elements of pages in which no token is stored are `unused`. */
  function run(layer: Layer, [one, other]: readonly [Tokens, Tokens], unused = NaN): [Float32Array, Float32Array] {
    using op = new Attention(device, layer, pageTokens, 16, new Random(3));
    for (const pages of [op.keyPages, op.valuePages]) pages.copyFrom(new Float32Array(pages.size).fill(unused));
    const [a, b] = [op.start(one), op.start(other)];
    for (const [more, others] of calls) op.run([[a, more], [b, others]]);
    return [a.out, b.out];
  }

  const products = device.backend === "metal" ? (["rows", "matrix"] as const) : (["rows"] as const);
  const pages = [["f32", 40], ["bf16", 64], ["f16", 128]] as const;
  const cases = products.flatMap((each) => pages.map(([pageDtype, headDim]) => [each, pageDtype, headDim] as const));

  test.each(cases)("products by %s, pages of %s, heads of %i", (each, pageDtype, headDim) => {
    const layer: Layer = { ...plainLayer, heads: 6, kvHeads: 2, norms: false, headDim, pageDtype, products: each };
    const { heads, kvHeads } = layer;
    const group = heads / kvHeads;
    const random = new Random(headDim);
    const tokens = [randomTokens(device, layer, first, random), randomTokens(device, layer, second, random)] as const;
    const clean = run(layer, tokens);
    for (const unused of [Infinity, -Infinity]) {
      const got = run(layer, tokens, unused);
      got.forEach((out, i) => expectSameBits(`unused elements of ${unused}`, out, clean[i]!));
    }

    /** Runs with one element replaced, and compares the results that do not depend on it. */
    const poisoned = (which: "key" | "value" | "projected", value: number, depends: (token: number, head: number, column: number) => boolean, at: number) => {
      const numbers = tokens[0][which].slice();
      numbers[at] = value;
      const [out, other] = run(layer, [{ ...tokens[0], [which]: numbers }, tokens[1]]);
      expectSameBits(`${which}[${at}] = ${value}: the other sequence`, other, clean[1]);
      const dependent = Array.from(out, (_, i) => depends(Math.floor(i / (heads * headDim)), Math.floor(i / headDim) % heads, i % headDim));
      const elsewhere = (all: Float32Array) => all.filter((_, i) => !dependent[i]);
      expectSameBits(`${which}[${at}] = ${value}: what does not depend on it`, elsewhere(out), elsewhere(clean[0]));
      return out.filter((_, i) => dependent[i]);
    };

    // On an emulated GPU, each page dtype is tested with one of them.
    for (const value of emulated ? [poisons[pages.findIndex(([dtype]) => dtype === pageDtype)]!] : poisons) {
      const [token, keyHead, column] = [random.below(first - 1), random.below(kvHeads), random.below(headDim)];
      const at = (token * kvHeads + keyHead) * headDim + column;
      const ofGroup = (t: number, head: number) => t >= token && Math.floor(head / group) === keyHead;
      // A value goes to its own column, whose weights are larger than zero.
      const values = poisoned("value", value, (t, head, c) => ofGroup(t, head) && c === column, at);
      expect(values.every((x) => Object.is(x, value))).toBe(true);
      const byKeys = poisoned("key", value, ofGroup, at);
      if (Number.isNaN(value)) expect(byKeys.every(Number.isNaN)).toBe(true);
      const head = random.below(heads);
      poisoned("projected", value, (t, h) => t === token && h === head, (token * heads + head) * 2 * headDim + column);
    }
  });
});
