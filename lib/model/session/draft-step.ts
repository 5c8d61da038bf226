/**
 * The step of a session that guesses its next tokens: it reads what was not read and, behind the last token, the guesses.
 * As many tokens are chosen as the guesses in a row that are right, and one more.
 *
 * A state can't go back, and the consumer of an answer may leave it before any of the chosen tokens. So the verification stays
 * open until they were given out, or the session does something else: {@link Conversation.settle} then accepts as many
 * guesses as were given out, but for the last token, which is read with those that follow it, as without guesses. Nothing is
 * read twice, and the sequence never has a token that the session has not.
 */
import { verificationOf } from "../run-result.ts";
import type { RunResult } from "../run-result.ts";
import { ReadAll } from "./conversation.ts";
import type { Conversation } from "./conversation.ts";
import type { Reserve, WorkEntry } from "./scheduler.ts";

/** Tokens that are read together with guesses; more are read first. */
const mostCertain = 16;

export class DraftStep extends ReadAll {
  readonly #of: Conversation;
  readonly #drafts: readonly number[];
  readonly #choose: (logits: Float32Array) => number | undefined;

  /** @param choose the token after that of a row of logits; undefined where none is wanted any more. */
  constructor(of: Conversation, drafts: readonly number[], choose: (logits: Float32Array) => number | undefined) {
    super(of, ({ logits }) => void choose(logits));
    this.#of = of;
    this.#drafts = drafts;
    this.#choose = choose;
  }

  override get whole(): boolean {
    const { sequence, tokens, read } = this.#of;
    return sequence !== undefined && !sequence.disposed && tokens.length - read <= mostCertain;
  }

  override next(most: number): readonly WorkEntry[] {
    const [entry] = super.next(most) as [WorkEntry];
    const { tokens, logits } = entry;
    if (logits !== "last" || tokens.length > mostCertain) return [entry];
    return [{ ...entry, tokens: [...tokens, ...this.#drafts], drafts: this.#drafts.length }];
  }

  override ran(results: readonly RunResult[]): boolean {
    const [result] = results as [RunResult];
    const verification = verificationOf(result);
    if (verification === undefined) return super.ran(results);
    const { logits } = result;
    const { vocabSize } = this.#of.model.config;
    const row = (i: number): Float32Array => logits.subarray(i * vocabSize, (i + 1) * vocabSize);
    let right = 0;
    while (this.#choose(row(right)) === this.#drafts[right] && right < verification.drafts) right++;
    verification.narrow(right);
    return true;
  }
}

/**
 * The pages of a session's guesses that were right and not given out, for others that need them: the session reads those tokens
 * again. A reference to this does not keep the session from being collected.
 */
export function guessesOf(of: Conversation): Reserve {
  const weak = new WeakRef(of);
  const { scheduler } = of;
  const reserve: Reserve = {
    evict() {
      const of = weak.deref();
      if (of === undefined) scheduler.remove(reserve);
      if (of?.verifying !== true) return false;
      of.settle();
      return true;
    },
  };
  return reserve;
}
