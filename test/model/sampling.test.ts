/** How tokens are chosen, against a plain implementation of the definition. */
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { checkOptions } from "../../lib/arguments/options.ts";
import { FileError, GatedDeltaError } from "../../lib/errors.ts";
import { exponential } from "../../lib/model/sampling/exponential.ts";
import { readModelSampling } from "../../lib/model/sampling/generation-config.ts";
import { readLogitBias } from "../../lib/model/sampling/logit-bias.ts";
import { logprobsOf } from "../../lib/model/sampling/logprobs.ts";
import { anySeed, philox, uniformAt } from "../../lib/model/sampling/philox.ts";
import { Sampler } from "../../lib/model/sampling/sampler.ts";
import { generateOptions } from "../../lib/model/session/session-schemas.ts";
import { greedy, settingsOf } from "../../lib/model/sampling/settings.ts";
import type { SamplingSettings } from "../../lib/model/sampling/settings.ts";
import { weightOfTopP } from "../../lib/model/sampling/top-p.ts";
import { thrownBy } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { ggufFiles, text, valued } from "../support/gguf-cases.ts";
import type { Values } from "../support/gguf-cases.ts";
import { Random } from "../support/random.ts";

const folder = mkdtempSync(join(tmpdir(), "gated-delta-sampling-"));
const fileOf = ggufFiles(scratch());
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("random numbers", () => {
  test("Philox4x32-10 gives its authors' known answers (Random123, kat_vectors)", () => {
    const hex = (numbers: readonly number[]) => numbers.map((n) => n.toString(16).padStart(8, "0")).join(" ");
    const all = 0xffffffff;
    expect(hex(philox([0, 0, 0, 0], [0, 0]))).toBe("6627e8d5 e169c58d bc57ac4c 9b00dbd8");
    expect(hex(philox([all, all, all, all], [all, all]))).toBe("408f276d 41c83b0e a20bc7c6 6d5451fd");
    expect(hex(philox([0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]))).toBe("d16cfe09 94fdcceb 5001e420 24126ea1");
  });

  test("a number depends on all bits of seed and position, and lies in [0, 1)", () => {
    expect(uniformAt(0, 0)).toBe(((0x6627e8d5 >>> 5) * 2 ** 26 + (0xe169c58d >>> 6)) / 2 ** 53);
    const numbers = new Set<number>();
    for (const seed of [0, 1, 2 ** 32, 2 ** 53 - 1]) for (const position of [0, 1, 2 ** 32, 2 ** 40]) numbers.add(uniformAt(seed, position));
    expect(numbers.size).toBe(16);
    for (const number of numbers) expect(number >= 0 && number < 1).toBe(true);
    expect(new Set([anySeed(), anySeed(), anySeed()]).size).toBe(3);
  });

  test("exponential is within an ulp or two of exp, 1 at 0, and falls", () => {
    expect(exponential(0)).toBe(1);
    expect([exponential(-709), exponential(-Infinity)]).toEqual([0, 0]);
    const random = new Random(4);
    for (let i = 0; i < 20000; i++) {
      const x = -random.uniform(0, i % 2 === 0 ? 708 : 2);
      expect(Math.abs(exponential(x) / Math.exp(x) - 1)).toBeLessThan(4 * 2 ** -53);
      expect(exponential(x - 1e-12)).toBeLessThanOrEqual(exponential(x));
    }
  });
});

/** The inputs of a choice, besides the logits and the settings. */
interface Plain {
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  readonly barred: readonly number[];
  readonly bias: ReadonlyMap<number, number>;
  readonly u: number;
}

/** The algorithm that sampler.ts documents, step by step. */
function plainChoice(logits: readonly number[], settings: SamplingSettings, { prompt, answer, barred, bias, u }: Plain): number | undefined {
  const { repetitionPenalty, repetitionWindow, frequencyPenalty, presencePenalty } = settings;
  const text = [...prompt, ...answer];
  const last = repetitionWindow === Infinity ? text : text.slice(-repetitionWindow);
  const only = [...bias.values()].includes(Infinity);
  const x = logits.map((logit, id) => {
    const added = bias.get(id) ?? 0;
    if (barred.includes(id) || (only && added !== Infinity)) return -Infinity;
    let value = only ? logit : logit + added;
    if (last.includes(id)) value = value > 0 ? value / repetitionPenalty : value * repetitionPenalty;
    const times = answer.filter((token) => token === id).length;
    return value - times * frequencyPenalty - (times > 0 ? presencePenalty : 0);
  });
  if (x.every((value) => value === -Infinity)) return undefined;
  let order = x.map((_, id) => id).sort((a, b) => x[b]! - x[a]! || a - b);
  if (settings.temperature === 0) return order[0]!;
  const most = x[order[0]!]!;
  const weight = x.map((logit) => exponential((logit - most) / settings.temperature));
  const sum = (ids: readonly number[]) => ids.reduce((total, id) => total + weight[id]!, 0);
  const ascending = (ids: readonly number[]) => ids.toSorted((a, b) => a - b);
  if (settings.topK > 0) order = order.slice(0, settings.topK);
  if (settings.topP < 1) {
    const wanted = settings.topP * sum(ascending(order));
    let reached = 0;
    order = order.filter((id) => {
      const stays = reached < wanted;
      reached += weight[id]!;
      return stays;
    });
  }
  order = ascending(order.filter((id) => weight[id]! >= settings.minP));
  const wanted = u * sum(order);
  let reached = 0;
  return order.find((id) => (reached += weight[id]!) > wanted) ?? order.at(-1)!;
}

