/** The part of `gated-delta demo` about whole models: a prompt and the tokens that follow it. */

import { basename } from "node:path";
import type { Device } from "../device/device.ts";
import { LanguageModel } from "../model/language-model.ts";
import { print, rate } from "./command.ts";
import { modelBounds, relRms } from "./verify/compare.ts";
import { expectedCases } from "./verify/model-cases.ts";
import { largest } from "./verify/model-ways.ts";
import { FileError } from "../errors.ts";

/** Number of tokens in a line of the output. */
const shown = 12;

/** Runs a model on the first prompt of its `expected.safetensors`, and compares the tokens with the file's. */
export async function showModel(device: Device, folder: string): Promise<boolean> {
  const [first] = expectedCases(folder)?.cases ?? [];
  if (first?.expected === undefined) {
    throw new FileError(folder, { op: "demo", expected: "a model with an expected.safetensors", received: "none" });
  }
  const { prompt, steps, expected } = first;
  let bytes = 0;
  const start = performance.now();
  using model = await LanguageModel.load(device, folder, {
    states: 1,
    pages: Math.ceil((prompt.length + steps) / 64),
    onProgress: (progress) => void (bytes = progress.bytes),
  });
  const { layers, hiddenSize, vocabSize } = model.config;
  const attention = layers.filter((type) => type === "attention").length;
  print(`\n${basename(folder)}: a whole model of ${layers.length - attention} Gated DeltaNet and ${attention} attention layers, hidden ${hiddenSize}, ${vocabSize} tokens`);
  print(`  load     ${(bytes / 1e6).toFixed(1)} MB of weights in ${Math.round(performance.now() - start)} ms`);

  using sequence = model.sequence();
  const chosen: number[] = [];
  const logits = new Float32Array(steps * vocabSize);
  const seconds = [0, 0];
  for (let tokens: Int32Array | number[] = prompt; chosen.length < steps; tokens = chosen.slice(-1)) {
    const began = performance.now();
    const [result] = await model.run([{ sequence, tokens }]);
    seconds[chosen.length === 0 ? 0 : 1]! += (performance.now() - began) / 1000;
    logits.set(result!.logits, chosen.length * vocabSize);
    chosen.push(largest(result!.logits));
  }
  print(`  prompt   ${prompt.length} tokens in one run: ${rate(prompt.length, seconds[0]!)}`);
  print(`  decode   ${steps - 1} tokens, one at a time: ${rate(steps - 1, seconds[1]!)}`);
  const right = chosen.filter((token, i) => token === expected.greedy[i]).length;
  const error = relRms(logits, expected.greedyLogits);
  const passed = right === steps && error <= modelBounds.f32;
  print(`  tokens   ${chosen.slice(0, shown).join(" ")}${steps > shown ? " …" : ""}`);
  print(`           ${right} of ${steps} are those of transformers; logits relRms ${error.toExponential(2)}, bound ${modelBounds.f32}: ${passed ? "ok" : "FAILED"}`);
  return passed;
}
