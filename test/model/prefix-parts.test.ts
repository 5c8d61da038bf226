/** Sequences as the parts that stores keep. */
import { afterAll, describe, expect, test } from "bun:test";
import { LanguageModel, Session, tinyModel } from "../../lib/model.ts";
import type { LoadModelOptions } from "../../lib/model.ts";
import { copyState, copyTokens, partForm, partSizes, snapshotOfParts } from "../../lib/model/prefix-parts.ts";
import type { TokenBytes } from "../../lib/model/prefix-parts.ts";
import type { Sequence } from "../../lib/model.ts";
import { conversationOf } from "../../lib/model/session/session.ts";
import { Stored } from "../../lib/model/session/stored.ts";
import { sequenceFrom, snapshotOf } from "../../lib/model/snapshot.ts";
import { ShapeError } from "../../lib/errors.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { scratch } from "../support/files.ts";

const device = openDevice(1);
const { newPath } = scratch();
afterAll(() => device.close());

const text = Array.from({ length: 150 }, (_, i) => 3 + ((i * 37) % 400));

function all(copying: Generator<void, void, void>): void {
  while (!copying.next().done) continue;
}

/** A sequence's parts, cut at positions. */
function partsOf(model: LanguageModel, sequence: Sequence, cuts: readonly number[]) {
  const { state: stateBytes, token } = partSizes(model);
  const state = new Uint8Array(stateBytes);
  all(copyState(sequence, state));
  const ends = [...cuts, sequence.tokens];
  const parts = ends.map((to, i): TokenBytes => {
    const from = i === 0 ? 0 : ends[i - 1]!;
    const bytes = new Uint8Array((to - from) * token);
    all(copyTokens(sequence, from, to, bytes));
    return { tokens: to - from, bytes };
  });
  return { state, parts };
}

describe("parts of a sequence", () => {
  const cases: [name: string, options: LoadModelOptions][] = [
    ["f32, pages of 64", { states: 4, pages: 12 }],
    ["f16, pages of 16", { states: 4, pages: { count: 40, tokens: 16 }, dtype: "f16" }],
    ["bf16, pages of 7", { states: 4, pages: { count: 90, tokens: 7 }, dtype: "bf16" }],
  ];
  test.each(cases)("make the same sequence, wherever they are cut: %s", async (_, options) => {
    using model = await LanguageModel.load(device, tinyModel, options);
    using sequence = model.sequence();
    await model.run([{ sequence, tokens: text }]);
    const expected = snapshotOf(sequence);
    for (const cuts of [[], [64], [1, 2, 70], [128, 150], [49, 98, 147]]) {
      const { state, parts } = partsOf(model, sequence, cuts);
      using made = sequenceFrom(model, snapshotOfParts(model, state, parts));
      expect(snapshotOf(made)).toEqual(expected);
    }
  });

  test("of one page size fit a model of another", async () => {
    using from = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
    using to = await LanguageModel.load(device, tinyModel, { states: 2, pages: { count: 60, tokens: 9 } });
    using sequence = from.sequence();
    await from.run([{ sequence, tokens: text }]);
    const { state, parts } = partsOf(from, sequence, [100]);
    using made = sequenceFrom(to, snapshotOfParts(to, state, parts));
    expect(snapshotOf(made)).toEqual(snapshotOf(sequence));
    expect(partForm(from)).toBe(partForm(to));
  });

  test("of another dtype are refused, and have another name", async () => {
    using from = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
    using to = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8, dtype: "bf16" });
    using sequence = from.sequence();
    await from.run([{ sequence, tokens: text }]);
    const { state, parts } = partsOf(from, sequence, []);
    expect(thrownBy(() => sequenceFrom(to, snapshotOfParts(from, state, parts)))).toBeInstanceOf(ShapeError);
    const whole = snapshotOfParts(from, state, parts);
    expect(thrownBy(() => sequenceFrom(from, { ...whole, tokens: 149 }))).toBeInstanceOf(ShapeError);
    expect(partForm(from)).not.toBe(partForm(to));
  });
});

describe("a session that continues from parts", () => {
  test("reads the rest alone, keeps them in its cache, and can be saved before it does", async () => {
    using model = await LanguageModel.load(device, tinyModel, { states: 8, pages: 24 });
    using sequence = model.sequence();
    await model.run([{ sequence, tokens: text }]);
    const { state, parts } = partsOf(model, sequence, [64, 128]);
    using cold = model.session();
    const expected = await cold.append([...text, 7, 8, 9]).logits();

    using cache = model.cache({ bytes: 2 ** 30 });
    using session = model.session({ cache }).append([...text, 7, 8, 9]);
    conversationOf(session).continueFrom(new Stored(snapshotOfParts(model, state, parts)));
    expect([session.read, session.usage.cachedTokens]).toEqual([150, 150]);
    const path = newPath("session");
    await session.save(path);
    using loaded = await Session.load(model, path);
    expect([loaded.read, await loaded.logits()]).toEqual([150, expected]);

    expect(await session.logits()).toEqual(expected);
    expect([session.usage.cachedTokens, cache.hits]).toEqual([150, 0]);
    using other = model.session({ cache }).append([...text, 5]);
    await other.logits();
    expect([other.usage.cachedTokens, cache.hits]).toEqual([150, 1]);
  });
});
