/**
 * Guesses that a run verifies, by the model's inner run: any number of them accepted, with neighbours of all kinds, where
 * states, pages and records are short, and where work fails. The results must have the bits of cold runs.
 */
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import type { LanguageModel, LoadModelOptions, RunResult, Sequence } from "../../lib/model.ts";
import { entryOf } from "../../lib/model/batch.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";
import { verificationOf } from "../../lib/model/run-result.ts";
import type { Verification } from "../../lib/model/verification.ts";
import { snapshotOf } from "../../lib/model/snapshot.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { failAt } from "../support/faults.ts";
import { tinyModel } from "../support/model-folders.ts";
import type { TinyModel } from "../support/model-folders.ts";
import { coldLogits, logitsOf, openTiny, rejection, textOf } from "../support/models.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { vocabulary } = tinyModel;

const run = (model: LanguageModel, entries: Parameters<ReturnType<typeof memoryOf>["run"]>[1]) => memoryOf(model).run("test", entries);
const rowsOf = (logits: Float32Array, start: number, end: number) => logits.subarray(start * vocabulary, end * vocabulary);

/** Makes a sequence read tokens, the last `drafts` of which are guesses. */
async function verify(model: LanguageModel, sequence: Sequence, tokens: readonly number[], drafts: number): Promise<{ result: RunResult; verification: Verification }> {
  const [result] = await run(model, [entryOf({ sequence, tokens }, drafts)]);
  return { result: result!, verification: verificationOf(result!)! };
}

/** A sequence that has read these tokens in one run. */
async function readBy(model: LanguageModel, tokens: readonly number[]): Promise<Sequence> {
  const sequence = model.sequence();
  if (tokens.length > 0) await model.run([{ sequence, tokens, logits: "none" }]);
  return sequence;
}

/** The states, keys and values of a sequence of these tokens. */
async function coldSnapshot(model: LanguageModel, tokens: readonly number[]): Promise<ReturnType<typeof snapshotOf>> {
  using sequence = await readBy(model, tokens);
  return snapshotOf(sequence);
}

const roomOf = (model: LanguageModel) => [model.freeStates, model.freePages, memoryOf(model).records.free];

const forms: readonly [string, Partial<LoadModelOptions>, Partial<TinyModel>][] = [
  ["pages of 8", {}, {}],
  ["pages of one token", { pages: { count: 120, tokens: 1 } }, {}],
  ["pages of 3 in bf16", { pages: { count: 40, tokens: 3, dtype: "bf16" } }, {}],
  ["no attention", { pages: 1 }, { layers: "gg", convWidth: 2 }],
  ["attention first, activations in f16", { dtype: "f16", states: { slots: 4, dtype: "f32" } }, { layers: "ag", heads: 2, kvHeads: 2, headDim: 8, rotaryDim: 8, keyHeads: 2, valueHeads: 4 }],
  ["activations in bf16", { dtype: "bf16" }, { dtype: "bf16", layers: "gga" }],
];

