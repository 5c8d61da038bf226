// llama.cpp's side of first-logits.ts, by node-llama-cpp.
import { resolve } from "node:path";
import { parseArgs } from "node:util";

const { values, positionals: [file, module] } = parseArgs({
  allowPositionals: true,
  options: { prompt: { type: "string" }, tokens: { type: "string" }, threads: { type: "string" } },
});
const { getLlama } = await import(resolve(module, "dist/index.js"));
const [prompt, tokens, threads] = [values.prompt, values.tokens, values.threads].map(Number);
const llama = await getLlama({ gpu: false, build: "never", maxThreads: threads, logLevel: "error" });
const since = (start, usage) => {
  const { user, system } = process.cpuUsage(usage);
  return { clock: performance.now() - start, processor: (user + system) / 1000 };
};

let [start, usage] = [performance.now(), process.cpuUsage()];
const model = await llama.loadModel({ modelPath: file, useMmap: true });
const loaded = since(start, usage);
const context = await model.createContext({ contextSize: 512, batchSize: 512, threads });
const ids = Array.from({ length: prompt }, (_, i) => ((i * 7919) % 248000) + 3);
let first;
let count = 0;
for await (const _ of context.getSequence().evaluate(ids, { temperature: 0, yieldEogToken: true })) {
  if (first === undefined) {
    first = since(start, usage);
    [start, usage] = [performance.now(), process.cpuUsage()];
  } else if (++count === tokens) break;
}
const { clock, processor } = since(start, usage);
process.stdout.write(JSON.stringify({ loaded, first, token: { clock: clock / count, processor: processor / count } }), () => process.exit(0));
