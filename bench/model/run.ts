/**
 * Times a whole model against the machine's limits, probed in the same run: a prompt of 512 tokens against the multiply-add peak, and
 * decoding, one token per step, against the rates at which memory is read, and is read and written in place: the steps' median against
 * the median of single passes, and the best against the best.
 *
 *     bun bench/model/run.ts FOLDER [--threads 2] [--prompt 512] [--tokens 40] [--sequences 1] [--activations exact|int8]
 *
 * The least work: a prompt needs a multiply-add for each number of the matrices and each token, the vocabulary's for only one row; a
 * step of decoding reads every matrix once, as it is stored, and reads and writes each sequence's state. Of the experts, a token needs
 * only those that it goes through. Keys and norms are not counted. JavaScript's share of a step is the time until `model.run` has
 * returned its promise: the work is committed at that point.
 */
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { promptWork } from "../../lib/cli/machine-limits.ts";
import { LanguageModel } from "../../lib/model/language-model.ts";
import type { ModelConfig } from "../../lib/model/model-config.ts";
import { openCheckpoint } from "../../lib/checkpoint/safetensors.ts";
import { Probe, coldBytes } from "../native/probe.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: "string", default: "2" },
    prompt: { type: "string", default: "512" },
    tokens: { type: "string", default: "40" },
    sequences: { type: "string", default: "1" },
    activations: { type: "string", default: "exact" },
  },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("name a model's folder");
const { activations } = values;
if (activations !== "exact" && activations !== "int8") throw new Error(`--activations: expected exact or int8, got ${activations}`);
const [threads, prompt, tokens, count] = [values.threads, values.prompt, values.tokens, values.sequences].map(Number) as [number, number, number, number];

/** Bytes of the matrices that a step of one sequence reads: all but the embedding, unless it is the output's as well. */
function bytesRead(folder: string, skipped: readonly string[], { tied, experts }: ModelConfig): number {
  using source = openCheckpoint(folder);
  return source.names.reduce((sum, name) => {
    const { shape, bytes } = source.info(name);
    if (skipped.includes(name) || (!tied && /embed_tokens\./.test(name))) return sum;
    if (experts !== undefined && /\.(?:switch_mlp|experts)\./.test(name)) return sum + (bytes * experts.perToken) / experts.count;
    return shape.length === 2 ? sum + bytes : sum;
  }, 0);
}

using device = Device.open({ backend: "cpu", threads });
using model = await LanguageModel.load(device, folder, { states: count + 1, pages: (count + 1) * Math.ceil((prompt + tokens + 8) / 64), activations });
const { config } = model;
const bytes = bytesRead(folder, model.skipped, config);
const { hiddenSize, vocabSize, mixer } = config;
const mixers = config.layers.filter((type) => type === "gatedDelta").length;
const multiplyAdds = promptWork(config) + mixers * 3 * mixer.valueHeads * mixer.valueDim * mixer.keyDim; // a token

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
const promptLeast = (prompt * multiplyAdds + hiddenSize * vocabSize) / peak;

const sequences = Array.from({ length: count }, () => model.sequence());
await model.run(sequences.map((sequence, i) => ({ sequence, tokens: ids(16, i) })));
const steps: number[] = [];
const scripted: number[] = [];
const states = count * model.stateBytes;
/** The least time of a step's reads, and of its reads and writes, at the rates of single passes. */
const leasts: { readonly matrices: number; readonly all: number }[] = [];
for (let t = 0; t < tokens; t++) {
  // In turns with ten steps: other work on a shared machine changes what memory gives within seconds. The first step after a pause takes longer.
  const isFirst = t % 11 === 0;
  if (isFirst) {
    const [reads, writes] = [probe.bandwidths("read", coldBytes, threads), probe.bandwidths("in-place", coldBytes, threads)];
    for (const [i, rate] of reads.entries()) leasts.push({ matrices: bytes / rate, all: bytes / rate + (2 * states) / writes[i]! });
  }
  const start = performance.now();
  const step = model.run(sequences.map((sequence) => ({ sequence, tokens: [t] })));
  const committed = performance.now();
  await step;
  if (isFirst) continue;
  steps.push((performance.now() - start) / 1000);
  scripted.push((committed - start) / 1000);
}
const limits = (of: "matrices" | "all"): [number, number] => [median(leasts.map((each) => each[of])), Math.min(...leasts.map((each) => each[of]))];
const [rate, best] = limits("matrices").map((seconds) => (bytes / seconds / 1e9).toFixed(1)) as [string, string];

/** limits: the least times at the median rate, and at the best. */
const line = (name: string, times: number[], limits: [number, number], of: number, what: string) =>
  console.log(`${name}: median ${(1000 * median(times)).toFixed(1)} ms, best ${(1000 * Math.min(...times)).toFixed(1)} ms, ${(of / median(times)).toFixed(1)} tokens/s; ` +
    `${((100 * limits[0]) / median(times)).toFixed(0)} % (best ${((100 * limits[1]) / Math.min(...times)).toFixed(0)} %) of ${what}`);
console.log(`${folder}: ${(bytes / 1e6).toFixed(0)} MB of matrices a step, ${threads} threads, ${device.name}`);
line(`prompt of ${prompt}`, prompts, [promptLeast, promptLeast], prompt, `the multiply-add peak, ${(peak / 1e9).toFixed(0)} G/s`);
line(`decode, ${count} at a time`, steps, limits("matrices"), count, `reading the matrices at ${rate} GB/s (best ${best})`);
const [whole, least] = limits("all").map((seconds) => (1000 * seconds).toFixed(1)) as [string, string];
line("the same", steps, limits("all"), count, `that and ${(states / 1e6).toFixed(0)} MB of states read and written: ${whole} ms (least ${least})`);
const script = median(scripted);
console.log(`JavaScript: median ${(1e6 * script).toFixed(0)} us a step, ${((100 * script) / median(steps)).toFixed(1)} %`);
for (const sequence of sequences) sequence[Symbol.dispose]();
