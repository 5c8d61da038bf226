/** Tokens chosen from the largest logits, found on the device, are the same as those chosen from whole rows. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { LanguageModel } from "../../lib/model.ts";
import type { GenerateOptions, Session } from "../../lib/model.ts";
import { bestCount, mostBest } from "../../lib/model/sampling/best-logits.ts";
import type { BestLogits } from "../../lib/model/sampling/best-logits.ts";
import { Sampler } from "../../lib/model/sampling/sampler.ts";
import { greedy, settingsOf } from "../../lib/model/sampling/settings.ts";
import { topK as referenceOf } from "../reference/top-k.ts";
import { reference } from "../reference/tensor.ts";
import { onEachBackend } from "../support/backends.ts";
import { readModel, writeChanged } from "../support/changed-models.ts";
import { scratch } from "../support/files.ts";
import { rejection, textOf, tinyFolder } from "../support/models.ts";
import { Random } from "../support/random.ts";
import { replace } from "../support/replace.ts";
import { collect, tokensOf } from "../support/sessions.ts";

const { newPath } = scratch();

function bestOf(logits: Float32Array, count: number): BestLogits {
  const { values, ids } = referenceOf(reference([1, logits.length], logits), count);
  return { values: Float32Array.from(values), ids: Int32Array.from(ids) };
}

/** A chosen token, or the message of the error that refuses to choose. */
function outcome(choose: () => number): number | string {
  try {
    return choose();
  } catch (error) {
    return (error as Error).message;
  }
}

describe("the choice from the largest logits", () => {
  const settings = fc.record({
    temperature: fc.constantFrom(0, 0.1, 0.7, 1, 3, 1e6),
    topK: fc.constantFrom(1, 2, 5, 20, 128, 1000),
    topP: fc.constantFrom(1, 0.9, 0.5, 1e-9),
    minP: fc.constantFrom(0, 0.05, 0.5, 1),
  });

  test("is that from all, errors included", () => {
    let compared = 0;
    fc.assert(
      fc.property(settings, fc.integer(), fc.integer({ min: 1, max: 300 }), (chosen, seed, size) => {
        const random = new Random(seed);
        const few = [-Infinity, -0, 0, 1, 1, 2.5];
        const logits = Float32Array.from({ length: size }, () => (random.below(3) === 0 ? few[random.below(6)]! : random.normal() * 4));
        if (random.below(6) === 0) logits[random.below(size)] = NaN;
        if (random.below(6) === 0) logits[random.below(size)] = Infinity;
        if (random.below(12) === 0) logits.fill(-Infinity);
        const sampler = new Sampler(settingsOf(chosen, {}), 7, size);
        if (sampler.best === undefined) return;
        const best = bestOf(logits, bestCount(sampler.best, size));
        for (let position = 0; position < 6; position++) {
          expect(outcome(() => sampler.chooseFrom(best, position))).toBe(outcome(() => sampler.choose(logits, position)));
          compared++;
        }
      }),
      { numRuns: 2000, seed: 4 },
    );
    expect(compared).toBeGreaterThan(6000);
  });

  test("is refused to settings that take all", () => {
    const best = (change: object, size = 500) => new Sampler({ ...greedy, ...change }, 0, size).best;
    expect([best({}), best({ temperature: 1, topK: 7 }), best({ temperature: 1, topK: mostBest }), best({ temperature: 1, topK: 900 }, 60)]).toEqual([1, 7, mostBest, 60]);
    const whole = [
      { temperature: 1 }, { temperature: 1, topK: mostBest + 1 }, { repetitionPenalty: 1.1 }, { presencePenalty: 1 }, { frequencyPenalty: -1 },
    ];
    for (const change of whole) expect(best(change)).toBeUndefined();
    const parts = [{ processors: [() => {}] }, { logitBias: new Map([[3, 1]]) }, { logitBias: new Map([[3, Infinity]]) }];
    for (const one of parts) expect(new Sampler(greedy, 0, 500, one).best).toBeUndefined();
    expect(best({}, 1048577)).toBeUndefined();
  });
});

