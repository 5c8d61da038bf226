/** Ctrl-C, and other signals that ask for an end. */
import { constants } from "node:os";

/** Signals within this many milliseconds come from one key press, even on a busy machine. */
const samePress = 1000;

/** When the last press came: its second signal may come when another object listens. */
let since = -Infinity;

type Ending = "SIGINT" | "SIGTERM";

/**
 * Counts requests to end until it is disposed. A terminal sends Ctrl-C to the program that started this one as well, which passes it on,
 * so that one key press can be two signals.
 */
export class Presses implements Disposable {
  readonly #names: readonly Ending[];
  readonly #take: () => void;
  #over = false;

  /** @param pressed called with the number of each request, from 1 on. */
  constructor(names: readonly Ending[], pressed: (count: number) => void) {
    this.#names = names;
    let count = 0;
    this.#take = () => {
      const now = performance.now();
      if (now - since <= samePress) return;
      since = now;
      if (!this.#over) pressed(++count);
    };
    for (const name of names) process.on(name, this.#take);
  }

  [Symbol.dispose](): void {
    this.#over = true;
    const off = (): void => {
      for (const name of this.#names) process.off(name, this.#take);
    };
    // Without a listener, the second signal of the last press would end the process.
    const left = since + samePress - performance.now();
    if (left > 0) setTimeout(off, left).unref();
    else off();
  }
}

/** Until it is disposed, Ctrl-C aborts its signal, and a second Ctrl-C ends the process. */
export class Interrupt implements Disposable {
  readonly #controller = new AbortController();
  readonly #presses = new Presses(["SIGINT"], (count) => {
    if (count > 1) process.exit(128 + constants.signals.SIGINT);
    this.#controller.abort(this);
  });

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    this.#presses[Symbol.dispose]();
  }
}