describe.each(forms)("%s", (_, options, change) => {
  test("every number of accepted guesses leaves what a cold run of as many tokens does", async () => {
    using model = await openTiny(device, options, change);
    const room = roomOf(model);
    const text = textOf(1, 34);
    const cold = await coldLogits(model, text);
    for (const had of [0, 1, 13]) {
      for (const certain of [1, 4]) {
        const drafts = 5;
        const end = had + certain + drafts;
        for (let accepted = 0; accepted <= drafts; accepted++) {
          using sequence = await readBy(model, text.slice(0, had));
          const { result, verification } = await verify(model, sequence, text.slice(had, end), drafts);
          // The tokens before the last certain one are decided: their logits are not computed.
          expect(result.rows).toBe(drafts + 1);
          expect(bitsEqual(result.logits, rowsOf(cold, had + certain - 1, end))).toBe(true);
          expect([sequence.tokens, verification.tokens, verification.drafts]).toEqual([had, had + certain, drafts]);
          verification.accept(accepted);
          expect([sequence.tokens, verification.open]).toEqual([had + certain + accepted, false]);
          expect(thrownBy(() => verification.accept(0)).code).toBe("state");
          expect(thrownBy(() => verification.narrow(0)).code).toBe("state");
          const at = sequence.tokens;
          expect(snapshotOf(sequence)).toEqual(await coldSnapshot(model, text.slice(0, at)));
          expect(bitsEqual(await logitsOf(model, sequence, text.slice(at, at + 3)), rowsOf(cold, at, at + 3))).toBe(true);
        }
      }
    }
    expect(roomOf(model)).toEqual(room);
  }, 60_000);

  test("with neighbours that decode, read prompts and verify, in one pass and in several", async () => {
    for (const batchTokens of [512, 12]) {
      using model = await openTiny(device, { ...options, states: 6, ...(change.layers !== "gg" && { pages: { count: 200, tokens: 2, ...(typeof options.pages === "object" && { dtype: options.pages.dtype }) } }), batchTokens }, change);
      const texts = Array.from({ length: 5 }, (_, i) => textOf(i + 2, 40));
      const cold: Float32Array[] = [];
      for (const text of texts) cold.push(await coldLogits(model, text));
      for (const neighbours of ["decode", "prompts"] as const) {
        const sequences: Sequence[] = [];
        for (const text of texts) sequences.push(await readBy(model, text.slice(0, 10)));
        const count = neighbours === "decode" ? 1 : 17;
        const results = await run(model, [
          entryOf({ sequence: sequences[0]!, tokens: texts[0]!.slice(10, 10 + count) }),
          entryOf({ sequence: sequences[1]!, tokens: texts[1]!.slice(10, 16) }, 4),
          entryOf({ sequence: sequences[2]!, tokens: texts[2]!.slice(10, 10 + count), logits: "all" }),
          entryOf({ sequence: sequences[3]!, tokens: texts[3]!.slice(10, 17) }, 6),
          entryOf({ sequence: sequences[4]!, tokens: texts[4]!.slice(10, 13) }, 1),
        ]);
        expect(results.map((result) => verificationOf(result) !== undefined)).toEqual([false, true, false, true, true]);
        const spans = [[9 + count, 10 + count], [11, 16], [10, 10 + count], [10, 17], [11, 13]] as const;
        for (const [i, [start, end]] of spans.entries()) expect(bitsEqual(results[i]!.logits, rowsOf(cold[i]!, start, end))).toBe(true);
        for (const [i, accepted] of [[4, 0], [1, 4], [3, 2]] as const) verificationOf(results[i]!)!.accept(accepted);
        expect(sequences.map(({ tokens }) => tokens)).toEqual([10 + count, 16, 10 + count, 13, 12]);
        for (const [i, sequence] of sequences.entries()) {
          const { tokens } = sequence;
          expect(snapshotOf(sequence)).toEqual(await coldSnapshot(model, texts[i]!.slice(0, tokens)));
          sequence[Symbol.dispose]();
        }
      }
    }
  }, 60_000);
});

test.each(["bf16", "f16"] as const)("states of %s are rounded once: what was accepted is as if it had been read in one run", async (dtype) => {
  using model = await openTiny(device, { states: { slots: 4, dtype }, dtype });
  const text = textOf(3, 30);
  for (let accepted = 0; accepted <= 4; accepted++) {
    using one = await readBy(model, text.slice(0, 9));
    using other = one.fork();
    const { verification } = await verify(model, one, text.slice(9, 15), 4);
    verification.accept(accepted);
    await model.run([{ sequence: other, tokens: text.slice(9, 11 + accepted), logits: "none" }]);
    expect(snapshotOf(one)).toEqual(snapshotOf(other));
  }
});

