/** Options for guesses from the tokens of a sequence. */
export interface NgramOptions {
  /** Length of the longest run at the end that is looked up, in tokens. @default 4 */
  readonly longest?: number | undefined;
  /** Length of the shortest such run. @default 2 */
  readonly shortest?: number | undefined;
  /** Number of last tokens to search, rounded up to a power of two, at least 256. @default 32768 */
  readonly window?: number | undefined;
}

/** {@link NgramOptions}, checked and complete. */
export type NgramSettings = { readonly [Name in keyof NgramOptions]-?: number };

/** The initial size of tables in tokens; they double up to the window. */
const firstCapacity = 256;

/** The most runs of the same hash to compare. */
const mostTries = 64;

/**
 * Guesses the next tokens of a sequence: those after the latest earlier occurrence of its last n tokens, for the largest n with
 * such an occurrence. Suits answers that repeat the prompt: edited code, quotations, lists.
 *
 * For each n, one table has the last position of a run of n tokens by its hash, and a second table the previous position of a run
 * with the same hash. Matches are decided by the tokens themselves. Adding a token takes constant time; memory is at most
 * 4 window + 8 window (longest − shortest + 1) bytes.
 */
export class NgramDrafter {
  readonly #longest: number;
  readonly #shortest: number;
  readonly #window: number;
  /** The last tokens: the token of position p is at p modulo the length, a power of two. */
  #tokens = new Int32Array(firstCapacity);
  /** For each n from the shortest on, by hash: the position after the last run of n tokens with that hash; 0 for none. */
  #latest: Int32Array[] = [];
  /** For each n, by position modulo the length: the previous position whose run has the same hash; 0 for none. */
  #earlier: Int32Array[] = [];
  #length = 0;

  constructor({ longest, shortest, window }: NgramSettings) {
    this.#longest = longest;
    this.#shortest = shortest;
    this.#window = 2 ** Math.ceil(Math.log2(Math.max(window, firstCapacity)));
    this.#makeTables();
  }

  /** Number of added tokens. */
  get length(): number {
    return this.#length;
  }

  /** Adds the sequence's next tokens. */
  extend(tokens: Iterable<number>): void {
    for (const token of tokens) this.push(token);
  }

  /** Adds the sequence's next token. */
  push(token: number): void {
    if (this.#length === this.#tokens.length && this.#length < this.#window) this.#grow();
    this.#index(this.#length);
    this.#tokens[this.#length % this.#tokens.length] = token;
    this.#length++;
  }

  /**
   * The tokens that may come next.
   *
   * @param most the most tokens to guess.
   * @returns no tokens if the last ones have no earlier occurrence.
   */
  draft(most: number): number[] {
    for (let n = Math.min(this.#longest, this.#length - 1); n >= this.#shortest; n--) {
      const from = this.#occurrence(n);
      if (from === 0) continue;
      const found: number[] = [];
      // Past the end the guess repeats itself, like a sequence that repeats its last tokens.
      for (let p = from; found.length < most; p++) found.push(p < this.#length ? this.#at(p) : found[p - this.#length]!);
      return found;
    }
    return [];
  }

  /** The position after the latest earlier occurrence of the last n tokens; 0 for none. */
  #occurrence(n: number): number {
    const earlier = this.#earlier[n - this.#shortest]!;
    let position = this.#latest[n - this.#shortest]![this.#hash(this.#length, n)]!;
    for (let tries = 0; position > 0 && tries < mostTries; tries++) {
      if (position - n < this.#length - this.#tokens.length) return 0; // not all of its tokens are still there
      if (this.#same(position, n)) return position;
      position = earlier[position % earlier.length]!;
    }
    return 0;
  }

  #at(position: number): number {
    return this.#tokens[position % this.#tokens.length]!;
  }

  /** Whether the n tokens before a position equal the last n. */
  #same(position: number, n: number): boolean {
    for (let i = 1; i <= n; i++) if (this.#at(position - i) !== this.#at(this.#length - i)) return false;
    return true;
  }

  /** Enters the runs before a position into the tables. */
  #index(position: number): void {
    for (let n = this.#shortest; n <= this.#longest && n <= position; n++) {
      const latest = this.#latest[n - this.#shortest]!;
      const earlier = this.#earlier[n - this.#shortest]!;
      const hash = this.#hash(position, n);
      earlier[position % earlier.length] = latest[hash]!;
      latest[hash] = position;
    }
  }

  /** The hash of the n tokens before a position. */
  #hash(position: number, n: number): number {
    let hash = n;
    for (let i = n; i >= 1; i--) hash = Math.imul(hash ^ this.#at(position - i), 0x9e3779b1) ^ (hash >>> 15);
    return (hash ^ (hash >>> 16)) & (this.#tokens.length - 1);
  }

  #grow(): void {
    const before = this.#tokens;
    this.#tokens = new Int32Array(2 * before.length);
    this.#tokens.set(before);
    this.#makeTables();
    for (let p = this.#shortest; p < this.#length; p++) this.#index(p);
  }

  #makeTables(): void {
    const make = () => Array.from({ length: this.#longest - this.#shortest + 1 }, () => new Int32Array(this.#tokens.length));
    this.#latest = make();
    this.#earlier = make();
  }
}