const logitsOf = (random: Random, count: number) =>
  Array.from({ length: count }, () => (random.below(12) === 0 ? -Infinity : Math.fround(random.below(3) === 0 ? random.below(5) - 2 : random.normal() * 4)));

describe("the choice", () => {
  const settings = fc.record({
    temperature: fc.constantFrom(0, 0.1, 0.7, 1, 3, 1e6, 1e-300),
    topK: fc.constantFrom(0, 1, 2, 5, 20, 1000),
    topP: fc.constantFrom(1, 0.9, 0.5, 1e-9, 0.999999),
    minP: fc.constantFrom(0, 0.05, 0.5, 1),
    repetitionPenalty: fc.constantFrom(1, 1.3, 0.5),
    repetitionWindow: fc.constantFrom(Infinity, 1, 3, 100),
    presencePenalty: fc.constantFrom(0, 1.5, -0.25),
    frequencyPenalty: fc.constantFrom(0, 0.5, -1),
  });

  test("is that of the definition, whatever the options", () => {
    fc.assert(
      fc.property(settings, fc.integer(), fc.integer({ min: 1, max: 60 }), (chosen, seed, count) => {
        const random = new Random(seed);
        const logits = logitsOf(random, count);
        logits[random.below(count)] = 1.5; // at least one is finite
        const few = (most: number) => Array.from({ length: random.below(most) }, () => random.below(count));
        const [prompt, answer] = [few(6), few(6)];
        const bias = new Map(random.below(2) === 0 ? [] : few(4).map((id) => [id, [3, -1.25, 100, -Infinity, Infinity][random.below(5)]!]));
        const barred = random.below(2) === 0 ? [] : few(5);
        const sampler = new Sampler(chosen, 7, count, { logitBias: bias });
        sampler.saw(prompt);
        const row = Float32Array.from(logits);
        // Both ways of barring a token, at random.
        const allowed = new Int32Array(Math.ceil(count / 32)).fill(-1);
        const without = new Set<number>();
        for (const id of barred) {
          if (random.below(2) === 0) without.add(id);
          else allowed[id >> 5]! &= ~(1 << (id & 31));
        }
        const limits = barred.length === 0 ? undefined : { allowed, without, by: "test" };
        for (let position = 0; position < 8; position++) {
          if (position === 4) sampler.saw(answer, true);
          const expected = plainChoice(logits, chosen, { prompt, answer: position < 4 ? [] : answer, barred, bias, u: uniformAt(7, position) });
          if (expected === undefined) {
            const error = thrownBy(() => sampler.choose(row, position, limits));
            expect([error.code, error.received]).toEqual(["invalid-argument", "none"]);
            continue;
          }
          expect(sampler.choose(row, position, limits)).toBe(expected);
          expect(sampler.candidates(row, limits).ids).toContain(expected);
        }
        expect([...row]).toEqual(logits);
      }),
      { numRuns: 1500, seed: 20260 },
    );
  });

  test("top-p of a whole vocabulary cuts where a full sort does, whatever the weights", () => {
    const shapes: readonly [string, (random: Random) => number][] = [
      ["flat", (random) => 1 - 0.01 * random.uniform()],
      ["peaked", (random) => exponential(-30 * random.uniform())],
      ["few different", (random) => [1, 0.5, 0.25, 0.125, 0][random.below(5)]!],
      ["equal", () => 0.25],
      ["one and dust", (random) => (random.below(3000) === 0 ? 1 : 1e-300 * random.uniform())],
      ["normal", (random) => exponential(Math.min(0, 4 * random.normal() - 8))],
    ];
    for (const [name, make] of shapes) {
      for (const count of [2048, 5000, 30011]) {
        const random = new Random(count);
        const weights = Float64Array.from({ length: count }, () => make(random));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        // Also shares that are reached exactly at a weight, where rounding decides.
        const sorted = weights.toSorted().reverse();
        let sum = 0;
        const exact = [3, 100, 1999].map((n, i, all) => {
          for (let j = i === 0 ? 0 : all[i - 1]!; j < n; j++) sum += sorted[j]!;
          return sum / total;
        });
        /** By the definition: the weights from the largest down until they reach the share p of the sum; of equal ones, the first. */
        const plainCut = (topP: number) => {
          let reached = 0;
          const last = sorted.findIndex((weight) => (reached += weight) >= topP * total);
          return { weight: sorted[last]!, equal: last + 1 - sorted.indexOf(sorted[last]!) };
        };
        for (const topP of [0.999999, 0.95, 0.9, 0.5, 0.1, 1e-9, ...exact]) {
          if (topP < 1) expect([name, count, topP, weightOfTopP(weights, topP)]).toEqual([name, count, topP, plainCut(topP)]);
        }
      }
    }
  });

  test("over many positions each token comes as often as its probability says", () => {
    const logits = Float32Array.of(0, 1, 2, -1, -Infinity);
    const sampler = new Sampler({ ...greedy, temperature: 1 }, 3, logits.length);
    const counts = new Float64Array(logits.length);
    const draws = 40000;
    for (let position = 0; position < draws; position++) counts[sampler.choose(logits, position)]!++;
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
    for (const [id, logit] of logits.entries()) expect(Math.abs(counts[id]! / draws - Math.exp(logit) / total)).toBeLessThan(0.01);
    expect(counts[4]).toBe(0);
  });

  test("a tied maximum takes the lowest id, with and without a penalty", () => {
    const logits = Float32Array.of(1, 3, 3, 2);
    expect(new Sampler(greedy, 0, 4).choose(logits, 0)).toBe(1);
    const penalised = new Sampler({ ...greedy, repetitionPenalty: 1.5 }, 0, 4);
    penalised.saw([1]);
    expect(penalised.choose(logits, 0)).toBe(2);
    penalised.saw([2]);
    expect(penalised.choose(logits, 0)).toBe(1); // 2, 2 and 2
    expect([...logits]).toEqual([1, 3, 3, 2]);
  });

  test.each([greedy, { ...greedy, temperature: 1 }, { ...greedy, repetitionPenalty: 2 }])("logits that are none are refused: %p", (chosen) => {
    const sampler = new Sampler(chosen, 0, 3);
    for (const [logits, words] of [[[0, NaN, 1], /logits\[1\].*NaN/], [[0, 1, Infinity], /logits\[2\].*Infinity/], [[-Infinity, -Infinity, -Infinity], /-Infinity/]] as const) {
      let error: unknown;
      try {
        sampler.choose(Float32Array.from(logits), 0);
      } catch (caught) {
        error = caught;
      }
      expect(error).toBeInstanceOf(GatedDeltaError);
      expect((error as GatedDeltaError).message).toMatch(words);
    }
  });

  test("the most tokens that a model has", () => {
    const random = new Random(9);
    const logits = Float32Array.from({ length: 248320 }, () => random.normal());
    const chosen = { ...greedy, temperature: 1, topK: 50, topP: 0.9, minP: 0.01 };
    const { ids, weights } = new Sampler(chosen, 1, logits.length).candidates(logits);
    const top = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]!).slice(0, 50);
    expect([...ids].every((id) => top.includes(id))).toBe(true);
    expect(Math.max(...weights)).toBe(1);
  });
});

