/** Attention to the bit: a row's bits do not depend on the rows that it is computed with. */
import { describe, expect, test } from "bun:test";
import { Device, copySlots } from "../../lib/index.ts";
import type { FloatDType } from "../../lib/index.ts";
import { onEachBackend } from "../support/backends.ts";
import { Attention, plainLayer, randomTokens } from "../support/conversations.ts";
import type { Conversation, Layer } from "../support/conversations.ts";
import { expectSameBits } from "../support/judge.ts";
import { Random } from "../support/random.ts";

const dtypes: readonly FloatDType[] = ["f32", "f16", "bf16"];

onEachBackend("attention, to the bit,", ({ name, device, emulated }) => {
  // An emulated GPU takes a millisecond per block of keys.
  const long = emulated ? 530 : 1100;

  /** `count` cut at random places, or into pieces of `each`. */
  function cuts(count: number, each: number | Random): number[] {
    const pieces: number[] = [];
    for (let left = count; left > 0; left -= pieces.at(-1)!) {
      pieces.push(Math.min(left, typeof each === "number" ? each : 1 + each.below(each.pick([3, 40, 300]))));
    }
    return pieces;
  }

  describe.each(dtypes)("pages of %s", (pageDtype) => {
    test("does not depend on how a prompt is cut into calls", () => {
      const layer = { ...plainLayer, headDim: 40, heads: 3, kvHeads: 1, pageDtype };
      const random = new Random(11);
      const count = emulated ? 70 : 150;
      const tokens = randomTokens(device, layer, count, random);
      const run = (pieces: readonly number[]) => {
        using op = new Attention(device, layer, 16, 12, random);
        return op.whole(tokens, pieces).out;
      };
      const whole = run([count]);
      expectSameBits("one token at a time", run(cuts(count, 1)), whole);
      expectSameBits("pieces of 7", run(cuts(count, 7)), whole);
      for (let i = 0; i < (emulated ? 1 : 4); i++) expectSameBits("odd pieces", run(cuts(count, random)), whole);
    });

    test("nor beyond a span", () => {
      const layer: Layer = emulated
        ? { ...plainLayer, headDim: 16, heads: 2, kvHeads: 1, pageDtype }
        : { ...plainLayer, headDim: 64, heads: 4, kvHeads: 1, pageDtype, gated: false };
      const random = new Random(12);
      const tokens = randomTokens(device, layer, long, random);
      const run = (pieces: readonly number[]) => {
        using op = new Attention(device, layer, 64, Math.ceil(long / 64), random);
        return op.whole(tokens, pieces).out;
      };
      const whole = run([long]);
      expectSameBits("odd pieces", run(cuts(long, random)), whole);
      expectSameBits("a prompt, then single tokens", run([long - 12, ...cuts(12, 1)]), whole);
      expectSameBits("single tokens across the span's end", run([508, ...cuts(9, 1), long - 517]), whole);
    });

    test("nor on the pages' size and place", () => {
      const layer = { ...plainLayer, pageDtype };
      const random = new Random(13);
      const count = emulated ? 50 : 130;
      const tokens = randomTokens(device, layer, count, random);
      const run = (pageTokens: number) => {
        using op = new Attention(device, layer, pageTokens, Math.ceil(count / pageTokens) + 5, random);
        return op.whole(tokens, [count - 30, 1, 29]).out;
      };
      const first = run(16);
      for (const pageTokens of emulated ? [1, 17, 512] : [1, 3, 8, 16, 17, 64, 77, 130, 512]) expectSameBits(`pages of ${pageTokens}`, run(pageTokens), first);
    });

    test("nor on the batch", () => {
      const layer = { ...plainLayer, headDim: 24, heads: 8, kvHeads: 2, rotaryDim: 24, pageDtype };
      const random = new Random(14);
      const all = (emulated ? [5, 1, 37, 12] : [5, 1, 90, 33, 64]).map((count) => randomTokens(device, layer, count, random));
      using alone = new Attention(device, layer, 8, 40, random);
      const wanted = all.map((tokens) => alone.whole(tokens).out);
      using op = new Attention(device, layer, 8, 60, random);
      const open = all.map((tokens) => op.start(tokens));
      while (open.some(({ tokens, done }) => done < tokens.count)) {
        // None, one or many tokens of every conversation, in random order, then some rows of no sequence.
        const batch = random.distinct(open.length, open.length).map((i): readonly [Conversation, number] => {
          const { tokens, done } = open[i]!;
          return [open[i]!, Math.min(tokens.count - done, random.pick([0, 1, 1, 7, 40]))];
        });
        op.run(batch, { behind: random.below(3) });
      }
      open.forEach(({ out }, i) => expectSameBits(`conversation ${i}`, out, wanted[i]!));
    });
  });

  test("nor on what else is in the pages: what is not a sequence's own is not read", () => {
    const layer = { ...plainLayer, headDim: 16 };
    const random = new Random(15);
    const tokens = randomTokens(device, layer, 70, random); // in calls of 33, 1 and 36
    const run = (poison: number) => {
      using op = new Attention(device, layer, 16, 12, random);
      for (const pages of [op.keyPages, op.valuePages]) pages.copyFrom(new Float32Array(pages.size).fill(poison));
      const other = op.start(randomTokens(device, layer, 20, random, NaN));
      const one = op.start(tokens);
      op.run([[other, 10], [one, 33]]);
      op.run([[one, 1], [other, 10]]);
      op.run([[one, 36]]);
      return one.out;
    };
    const clean = run(0);
    expect(clean.every(Number.isFinite)).toBe(true);
    for (const poison of [NaN, Infinity, -Infinity]) expectSameBits(`pages of ${poison}`, run(poison), clean);
  });

  test("later tokens of a call change nothing of the rows before them", () => {
    const layer = { ...plainLayer, headDim: 32, heads: 2, kvHeads: 2 };
    const random = new Random(16);
    const tokens = randomTokens(device, layer, 90, random);
    using op = new Attention(device, layer, 16, 20, random);
    const clean = op.whole(tokens);
    for (const [from, poison] of [[1, NaN], [40, Infinity], [63, -Infinity], [89, NaN]] as const) {
      const key = tokens.key.slice().fill(poison, from * 64);
      const value = tokens.value.slice().fill(poison, from * 64);
      using other = new Attention(device, layer, 16, 20, random);
      const { out } = other.whole({ ...tokens, key, value });
      expectSameBits(`rows before ${from}`, out.slice(0, from * 64), clean.out.slice(0, from * 64));
    }
  });

  test("a fork goes on as if it were the first, and the first as if there were no fork", () => {
    const layer: Layer = { ...plainLayer, pageDtype: "bf16" };
    const random = new Random(17);
    const [first, second] = [randomTokens(device, layer, 60, random), randomTokens(device, layer, 60, random)];
    const size = { projected: 4 * 2 * 64, key: 2 * 64, value: 2 * 64 };
    const mixed = (name: keyof typeof size, at: number) => {
      const all = second[name].slice();
      all.set(first[name].subarray(0, at * size[name]));
      return all;
    };
    for (const at of [16, 21, 32, 47]) {
      const branch = { count: 60, projected: mixed("projected", at), key: mixed("key", at), value: mixed("value", at) };
      using op = new Attention(device, layer, 16, 12, random);
      const one = op.start(first);
      op.run([[one, at]]);
      const fork = op.start(branch);
      const { table, copied } = op.forkPages(one);
      fork.table = table;
      fork.done = at;
      if (copied !== undefined) {
        for (const pool of [op.keyPages, op.valuePages]) device.run(copySlots({ pool, readSlots: [copied[0]], writeSlots: [copied[1]] }));
      }
      op.run([[fork, 3], [one, 5]]);
      op.run([[one, 55 - at], [fork, 57 - at]]);
      using cold = new Attention(device, layer, 8, 16, random);
      expectSameBits("the first", one.out, cold.whole(first).out);
      const row = at * 4 * 64;
      expectSameBits("the fork", fork.out.slice(row), cold.whole(branch).out.slice(row));
    }
  });

  test("a plan is replayed with other pages, lengths and positions", () => {
    const layer: Layer = { ...plainLayer, heads: 2, kvHeads: 1, headDim: 16, rotaryDim: 8, gated: false, norms: false };
    const random = new Random(18);
    const [pageTokens, pages, width, count] = [4, 12, 5, 18];
    const tokens = [0, 1].map(() => randomTokens(device, layer, count, random));
    using op = new Attention(device, layer, pageTokens, pages, random);
    const wanted = tokens.map((one) => op.whole(one).out);
    const tensor = (shape: readonly number[]) => device.tensor("f32", shape);
    const [query, key, value, out] = [tensor([2, 2, 16]), tensor([2, 1, 16]), tensor([2, 1, 16]), tensor([2, 2, 16])];
    const [keyPages, valuePages] = [tensor([pages, 1, pageTokens, 16]), tensor([pages, 1, pageTokens, 16])];
    const [pageTable, pastTokens, positions] = [device.tensor("i32", [2 * width]), device.tensor("i32", [2]), device.tensor("i32", [2])];
    const places = random.distinct(pages, pages);
    pageTable.data.set([places[0]!, 0, 0, 0, 0, places[5]!, 0, 0, 0, 0]);
    const plan = device.plan((pass) => {
      pass.attention({
        query, key, value, keyPages, valuePages, out, cuSeqlens: [0, 1, 2], pageTable, pastTokens, positions, rotaryDim: 8,
      });
    });
    for (let t = 0; t < count; t++) {
      pageTable.data[Math.floor(t / pageTokens)] = places[Math.floor(t / pageTokens)]!;
      pageTable.data[width + Math.floor(t / pageTokens)] = places[5 + Math.floor(t / pageTokens)]!;
      pastTokens.data.fill(t);
      positions.data.fill(t);
      for (const [i, one] of tokens.entries()) {
        for (let h = 0; h < 2; h++) query.data.set(one.projected.subarray((t * 2 + h) * 32, (t * 2 + h) * 32 + 16), (i * 2 + h) * 16);
        key.data.set(one.key.subarray(t * 16, (t + 1) * 16), i * 16);
        value.data.set(one.value.subarray(t * 16, (t + 1) * 16), i * 16);
      }
      plan.run();
      device.wait();
      for (let i = 0; i < 2; i++) {
        expectSameBits(`token ${t} of ${i}`, out.toFloat32().slice(i * 32, (i + 1) * 32), wanted[i]!.slice(t * 32, (t + 1) * 32));
      }
    }
    // A replay refuses before anything is written.
    const before = [keyPages.toFloat32(), valuePages.toFloat32(), out.toFloat32()];
    for (const [data, at, wrong, code] of [
      [pastTokens, 1, -1, "range"], [pastTokens, 0, width * pageTokens, "range"], [pageTable, 4, 12, "range"],
      [pageTable, 9, pageTable.data[4]!, "overlap"], [positions, 1, -2, "range"],
    ] as const) {
      const kept = data.data[at]!;
      data.data[at] = wrong;
      expect(() => plan.run()).toThrow(expect.objectContaining({ code }));
      data.data[at] = kept;
    }
    device.wait();
    [keyPages, valuePages, out].forEach((one, i) => expectSameBits("what was there", one.toFloat32(), before[i]!));
  });

  if (name === "cpu") {
    test("nor on the number of threads", () => {
      const random = new Random(19);
      const layer: Layer = { ...plainLayer, pageDtype: "bf16", heads: 6, kvHeads: 3, headDim: 72 };
      const all = [1300, 40, 7].map((count) => randomTokens(device, layer, count, random));
      const results = [1, 2, 3, 5, 16].map((threads) => {
        using own = Device.open({ backend: "cpu", threads });
        using op = new Attention(own, layer, 16, 100, random);
        const open = all.map((tokens) => op.start(tokens));
        op.run(open.map((one) => [one, one.tokens.count - 5]));
        for (let i = 0; i < 5; i++) op.run(open.map((one) => [one, 1]));
        return open.map(({ out }) => out);
      });
      for (const outs of results) outs.forEach((out, i) => expectSameBits(`conversation ${i}`, out, results[0]![i]!));
    });
  }
});
