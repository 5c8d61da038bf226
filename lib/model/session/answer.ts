import { AnswerParts } from "./answer-parts.ts";
import type { Conversation } from "./conversation.ts";
import { runningError } from "./conversation.ts";
import { noToken } from "./generation.ts";
import type { Generation } from "./generation.ts";
import type { Session } from "./session.ts";
import type { Piece } from "./session-options.ts";

const over = { done: true, value: undefined } as const;

/**
 * The pieces of an answer. Unlike with an ordinary async generator, leaving the answer also ends a pending {@link next}.
 */
export class Answer implements AsyncGenerator<Piece, void, void> {
  /** Keeps the session reachable: the session would end when garbage-collected. */
  readonly session: Session;
  readonly #of: Conversation;
  readonly #begin: (left: AbortSignal, ended: boolean) => Generation;
  readonly #left = new AbortController();
  #generation: Generation | undefined;
  #parts: AnswerParts | undefined;
  #over = false;
  /** Settles when all calls so far are over; undefined if they already are. */
  #last: Promise<void> | undefined;

  /** @param begin starts the generation when its first piece is requested; `ended`: whether the answer to messages has already ended. */
  constructor(session: Session, of: Conversation, begin: (left: AbortSignal, ended: boolean) => Generation) {
    this.session = session;
    this.#of = of;
    this.#begin = begin;
  }

  next(): Promise<IteratorResult<Piece, void>> {
    return this.#inTurn(() => this.#next());
  }

  return(): Promise<IteratorResult<Piece, void>> {
    this.#left.abort(over);
    return this.#inTurn(async () => {
      this.#end();
      return over;
    });
  }

  async throw(error: unknown): Promise<IteratorResult<Piece, void>> {
    await this.return();
    throw error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #next(): Promise<IteratorResult<Piece, void>> {
    if (this.#over || this.#left.signal.aborted) return over;
    try {
      this.#generation ??= this.#started();
      const parts = this.#parts!;
      const piece = await this.#generation.next();
      // An answer that has already ended ends in the same way.
      const end = parts.ended && piece.token === noToken ? ({ end: "token" } as const) : {};
      const value = { ...piece, ...end, parts: parts.of(piece) };
      if (value.end !== undefined) this.#end();
      return { done: false, value };
    } catch (error) {
      this.#end();
      if (error === over) return over;
      throw error;
    }
  }

  #started(): Generation {
    if (this.#of.running !== undefined) throw runningError("session.generate", this.#of.running);
    const parts = new AnswerParts(this.#of);
    const generation = this.#begin(this.#left.signal, parts.ended);
    this.#parts = parts;
    this.#of.beginRequest("a generation");
    return generation;
  }

  #end(): void {
    if (this.#over) return;
    this.#over = true;
    if (this.#generation === undefined) return;
    this.#generation.close();
    this.#of.endRequest();
  }

  /** Runs calls one after another; a single call starts at once. */
  async #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#last = promise;
    if (before !== undefined) await before;
    try {
      return await run();
    } finally {
      if (this.#last === promise) this.#last = undefined;
      resolve();
    }
  }
}
