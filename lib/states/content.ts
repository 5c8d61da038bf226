/**
 * Whether a state's slot holds the result of its steps. A failed submission leaves the slots that it should have written
 * undefined, and so does every later pass that reads those slots.
 */

/** The content of one slot, shared by the states that were forked from one another. */
export interface Content {
  /** Why the content is lost; undefined if it is not, or if that is not known yet. */
  failure: Error | undefined;
  /** The content that the pass read, while the outcome of the pass is unknown. */
  source: Content | undefined;
  /** The outcome that the content depends on. */
  waitsFor: Outcome | undefined;
}

/** Content that depends on no pass: zeros, or the content of a file. */
export function soundContent(): Content {
  return { failure: undefined, source: undefined, waitsFor: undefined };
}

/** Lost content. */
export function lostContent(failure: Error): Content {
  return { failure, source: undefined, waitsFor: undefined };
}

/** The outcome of one pass's submissions, for everything that the pass wrote. */
export class Outcome {
  #failure: Error | undefined;
  #waiting = 0;
  readonly #contents: Content[] = [];

  /** The failure of one of the submissions, if any is known. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** Adds a submission with work of the pass. */
  expect(): void {
    this.#waiting++;
  }

  /** Ends one of the submissions. They end in order, so the outcomes of the pass's sources are known. */
  settle(failure: Error | undefined): void {
    this.#waiting--;
    this.#failure ??= failure;
    for (const content of this.#contents) content.failure ??= this.#failure ?? content.source?.failure;
    if (this.#waiting > 0) return;
    for (const content of this.#contents) content.source = content.waitsFor = undefined;
    this.#contents.length = 0;
  }

  /** The content that the pass made of `source`. */
  contentFrom(source: Content): Content {
    // A pass whose work was done only by kernels of other libraries has no submission: only its source can be lost.
    const waitsFor = this.#waiting > 0 ? this : source.waitsFor;
    const failure = this.#failure ?? source.failure;
    const content = { failure, source: waitsFor === undefined ? undefined : source, waitsFor };
    if (waitsFor !== undefined) waitsFor.#contents.push(content);
    return content;
  }
}