describe("biases", () => {
  test("come as an object or a map", () => {
    const expected = new Map([[0, 1], [3, -Infinity], [4, Infinity]]);
    expect(readLogitBias("op", { 0: 1, 3: -Infinity, 4: Infinity }, 5)).toEqual(expected);
    expect(readLogitBias("op", expected, 5)).toEqual(expected);
    expect(readLogitBias("op", undefined, 5)).toEqual(new Map());
  });

  test("are refused by name", () => {
    const endless = Object.assign(new Map([[1, 101]]), { [Symbol.iterator]: function* () { for (;;) yield [1, 1]; } });
    const wrong: readonly [unknown, string, string][] = [
      [{ 5: 1 }, "range", "logitBias"], [new Map([[-1, 1]]), "invalid-argument", "logitBias"], [{ a: 1 }, "invalid-argument", "logitBias"], [{ "01": 1 }, "invalid-argument", "logitBias"], [new Map([["1", 1]]), "invalid-argument", "logitBias"], [[1], "invalid-argument", "logitBias"],
      [{ 1: 101 }, "invalid-argument", "logitBias[1]"], [{ 1: NaN }, "invalid-argument", "logitBias[1]"], [{ 1: "2" }, "invalid-argument", "logitBias[1]"],
      [endless, "invalid-argument", "logitBias[1]"], [Float32Array.of(1), "invalid-argument", "logitBias"],
      [new Set([1]), "invalid-argument", "logitBias"], [new Date(), "invalid-argument", "logitBias"], [{ [Symbol("1")]: 1 }, "invalid-argument", "logitBias"],
      [{ get 1() { throw new Error("no"); } }, "invalid-argument", "logitBias"],
    ];
    for (const [value, code, argument] of wrong) {
      const error = thrownBy(() => readLogitBias("op", value as Map<number, number>, 5));
      expect([error.code, error.argument]).toEqual([code as GatedDeltaError["code"], argument]);
    }
  });
});

