/** Running a whole model: batches, results and their lifetimes, and the state after a failure. */
import { afterAll, describe, expect, test } from "bun:test";
import { Device, add, linear } from "../lib/index.ts";
import { bitsEqual } from "../lib/cli/verify/compare.ts";
import type { LanguageModel, RunResult } from "../lib/model.ts";
import { memoryOf } from "../lib/model/model-memory.ts";
import { sequenceFrom, snapshotOf } from "../lib/model/snapshot.ts";
import { mostTimes, openDevice, slowWork, thrownBy } from "./support/devices.ts";
import { failAt } from "./support/faults.ts";
import { tinyModel } from "./support/model-folders.ts";
import { replace } from "./support/replace.ts";
import { coldLogits, logitsOf, openTiny, rejection, textOf } from "./support/models.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { vocabulary } = tinyModel;

const lastRow = (logits: Float32Array) => logits.subarray(-vocabulary);

describe("bits", () => {
  test("of a prompt in one run, cut, token by token, in passes, batched and forked", async () => {
    using model = await openTiny(device);
    using narrow = await openTiny(device, { batchTokens: 5, pages: { count: 64, tokens: 3 } });
    const text = textOf(1, 29);
    const cold = await coldLogits(model, text);
    expect(cold.length).toBe(29 * vocabulary);
    expect(bitsEqual(await coldLogits(narrow, text), cold)).toBe(true);

    using cut = model.sequence();
    const parts: Float32Array[] = [];
    for (const [start, end] of [[0, 1], [1, 17], [17, 18], [18, 29]] as const) parts.push(await logitsOf(model, cut, text.slice(start, end)));
    expect(bitsEqual(Float32Array.from(parts.flatMap((part) => [...part])), cold)).toBe(true);

    using single = model.sequence();
    for (const [i, token] of text.entries()) {
      expect(bitsEqual(await logitsOf(model, single, [token], "last"), cold.subarray(i * vocabulary, (i + 1) * vocabulary))).toBe(true);
    }

    // Three sequences in one batch: a prompt, a single token, and a piece without results.
    const other = textOf(2, 9);
    cut[Symbol.dispose]();
    const [a, b, c] = [model.sequence(), single.fork(), model.sequence()] as const;
    const results = await model.run([
      { sequence: a, tokens: text.slice(0, 20), logits: "all" },
      { sequence: b, tokens: [3] },
      { sequence: c, tokens: other, logits: "none" },
    ]);
    expect(results.map(({ rows }) => rows)).toEqual([20, 1, 0]);
    expect(results.map(({ sequence }) => sequence)).toEqual([a, b, c]);
    expect(bitsEqual(results[0]!.logits, cold.subarray(0, 20 * vocabulary))).toBe(true);
    expect(bitsEqual(results[1]!.logits, lastRow(await coldLogits(narrow, [...text, 3])))).toBe(true);
    for (const sequence of [a, b, c]) sequence[Symbol.dispose]();
  });

  test("of decoding in batches of any size, over plans that end and are recorded anew", async () => {
    using model = await openTiny(device, { states: 8, pages: { count: 120, tokens: 2 } });
    const texts = Array.from({ length: 7 }, (_, i) => textOf(i + 3, 24 + i));
    const cold = await Promise.all(texts.map(async (text) => text)).then(async (all) => {
      const rows: Float32Array[] = [];
      for (const text of all) rows.push(await coldLogits(model, text));
      return rows;
    });
    const sequences = texts.map(() => model.sequence());
    // Each run has a different number of sequences; with pages of two tokens, the pages exceed a plan's table again and again.
    for (let at = 0; at < 24; at++) {
      const order = texts.map((_, i) => (i + at) % 7);
      for (let size = 1 + (at % 7); order.length > 0; ) {
        const chosen = order.splice(0, size);
        const results = await model.run(chosen.map((i) => ({ sequence: sequences[i]!, tokens: [texts[i]![at]!] })));
        for (const [j, i] of chosen.entries()) {
          expect(bitsEqual(results[j]!.logits, cold[i]!.subarray(at * vocabulary, (at + 1) * vocabulary))).toBe(true);
        }
      }
    }
    for (const sequence of sequences) sequence[Symbol.dispose]();
    expect([model.freeStates, model.freePages]).toEqual([8, 120]);
  }, 60_000);

  test("of a sequence that is restored from a snapshot, in a model with other pages", async () => {
    using one = await openTiny(device);
    using other = await openTiny(device, { pages: { count: 40, tokens: 5 } });
    const text = textOf(5, 30);
    using first = one.sequence();
    await logitsOf(one, first, text.slice(0, 19));
    const snapshot = snapshotOf(first);
    using second = sequenceFrom(other, snapshot);
    expect(second.tokens).toBe(19);
    const rest = await logitsOf(other, second, text.slice(19));
    expect(bitsEqual(rest, (await coldLogits(one, text)).subarray(19 * vocabulary))).toBe(true);
    // An empty sequence can be saved and restored, too.
    using empty = one.sequence();
    using still = sequenceFrom(other, snapshotOf(empty));
    expect(bitsEqual(await logitsOf(other, still, text), await coldLogits(one, text))).toBe(true);
    using wide = await openTiny(device, { pages: { count: 32, tokens: 8, dtype: "bf16" } });
    expect(thrownBy(() => sequenceFrom(wide, snapshot)).code).toBe("shape");
    expect(wide.freeStates).toBe(4);
  });
});