describe("a shared last page", () => {
  test.each([1, 3, 8])("of %i tokens is copied first: forks that verify different guesses keep their own", async (tokens) => {
    using model = await openTiny(device, { states: 6, pages: { count: 80, tokens } });
    const room = roomOf(model);
    const text = textOf(4, 12);
    const parent = await readBy(model, text.slice(0, 10));
    const forks = [parent.fork(), parent.fork()];
    const guesses = [textOf(5, 6), textOf(6, 6)];
    const results = await run(model, forks.map((sequence, i) => entryOf({ sequence, tokens: guesses[i]! }, 5)));
    for (const [i, accepted] of [2, 5].entries()) verificationOf(results[i]!)!.accept(accepted);
    for (const [i, fork] of forks.entries()) {
      expect(snapshotOf(fork)).toEqual(await coldSnapshot(model, [...text.slice(0, 10), ...guesses[i]!.slice(0, i === 0 ? 3 : 6)]));
    }
    // The parent verifies guesses that are wrong from the first one on, and then a sequence forked in the middle of a page does.
    const { verification } = await verify(model, parent, guesses[0]!, 5);
    verification.leave();
    expect(snapshotOf(parent)).toEqual(await coldSnapshot(model, text.slice(0, 10)));
    using late = forks[1]!.fork();
    verificationOf((await run(model, [entryOf({ sequence: forks[1]!, tokens: guesses[0]! }, 5)]))[0]!)!.accept(1);
    expect(snapshotOf(late)).toEqual(await coldSnapshot(model, [...text.slice(0, 10), ...guesses[1]!]));
    for (const sequence of [parent, late, ...forks]) sequence[Symbol.dispose]();
    expect(roomOf(model)).toEqual(room);
  });

  test("in a full model: forks that share a state and verify at once, accepted in any order", async () => {
    for (const order of [[0, 1], [1, 0]] as const) {
      using model = await openTiny(device, { states: 2, pages: { count: 12, tokens: 4 } });
      const text = textOf(7, 6);
      using one = await readBy(model, text);
      using two = one.fork();
      expect(model.freeStates).toBe(0);
      const results = await run(model, [one, two].map((sequence, i) => entryOf({ sequence, tokens: textOf(8 + i, 4) }, 3)));
      for (const i of order) verificationOf(results[i]!)!.accept(1 + i);
      const found = [one, two].map((sequence) => snapshotOf(sequence));
      for (const sequence of [one, two]) sequence[Symbol.dispose]();
      for (const i of order) expect(found[i]!).toEqual(await coldSnapshot(model, [...text, ...textOf(8 + i, 2 + i)]));
    }
  });
});

describe("where memory is short", () => {
  test("of pages fewer guesses are verified, or none, never at the expense of certain tokens", async () => {
    for (const free of [0, 1, 2, 3, 4, 7]) {
      using model = await openTiny(device, { states: 4, pages: { count: 5 + free, tokens: 2 } });
      const text = textOf(9, 40);
      const cold = await coldLogits(model, text.slice(0, 10));
      using sequence = await readBy(model, text.slice(0, 3)); // two pages, one token of room
      using neighbour = await readBy(model, text.slice(0, 4)); // two pages, which are full
      const [first, second] = await run(model, [
        entryOf({ sequence, tokens: text.slice(3, 10) }, 6),
        entryOf({ sequence: neighbour, tokens: [text[4]!] }),
      ]);
      // One page goes to the neighbour; the certain token has its place.
      const fitting = Math.min(6, 2 * free);
      expect(first!.rows).toBe(1 + fitting);
      expect(bitsEqual(first!.logits, rowsOf(cold, 3, 4 + fitting))).toBe(true);
      expect(bitsEqual(second!.logits, rowsOf(cold, 4, 5))).toBe(true);
      const verification = verificationOf(first!);
      expect(verification?.drafts).toBe(fitting === 0 ? undefined : fitting);
      verification?.narrow(Math.min(1, fitting));
      // Pages of guesses that are wrong are free at once.
      expect(model.freePages).toBe(free - Math.ceil(Math.min(1, fitting) / 2));
      verification?.accept(0);
      expect([sequence.tokens, model.freePages]).toEqual([4, free]);
    }
  });

  test("of records they are shared evenly; a model without any reads the certain tokens", async () => {
    for (const [draftTokens, rows] of [[0, [1, 1, 1]], [2, [1, 1, 2]], [5, [1, 2, 3]], [9, [3, 3, 3]], [18, [6, 6, 3]], [32, [6, 6, 3]]] as const) {
      using model = await openTiny(device, { states: 4, pages: { count: 60, tokens: 4 }, draftTokens });
      const sequences = await Promise.all([1, 2, 3].map(() => model.sequence()));
      const drafts = [5, 5, 2];
      const results = await run(model, sequences.map((sequence, i) => entryOf({ sequence, tokens: textOf(i, drafts[i]! + 1) }, drafts[i]!)));
      expect(results.map((result) => result.rows)).toEqual([...rows]);
      const found = results.map(({ logits }) => logits.slice());
      for (const [i, logits] of found.entries()) expect(bitsEqual(logits, await coldLogits(model, textOf(i, rows[i]!)))).toBe(true);
      for (const sequence of sequences) sequence[Symbol.dispose]();
      expect(memoryOf(model).records.free).toBe(draftTokens);
    }
  });

  test("verifications that stay open hold their records; others verify with what is left", async () => {
    using model = await openTiny(device, { draftTokens: 8, pages: { count: 60, tokens: 4 } });
    using one = model.sequence();
    using two = model.sequence();
    const first = await verify(model, one, textOf(1, 6), 5);
    const second = await verify(model, two, textOf(2, 6), 5);
    expect([first.verification.drafts, second.verification.drafts]).toEqual([5, 1]);
    first.verification.accept(5);
    second.verification.leave();
    expect(memoryOf(model).records.free).toBe(8);
    expect((await verify(model, two, textOf(2, 6), 5)).verification.drafts).toBe(5);
  });

  test("more guesses than go through the layers at a time are not verified", async () => {
    using model = await openTiny(device, { batchTokens: 4 });
    using sequence = model.sequence();
    expect((await verify(model, sequence, textOf(1, 9), 8)).verification.drafts).toBe(3);
    const [result] = await run(model, [entryOf({ sequence, tokens: textOf(1, 9) }, 3)]);
    expect([result!.rows, verificationOf(result!), sequence.tokens]).toEqual([1, undefined, 6]);
  });
});

