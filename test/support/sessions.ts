/** The expected results of sessions, from a separate sequence that reads one token at a time. */
import type { LanguageModel } from "../../lib/model.ts";
import type { GenerateOptions, Piece } from "../../lib/model.ts";
import { readLogitBias } from "../../lib/model/sampling/logit-bias.ts";
import { Sampler } from "../../lib/model/sampling/sampler.ts";
import { settingsOf } from "../../lib/model/sampling/settings.ts";

/** The results of a cold run. */
export interface Cold {
  /** The chosen tokens. */
  readonly tokens: number[];
  /** The logits from which each was chosen. */
  readonly logits: Float32Array[];
}

/** Reads a prompt as a whole, alone, and continues token by token for `count` tokens, end tokens included. */
export async function coldRun(model: LanguageModel, prompt: readonly number[], count: number, options: GenerateOptions = {}): Promise<Cold> {
  using sequence = model.sequence();
  const { vocabSize } = model.config;
  const settings = settingsOf(options, options.sampling === "model" ? model.modelSampling() : {});
  const parts = { logitBias: readLogitBias("coldRun", options.logitBias, vocabSize), processors: options.processors };
  const sampler = new Sampler(settings, options.seed ?? 0, vocabSize, parts);
  sampler.saw(prompt);
  const cold: Cold = { tokens: [], logits: [] };
  let next: readonly number[] = prompt;
  for (let i = 0; i < count; i++) {
    const [result] = await model.run([{ sequence, tokens: next, role: i === 0 ? "read" : "generated" }]);
    const row = result!.logits.slice();
    const token = sampler.choose(row, prompt.length + i);
    sampler.saw([token], true);
    cold.tokens.push(token);
    cold.logits.push(row);
    next = [token];
  }
  return cold;
}

/** All pieces of an iterator. */
export async function collect(pieces: AsyncIterable<Piece>): Promise<Piece[]> {
  const found: Piece[] = [];
  for await (const piece of pieces) found.push(piece);
  return found;
}

/** The tokens of an iterator's pieces. */
export async function tokensOf(pieces: AsyncIterable<Piece>): Promise<number[]> {
  return (await collect(pieces)).map(({ token }) => token);
}

export const textOfPieces = (pieces: readonly Piece[]) => pieces.map(({ text }) => text).join("");