describe("results", () => {
  test("last until the model's next run, and say so afterwards", async () => {
    using model = await openTiny(device);
    using sequence = model.sequence();
    const [first] = await model.run([{ sequence, tokens: [1, 2, 3] }]);
    const kept = first!.logits.slice();
    expect(first!.logits).toBe(first!.logits);
    expect(kept.length).toBe(vocabulary);
    // A refused batch is not counted as a run.
    expect((await rejection(model.run([{ sequence, tokens: [] }]))).code).toBe("range");
    expect(bitsEqual(first!.logits, kept)).toBe(true);
    const [second] = await model.run([{ sequence, tokens: [4], logits: "none" }]);
    expect(thrownBy(() => first!.logits)).toMatchObject({ code: "state", op: "result.logits" });
    expect(thrownBy(() => second!.logits)).toMatchObject({ code: "state" });
    expect(second!.rows).toBe(0);
  });

  test("of more rows than are kept have memory of their own, which goes with the next run", async () => {
    using model = await openTiny(device, { states: 2, draftTokens: 3 });
    using sequence = model.sequence();
    const [all] = await model.run([{ sequence, tokens: textOf(1, 9), logits: "all" }]);
    const { logits } = all!;
    expect(logits.length).toBe(9 * vocabulary);
    await model.run([{ sequence, tokens: [1] }]);
    expect(logits.length).toBe(0);
    expect(thrownBy(() => all!.logits).code).toBe("state");
  });

  test("end with the model", async () => {
    const model = await openTiny(device);
    const [result] = await model.run([{ sequence: model.sequence(), tokens: [1] }]);
    model[Symbol.dispose]();
    expect(thrownBy(() => result!.logits).code).toBe("state");
  });
});

describe("hidden states", () => {
  const numbers = (result: { readonly hidden: Float32Array }) => result.hidden.slice();

  test("are what the output projection makes logits of, with the same bits in every way of reading", async () => {
    for (const change of [{}, { tied: true, layers: "gg" }] as const) {
      using model = await openTiny(device, {}, change);
      const { hiddenSize, vocabSize } = model.config;
      const tokens = textOf(2, 30);
      using cold = model.sequence();
      const [whole] = await model.run([{ sequence: cold, tokens, logits: "all", hidden: "all" }]);
      const [all, logits] = [numbers(whole!), whole!.logits.slice()];
      expect([all.length, whole!.rows]).toEqual([30 * hiddenSize, 30]);
      using x = device.tensor("f32", [30, hiddenSize]).copyFrom(all);
      using out = device.tensor("f32", [30, vocabSize]);
      device.run(linear({ x, ...memoryOf(model).weights.output, out }));
      device.wait();
      expect(bitsEqual(out.data, logits)).toBe(true);
      const row = (from: number, to: number) => all.subarray(from * hiddenSize, to * hiddenSize);

      // Cut, in batches with others with and without logits, without logits, and token by token.
      using a = model.sequence();
      using b = model.sequence();
      const [first, other] = await model.run([
        { sequence: a, tokens: tokens.slice(0, 11), logits: "none", hidden: "all" },
        { sequence: b, tokens: tokens.slice(0, 5), logits: "all" },
      ]);
      expect(bitsEqual(numbers(first!), row(0, 11))).toBe(true);
      expect(first!.rows).toBe(0);
      expect(() => first!.logits).toThrow('logits: "none"');
      expect(() => other!.hidden).toThrow('hidden: "none"');
      const [next, last] = await model.run([{ sequence: b, tokens: tokens.slice(5, 20), hidden: "last", logits: "none" }, { sequence: a, tokens: tokens.slice(11, 29), hidden: "last" }]);
      expect(bitsEqual(numbers(next!), row(19, 20))).toBe(true);
      expect(bitsEqual(numbers(last!), row(28, 29))).toBe(true);
      expect(bitsEqual(last!.logits, logits.subarray(28 * vocabSize, 29 * vocabSize))).toBe(true);
      const [token] = await model.run([{ sequence: a, tokens: [tokens[29]!], hidden: "all" }]);
      expect(bitsEqual(numbers(token!), row(29, 30))).toBe(true);
      await model.run([{ sequence: b, tokens: [tokens[20]!] }]);
      expect(() => token!.hidden).toThrow("has run since");
    }
  });

  test("of 16-bit activations are float32; of many rows, in passes, have memory of their own", async () => {
    using model = await openTiny(device, { dtype: "bf16", states: 2, batchTokens: 7 });
    using half = await openTiny(device, { dtype: "bf16", states: 2 });
    const read = async (of: LanguageModel) => {
      using sequence = of.sequence();
      const [result] = await of.run([{ sequence, tokens: textOf(1, 40), logits: "none", hidden: "all" }]);
      return numbers(result!);
    };
    const found = await read(half);
    expect(found.some((number) => new Float32Array(Uint32Array.of(new Uint32Array(Float32Array.of(number).buffer)[0]! & 0xffff0000).buffer)[0] !== number)).toBe(true);
    expect(bitsEqual(await read(model), found)).toBe(true);
  });

  test("wanted of what is no such thing are refused", async () => {
    using model = await openTiny(device);
    using sequence = model.sequence();
    expect((await rejection(model.run([{ sequence, tokens: [1], hidden: "first" as never }]))).argument).toBe("batch[0].hidden");
    expect(sequence.tokens).toBe(0);
  });
});

