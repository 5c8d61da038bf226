/** Probabilities of tokens in OpenAI's form. */
import type { LanguageModel } from "../../model/language-model.ts";
import { tokenBytes } from "../../model/text/tokenizer.ts";
import type { TokenChoice } from "../answer-event.ts";

/** The least logarithm: JSON has no infinity. */
const least = -9999;

/** A token with its text, its bytes, and the most likely tokens at its place. */
export function logprobOf({ text: { tokenizer } }: LanguageModel, { token, logprob, top }: TokenChoice) {
  const { bytesOf } = tokenBytes(tokenizer);
  const described = (id: number, value: number) => {
    const bytes = bytesOf(id) ?? new Uint8Array();
    return { token: new TextDecoder().decode(bytes), logprob: Math.max(value, least), bytes: [...bytes] };
  };
  return { ...described(token, logprob), top_logprobs: top.map((one) => described(one.token, one.logprob)) };
}
