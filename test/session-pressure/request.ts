/** A request of a schedule, as it can be seen from outside: how far it is, and whether it can go on. */
import type { LanguageModel, Session } from "../../lib/model.ts";

/** A text whose beginning is read once where several requests have it: later ones wait for the first. */
export interface Beginning {
  readonly tokens: readonly number[];
  readonly salt: string;
  /** Fewer tokens are not waited for. */
  readonly step: number;
}

/** An answer, or a reading, from when it is asked for to its end. */
export class Request {
  readonly name: string;
  /** Requests that came later have higher ones. */
  readonly number: number;
  readonly #session: Session;
  #read: number;
  /** Whether it has given something since it was looked at. */
  gave = false;
  /** How often something is waited for. */
  asked = 0;
  /** Steps in a row of which it had no part while a later one had. */
  behind = 0;
  /** As many as there were at most. */
  furthest = 0;
  /** Whether others may be before it, or wait for it: where its consumer is slow, or its session is being saved. */
  exempt: boolean;
  /** Of a session with a cache. */
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

  /** Whether it may wait for an earlier one to read what the two have in common. */
  #waitsFor(earlier: Request): boolean {
    const [a, b] = [this.#beginning, earlier.#beginning];
    if (a === undefined || b === undefined || a.salt !== b.salt || this.read > 0) return false;
    return a.tokens.slice(0, a.step).every((token, i) => token === b.tokens[i]);
  }

  /**
   * Whether it can have a part in the next step, whatever later requests do: where there are states and pages for it and for all
   * earlier ones, none of which waits for its consumer, and tokens of prompts for it.
   */
  canGoOn(earlier: readonly Request[], model: LanguageModel, promptTokens: number): boolean {
    if (earlier.some((other) => other.asked === 0 || this.#waitsFor(other))) return false;
    const all = [...earlier, this];
    if (all.length > model.states) return false;
    // One page more, for a last one that is shared.
    const pages = all.reduce((sum, { length }) => sum + Math.ceil((length + 1) / model.pageTokens) + 1, 0);
    if (model.pages > 0 && pages > model.pages) return false;
    // Each prompt gets half of what those before it have left.
    return promptTokens >= 2 ** earlier.filter((other) => other.length - other.read > 1).length;
  }

  /** Whether it has got further since this was asked last, and whether what it had read was taken from it. */
  look(): { readonly moved: boolean; readonly taken: boolean } {
    const { read } = this;
    const moved = this.gave || read > this.#read;
    const taken = read < this.#read && !this.#session.disposed;
    this.#read = read;
    this.gave = false;
    return { moved, taken };
  }
}
