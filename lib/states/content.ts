/**
 * Whether what a state's slot holds is what its steps computed. A submission that fails leaves anything in the slots
 * that it was to write, and so does every later pass that reads them.
 */

/** What one slot holds: shared by the states that were forked from one another. */
export interface Content {
  /** Why it is not what was computed; undefined where it is, or where that is not known yet. */
  failure: Error | undefined;
  /** What the pass read that made it, while it is not known how that went. */
  source: Content | undefined;
  /** Whose end decides. */
  waitsFor: Outcome | undefined;
}

/** Content that no pass has to confirm: zeros, or what a file held. */
export function soundContent(): Content {
  return { failure: undefined, source: undefined, waitsFor: undefined };
}

/** Content that was lost. */
export function lostContent(failure: Error): Content {
  return { failure, source: undefined, waitsFor: undefined };
}

/** How the submissions of one pass ended, for everything that it wrote. */
export class Outcome {
  #failure: Error | undefined;
  #waiting = 0;
  readonly #contents: Content[] = [];

  /** The failure of one of its submissions, as far as it is known. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** One more submission holds work of the pass. */
  expect(): void {
    this.#waiting++;
  }

  /** One of the submissions has ended. Submissions end in order, so how the pass's sources ended is known by now. */
  settle(failure: Error | undefined): void {
    this.#waiting--;
    this.#failure ??= failure;
    for (const content of this.#contents) content.failure ??= this.#failure ?? content.source?.failure;
    if (this.#waiting > 0) return;
    for (const content of this.#contents) content.source = content.waitsFor = undefined;
    this.#contents.length = 0;
  }

  /** What the pass made of `source`. */
  contentFrom(source: Content): Content {
    // A pass that only kernels of somebody else's worked for has no submission: what it read decides.
    const waitsFor = this.#waiting > 0 ? this : source.waitsFor;
    const failure = this.#failure ?? source.failure;
    const content = { failure, source: waitsFor === undefined ? undefined : source, waitsFor };
    if (waitsFor !== undefined) waitsFor.#contents.push(content);
    return content;
  }
}
