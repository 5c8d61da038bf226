/** This library as one of the programs that models.ts compares: each line is a kind of work, and each answer gives its times in seconds. */
import { createInterface } from "node:readline";
import { Device } from "../../lib/index.ts";
import { LanguageModel, type Sequence } from "../../lib/model.ts";

const [path, threads, activations] = process.argv.slice(2) as [string, string, "exact" | "int8"];
const [states, positions] = [33, 33_500];
const device = Device.open({ backend: "cpu", threads: Number(threads) });
const model = await LanguageModel.load(device, path, { states, pages: Math.ceil(positions / 64) + 2 * states, activations });
const ids = (count: number, seed: number) => Array.from({ length: count }, (_, i) => (i * 7919 + seed) % model.config.vocabSize);

/** Seconds of each of `steps` steps of all sequences, with a token each. */
async function stepTimes(sequences: readonly Sequence[], steps: number): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < steps; i++) {
    const start = performance.now();
    await model.run(sequences.map((sequence, s) => ({ sequence, tokens: [i + s] })));
    times.push((performance.now() - start) / 1000);
  }
  return times;
}

async function read(length: number, seed: number): Promise<Sequence> {
  const sequence = model.sequence();
  await model.run([{ sequence, tokens: ids(length, seed) }]);
  return sequence;
}

/** The sequence that has read the last long prompt. */
let long: { readonly length: number; readonly sequence: Sequence } | undefined;

async function times(kind: string, size: number): Promise<number[]> {
  if (kind === "prompt") {
    using sequence = model.sequence();
    const start = performance.now();
    await model.run([{ sequence, tokens: ids(size, 0) }]);
    return [(performance.now() - start) / 1000];
  }
  if (kind === "after") {
    if (long?.length !== size) {
      long?.sequence[Symbol.dispose]();
      long = { length: size, sequence: await read(size, 0) };
    }
    return stepTimes([long.sequence], 8);
  }
  const sequences: Sequence[] = [];
  for (let i = 0; i < (kind === "batch" ? size : 1); i++) sequences.push(await read(16, i));
  const found = await stepTimes(sequences, kind === "batch" ? 4 : 16);
  for (const sequence of sequences) sequence[Symbol.dispose]();
  return found;
}

console.log(JSON.stringify({ version: `${device.name}, ${device.isa} kernels` }));
for await (const line of createInterface({ input: process.stdin })) {
  const [kind, size] = line.split(":") as [string, string?];
  console.log(JSON.stringify(await times(kind, Number(size))));
}
