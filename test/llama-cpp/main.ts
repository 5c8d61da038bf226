/**
 * `GATED_DELTA_LLAMA_CPP=FOLDER npm run test:llama [-- [--floats] MODELS…]`: reads the same GGUF files with llama.cpp, by node-llama-cpp,
 * and compares tokens. FOLDER is where `npm install --ignore-scripts node-llama-cpp@3.22.1` was run.
 *
 * The ids of all texts in the metadata of a model's `expected.safetensors` must be equal. llama.cpp rounds activations to 8 bits, so
 * its greedy tokens may differ where the best logits are close, and all tokens differ from there on: the command prints how many are
 * equal and how much less likely the first different one is here, in standard deviations of the logits. For the first prompt of
 * `qwen35-q4_k_m`, whose logits are far apart, it expects all to be equal, and elsewhere a different token only within `closeLogits`.
 * With `--floats`, both read files with the floats that the blocks stand for: then llama.cpp rounds nothing but keys and values.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { findGguf } from "../../lib/checkpoint/gguf/find-gguf.ts";
import { expectedCases } from "../../lib/cli/verify/model-cases.ts";
import { largest } from "../../lib/cli/verify/model-ways.ts";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import { asFloats, expectedTexts, partsOf } from "../support/gguf-models.ts";
import { ggufBytes } from "../support/gguf-writer.ts";

const root = resolve(import.meta.dir, "../..");
const golden = ["qwen35-q4_k_m", "qwen35-q8_0", "qwen35moe-q4_k_m", "qwen35moe-joined", "qwen3next-bf16"].map((name) => join(root, "test/golden/models", name));

interface Tokens {
  readonly texts: readonly (readonly number[])[];
  readonly prompts: readonly (readonly number[])[];
}

/** How far apart two logits may be, in standard deviations, if rounded activations, or rounded keys and values, change their order. */
const closeLogits = { blocks: 1, floats: 0.05 };

/** The library's tokens, and the logits from which each was chosen. */
async function ours(device: Device, file: string, texts: readonly string[], prompts: readonly Int32Array[], count: number): Promise<Tokens & { readonly logits: readonly (readonly Float32Array[])[] }> {
  using model = await LanguageModel.load(device, file, { states: 1, pages: 16 });
  const ofPrompts: number[][] = [];
  const logits: Float32Array[][] = [];
  for (const prompt of prompts) {
    using sequence = model.sequence();
    const chosen: number[] = [];
    const all: Float32Array[] = [];
    for (let tokens: Int32Array | number[] = prompt; chosen.length < count; tokens = chosen.slice(-1)) {
      const [result] = await model.run([{ sequence, tokens }]);
      chosen.push(largest(result!.logits));
      all.push(result!.logits.slice());
    }
    ofPrompts.push(chosen);
    logits.push(all);
  }
  return { texts: texts.map((text) => model.text.encode(text)), prompts: ofPrompts, logits };
}

/** How far a token's logit is below the largest, in standard deviations. */
function gapOf(logits: Float32Array, token: number): number {
  const mean = logits.reduce((sum, value) => sum + value, 0) / logits.length;
  const variance = logits.reduce((sum, value) => sum + (value - mean) ** 2, 0) / logits.length;
  return (logits[largest(logits)]! - logits[token]!) / Math.sqrt(variance);
}

/** llama.cpp's tokens. */
async function theirs(client: string, file: string, request: object): Promise<Tokens> {
  const child = Bun.spawn(["node", join(import.meta.dir, "llama.mjs"), client, file], { stdin: new Blob([JSON.stringify(request)]), stdout: "pipe", stderr: "inherit" });
  const text = await child.stdout.text();
  if ((await child.exited) !== 0) throw new Error(`node-llama-cpp ended with ${child.exitCode} on ${file}`);
  return JSON.parse(text) as Tokens;
}

const client = process.env["GATED_DELTA_LLAMA_CPP"];
if (client === undefined) {
  console.error("GATED_DELTA_LLAMA_CPP: expected the folder where `npm install --ignore-scripts node-llama-cpp` was run");
  process.exit(2);
}
const given = process.argv.slice(2).filter((argument) => argument !== "--floats");
const folders = given.length > 0 ? given : golden;
const floats = process.argv.includes("--floats");
const scratch = mkdtempSync(join(tmpdir(), "gated-delta-llama-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));
using device = Device.open({ backend: "cpu" });
console.log(`processor: ${cpus()[0]?.model ?? "unknown"}; ${device.backend} ${device.isa}`);
let failed = false;
for (const folder of folders) {
  const texts = expectedTexts(folder).map(([text]) => text);
  const prompts = expectedCases(folder)!.cases.map(({ prompt }) => prompt);
  const count = 32;
  let file = findGguf(folder)!;
  if (floats) writeFileSync((file = join(scratch, `${basename(folder)}.gguf`)), ggufBytes(asFloats(partsOf(findGguf(folder)!))));
  const mine = await ours(device, file, texts, prompts, count);
  const other = await theirs(client, file, { texts, prompts: prompts.map((prompt) => [...prompt]), count });
  const same = mine.texts.filter((ids, i) => ids.join() === other.texts[i]!.join()).length;
  const found = mine.prompts.map((tokens, i) => {
    const at = tokens.findIndex((token, k) => token !== other.prompts[i]![k]);
    return at < 0 ? { equal: tokens.length, gap: 0 } : { equal: at, gap: gapOf(mine.logits[i]![at]!, other.prompts[i]![at]!) };
  });
  const told = found.map(({ equal, gap }) => (equal === count ? `${equal}` : `${equal} (then one ${gap.toFixed(3)} below)`));
  console.log(`${basename(folder)}: ids of ${same} of ${texts.length} texts; greedy tokens of ${count} until the first other one: ${told.join(", ")}`);
  failed ||= same < texts.length || found.some(({ gap }) => !(gap <= closeLogits[floats ? "floats" : "blocks"])) || (basename(folder) === "qwen35-q4_k_m" && found[0]!.equal < count);
}
console.log(failed ? "llama.cpp gives other tokens." : "llama.cpp gives the same tokens as far as its activations allow.");
process.exit(failed ? 1 : 0);
