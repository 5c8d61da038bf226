/** Probabilities of tokens in OpenAI's form. */
import type { LanguageModel } from "../../model/language-model.ts";
import { tokenBytes } from "../../model/text/tokenizer.ts";
import type { TokenChoice } from "../answer-event.ts";

/** The least logarithm: JSON has no infinity. */
const least = -9999;

const backslash = 0x5c;

/**
 * A token with its text, its bytes, and the most likely tokens at its place.
 *
 * @param prefix begins the name of a token whose bytes are not UTF-8.
 */
export function logprobOf({ text: { tokenizer } }: LanguageModel, { token, logprob, top }: TokenChoice, prefix = "") {
  const { bytesOf } = tokenBytes(tokenizer);
  const described = (id: number, value: number) => {
    const bytes = bytesOf(id) ?? new Uint8Array();
    return { token: nameOf(bytes, prefix), logprob: Math.max(value, least), bytes: [...bytes] };
  };
  return { ...described(token, logprob), top_logprobs: top.map((one) => described(one.token, one.logprob)) };
}

/** The text of a token, or its bytes if they are not UTF-8, such as half a character: printable ASCII, and `\xNN` for all others. */
function nameOf(bytes: Uint8Array, prefix: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    const written = Array.from(bytes, (byte) => (byte >= 0x20 && byte < 0x7f && byte !== backslash ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`));
    return prefix + written.join("");
  }
}