describe("what ends a verification", () => {
  test("is a run, a fork, a snapshot and disposal: the sequence is as before", async () => {
    using model = await openTiny(device);
    const room = roomOf(model);
    const text = textOf(5, 30);
    const cold = await coldLogits(model, text);
    const before = await coldSnapshot(model, text.slice(0, 12));
    using sequence = await readBy(model, text.slice(0, 12));
    const open = () => verify(model, sequence, text.slice(12, 20), 7);
    const { verification } = await open();
    expect(verification.open).toBe(true);
    const { verification: again } = await open();
    expect([verification.open, again.open, sequence.tokens]).toEqual([false, true, 12]);
    using fork = sequence.fork();
    expect([again.open, fork.tokens]).toEqual([false, 12]);
    expect(snapshotOf(fork)).toEqual(before);
    const { verification: third } = await open();
    expect(snapshotOf(sequence)).toEqual(before);
    expect(third.open).toBe(false);
    await open();
    expect(bitsEqual(await logitsOf(model, sequence, text.slice(12, 20)), rowsOf(cold, 12, 20))).toBe(true);
    const { verification: last } = await verify(model, fork, text.slice(12, 20), 7);
    for (const one of [fork, sequence]) one[Symbol.dispose]();
    expect(last.open).toBe(false);
    last.leave();
    expect(thrownBy(() => last.accept(0)).code).toBe("state");
    expect(roomOf(model)).toEqual(room);
  });

  test("is the end of the model", async () => {
    const model = await openTiny(device);
    const sequence = model.sequence();
    const { verification } = await verify(model, sequence, textOf(1, 4), 3);
    model[Symbol.dispose]();
    expect(verification.open).toBe(false);
    expect(thrownBy(() => verification.accept(1)).code).toBe("state");
    verification.leave();
    sequence[Symbol.dispose]();
  });

  test("more than there are, or fewer than none, are refused, and it stays open", async () => {
    using model = await openTiny(device);
    using sequence = model.sequence();
    const { verification } = await verify(model, sequence, textOf(1, 4), 3);
    for (const count of [4, -1, 1.5, NaN]) expect(thrownBy(() => verification.accept(count)).argument).toBe("drafts");
    verification.narrow(1);
    expect(thrownBy(() => verification.accept(2)).argument).toBe("drafts");
    verification.accept(1);
    expect(sequence.tokens).toBe(2);
  });
});