describe("runs side by side", () => {
  test("follow each other where they want no logits; one that does keeps others out", async () => {
    using model = await openTiny(device);
    using sequence = model.sequence();
    const text = textOf(9, 21);
    const first = model.run([{ sequence, tokens: text.slice(0, 10), logits: "none" }]);
    const second = model.run([{ sequence, tokens: text.slice(10, 20), logits: "none" }]);
    expect(sequence.tokens).toBe(20);
    const third = model.run([{ sequence, tokens: text.slice(20) }]);
    expect((await rejection(model.run([{ sequence, tokens: [1] }]))).code).toBe("state");
    const [result] = await third;
    const logits = result!.logits.slice();
    await Promise.all([first, second]);
    expect(bitsEqual(logits, lastRow(await coldLogits(model, text)))).toBe(true);
  });

  test("a sequence may be forked and disposed while it runs", async () => {
    using model = await openTiny(device);
    const sequence = model.sequence();
    const text = textOf(4, 12);
    const run = model.run([{ sequence, tokens: text.slice(0, 11), logits: "none" }]);
    using fork = sequence.fork();
    sequence[Symbol.dispose]();
    const logits = await logitsOf(model, fork, text.slice(11), "last");
    await run;
    expect(bitsEqual(logits, lastRow(await coldLogits(model, text)))).toBe(true);
  });
});