describe("processors", () => {
  const row = Float32Array.of(1, 2, 3, 0);

  test("change the logits in order, each position once, and get the tokens before it", () => {
    const calls: unknown[] = [];
    const add = (id: number, by: number) => (logits: Float32Array, tokens: Int32Array) => {
      calls.push([id, [...logits], [...tokens]]);
      logits[id]! += by;
      tokens.fill(0); // a copy
    };
    const sampler = new Sampler(greedy, 0, 4, { processors: [add(0, 4), add(1, 3.5)] });
    sampler.saw([3, 3]);
    expect(sampler.choose(row, 2)).toBe(1);
    sampler.saw([1], true);
    expect(sampler.choose(row, 3)).toBe(1);
    expect(calls).toEqual([
      [0, [1, 2, 3, 0], [3, 3]], [1, [5, 2, 3, 0], [3, 3]],
      [0, [1, 2, 3, 0], [3, 3, 1]], [1, [5, 2, 3, 0], [3, 3, 1]],
    ]);
    expect([...row]).toEqual([1, 2, 3, 0]);
  });

  test("come before what bars tokens and before penalties", () => {
    const sampler = new Sampler({ ...greedy, presencePenalty: 50 }, 0, 4, { processors: [(logits) => void (logits[0] = 90)] });
    expect(sampler.choose(row, 0)).toBe(0);
    expect(sampler.choose(row, 0, { without: new Set([0]), by: "test" })).toBe(2);
    sampler.saw([0], true);
    expect(sampler.choose(row, 1)).toBe(0); // 90 - 50
    sampler.saw([2], true);
    expect(sampler.choose(row, 2, { without: new Set([0]), by: "test" })).toBe(1);
  });

  test("that fail are refused, or their error is thrown as it is", () => {
    const own = new Error("mine");
    const by = (process: (logits: Float32Array) => unknown) => () => new Sampler(greedy, 0, 4, { processors: [() => {}, process as () => void] }).choose(row, 0);
    expect(by(() => { throw own; })).toThrow(own);
    const named: readonly [(logits: Float32Array) => unknown, string | undefined, RegExp][] = [
      [async () => {}, "processors[1]", /promise/], [(logits) => void (logits[2] = NaN), "logits[2]", /after processors.*NaN/],
      [(logits) => void (logits[1] = Infinity), "logits[1]", /Infinity/], [(logits) => void logits.fill(-Infinity), "processors", /none/],
      [(logits) => void structuredClone(logits, { transfer: [logits.buffer as ArrayBuffer] }), "processors[1]", /4 logits/],
    ];
    for (const [process, argument, words] of named) {
      const error = thrownBy(by(process));
      expect([error.code, error.argument]).toEqual(["invalid-argument", argument]);
      expect(error.message).toMatch(words);
    }
  });
});

describe("logarithms of probabilities", () => {
  test("of the most likely tokens are those of a softmax, in order", () => {
    const random = new Random(3);
    for (const count of [1, 5, 300]) {
      const logits = Float32Array.from(logitsOf(random, count));
      logits[0] = 1.5;
      const total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0);
      const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b);
      for (const k of [0, 1, 4, 100]) {
        const { logprob, top } = logprobsOf(logits, 0, k);
        expect(logprob).toBeCloseTo(1.5 - Math.log(total), 9);
        expect(top.map(({ token }) => token)).toEqual(order.slice(0, k));
        for (const one of top) expect(Math.exp(one.logprob)).toBeCloseTo(Math.exp(logits[one.token]!) / total, 9);
      }
    }
  });
});

