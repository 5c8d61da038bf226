/**
 * Times tokens of a session with constraints and without, in turns: its model has the shape of Qwen3.5-0.8B, random weights and an equally
 * large tokenizer. The random model never ends a value by itself, so answers stay within their strings.
 *
 *     bun bench/model/random-model.ts FOLDER --form 4bit
 *     bun bench/model/constraint-tokens.ts FOLDER [--threads 2] [--tokens 24] [--rounds 5]
 */
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { GenerateOptions } from "../../lib/model.ts";
import { giveTokenizer } from "./large-tokenizer.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { threads: { type: "string", default: "2" }, tokens: { type: "string", default: "24" }, rounds: { type: "string", default: "5" } },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("name a model's folder");
const [threads, tokens, rounds] = [values.threads, values.tokens, values.rounds].map(Number) as [number, number, number];

giveTokenizer(folder);

using device = Device.open({ backend: "cpu", threads });
using model = await LanguageModel.load(device, folder, { states: 8, pages: 64 });
void model.text.tokenizer.size;

const person = { type: "object", properties: { name: { type: "string" }, age: { type: "integer", minimum: 0, maximum: 150 }, tags: { type: "array", items: { type: "string" } } }, required: ["name", "age", "tags"] };
const sampled = { temperature: 0.7, topK: 20, topP: 0.8, seed: 3 };
const kinds: Readonly<Record<string, GenerateOptions>> = {
  greedy: {},
  "greedy, schema": { schema: person },
  "greedy, regex": { regex: "[a-z ]*" },
  sampled,
  "sampled, schema": { ...sampled, schema: person },
  "sampled, any JSON": { ...sampled, schema: true },
};

const times: Record<string, number[]> = Object.fromEntries(Object.keys(kinds).map((name) => [name, []]));
for (let round = 0; round <= rounds; round++) {
  for (const [name, options] of Object.entries(kinds)) {
    using session = model.session().append(Array.from({ length: 16 }, (_, i) => 1000 + 7 * i + round));
    let last: number | undefined;
    for await (const piece of session.generate({ maxTokens: tokens, ...options })) {
      const now = performance.now();
      if (last !== undefined && round > 0) times[name]!.push(now - last); // the first round compiles
      last = now;
      if (piece.end !== undefined) break;
    }
  }
}
console.log(`${folder}, ${threads} threads, ${device.name}, ${device.isa}; ms a token, in turns`);
for (const [name, list] of Object.entries(times)) {
  const sorted = list.toSorted((a, b) => a - b);
  const at = (part: number): string => sorted[Math.floor(part * (sorted.length - 1))]!.toFixed(1);
  console.log(`${name.padEnd(20)} best ${at(0)}, median ${at(0.5)}, 90 % ${at(0.9)}, of ${sorted.length}`);
}
process.exit();
