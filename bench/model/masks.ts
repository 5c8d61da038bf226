/**
 * Times the cost of a constraint per token, with a vocabulary as large as Qwen3.5's: the Worker's answer with a mask, and the choice of a
 * token with a mask and without.
 *
 *     bun bench/model/masks.ts [--tokens 248320] [--steps 200]
 */
import { parseArgs } from "node:util";
import { z } from "zod";
import { constraintOf } from "../../lib/model/constraints/constraint-grammar.ts";
import { libraryPath } from "../../lib/model/constraints/matchers.ts";
import { MatcherWorker } from "../../lib/model/constraints/matcher-worker.ts";
import { Sampler } from "../../lib/model/sampling/sampler.ts";
import { greedy } from "../../lib/model/sampling/settings.ts";
import { Random } from "../../test/support/random.ts";
import { largeVocabulary } from "../../test/support/large-vocabulary.ts";

const { values } = parseArgs({ options: { tokens: { type: "string", default: "248320" }, steps: { type: "string", default: "200" } } });
const [vocabSize, steps] = [Number(values.tokens), Number(values.steps)];
const last = vocabSize - 250;
const vocabulary = largeVocabulary(last);

const schemas: Readonly<Record<string, z.ZodType>> = {
  "a person: strings, numbers, an array": z.object({ name: z.string(), age: z.int().min(0).max(150), tags: z.array(z.string()).max(5), active: z.boolean() }),
  "20 properties, 30 times": z.array(z.object(Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`field${i}`, i % 2 === 0 ? z.string() : z.number()])))).max(30),
  "any JSON": z.json(),
  "dates, e-mail and a pattern": z.object({ from: z.iso.date(), at: z.iso.datetime(), mail: z.email(), code: z.string().regex(/^[A-Z]{2}-\d{4}$/) }),
  "a string of at most 20": z.object({ title: z.string().max(20) }),
  "a string of at most 200": z.object({ title: z.string().max(200) }),
};

const ofSorted = (times: readonly number[], part: number): string => times.toSorted((a, b) => a - b)[Math.floor(part * (times.length - 1))]!.toFixed(2);
const quantiles = (times: readonly number[]): string => [0.5, 0.9, 1].map((part) => ofSorted(times, part).padStart(8)).join("");

const begun = performance.now();
using worker = Object.assign(new MatcherWorker(libraryPath("bench"), { vocabSize, ends: [last], textOf: (id) => vocabulary[id] ?? "" }), {
  [Symbol.dispose](this: MatcherWorker) {
    this.end("the end");
  },
});
const first = constraintOf("bench", { regex: "a" }, () => ({ format: undefined, tools: [] }))!;
await worker.ask({ kind: "open", grammar: first.grammar }, 600_000);
console.log(`${vocabSize} tokens: the Worker and its vocabulary ${(performance.now() - begun).toFixed(0)} ms\n`);

const random = new Random(5);
const logits = Float32Array.from({ length: vocabSize }, () => random.normal() * 3);
const samplers = [greedy, { ...greedy, temperature: 0.7, topK: 20, topP: 0.8 }].map((settings) => new Sampler(settings, 1, vocabSize));
console.log("ms (median, 90 %, most)".padEnd(40), "compile", "   the Worker's mask".padEnd(26), "greedy, with and without it".padEnd(50), "sampled, with and without");
for (const [name, schema] of Object.entries(schemas)) {
  const grammar = constraintOf("bench", { schema }, () => ({ format: undefined, tools: [] }))!;
  const opening = performance.now();
  const { id: matcher } = await worker.ask({ kind: "open", grammar: grammar.grammar }, 600_000);
  const compile = performance.now() - opening;
  const times: number[][] = Array.from({ length: 5 }, () => []);
  let tokens: number[] = [];
  for (let step = 0; step < steps; step++) {
    const asked = performance.now();
    let answer = await worker.ask({ kind: "next", matcher, tokens, guesses: [] }, 600_000);
    let best = performance.now() - asked;
    // Again, without new tokens: other programs on the machine add a different time to each.
    for (let again = 0; again < 2; again++) {
      const before = performance.now();
      answer = await worker.ask({ kind: "next", matcher, tokens: [], guesses: [] }, 600_000);
      best = Math.min(best, performance.now() - before);
    }
    times[0]!.push(best);
    if (answer.kind !== "masks") throw new Error(answer.kind);
    const barred = { allowed: answer.masks[0]!, by: "schema" };
    for (let i = 0; i < logits.length; i += 97) logits[i] = random.normal() * 3;
    let chosen = 0;
    for (const [i, sampler] of samplers.entries()) {
      for (const [j, limits] of [barred, undefined].entries()) {
        const before = performance.now();
        const token = sampler.choose(logits, step, limits);
        times[1 + 2 * i + j]!.push(performance.now() - before);
        if (j === 0) chosen = token;
      }
    }
    if (chosen === last) break;
    tokens = [chosen];
  }
  worker.close(matcher);
  console.log(name.padEnd(40), compile.toFixed(0).padStart(7), ...times.map(quantiles));
}
