/**
 * One step over guessed tokens. A state can't go back, so a fork of the sequence reads the guesses, and beside it, in the same
 * step, the sequence reads what is certain, but for the last token. Where all guesses were right the fork takes the sequence's place; where one
 * was not it is dropped, and the right ones before it are read again with what follows them: no step is lost either way.
 */
import { GatedDeltaError } from "../../errors.ts";
import type { BatchEntry } from "../model-options.ts";
import type { RunResult } from "../run-result.ts";
import type { Sequence } from "../sequence.ts";
import type { Conversation } from "./conversation.ts";
import type { Work } from "./scheduler.ts";

export class DraftStep implements Work {
  readonly whole = true;
  readonly preparing = false;
  readonly #of: Conversation;
  readonly #choose: (logits: Float32Array) => number | undefined;
  #drafts: readonly number[];
  #fork: Sequence | undefined;

  /**
   * @param of has a sequence, and few tokens that this has not read.
   * @param choose the token after that of a row of logits; undefined where none is wanted any more.
   */
  constructor(of: Conversation, drafts: readonly number[], choose: (logits: Float32Array) => number | undefined) {
    this.#of = of;
    this.#drafts = drafts;
    this.#choose = choose;
  }

  begin(): void {
    this.#of.begin();
    if (this.#fork !== undefined || this.#drafts.length === 0) return;
    try {
      this.#fork = this.#of.sequence!.fork();
    } catch (error) {
      // Without a state for the fork there are no guesses.
      if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory") throw error;
      this.#drafts = [];
    }
  }

  next(): readonly BatchEntry[] {
    const { tokens, read } = this.#of;
    const sequence = this.#of.sequence!;
    const certain = tokens.slice(read);
    if (this.#fork === undefined) return [{ sequence, tokens: certain, logits: "last" }];
    const guessed: BatchEntry = { sequence: this.#fork, tokens: [...certain, ...this.#drafts], logits: "all" };
    // The last token stays to be read: its logits are had again, whatever comes of the guesses.
    return certain.length === 1 ? [guessed] : [{ sequence, tokens: certain.slice(0, -1), logits: "none" }, guessed];
  }

  ran(results: readonly RunResult[]): boolean {
    const { logits, rows } = results.at(-1)!;
    const { vocabSize } = this.#of.model.config;
    const drafts = this.#drafts;
    let right = 0;
    for (let row = rows - drafts.length - 1; row < rows; row++, right++) {
      const token = this.#choose(logits.subarray(row * vocabSize, (row + 1) * vocabSize));
      if (token !== drafts[right]) break;
    }
    if (right < drafts.length) this.drop();
    return true;
  }

  /** The fork, where all guesses were right: it has read them. It is the caller's from then on. */
  take(): Sequence | undefined {
    const fork = this.#fork;
    this.#fork = undefined;
    return fork;
  }

  /** Gives the fork back. */
  drop(): void {
    this.#fork?.[Symbol.dispose]();
    this.#fork = undefined;
  }
}
