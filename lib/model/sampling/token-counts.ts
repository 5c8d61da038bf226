/** How often each token occurs among all added tokens or the last of them. */
export class TokenCounts {
  readonly #counts: Uint32Array;
  /** Tokens that were ever counted, each once. */
  readonly #ids: number[] = [];
  readonly #listed: Uint8Array;
  readonly #window: number;
  /** The last tokens, for a finite window: the n-th is at n modulo the window. */
  readonly #last: number[] | undefined;
  #added = 0;

  /** @param window how many of the last tokens count; Infinity for all. */
  constructor(vocabSize: number, window = Infinity) {
    this.#counts = new Uint32Array(vocabSize);
    this.#listed = new Uint8Array(vocabSize);
    this.#window = window;
    if (window !== Infinity) this.#last = [];
  }

  add(token: number): void {
    const last = this.#last;
    if (last !== undefined) {
      const at = this.#added % this.#window;
      if (this.#added >= this.#window) this.#counts[last[at]!]!--;
      last[at] = token;
    }
    this.#added++;
    this.#counts[token]!++;
    if (this.#listed[token] === 1) return;
    this.#listed[token] = 1;
    this.#ids.push(token);
  }

  /** Calls a function with each token that occurs, and its count. */
  each(call: (token: number, count: number) => void): void {
    for (const token of this.#ids) {
      const count = this.#counts[token]!;
      if (count > 0) call(token, count);
    }
  }
}
