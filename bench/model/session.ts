/**
 * Times a session against a loop over `model.run`, in turns in one run: tokens a second of decoding, greedy and sampled, and the time that
 * a session adds to a token.
 *
 *     bun bench/model/session.ts FOLDER [--threads 2] [--prompt 64] [--tokens 60] [--rounds 5] [--backend cpu]
 */
import { parseArgs } from "node:util";
import { Device, GatedDeltaError } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { GenerateOptions } from "../../lib/model.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: "string", default: "2" },
    prompt: { type: "string", default: "64" },
    tokens: { type: "string", default: "60" },
    rounds: { type: "string", default: "5" },
    backend: { type: "string", default: "cpu" },
  },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("name a model's folder");
const [threads, promptTokens, tokens, rounds] = [values.threads, values.prompt, values.tokens, values.rounds].map(Number) as [number, number, number, number];

using device = Device.open({ backend: values.backend as BackendName, threads });
const pages = 4 * Math.ceil((promptTokens + tokens + 8) / 64);
using model = await LanguageModel.load(device, folder, { states: 4, pages });
const prompt = Array.from({ length: promptTokens }, (_, i) => (i * 7919 + 11) % model.config.vocabSize);

/** Milliseconds per token of a loop that chooses the largest logit itself. */
async function plainLoop(): Promise<number> {
  using sequence = model.sequence();
  let [result] = await model.run([{ sequence, tokens: prompt }]);
  const start = performance.now();
  for (let i = 0; i < tokens; i++) {
    const { logits } = result!;
    let next = 0;
    for (let id = 1; id < logits.length; id++) if (logits[id]! > logits[next]!) next = id;
    [result] = await model.run([{ sequence, tokens: [next] }]);
  }
  return (performance.now() - start) / tokens;
}

/** Milliseconds per token of a session. */
async function session(options: GenerateOptions): Promise<number> {
  using one = model.session().append(prompt);
  let start = 0;
  let given = 0;
  for await (const _ of one.generate({ ...options, ignoreModelStops: true, maxTokens: tokens + 1 })) {
    // The first token comes from the prompt's step.
    if (given++ === 0) start = performance.now();
  }
  return (performance.now() - start) / tokens;
}

const ways: Readonly<Record<string, () => Promise<number>>> = {
  "model.run": plainLoop,
  "session, greedy": () => session({}),
  "session, top-p 0.95": () => session({ temperature: 0.8, topP: 0.95, seed: 1 }),
  "session, model's sampling": () => session({ sampling: "model", seed: 1 }),
};
const times = new Map(Object.keys(ways).map((way) => [way, [] as number[]]));
try {
  for (let round = 0; round <= rounds; round++) {
    for (const [way, run] of Object.entries(ways)) {
      const time = await run();
      if (round > 0) times.get(way)!.push(time);
    }
  }
} catch (error) {
  if (!(error instanceof GatedDeltaError)) throw error;
  throw new Error(`${folder}: ${error.message}`, { cause: error });
}
const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[list.length >> 1]!;
const base = median(times.get("model.run")!);
console.log(`${folder}, ${threads} threads, ${device.name}; ${tokens} tokens after ${promptTokens}, ${rounds} rounds in turns`);
for (const [way, list] of times) {
  const time = median(list);
  console.log(`${way.padEnd(26)} ${time.toFixed(3)} ms a token, ${(1000 / time).toFixed(1)} tokens/s, ${((100 * base) / time).toFixed(1)} % of model.run's`);
}