onEachBackend("sessions that choose from the largest logits", ({ device }) => {
  /** A model whose tokens come in pairs of equal logits; the last token's is NaN for some inputs, or for all. */
  const folders = new Map<boolean, string>();
  function folderOf(nan: boolean): string {
    const known = folders.get(nan);
    if (known !== undefined) return known;
    const made = writeChanged(newPath(), readModel(tinyFolder()), ({ tensors }) => {
      const { dtype, shape, data } = tensors["lm_head.weight"]!;
      const rows = new Float32Array(new Uint8Array(data as Uint8Array).buffer);
      const width = shape[1]!;
      for (let row = 0; row + 1 < shape[0]!; row += 2) rows.copyWithin((row + 1) * width, row * width, (row + 1) * width);
      if (nan) rows[rows.length - 1] = NaN;
      tensors["lm_head.weight"] = { dtype, shape, data: new Uint8Array(rows.buffer) };
    });
    folders.set(nan, made);
    return made;
  }
  const open = (nan: boolean) => LanguageModel.load(device, folderOf(nan), { states: 6, pages: { count: 48, tokens: 8 } });
  const all = { ignoreModelStops: true } as const;
  /** An option that changes nothing, but makes whole rows be used. */
  const whole = { processors: [() => {}] };

  const kinds: readonly [string, GenerateOptions][] = [
    ["greedy", {}],
    ["greedy with drafts", { drafts: { tokens: 3, longest: 2, shortest: 1 } }],
    ["top-k", { temperature: 1, topK: 5, seed: 3 }],
    ["top-k, top-p and min-p", { temperature: 2, topK: 40, topP: 0.8, minP: 0.05, seed: 11 }],
    ["all of a small vocabulary", { temperature: 1.5, topK: 60, seed: 2, drafts: true }],
  ];

  test.each(kinds)("%s: the tokens of whole rows, where logits are tied", async (_, options) => {
    using model = await open(false);
    const answers = async (more: GenerateOptions) => {
      const sessions: Session[] = [];
      try {
        const work = [4, 9, 20].map((length, i) => {
          const session = model.session().append(textOf(i, length));
          sessions.push(session);
          return tokensOf(session.generate({ ...options, ...more, ...all, maxTokens: 14 + i }));
        });
        return await Promise.all(work);
      } finally {
        for (const session of sessions) session[Symbol.dispose]();
      }
    };
    let chosen = 0;
    using _counted = replace(Sampler.prototype, "chooseFrom", (original) => function (this: Sampler, best: BestLogits, position: number) {
      chosen++;
      return (original as Sampler["chooseFrom"]).call(this, best, position);
    });
    const found = await answers({});
    expect(chosen).toBeGreaterThanOrEqual(14 + 15 + 16);
    const before = chosen;
    expect(await answers(whole)).toEqual(found);
    expect(chosen).toBe(before);
  });

  test("a NaN among the logits ends the answer with the error of whole rows", async () => {
    using model = await open(true);
    const words = async (options: GenerateOptions) => {
      using session = model.session().append(textOf(2, 6));
      return (await rejection(collect(session.generate({ ...options, ...all, maxTokens: 4 })))).message;
    };
    const expected = await words(whole);
    expect(expected).toContain("logits[52]");
    for (const options of [{}, { temperature: 1, topK: 3 }]) expect(await words(options)).toBe(expected);
  });

  test("sessions of both kinds share a step, and each has the tokens that it has alone", async () => {
    using model = await open(false);
    const options: GenerateOptions[] = [{}, { temperature: 1, topK: 33, seed: 5 }, { temperature: 1, seed: 5 }, { logprobs: true }, { presencePenalty: 1 }];
    const answer = async (i: number) => {
      using session = model.session().append(textOf(i, 5 + i));
      return await tokensOf(session.generate({ ...options[i], ...all, maxTokens: 12 }));
    };
    const alone: number[][] = [];
    for (const i of options.keys()) alone.push(await answer(i));
    expect(await Promise.all(options.map((_, i) => answer(i)))).toEqual(alone);
  });

  test("logits that were kept because the answer was aborted still choose the next token", async () => {
    using model = await open(false);
    using session = model.session().append(textOf(1, 7));
    const expected = await tokensOf(model.session().append(textOf(1, 7)).generate({ ...all, maxTokens: 3 }));
    const controller = new AbortController();
    const pieces = session.generate({ ...all, signal: controller.signal })[Symbol.asyncIterator]();
    const first = pieces.next();
    await Promise.resolve();
    controller.abort(new Error("enough"));
    expect(String(await first.catch((error: unknown) => error))).toContain("enough");
    expect(await tokensOf(session.generate({ ...all, maxTokens: 3 }))).toEqual(expected);
  });
});