describe("a failure", () => {
  test("of the work leaves the batch's sequences invalid, and no other", async () => {
    using model = await openTiny(device);
    using kept = model.sequence();
    const text = textOf(6, 9);
    await logitsOf(model, kept, text);
    using lost = kept.fork();
    failAt(device, "run");
    expect((await rejection(model.run([{ sequence: lost, tokens: [1, 2] }]))).code).toBe("device");
    expect([kept.valid, lost.valid]).toEqual([true, false]);
    expect(thrownBy(() => lost.fork()).code).toBe("state");
    expect(await rejection(model.run([{ sequence: lost, tokens: [1] }]))).toMatchObject({ code: "state", argument: "batch[0].sequence" });
    expect(bitsEqual(await logitsOf(model, kept, [7], "last"), lastRow(await coldLogits(model, [...text, 7])))).toBe(true);
    lost[Symbol.dispose]();
    kept[Symbol.dispose]();
    expect([model.freeStates, model.freePages]).toEqual([model.states, model.pages]);
  });

  test("of one of several pending runs is told by that one, and by those that follow it over its sequences", async () => {
    using model = await openTiny(device);
    const text = textOf(8, 12);
    const slow = slowWork(device);
    // The runs follow slow work, so that none finishes before all are committed; if that work ended too early, more is tried.
    for (let times = 1, known = true; known; times *= 2) {
      expect(times).toBeLessThanOrEqual(mostTimes);
      using first = model.sequence();
      using second = model.sequence();
      using end = device.tensor("f32", slow.out.shape);
      for (let i = 0; i < times; i++) device.run(slow.op);
      device.run(add({ a: slow.out, b: slow.out, out: end }));
      failAt(device, "run");
      const runs = Promise.allSettled([
        model.run([{ sequence: first, tokens: [1, 2, 3], logits: "none" }]),
        model.run([{ sequence: second, tokens: text.slice(0, 7), logits: "none" }]),
        model.run([{ sequence: first, tokens: [4], logits: "none" }]),
        model.run([{ sequence: second, tokens: text.slice(7) }]),
      ]);
      using fork = first.valid ? first.fork() : undefined; // it is not known yet
      known = end.data.at(-1) !== 0;
      first[Symbol.dispose]();
      const ends = await runs;
      if (known) continue;
      expect(ends.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "rejected", "fulfilled"]);
      for (const end of [ends[0]!, ends[2]!]) expect((end as PromiseRejectedResult).reason).toMatchObject({ code: "device" });
      const logits = (ends[3] as PromiseFulfilledResult<RunResult[]>).value[0]!.logits.slice();
      expect([fork!.valid, second.valid]).toEqual([false, true]);
      expect(bitsEqual(logits, lastRow(await coldLogits(model, text)))).toBe(true);
    }
    for (const tensor of [slow.x, slow.weight, slow.out]) tensor[Symbol.dispose]();
  });

  for (const tokens of [[3], [3, 4, 5]]) {
    test(`while ${tokens.length === 1 ? "a token" : "a prompt"} is encoded or committed changes nothing`, async () => {
      using model = await openTiny(device, { pages: { count: 8, tokens: 4 } });
      using sequence = model.sequence();
      const text = textOf(7, 6);
      await logitsOf(model, sequence, text);
      using fork = sequence.fork(); // the next run copies a page
      const { freePages } = model;
      for (const stage of ["encode", "commit"] as const) {
        failAt(device, stage);
        await rejection(model.run([{ sequence, tokens }]));
        expect([sequence.tokens, sequence.valid, fork.valid, model.freePages]).toEqual([6, true, true, freePages]);
      }
      expect(bitsEqual(await logitsOf(model, sequence, tokens, "last"), lastRow(await coldLogits(model, [...text, ...tokens])))).toBe(true);
      expect(bitsEqual(await logitsOf(model, fork, [9], "last"), lastRow(await coldLogits(model, [...text, 9])))).toBe(true);
    });
  }

  test("in a later pass of a long batch leaves its sequences invalid", async () => {
    using model = await openTiny(device, { batchTokens: 4 });
    using sequence = model.sequence();
    using other = model.sequence();
    await logitsOf(model, other, [1]);
    const { lastTicket } = device;
    failAt(device, "commit", 2);
    expect((await rejection(model.run([{ sequence, tokens: textOf(3, 10) }]))).code).toBe("device");
    expect(device.lastTicket).toBe(lastTicket + 1);
    expect([sequence.valid, other.valid]).toEqual([false, true]);
    expect((await rejection(model.run([{ sequence, tokens: [1] }]))).code).toBe("state");
    sequence[Symbol.dispose]();
    other[Symbol.dispose]();
    expect([model.freeStates, model.freePages]).toEqual([model.states, model.pages]);
  });
});

describe("a token of decoding", () => {
  test("makes no typed array, no buffer and no tensor", async () => {
    using model = await openTiny(device, { pages: { count: 100, tokens: 4 } });
    const sequences = [model.sequence(), model.sequence(), model.sequence()];
    const step = async (i: number) => {
      for (const batch of [sequences.slice(0, 1), sequences]) {
        const results = await model.run(batch.map((sequence) => ({ sequence, tokens: [i % vocabulary] })));
        expect(results[0]!.logits.length).toBe(vocabulary);
      }
    };
    for (let i = 0; i < 4; i++) await step(i);
    const made = new Map<string, number>();
    const names = ["ArrayBuffer", "SharedArrayBuffer", "Int8Array", "Uint8Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array", "BigUint64Array"] as const;
    const globals = globalThis as unknown as Record<string, new (...args: never[]) => object>;
    const originals = names.map((name) => [name, globals[name]!] as const);
    const note = (name: string) => made.set(name, (made.get(name) ?? 0) + 1);
    using _ = replace(Device.prototype, "tensor", () => (() => {
      throw new Error("a tensor is allocated");
    }) as never);
    for (const [name, original] of originals) {
      globals[name] = new Proxy(original, {
        construct(target, args, newTarget) {
          note(name);
          return Reflect.construct(target, args, newTarget) as object;
        },
      });
    }
    try {
      for (let i = 4; i < 12; i++) await step(i); // over the ends of several pages
      expect([...made]).toEqual([]);
      new Int32Array(1);
      expect([...made]).toEqual([["Int32Array", 1]]); // an array would have been seen
    } finally {
      for (const [name, original] of originals) globals[name] = original;
    }
    for (const sequence of sequences) sequence[Symbol.dispose]();
  });
});
