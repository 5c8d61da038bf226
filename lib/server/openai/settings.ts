/** The common settings of OpenAI's APIs, as options of a generation. */
import type { GenerateOptions } from "../../model/session/session-options.ts";
import type { Served } from "../api.ts";
import { Problem } from "../problem.ts";

/** The members of bodies that are settings. */
interface Settings {
  readonly temperature?: number | null | undefined;
  readonly top_p?: number | null | undefined;
  readonly frequency_penalty?: number | null | undefined;
  readonly presence_penalty?: number | null | undefined;
  readonly seed?: number | bigint | null | undefined;
  readonly logit_bias?: Readonly<Record<string, number>> | null | undefined;
  readonly top_k?: number | null | undefined;
  readonly min_p?: number | null | undefined;
  readonly repetition_penalty?: number | null | undefined;
  readonly min_tokens?: number | null | undefined;
  readonly stop?: string | readonly string[] | null | undefined;
}

/**
 * How many answers a body asks for.
 *
 * @throws {Problem} for more than the server allows, and for none.
 */
export function answersOf(n: number | null | undefined, { answers }: Served): number {
  const asked = n ?? 1;
  if (asked < 1 || asked > answers) throw new Problem("invalid", `n: expected an integer in 1..${answers}, got ${asked}`, { member: "n" });
  return asked;
}

/** The least sum of probabilities: 0 asks for the most likely token. */
const leastTopP = 1e-9;

/**
 * The options of a body's settings, without those that it leaves out.
 *
 * @throws {Problem} if the least number of tokens exceeds the largest.
 */
export function settingsOf(body: Settings, asked: number | null | undefined, { answerTokens }: Served): GenerateOptions {
  const { seed, top_p: topP, top_k: topK, min_tokens: minTokens } = body;
  const maxTokens = Math.min(typeof asked === "number" && asked > 0 ? asked : Infinity, answerTokens);
  if ((minTokens ?? 0) > maxTokens) throw new Problem("invalid", `min_tokens: expected an integer in 0..${maxTokens}, the most tokens of this answer, got ${minTokens}`, { member: "min_tokens" });
  const given = {
    temperature: body.temperature,
    topP: typeof topP === "number" ? Math.max(topP, leastTopP) : topP,
    topK: topK === -1 ? 0 : topK, // −1 is another way to write "all"
    minP: body.min_p,
    repetitionPenalty: body.repetition_penalty,
    frequencyPenalty: body.frequency_penalty,
    presencePenalty: body.presence_penalty,
    logitBias: body.logit_bias,
    seed: seed === undefined || seed === null ? undefined : Number(BigInt.asUintN(53, BigInt(seed))),
    minTokens,
    stop: body.stop,
    maxTokens,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null)) as GenerateOptions;
}
