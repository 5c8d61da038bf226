/** Ctrl-C while something runs. */
import { constants } from "node:os";

/** Signals within this many milliseconds come from one key press, also on a busy machine. */
const samePress = 1000;

/**
 * Until it is disposed, Ctrl-C aborts its signal, and a second Ctrl-C ends the process. A terminal sends the signal to npx as well, which
 * passes it on, so that one key press can be two signals.
 */
export class Interrupt implements Disposable {
  readonly #controller = new AbortController();
  readonly #take: () => void;

  constructor() {
    let since = Infinity;
    this.#take = () => {
      if (performance.now() - since > samePress) process.exit(128 + constants.signals.SIGINT);
      if (since === Infinity) since = performance.now();
      this.#controller.abort(this);
    };
    process.on("SIGINT", this.#take);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    process.off("SIGINT", this.#take);
  }
}
