/**
 * Checks folders of language models: all ways of reading the same tokens are compared with `expected.safetensors`, if it exists,
 * and with each other. Recurrent states are float32, activations and pages of the given dtype.
 */

import { mixtureBounds, modelBounds } from "./compare.ts";
import { expectedCases, seededCases, seededSize, type ModelCase } from "./model-cases.ts";
import { largest, mostStrangers, otherWays, readWhole, type Answers, type Reading } from "./model-ways.ts";
import { sessionWays, tokensGiven } from "./model-sessions.ts";
import type { Report } from "./report.ts";
import type { Device } from "../../device/device.ts";
import { FileError } from "../../errors.ts";
import { LanguageModel } from "../../model/language-model.ts";
import type { FloatDType } from "../../tensor/dtype.ts";

/** Small pages, so that short prompts fill several. */
const pageTokens = 16;

/** Checks a folder. */
export async function checkModel(folder: string, device: Device, report: Report, dtype: FloatDType): Promise<void> {
  const references = expectedCases(folder);
  const slots = (references?.cases.length ?? seededSize.cases) + mostStrangers;
  const longest = (references?.cases ?? []).reduce((most, { prompt, steps }) => Math.max(most, prompt.length + steps), seededSize.longest);
  const count = slots * (Math.ceil(longest / pageTokens) + 1);
  using model = await LanguageModel.load(device, folder, { states: slots, pages: { count, tokens: pageTokens }, dtype });
  if (references !== undefined && references.vocabSize !== model.config.vocabSize) {
    const expected = `logits of ${model.config.vocabSize} tokens, the model's vocabulary`;
    throw new FileError(references.path, { op: "verify", expected, received: `${references.vocabSize}` });
  }
  const cases = references?.cases ?? seededCases(model.config);
  const { readings, answers, greedy } = await readWhole(model, cases);
  compare(report, "whole", model, cases, readings, answers, dtype);
  for (const { index, expected } of dtype === "f32" ? cases : []) {
    if (expected !== undefined) report.equal("whole", `greedy.${index}`, greedy[index]!, expected.greedy, (tokens) => tokens);
  }
  for (const { way, read } of otherWays) {
    const others = await read(model, readings);
    compare(report, way, model, cases, readings, others, dtype);
    for (const [i, { prompt }] of readings.entries()) {
      const answerOf = (all: Answers) => split(all[i]!, prompt, model.config.vocabSize);
      const [other, base] = [answerOf(others), answerOf(answers)];
      report.equal(way, `logits.${i}, bits of whole`, other.logits, base.logits, (array) => array);
      report.equal(way, `greedy_logits.${i}, bits of whole`, other.greedy, base.greedy, (array) => array);
      report.equal(way, `greedy.${i}, those of whole`, chosen(other.greedy, model), greedy[i]!, (array) => array);
    }
  }
  const { vocabSize } = model.config;
  for (const { way, run } of sessionWays) {
    for (const [i, { tokens, logits }] of (await run(model, cases)).entries()) {
      const end = cases[i]!.prompt.length + tokensGiven(cases[i]!);
      const base = answers[i]!.subarray((end - 1) * vocabSize, end * vocabSize);
      report.equal(way, `greedy.${i}, the first of whole`, tokens, greedy[i]!.subarray(0, tokensGiven(cases[i]!)), (array) => array);
      report.equal(way, `logits.${i} after them, bits of whole`, logits, base, (array) => array);
    }
  }
}

/** Compares with the references, if there are any. */
function compare(report: Report, way: string, model: LanguageModel, cases: readonly ModelCase[], readings: readonly Reading[], answers: Answers, dtype: FloatDType): void {
  const bound = (model.config.experts === undefined ? modelBounds : mixtureBounds)[dtype];
  for (const { index, expected } of cases) {
    if (expected === undefined) continue;
    const { logits, greedy } = split(answers[index]!, readings[index]!.prompt, model.config.vocabSize);
    report.near(way, `logits.${index}`, logits, expected.logits, bound);
    // With 16-bit dtypes a token may differ from that of exact arithmetic, and with it all later ones.
    if (dtype === "f32") report.near(way, `greedy_logits.${index}`, greedy, expected.greedyLogits, bound);
  }
}

/** The logits of the prompt's tokens, and those that each later token is chosen from. */
function split(answer: Float32Array, prompt: number, vocabSize: number): { logits: Float32Array; greedy: Float32Array } {
  return { logits: answer.subarray(0, prompt * vocabSize), greedy: answer.subarray((prompt - 1) * vocabSize) };
}

function chosen(logits: Float32Array, { config: { vocabSize } }: LanguageModel): Int32Array {
  return Int32Array.from({ length: logits.length / vocabSize }, (_, i) => largest(logits.subarray(i * vocabSize, (i + 1) * vocabSize)));
}
