/**
 * Random numbers from a seed: the same on every machine and run, so that a failing case can be named by its seed.
 * The generator is Bob Jenkins's small fast one, jsf32 (burtleburtle.net/bob/rand/smallprng.html, public domain).
 */
export class Random {
  // Always 32-bit integers: a field that holds a wider number, even once, stays slow.
  #a = 0xf1ea5eed | 0;
  #b: number;
  #c: number;
  #d: number;

  constructor(seed: number) {
    this.#b = this.#c = this.#d = seed | 0;
    for (let i = 0; i < 20; i++) this.#next();
  }

  #next(): number {
    const b = this.#b;
    const c = this.#c;
    const d = this.#d;
    const e = (this.#a - ((b << 27) | (b >>> 5))) | 0;
    const a = b ^ ((c << 17) | (c >>> 15));
    const last = (e + a) | 0;
    this.#a = a;
    this.#b = (c + d) | 0;
    this.#c = (d + e) | 0;
    this.#d = last;
    return last >>> 0;
  }

  /** From `low` up to, not including, `high`. */
  uniform(low = 0, high = 1): number {
    return low + (high - low) * ((this.#next() * 2 ** 21 + (this.#next() >>> 11)) / 2 ** 53);
  }

  /** A whole number from 0 up to, not including, `count`. */
  below(count: number): number {
    return Math.floor(this.uniform(0, count));
  }

  /** Mean 0, standard deviation 1 (Box and Muller). */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  /** A random one of several. */
  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }

  /** `count` different whole numbers below `limit`, in random order. */
  distinct(count: number, limit: number): number[] {
    const all = Array.from({ length: limit }, (_, i) => i);
    for (let i = 0; i < count; i++) {
      const j = i + this.below(limit - i);
      [all[i], all[j]] = [all[j]!, all[i]!];
    }
    return all.slice(0, count);
  }
}
