/**
 * Compares the tokens of a session with those of the text that it should have. Generated tokens may differ from the tokens
 * that a tokenizer makes of their text; they are kept if the text is the same.
 */
import type { TokenBytes } from "../text/tokenizer.ts";

/** The end of the tokens that a session keeps, and the start of those that follow. */
export interface Splice {
  /** How many of the session's tokens are kept. */
  readonly kept: number;
  /** How many of the text's tokens the kept ones stand for. */
  readonly covered: number;
}

/**
 * The most tokens that can be kept. Outside generated tokens, control tokens and other added tokens are kept only where the
 * text has the same ones: equal spelling does not make text a control token, or a control token text.
 *
 * @param had the session's tokens.
 * @param wanted the tokens of the text.
 * @param generated whether the session's token at a position was generated.
 */
export function spliceOf(had: readonly number[], wanted: readonly number[], bytes: TokenBytes, generated: (position: number) => boolean): Splice {
  let at: Splice = { kept: 0, covered: 0 };
  for (;;) {
    let { kept, covered } = at;
    while (kept < had.length && covered < wanted.length && had[kept] === wanted[covered]) {
      kept++;
      covered++;
    }
    const next = afterSameText({ kept, covered }, had, wanted, bytes, generated);
    if (next === undefined) return { kept, covered };
    at = next;
  }
}

const none = new Uint8Array();

/** The next place where tokens of the same text end in both; undefined if the texts differ before it, or one ends. */
function afterSameText(
  { kept, covered }: Splice,
  had: readonly number[],
  wanted: readonly number[],
  { bytesOf, isAdded }: TokenBytes,
  generated: (position: number) => boolean,
): Splice | undefined {
  /** Bytes of the last tokens that have not been compared yet. */
  let left: Uint8Array = none;
  let right: Uint8Array = none;
  do {
    if (left.length === 0) {
      const token = had[kept];
      const next = token === undefined || (isAdded(token) && !generated(kept)) ? undefined : bytesOf(token);
      if (next === undefined) return undefined;
      left = next;
      kept++;
    }
    if (right.length === 0) {
      const token = wanted[covered];
      const next = token === undefined || (isAdded(token) && !generated(kept - 1)) ? undefined : bytesOf(token);
      if (next === undefined) return undefined;
      right = next;
      covered++;
    }
    const length = Math.min(left.length, right.length);
    for (let i = 0; i < length; i++) if (left[i] !== right[i]) return undefined;
    left = left.subarray(length);
    right = right.subarray(length);
  } while (left.length + right.length > 0);
  return { kept, covered };
}
