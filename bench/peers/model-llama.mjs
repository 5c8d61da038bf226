/** llama.cpp, by way of node-llama-cpp, as one of the programs that models.ts compares. The choice of the likeliest token is in its times. */
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const [file, threads, module] = process.argv.slice(2);
const { getLlama } = await import(resolve(module, "dist/index.js"));
const llama = await getLlama({ gpu: false, build: "never", maxThreads: Number(threads), logLevel: "error" });
const model = await llama.loadModel({ modelPath: file, useMmap: true });
const ids = (length, seed) => Array.from({ length }, (_, i) => ((i * 7919 + seed) % 248000) + 3);

const contexts = new Map();
/** A context of so many sequences for so many tokens each. */
async function contextOf(sequences, contextSize) {
  const key = `${sequences} ${contextSize}`;
  if (!contexts.has(key)) {
    const context = await model.createContext({ sequences, contextSize, batchSize: 512, threads: { ideal: Number(threads), min: Number(threads) } });
    contexts.set(key, { context, sequences: Array.from({ length: sequences }, () => context.getSequence()), length: 0 });
  }
  return contexts.get(key);
}

/** The generator of the tokens that follow a text. */
const follow = (sequence, text) => sequence.evaluate(text, { temperature: 0 });

async function timesOf(generators, count) {
  const found = [];
  for (let i = 0; i < count; i++) {
    const start = performance.now();
    await Promise.all(generators.map((generator) => generator.next()));
    found.push((performance.now() - start) / 1000);
  }
  return found;
}

async function times(kind, size) {
  if (kind === "prompt") {
    const { sequences: [sequence] } = await contextOf(1, size + 64);
    await sequence.clearHistory();
    return timesOf([follow(sequence, ids(size, 0))], 1);
  }
  if (kind === "after") {
    const of = await contextOf(1, size + 1024);
    if (of.length === 0) {
      of.generator = follow(of.sequences[0], ids(size, 0));
      of.length = size;
      await of.generator.next();
    }
    return timesOf([of.generator], 8);
  }
  const count = kind === "batch" ? size : 1;
  const { sequences } = await contextOf(count, 128);
  for (const sequence of sequences) await sequence.clearHistory();
  const generators = sequences.map((sequence, i) => follow(sequence, ids(16, i)));
  await timesOf(generators, 1);
  return timesOf(generators, kind === "batch" ? 4 : 16);
}

console.log(JSON.stringify({ version: `llama.cpp ${llama.llamaCppRelease.release}` }));
for await (const line of createInterface({ input: process.stdin })) {
  const [kind, size] = line.split(":");
  console.log(JSON.stringify(await times(kind, Number(size))));
}
process.exit(0);
