import { entryOf } from "../batch.ts";
import type { Entry } from "../batch.ts";
import type { RunResult } from "../run-result.ts";
import type { Conversation } from "./conversation.ts";
import type { Work } from "./scheduler.ts";
import { roleAt } from "./roles.ts";
import type { ReadProgress } from "./session-options.ts";

/** Options of {@link ReadAll}. */
export interface ReadAllOptions {
  /** Reads up to this token. @default all tokens */
  readonly to?: number;
  /** Called with the last token's result. Without it no logits are computed. */
  readonly take?: (result: RunResult) => void;
  /** How many of the largest logits the result also contains. @default 0 */
  readonly best?: number | undefined;
  /** Whether the answer most likely continues with the token of the largest logit. */
  readonly goesOn?: boolean | undefined;
  /** Whether the result also contains the token's hidden state. */
  readonly hidden?: boolean | undefined;
  readonly onProgress?: ((progress: ReadProgress) => void) | undefined;
}

/**
 * Reads the unread tokens, in pieces if there are many or if bits depend on their roles, and keeps intermediate positions in the
 * cache.
 */
export class ReadAll implements Work {
  readonly #of: Conversation;
  readonly #to: number;
  readonly #options: ReadAllOptions;
  /** Positions to keep in the cache, including those already reached, for the reading that began at {@link #from}. */
  #positions: { readonly position: number; readonly likely: number }[] = [];
  #from: number | undefined;

  constructor(of: Conversation, options: ReadAllOptions) {
    this.#of = of;
    this.#to = options.to ?? of.tokens.length;
    this.#options = options;
  }

  get left(): number {
    return this.#to - this.#of.read;
  }

  get whole(): boolean {
    return this.#of.memory.ready && this.left === 1;
  }

  next(most: number): Entry {
    const { tokens, read, sequence, generated, byRole } = this.#of;
    const until = this.#plan().find(({ position }) => position > read)?.position ?? this.#to;
    // An entry of several roles has the role of its first token.
    const { role, end: sameRole } = roleAt(generated, read);
    const end = Math.min(until, read + most, byRole ? sameRole : Infinity);
    const last = end === this.#to && this.#options.take !== undefined;
    const hidden = last && this.#options.hidden === true ? "last" : "none";
    return entryOf({ sequence: sequence!, tokens: tokens.slice(read, end), role, logits: last ? "last" : "none", hidden, best: last ? this.#options.best : 0, goesOn: last && this.#options.goesOn });
  }

  ran(result: RunResult): boolean {
    const { read } = this.#of;
    const reached = this.#positions.find(({ position }) => position === read);
    if (reached !== undefined) this.#of.keep(reached.likely);
    if (this.#to - this.#from! > 1) this.#options.onProgress?.({ read, total: this.#to });
    if (read < this.#to) return false;
    this.#options.take?.(result);
    return true;
  }

  /**
   * Plans to keep the state after `position` tokens, unless an earlier kept position is too close to it.
   *
   * @returns the position that is kept; 0 for none.
   */
  keepAt(position: number): number {
    const { read, context: { cache } } = this.#of;
    const positions = this.#plan();
    const before = positions.findLastIndex((kept) => kept.position <= position);
    const last = positions[before]?.position ?? this.#from!;
    if (position <= read || position >= this.#to || position - last < cache!.step) return positions[before]?.position ?? 0;
    positions.splice(before + 1, 0, { position, likely: 1 });
    return position;
  }

  /** The positions to keep. They are chosen again if the reading starts again. */
  #plan(): { readonly position: number; readonly likely: number }[] {
    const { read, messageEnds, context: { cache } } = this.#of;
    if (this.#from !== undefined && read >= this.#from) return this.#positions;
    this.#from = read;
    // Single tokens of an answer are not kept.
    return (this.#positions = this.#to - read > 1 ? (cache?.positions(read, this.#to - 1, messageEnds) ?? []) : []);
  }
}
