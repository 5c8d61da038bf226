/** A request of a schedule, as seen from outside: how far it is, and whether it can continue. */
import type { LanguageModel, Session } from "../../lib/model.ts";

/** A text whose beginning is read once for several requests: later ones wait for the first. */
export interface Beginning {
  readonly tokens: readonly number[];
  readonly salt: string;
  /** Requests do not wait for fewer tokens than this. */
  readonly step: number;
}

/** An answer, or the reading of tokens, from its request to its end. */
export class Request {
  readonly name: string;
  /** Later requests have higher numbers. */
  readonly number: number;
  readonly #session: Session;
  #read: number;
  /** Whether the request has given something since the last look. */
  gave = false;
  /** The number of calls that wait for it. */
  asked = 0;
  /** Steps in a row without it in which a later one took part. */
  behind = 0;
  /** The most of these steps so far. */
  furthest = 0;
  /** Whether others may overtake it, or wait for it: if its consumer is slow, or its session is being saved. */
  exempt: boolean;
  /** The beginning of the text, for a session with a cache. */
  readonly #beginning: Beginning | undefined;

  constructor(name: string, number: number, session: Session, exempt: boolean, beginning: Beginning | undefined) {
    this.name = name;
    this.number = number;
    this.#beginning = beginning;
    this.#session = session;
    this.exempt = exempt;
    this.#read = this.read;
  }

  get length(): number {
    return this.#session.length;
  }

  get read(): number {
    return this.#session.disposed ? 0 : this.#session.read;
  }

  /** Whether it may wait for an earlier one to read their common prefix. */
  #waitsFor(earlier: Request): boolean {
    const [a, b] = [this.#beginning, earlier.#beginning];
    if (a === undefined || b === undefined || a.salt !== b.salt || this.read > 0) return false;
    return a.tokens.slice(0, a.step).every((token, i) => token === b.tokens[i]);
  }

  /**
   * Whether it can take part in the next step, whatever later requests do: whether there are states and pages for it and for all
   * earlier ones, none of which waits for its consumer, and prompt tokens for it.
   */
  canGoOn(earlier: readonly Request[], model: LanguageModel, promptTokens: number): boolean {
    if (earlier.some((other) => other.asked === 0 || this.#waitsFor(other))) return false;
    const all = [...earlier, this];
    if (all.length > model.states) return false;
    // One more page, in case the last one is shared.
    const pages = all.reduce((sum, { length }) => sum + Math.ceil((length + 1) / model.pageTokens) + 1, 0);
    if (model.pages > 0 && pages > model.pages) return false;
    // Each prompt gets half of the tokens that the prompts before it leave.
    return promptTokens >= 2 ** earlier.filter((other) => other.length - other.read > 1).length;
  }

  /** Whether it has progressed since the last call, and whether its memory was taken. */
  look(): { readonly moved: boolean; readonly taken: boolean } {
    const { read } = this;
    const moved = this.gave || read > this.#read;
    const taken = read < this.#read && !this.#session.disposed;
    this.#read = read;
    this.gave = false;
    return { moved, taken };
  }
}