describe("options", () => {
  test("wrong ones are refused by name", () => {
    const wrong: [unknown, string][] = [
      [{ temperature: -1 }, "temperature"], [{ temperature: NaN }, "temperature"], [{ temperature: Infinity }, "temperature"], [{ topK: 0.5 }, "topK"],
      [{ topK: -1 }, "topK"], [{ topP: 0 }, "topP"], [{ topP: 1.1 }, "topP"], [{ minP: -0.1 }, "minP"], [{ minP: 2 }, "minP"],
      [{ repetitionPenalty: 0 }, "repetitionPenalty"], [{ repetitionWindow: 0 }, "repetitionWindow"], [{ repetitionWindow: Infinity }, "repetitionWindow"],
      [{ presencePenalty: 101 }, "presencePenalty"], [{ frequencyPenalty: NaN }, "frequencyPenalty"], [{ logitBias: 1 }, "logitBias"],
      [{ processors: [1] }, "processors.0"], [{ processors: () => {} }, "processors"], [{ minTokens: -1 }, "minTokens"], [{ topLogprobs: 101 }, "topLogprobs"], [{ seed: -1 }, "seed"], [{ seed: 2 ** 53 }, "seed"], [{ sampling: "file" }, "sampling"], [{ top_k: 1 }, "top_k"],
    ];
    for (const [value, argument] of wrong) {
      expect(() => checkOptions(generateOptions, "generate", value)).toThrow(argument);
    }
    expect(settingsOf(checkOptions(generateOptions, "generate", {}), {})).toEqual(greedy);
  });

  test("the model's values apply where they are asked for, and where nothing is said", () => {
    const model = { temperature: 0.7, topP: 0.8, topK: 20 };
    expect(settingsOf({}, model)).toEqual(greedy);
    expect(settingsOf({ temperature: 1 }, model)).toEqual({ ...greedy, temperature: 1 });
    expect(settingsOf({ sampling: "model" }, model)).toEqual({ ...greedy, ...model });
    expect(settingsOf({ sampling: "model", topK: 0, temperature: 0 }, model)).toEqual({ ...greedy, topP: 0.8 });
  });

  const read = (content: string) => {
    writeFileSync(join(folder, "generation_config.json"), content);
    return readModelSampling(folder);
  };
  test("generation_config.json", () => {
    expect(readModelSampling(join(folder, "none"))).toEqual({});
    expect(readModelSampling(join(import.meta.dir, "../golden/models/qwen3_5-bf16"))).toEqual({ temperature: 0.7, topP: 0.8, topK: 20 });
    expect(read(`{ "do_sample": true, "top_k": null, "min_p": 0.1 }`)).toEqual({ temperature: 1, minP: 0.1 });
    expect(read(`{ "do_sample": false, "temperature": 0.7, "repetition_penalty": 1.1 }`)).toEqual({ temperature: 0, repetitionPenalty: 1.1 });
    expect(read(`{}`)).toEqual({});
    for (const wrong of [`{ "temperature": "hot" }`, `{ "top_p": 2 }`, `{ "top_k": -1 }`, `[]`, `{`]) expect(() => read(wrong)).toThrow(FileError);
    expect(() => read(`{ "top_p": 2 }`)).toThrow(/top_p: a number above 0, at most 1.*2/);
    // Only GGUF files have such a setting.
    expect(read(`{ "top_p": 0.5, "repetition_window": 64 }`)).toEqual({ topP: 0.5 });
  });

  test("general.sampling in a GGUF file", () => {
    const f32 = (value: number) => ({ type: "f32", value }) as const;
    const i32 = (value: number) => ({ type: "i32", value }) as const;
    const readGguf = (values: Values) => readModelSampling(fileOf(valued(Object.fromEntries(Object.entries(values).map(([key, value]) => [`general.sampling.${key}`, value])))));
    expect(readGguf({})).toEqual({});
    expect(readGguf({ temp: f32(0.7), top_k: i32(20), top_p: f32(0.8), min_p: f32(0) })).toEqual({ temperature: 0.7, topK: 20, topP: 0.8, minP: 0 });
    expect(readGguf({ top_k: i32(-1), penalty_repeat: f32(1.05), penalty_last_n: i32(64) })).toEqual({ topK: 0, repetitionPenalty: 1.05, repetitionWindow: 64 });
    expect(readGguf({ penalty_repeat: f32(1.05), penalty_last_n: i32(0) })).toEqual({ repetitionPenalty: 1 });
    expect(readGguf({ penalty_repeat: f32(1.05), penalty_last_n: i32(-1) })).toEqual({ repetitionPenalty: 1.05 });
    for (const wrong of [{ temp: text("hot") }, { top_p: f32(2) }, { top_k: f32(1.5) }, { temp: f32(NaN) }]) expect(() => readGguf(wrong)).toThrow(FileError);
  });
});
