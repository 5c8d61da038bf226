/**
 * The tokens that may come at each position of an answer that follows a grammar. The grammar begins where thoughts end; line ends may come
 * between the two, as chat templates write them. Masks come from a Worker: they are requested as soon as the tokens before them are known,
 * and are made while the model runs.
 */
import { GatedDeltaError } from "../../errors.ts";
import type { Barred } from "../sampling/sampler.ts";
import type { Masks, Matching } from "./matchers.ts";

export interface ConstraintParts {
  readonly op: string;
  /** The option that constrains the answer, for errors. */
  readonly argument: string;
  readonly matching: Promise<Matching>;
  /** End tokens of the model, and those of the caller. */
  readonly ends: readonly number[];
  readonly stopTokens: ReadonlySet<number>;
  /** Tokens of tags, which are not text of the grammar. */
  readonly tags: ReadonlySet<number>;
  /** Tokens of line ends, and how many each has. */
  readonly lineEnds: ReadonlyMap<number, number>;
}

/** The most line ends between thoughts and the grammar's text. */
const mostLineEnds = 2;

export class Constraint {
  readonly #parts: ConstraintParts;
  /** Tokens of the grammar's text that the Worker does not have yet. */
  #pending: number[] = [];
  /** Line ends that may still come before the text. */
  #lineEnds: number;
  #begun = false;
  /** Masks for the next positions to which the constraint applies. */
  #masks: Masks = [];
  #asked: Promise<void> | undefined;
  #closed = false;

  /** @param open whether the answer began inside thoughts. */
  constructor(parts: ConstraintParts, open: boolean) {
    this.#parts = parts;
    this.#lineEnds = open ? mostLineEnds : 0;
  }

  /** Whether the mask of the next position has arrived. */
  get ready(): boolean {
    return this.#masks.length > 0;
  }

  /** Takes a token that was chosen after thoughts. */
  chose(token: number): void {
    this.#masks = this.#masks.slice(1);
    this.#asked = undefined;
    const ends = this.#begun ? undefined : this.#parts.lineEnds.get(token);
    if (ends !== undefined && ends <= this.#lineEnds) {
      this.#lineEnds -= ends;
      this.#masks = [];
      return;
    }
    this.#begun = true;
    if (!this.#parts.stopTokens.has(token)) this.#pending.push(token);
  }

  /** Asks for the mask of the next position, and for those after guesses. Never throws: {@link arrived} does. */
  ask(guesses: readonly number[] = []): void {
    if (this.#asked !== undefined && guesses.length === 0) return;
    this.#asked = this.#ask(guesses);
    this.#asked.catch(() => {});
  }

  /** Waits for the masks that were asked for. */
  async arrived(): Promise<void> {
    await this.#asked;
  }

  /**
   * Waits for the masks of the next position and after guesses.
   *
   * @returns the allowed guesses.
   */
  async after(guesses: readonly number[]): Promise<readonly number[]> {
    // Line ends before the text do not go to the Worker.
    this.ask(this.#lineEnds > 0 && !this.#begun ? [] : guesses);
    await this.arrived();
    return guesses.slice(0, this.#masks.length - 1);
  }

  async #ask(guesses: readonly number[]): Promise<void> {
    this.#masks = []; // those after guesses that were wrong
    const { op, argument } = this.#parts;
    const matching = await this.#parts.matching;
    const tokens = this.#pending;
    this.#pending = [];
    const found = await matching.next(tokens, guesses);
    if ("masks" in found) {
      this.#masks = found.masks;
      return;
    }
    const message = `the answer so far does not fit ${argument} from its token ${found.unfit + 1} on: append a message before the next answer`;
    throw new GatedDeltaError("state", { op, argument, message });
  }

  /** The tokens that can't come next. */
  barred(): Barred {
    const { ends, stopTokens, tags, lineEnds, argument } = this.#parts;
    const allowed = this.#masks[0]!.slice();
    const has = (id: number): boolean => ((allowed[id >> 5]! >> (id & 31)) & 1) === 1;
    const set = (id: number, on: boolean): void => {
      if (on) allowed[id >> 5]! |= 1 << (id & 31);
      else allowed[id >> 5]! &= ~(1 << (id & 31));
    };
    const mayEnd = has(ends[0]!);
    for (const id of stopTokens) set(id, mayEnd);
    if (!this.#begun) for (const [id, count] of lineEnds) set(id, count <= this.#lineEnds || (this.#lineEnds === 0 && has(id)));
    for (const id of tags) set(id, false);
    return { allowed, by: argument };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#parts.matching.then((matching) => matching.close(), () => {});
  }
}
