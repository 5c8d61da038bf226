/**
 * Checks folders of language models: all ways of reading the same tokens are compared with `expected.safetensors`, if it exists,
 * and with each other, separately for each setting of prompts. Recurrent states are float32; activations and pages have the given dtype.
 */

import { int8Bounds, mixtureBounds, modelBounds } from "./compare.ts";
import type { CheckSettings } from "./folders.ts";
import { expectedCases, seededCases, seededSize, type ModelCase } from "./model-cases.ts";
import { largest, mostStrangers, otherWays, readWhole, type Answers, type Reading } from "./model-ways.ts";
import { sessionWays, tokensGiven } from "./model-sessions.ts";
import type { Report } from "./report.ts";
import type { Device } from "../../device/device.ts";
import { FileError } from "../../errors.ts";
import { LanguageModel } from "../../model/language-model.ts";
import type { Prompts } from "../../model/model-options.ts";

/** Small pages, so that short prompts fill several. */
const pageTokens = 16;

/** Checks a folder with each setting of prompts. */
export async function checkModel(folder: string, device: Device, report: Report, settings: CheckSettings): Promise<void> {
  for (const prompts of settings.prompts) await checkPrompts(folder, device, report, settings, prompts);
}

async function checkPrompts(folder: string, device: Device, report: Report, settings: CheckSettings, prompts: Prompts): Promise<void> {
  const { dtype, activations } = settings;
  const named = (way: string): string => (prompts === "exact" ? way : `${way}, ${prompts} prompts`);
  const references = expectedCases(folder);
  const slots = (references?.cases.length ?? seededSize.cases) + mostStrangers;
  const longest = (references?.cases ?? []).reduce((most, { prompt, steps }) => Math.max(most, prompt.length + steps), seededSize.longest);
  const count = slots * (Math.ceil(longest / pageTokens) + 1);
  using model = await LanguageModel.load(device, folder, { states: slots, pages: { count, tokens: pageTokens }, dtype, activations, prompts });
  if (references !== undefined && references.vocabSize !== model.config.vocabSize) {
    const expected = `logits of ${model.config.vocabSize} tokens, the model's vocabulary`;
    throw new FileError(references.path, { op: "verify", expected, received: `${references.vocabSize}` });
  }
  const cases = references?.cases ?? seededCases(model.config);
  const { readings, answers, greedy } = await readWhole(model, cases);
  compare(report, named("whole"), model, cases, readings, answers, settings);
  for (const { index, expected } of isExact(settings) ? cases : []) {
    if (expected !== undefined) report.equal(named("whole"), `greedy.${index}`, greedy[index]!, expected.greedy, (tokens) => tokens);
  }
  for (const { way: name, read } of otherWays) {
    const way = named(name);
    const others = await read(model, readings);
    compare(report, way, model, cases, readings, others, settings);
    for (const [i, { prompt }] of readings.entries()) {
      const answerOf = (all: Answers) => split(all[i]!, prompt, model.config.vocabSize);
      const [other, base] = [answerOf(others), answerOf(answers)];
      report.equal(way, `logits.${i}, bits of whole`, other.logits, base.logits, (array) => array);
      report.equal(way, `greedy_logits.${i}, bits of whole`, other.greedy, base.greedy, (array) => array);
      report.equal(way, `greedy.${i}, those of whole`, chosen(other.greedy, model), greedy[i]!, (array) => array);
    }
  }
  const { vocabSize } = model.config;
  for (const { way: name, run } of sessionWays) {
    const way = named(name);
    for (const [i, { tokens, logits }] of (await run(model, cases)).entries()) {
      const end = cases[i]!.prompt.length + tokensGiven(cases[i]!);
      const base = answers[i]!.subarray((end - 1) * vocabSize, end * vocabSize);
      report.equal(way, `greedy.${i}, the first of whole`, tokens, greedy[i]!.subarray(0, tokensGiven(cases[i]!)), (array) => array);
      report.equal(way, `logits.${i} after them, bits of whole`, logits, base, (array) => array);
    }
  }
}

/** Whether tokens are those of exact arithmetic: otherwise one may differ, and so may all later ones. */
const isExact = ({ dtype, activations }: CheckSettings): boolean => dtype === "f32" && activations === "exact";

/** Compares with the references, if there are any. */
function compare(report: Report, way: string, model: LanguageModel, cases: readonly ModelCase[], readings: readonly Reading[], answers: Answers, settings: CheckSettings): void {
  const kind = model.config.experts === undefined ? "dense" : "mixture";
  const bound = settings.activations === "int8" ? int8Bounds[kind] : (kind === "dense" ? modelBounds : mixtureBounds)[settings.dtype];
  for (const { index, expected } of cases) {
    if (expected === undefined) continue;
    const { logits, greedy } = split(answers[index]!, readings[index]!.prompt, model.config.vocabSize);
    report.near(way, `logits.${index}`, logits, expected.logits, bound);
    if (isExact(settings)) report.near(way, `greedy_logits.${index}`, greedy, expected.greedyLogits, bound);
  }
}

/** The logits of the prompt's tokens, and those that each later token is chosen from. */
function split(answer: Float32Array, prompt: number, vocabSize: number): { logits: Float32Array; greedy: Float32Array } {
  return { logits: answer.subarray(0, prompt * vocabSize), greedy: answer.subarray((prompt - 1) * vocabSize) };
}

function chosen(logits: Float32Array, { config: { vocabSize } }: LanguageModel): Int32Array {
  return Int32Array.from({ length: logits.length / vocabSize }, (_, i) => largest(logits.subarray(i * vocabSize, (i + 1) * vocabSize)));
}
