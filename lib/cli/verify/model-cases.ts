/**
 * The cases of a model that is verified: prompts and their continuations. `expected.safetensors` in the model's folder has
 * `prompt.N` i32 `[T]`; `logits.N` `[T, vocab]`; `greedy.N` i32 `[G]`, the tokens of greedy decoding, past end
 * tokens; and `greedy_logits.N` `[G, vocab]`, the logits that each was chosen from. Without the file, prompts are random.
 */

import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { ModelConfig } from "../../model/model-config.ts";
import { GoldenFile } from "./golden-file.ts";

/** References of one case. */
export interface ExpectedCase {
  /** `[T, vocab]`. */
  readonly logits: Float64Array;
  /** `[G]`. */
  readonly greedy: Int32Array;
  /** `[G, vocab]`. */
  readonly greedyLogits: Float64Array;
}

/** One prompt. */
export interface ModelCase {
  readonly index: number;
  readonly prompt: Int32Array;
  /** Number of tokens to choose after the prompt. */
  readonly steps: number;
  readonly expected: ExpectedCase | undefined;
}

/** The cases of one file. */
export interface ExpectedCases {
  readonly path: string;
  readonly cases: readonly ModelCase[];
  readonly vocabSize: number;
}

/** Lengths of the random prompts, and the number of tokens after them. */
const lengths = [37, 5, 1];
const steps = 16;

/** The cases of the file in a folder, or in a GGUF file's folder; undefined if there is no such file. */
export function expectedCases(folder: string): ExpectedCases | undefined {
  const path = join(statSync(folder).isFile() ? dirname(folder) : folder, "expected.safetensors");
  if (!existsSync(path)) return undefined;
  using file = new GoldenFile(path);
  const cases: ModelCase[] = [];
  for (let index = 0; file.source.has(`prompt.${index}`); index++) cases.push(readCase(file, index));
  if (cases.length === 0) throw file.bad("prompt.0, the tokens of a prompt", "none");
  return { path, cases, vocabSize: file.size("vocab") };
}

function readCase(file: GoldenFile, index: number): ModelCase {
  const [tokens, chosen] = [`T ${index}`, `G ${index}`];
  const prompt = file.integers(`prompt.${index}`, [tokens]);
  const logits = file.reference(`logits.${index}`, [tokens, "vocab"]);
  const greedy = file.integers(`greedy.${index}`, [chosen]);
  const greedyLogits = file.reference(`greedy_logits.${index}`, [chosen, "vocab"]);
  return { index, prompt, steps: greedy.length, expected: { logits, greedy, greedyLogits } };
}

/** The cases of a model without references. */
export function seededCases({ vocabSize, maxPositions }: ModelConfig): ModelCase[] {
  return lengths
    .map((length) => Math.min(length, maxPositions))
    .map((length, index) => ({
      index,
      prompt: seededTokens(index + 1, length, vocabSize),
      steps: Math.min(steps, maxPositions - length + 1),
      expected: undefined,
    }));
}

/** The size of {@link seededCases}. */
export const seededSize = { cases: lengths.length, longest: Math.max(...lengths) + steps } as const;

/** Token ids from a seed, by Knuth's multiplicative congruential generator (MMIX). */
export function seededTokens(seed: number, count: number, vocabSize: number): Int32Array {
  let state = BigInt(seed);
  return Int32Array.from({ length: count }, () => {
    state = BigInt.asUintN(64, state * 6364136223846793005n + 1442695040888963407n);
    return Number((state >> 33n) % BigInt(vocabSize));
  });
}
