import { nextTurn } from "../turns.ts";

/**
 * Turns to run a model: steps of sessions and calls of `model.run` are served in order of arrival. The next turn begins
 * in a later turn of the event loop, so that results can be read before they are overwritten.
 */
export class RunTurns {
  readonly #waiting: (() => void)[] = [];
  #taken = false;

  /** Whether {@link take} would wait. */
  get taken(): boolean {
    return this.#taken;
  }

  /** Whether others wait for the turn that is taken. */
  get contended(): boolean {
    return this.#waiting.length > 0;
  }

  /** Takes the next turn. {@link give} ends it. */
  take(): Promise<void> {
    if (this.#taken) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#taken = true;
    return Promise.resolve();
  }

  /** Ends the turn that was taken last. */
  give(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken = false;
    else void nextTurn().then(next);
  }
}
