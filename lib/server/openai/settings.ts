/** Settings that OpenAI's APIs have in common, as options of a generation. */
import type { GenerateOptions } from "../../model/session/session-options.ts";
import type { Served } from "../api.ts";

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

/** The least sum of probabilities: 0 asks for the most likely token. */
const leastTopP = 1e-9;

/** The options of a body's settings. Those that it leaves out are left out. */
export function settingsOf(body: Settings, maxTokens: number | null | undefined, { answerTokens }: Served): GenerateOptions {
  const { seed, top_p: topP, top_k: topK } = body;
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
    minTokens: body.min_tokens,
    stop: body.stop,
    maxTokens: Math.min(typeof maxTokens === "number" && maxTokens > 0 ? maxTokens : Infinity, answerTokens),
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined && value !== null)) as GenerateOptions;
}
