/**
 * Times llama.cpp, by way of node-llama-cpp, on the file that `llama.py` writes: a prompt of 512 tokens and decoding one token a step.
 *
 *     node bench/model/llama.mjs FILE PATH-OF-NODE-LLAMA-CPP [--threads 2] [--prompt 512] [--tokens 40]
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals: [file, module] } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: "string", default: "2" },
    prompt: { type: "string", default: "512" },
    tokens: { type: "string", default: "40" },
  },
});
const { getLlama } = await import(resolve(module, "dist/index.js"));
const [threads, prompt, tokens] = [values.threads, values.prompt, values.tokens].map(Number);
const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads, logLevel: "warn" });
const model = await llama.loadModel({ modelPath: file, useMmap: true });
const context = await model.createContext({ contextSize: 2 * prompt + tokens, batchSize: prompt, threads });
const sequence = context.getSequence();
const ids = (length, seed) => Array.from({ length }, (_, i) => ((i * 7919 + seed) % 248000) + 3);
const median = (times) => times.toSorted((a, b) => a - b)[times.length >> 1];
/** Seconds until each of the tokens that follow a text is there, the choice of the likeliest included. */
async function times(text, count) {
  await sequence.clearHistory();
  const found = [];
  let start = performance.now();
  for await (const _ of sequence.evaluate(text, { temperature: 0 })) {
    found.push((performance.now() - start) / 1000);
    if (found.length === count) break;
    start = performance.now();
  }
  return found;
}

const prompts = [];
for (let round = 0; round < 4; round++) {
  const [time] = await times(ids(prompt, round), 1);
  if (round > 0) prompts.push(time);
}
const steps = (await times(ids(16, 0), tokens)).slice(5);
const line = (name, times, count) => `${name}: median ${(1000 * median(times)).toFixed(1)} ms, best ${(1000 * Math.min(...times)).toFixed(1)} ms, ${(count / median(times)).toFixed(1)} tokens/s`;
console.log(`llama.cpp ${llama.llamaCppRelease.release}, ${threads} threads`);
console.log(line(`prompt of ${prompt}`, prompts, prompt));
console.log(line("decode", steps, 1));
process.exit(0);
