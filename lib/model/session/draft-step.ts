/**
 * The step of a session that guesses its next tokens: it reads the unread tokens and, after the last one, the guesses. It
 * chooses as many tokens as there are right guesses in a row, plus one.
 *
 * A state can't go back, and the consumer of an answer may leave it before any of the chosen tokens. So the verification
 * stays open until all chosen tokens are returned or the session does something else. {@link SessionMemory.settle} then
 * accepts the returned guesses, except for the last token, which is read with the next ones, as without guesses. Nothing is
 * read twice, and the sequence never has a token that the session lacks.
 */
import type { Entry } from "../batch.ts";
import { rowOf, verificationOf } from "../run-result.ts";
import type { LogitsRow, RunResult } from "../run-result.ts";
import type { Conversation } from "./conversation.ts";
import { ReadAll } from "./read-all.ts";
import type { ReadAllOptions } from "./read-all.ts";

/** The most unread tokens in a step with guesses; if there are more, they are read first. */
const mostCertain = 16;

export class DraftStep extends ReadAll {
  readonly #of: Conversation;
  readonly #drafts: readonly number[];
  readonly #choose: (row: LogitsRow) => number | undefined;

  /** @param choose returns the next token for a row of logits; undefined once the answer is over. */
  constructor(of: Conversation, drafts: readonly number[], choose: (row: LogitsRow) => number | undefined, options: ReadAllOptions) {
    super(of, { ...options, take: (result) => void choose(rowOf(result, 0)) });
    this.#of = of;
    this.#drafts = drafts;
    this.#choose = choose;
  }

  override get whole(): boolean {
    return this.#of.memory.ready && this.left <= mostCertain;
  }

  override next(most: number): Entry {
    const entry = super.next(most);
    const { tokens, role, logits } = entry;
    const together = role === "generated" || !this.#of.byRole;
    if (logits !== "last" || tokens.length > mostCertain || !together) return entry;
    return { ...entry, tokens: [...tokens, ...this.#drafts], drafts: this.#drafts.length };
  }

  override ran(result: RunResult): boolean {
    const verification = verificationOf(result);
    if (verification === undefined) return super.ran(result);
    let right = 0;
    while (this.#choose(rowOf(result, right)) === this.#drafts[right] && right < verification.drafts) right++;
    verification.narrow(right);
    return true;
  }
}