describe("a failure", () => {
  test.each(["encode", "commit", "run"] as const)("(%s) of the run leaves the sequences that verify as they were", async (stage) => {
    using model = await openTiny(device, { pages: { count: 40, tokens: 3 } });
    const text = textOf(2, 24);
    const cold = await coldLogits(model, text);
    using sequence = await readBy(model, text.slice(0, 10));
    using neighbour = await readBy(model, text.slice(0, 10));
    const room = roomOf(model);
    for (const alone of [true, false]) {
      failAt(device, stage);
      const entries = [entryOf({ sequence, tokens: text.slice(10, 16) }, 4), ...(alone ? [] : [entryOf({ sequence: neighbour, tokens: [text[10]!] })])];
      expect((await rejection(run(model, entries))).code).toBe("device");
      expect([sequence.valid, sequence.tokens]).toEqual([true, 10]);
      expect(roomOf(model)[2]).toBe(room[2]!);
    }
    expect(neighbour.valid).toBe(stage !== "run");
    expect(snapshotOf(sequence)).toEqual(await coldSnapshot(model, text.slice(0, 10)));
    const { result, verification } = await verify(model, sequence, text.slice(10, 16), 4);
    expect(bitsEqual(result.logits, rowsOf(cold, 11, 16))).toBe(true);
    verification.accept(4);
    expect(bitsEqual(await logitsOf(model, sequence, text.slice(16)), rowsOf(cold, 16, 24))).toBe(true);
  });

  test.each(["encode", "commit"] as const)("(%s) of what accepts leaves the sequence as before the run", async (stage) => {
    using model = await openTiny(device);
    const text = textOf(2, 24);
    using sequence = await readBy(model, text.slice(0, 10));
    const room = roomOf(model);
    const { verification } = await verify(model, sequence, text.slice(10, 16), 4);
    failAt(device, stage);
    expect(thrownBy(() => verification.accept(4)).code).toBe("device");
    expect([verification.open, sequence.valid, sequence.tokens]).toEqual([false, true, 10]);
    expect(roomOf(model)).toEqual(room);
    expect(snapshotOf(sequence)).toEqual(await coldSnapshot(model, text.slice(0, 10)));
  });

  test("(run) of what accepts makes the sequence invalid, and is told", async () => {
    using model = await openTiny(device);
    using sequence = await readBy(model, textOf(2, 10));
    const { verification } = await verify(model, sequence, textOf(3, 5), 4);
    failAt(device, "run");
    verification.accept(2);
    await memoryOf(model).idle();
    expect(sequence.valid).toBe(false);
    using other = model.sequence();
    expect((await rejection(model.run([{ sequence: other, tokens: [1] }]))).code).toBe("device");
  });

  test("(encode) in a later pass leaves those that verified in an earlier one", async () => {
    using model = await openTiny(device, { batchTokens: 8, pages: { count: 60, tokens: 4 } });
    const text = textOf(2, 24);
    using drafting = await readBy(model, text.slice(0, 10));
    using prompt = model.sequence();
    const entries = () => [entryOf({ sequence: drafting, tokens: text.slice(10, 16) }, 5), entryOf({ sequence: prompt, tokens: text })];
    // The first pass encodes as many ops as if it were the only one.
    for (let count = 1; count < 400; count += 7) {
      failAt(device, "encode", count);
      const error = await run(model, entries()).then(() => undefined, (reason: Error) => reason);
      failAt(device, "encode", 0);
      expect([drafting.valid, drafting.tokens]).toEqual([true, 10]);
      if (error === undefined || !prompt.valid) break;
    }
    expect(prompt.valid).toBe(false);
    expect(snapshotOf(drafting)).toEqual(await coldSnapshot(model, text.slice(0, 10)));
    expect(memoryOf(model).records.free).toBe(32);
  });
});

test("guesses are no part of the public run", async () => {
  using model = await openTiny(device);
  using sequence = model.sequence();
  const entry = { sequence, tokens: [1, 2], drafts: 1 };
  expect((await rejection(model.run([entry]))).argument).toBe("batch[0].drafts");
});
