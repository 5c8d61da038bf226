/**
 * Times tokens of a session with constraints and without, in turns: its model has the shape of Qwen3.5-0.8B, random weights and a tokenizer
 * that is as large. The random model never ends a value by itself, so answers stay within their strings.
 *
 *     bun bench/model/random-model.ts FOLDER --form 4bit
 *     bun bench/model/constraint-tokens.ts FOLDER [--threads 2] [--tokens 24] [--rounds 5]
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { GenerateOptions } from "../../lib/model.ts";
import { largeVocabulary } from "../../test/support/large-vocabulary.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { threads: { type: "string", default: "2" }, tokens: { type: "string", default: "24" }, rounds: { type: "string", default: "5" } },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("name a model's folder");
const [threads, tokens, rounds] = [values.threads, values.tokens, values.rounds].map(Number) as [number, number, number];

const tokenizer = join(folder, "tokenizer.json");
if (!existsSync(tokenizer)) {
  const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
  const { vocab_size: size, eos_token_id: eos } = (config.text_config ?? config) as { vocab_size: number; eos_token_id: number | readonly number[] };
  const ends = new Set([eos].flat());
  const ids = Array.from({ length: size }, (_, id) => id).filter((id) => !ends.has(id));
  const vocab = Object.fromEntries(largeVocabulary(ids.length).map((word, i) => [word, ids[i]!]));
  const added = [...ends].map((id) => ({ id, content: `<|end${id}|>`, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }));
  writeFileSync(tokenizer, JSON.stringify({ added_tokens: added, decoder: { type: "ByteLevel" }, pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true }, normalizer: null, post_processor: null, model: { type: "BPE", vocab, merges: [] } }));
}

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
