/**
 * Times a whole model against the machine's limits, probed in the same run: a prompt of 512 tokens against the multiply-add peak, and
 * decoding, one token a step, against the rate at which memory is read.
 *
 *     bun bench/model/run.ts FOLDER [--threads 2] [--prompt 512] [--tokens 40] [--sequences 1]
 *
 * The least work: a prompt does a multiply-add for each number of its matrices and token, the vocabulary's for one row alone; a step of
 * decoding reads every matrix once, as it is stored. States, keys and norms are not counted.
 */
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model/language-model.ts";
import { openCheckpoint } from "../../lib/checkpoint/safetensors.ts";
import { Probe, coldBytes } from "../native/probe.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: "string", default: "2" },
    prompt: { type: "string", default: "512" },
    tokens: { type: "string", default: "40" },
    sequences: { type: "string", default: "1" },
  },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("name a model's folder");
const [threads, prompt, tokens, count] = [values.threads, values.prompt, values.tokens, values.sequences].map(Number) as [number, number, number, number];

/** Bytes of the matrices that a step of decoding reads: all but the embedding, unless it is the output's too. */
function bytesRead(folder: string, skipped: readonly string[], tied: boolean): number {
  using source = openCheckpoint(folder);
  return source.names.reduce((sum, name) => {
    const { shape, bytes } = source.info(name);
    const read = shape.length === 2 && !skipped.includes(name) && (tied || !/embed_tokens\./.test(name));
    return read ? sum + bytes : sum;
  }, 0);
}

using device = Device.open({ backend: "cpu", threads });
using model = await LanguageModel.load(device, folder, { states: count + 1, pages: (count + 1) * Math.ceil((prompt + tokens + 8) / 64) });
const { config } = model;
const bytes = bytesRead(folder, model.skipped, config.tied);
const { hiddenSize, intermediateSize, vocabSize, attention, mixer } = config;
const channels = 2 * mixer.keyHeads * mixer.keyDim + mixer.valueHeads * mixer.valueDim;
const width = mixer.valueHeads * mixer.valueDim;
let multiplyAdds = 0; // a token
for (const layer of config.layers) {
  multiplyAdds += 3 * hiddenSize * intermediateSize;
  multiplyAdds += layer === "attention"
    ? hiddenSize * attention.headDim * (3 * attention.heads + 2 * attention.kvHeads)
    : hiddenSize * (channels + 2 * width + 2 * mixer.valueHeads) + 3 * mixer.valueHeads * mixer.valueDim * mixer.keyDim;
}

const probe = new Probe();
const ids = (length: number, seed: number) => Array.from({ length }, (_, i) => (i * 7919 + seed) % vocabSize);
const median = (times: number[]) => times.toSorted((a, b) => a - b)[times.length >> 1]!;

const prompts: number[] = [];
for (let round = 0; round < 4; round++) {
  using sequence = model.sequence();
  const start = performance.now();
  await model.run([{ sequence, tokens: ids(prompt, round) }]);
  if (round > 0) prompts.push((performance.now() - start) / 1000);
}
const peak = probe.multiplyAdds(threads, 200);
const least = (prompt * multiplyAdds + hiddenSize * vocabSize) / peak;

const sequences = Array.from({ length: count }, () => model.sequence());
await model.run(sequences.map((sequence, i) => ({ sequence, tokens: ids(16, i) })));
const steps: number[] = [];
for (let t = 0; t < tokens; t++) {
  const start = performance.now();
  await model.run(sequences.map((sequence) => ({ sequence, tokens: [t] })));
  if (t >= 5) steps.push((performance.now() - start) / 1000);
}
const rate = probe.bandwidth("read", coldBytes, threads, 400);

const line = (name: string, times: number[], limit: number, of: number, what: string) =>
  console.log(`${name}: median ${(1000 * median(times)).toFixed(1)} ms, best ${(1000 * Math.min(...times)).toFixed(1)} ms, ${(of / median(times)).toFixed(1)} tokens/s; ` +
    `${((100 * limit) / median(times)).toFixed(0)} % (best ${((100 * limit) / Math.min(...times)).toFixed(0)} %) of ${what}`);
console.log(`${folder}: ${(bytes / 1e6).toFixed(0)} MB of matrices, ${threads} threads, ${device.name}`);
line(`prompt of ${prompt}`, prompts, least, prompt, `the multiply-add peak, ${(peak / 1e9).toFixed(0)} G/s`);
line(`decode, ${count} at a time`, steps, bytes / rate, count, `reading the matrices at ${(rate / 1e9).toFixed(1)} GB/s`);
for (const sequence of sequences) sequence[Symbol.dispose]();
