/**
 * Merges the characters of a long word. `@huggingface/tokenizers` does this with an object for each character, and looks up the rank of
 * each pair by its text; here both are numbers, and a word takes a tenth of the time.
 */

/** The rank of a merge of two tokens by `JSON.stringify([first, second])`; undefined if there is none. */
export interface Ranks {
  get(pair: string): number | undefined;
}

/** Ranks and places are below this limit, so that one number can hold both. */
const mostPlaces = 2 ** 28;

/** A merge's rank, or −1, and the number of the merged token. */
interface Merge {
  readonly rank: number;
  readonly merged: number;
}

/** Merges words by the ranks of a tokenizer. */
export class LongWords {
  readonly #ranks: Ranks;
  /** Tokens by number, and their numbers. */
  #names: string[] = [];
  #numbers = new Map<string, number>();
  /** The merges by the numbers of both tokens. */
  #merges: Map<number, Merge>[] = [];

  constructor(ranks: Ranks) {
    this.#ranks = ranks;
  }

  /** The tokens of a word: merges of the lowest rank come first, of equal ones the leftmost. */
  split(word: string): string[] {
    // Words of one kind give few tokens, but a word must not leave its tokens behind for ever.
    if (this.#names.length > 2 ** 16) {
      this.#names = [];
      this.#numbers.clear();
      this.#merges = [];
    }
    const all = new Int32Array(word.length);
    let length = 0;
    for (const character of word) all[length++] = this.#numberOf(character);
    const tokens = all.subarray(0, length);
    const [next, previous] = [new Int32Array(length), new Int32Array(length)];
    /** The rank of the merge of each place with the next; −1 for none. */
    const ranks = new Int32Array(length).fill(-1);
    const queue = new Queue(2 * length);
    const consider = (place: number): void => {
      const after = next[place]!;
      const rank = after < 0 ? -1 : this.#mergeOf(tokens[place]!, tokens[after]!).rank;
      ranks[place] = rank;
      if (rank >= 0) queue.put(rank * mostPlaces + place);
    };
    for (let i = 0; i < length; i++) {
      next[i] = i + 1 < length ? i + 1 : -1;
      previous[i] = i - 1;
    }
    for (let i = 0; i < length; i++) consider(i);
    for (let first = queue.take(); first !== undefined; first = queue.take()) {
      const place = first % mostPlaces;
      if (ranks[place] !== (first - place) / mostPlaces) continue; // of a pair that is no more
      const after = next[place]!;
      tokens[place] = this.#mergeOf(tokens[place]!, tokens[after]!).merged;
      ranks[after] = -1;
      const following = next[after]!;
      next[place] = following;
      if (following >= 0) previous[following] = place;
      consider(place);
      if (previous[place]! >= 0) consider(previous[place]!);
    }
    const found: string[] = [];
    for (let place = 0; place >= 0; place = next[place]!) found.push(this.#names[tokens[place]!]!);
    return found;
  }

  #numberOf(token: string): number {
    const known = this.#numbers.get(token);
    if (known !== undefined) return known;
    this.#numbers.set(token, this.#names.length);
    return this.#names.push(token) - 1;
  }

  #mergeOf(first: number, second: number): Merge {
    const merges = (this.#merges[first] ??= new Map());
    let merge = merges.get(second);
    if (merge !== undefined) return merge;
    const [left, right] = [this.#names[first]!, this.#names[second]!];
    const rank = this.#ranks.get(JSON.stringify([left, right])) ?? -1;
    merge = { rank, merged: rank < 0 ? -1 : this.#numberOf(left + right) };
    merges.set(second, merge);
    return merge;
  }
}

/** A queue from which the lowest number is taken first: a binary heap. */
class Queue {
  #numbers: Float64Array;
  #length = 0;

  constructor(size: number) {
    this.#numbers = new Float64Array(size);
  }

  put(number: number): void {
    if (this.#length === this.#numbers.length) {
      const more = new Float64Array(2 * this.#length + 16);
      more.set(this.#numbers);
      this.#numbers = more;
    }
    const numbers = this.#numbers;
    let at = this.#length++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (numbers[parent]! <= number) break;
      numbers[at] = numbers[parent]!;
      at = parent;
    }
    numbers[at] = number;
  }

  take(): number | undefined {
    if (this.#length === 0) return undefined;
    const numbers = this.#numbers;
    const first = numbers[0]!;
    const last = numbers[--this.#length]!;
    let at = 0;
    for (let child = 1; child < this.#length; child = 2 * at + 1) {
      if (child + 1 < this.#length && numbers[child + 1]! < numbers[child]!) child++;
      if (numbers[child]! >= last) break;
      numbers[at] = numbers[child]!;
      at = child;
    }
    numbers[at] = last;
    return first;
  }
}
