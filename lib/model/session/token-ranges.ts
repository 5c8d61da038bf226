/** Ascending ranges of a session's tokens: those that were generated. */
export class TokenRanges {
  /** Each range's first position and the one after its last. */
  readonly #bounds: number[];
  #count: number;

  /** @param bounds ascending: the first position of each range, and the one after its last. */
  constructor(bounds: readonly number[] = []) {
    this.#bounds = [...bounds];
    this.#count = bounds.reduce((sum, bound, i) => (i % 2 === 0 ? sum - bound : sum + bound), 0);
  }

  /** How many tokens the ranges have together. */
  get count(): number {
    return this.#count;
  }

  /** A copy of the bounds. */
  get bounds(): number[] {
    return [...this.#bounds];
  }

  /** Adds a position after all others. */
  push(position: number): void {
    if (this.#bounds.at(-1) === position) this.#bounds[this.#bounds.length - 1] = position + 1;
    else this.#bounds.push(position, position + 1);
    this.#count++;
  }

  /** Whether a position is in one of the ranges. */
  has(position: number): boolean {
    return this.#after(position) % 2 === 1;
  }

  /** The first later position where a range begins or ends; Infinity if there is none. */
  next(position: number): number {
    return this.#bounds[this.#after(position)] ?? Infinity;
  }

  /** Index of the first bound after a position. */
  #after(position: number): number {
    let [low, high] = [0, this.#bounds.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#bounds[middle]! <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Removes the positions from `length` on. */
  cut(length: number): void {
    while (this.#bounds.length > 0 && this.#bounds.at(-1)! > length) {
      const [start, end] = this.#bounds.splice(-2) as [number, number];
      this.#count -= end - Math.max(start, length);
      if (start < length) this.#bounds.push(start, length);
    }
  }
}
