import { PrefixTree } from "../../states/prefix-tree.ts";
import type { PrefixNode } from "../../states/prefix-tree.ts";

/** What is kept of a sequence at a position: something that can be forked, such as a `Sequence`. */
export interface Keepable extends Disposable {
  /** A second one of the same tokens. */
  fork(): Keepable;
}

/** How a store counts and keeps. */
export interface StoreOptions<Kept extends Keepable> {
  /** How many bytes all entries may take. */
  readonly budget: number;
  /**
   * Bytes of an entry of `length` tokens of which the first `shared` are those of another entry too: what would be free
   * without it.
   */
  readonly bytes: (length: number, shared: number) => number;
  /** Whether an entry can still be used. @default always */
  readonly valid?: ((kept: Kept) => boolean) | undefined;
}

/** What a lookup found. */
export interface StoreHit<Kept> {
  /** The entry's own: fork it. */
  readonly kept: Kept;
  /** How many of the tokens it stands for. */
  readonly length: number;
}

/** In lookups for each entry. */
const halfLife = 4;

interface Entry<Kept> {
  readonly kept: Kept;
  readonly length: number;
  readonly tree: PrefixTree<Entry<Kept>>;
  node: PrefixNode<Entry<Kept>>;
  readonly likely: number;
  /** The store's clock when it was used last. */
  used: number;
  /** How many lookups since then found an entry after it. */
  passed: number;
}

/**
 * Forks of sequences by the tokens that led to them, and by a salt: what was put in under one is not found under another.
 * Tokens are compared, never hashes of them.
 *
 * Above the budget the entry goes whose value for its cost is least. Its value is the number of tokens that a lookup would
 * have to read without it, those since the entry before it on the way, times how likely such a lookup is. That halves with
 * four times as many lookups as there are entries, and with each lookup that found a later entry: a conversation that went on
 * rarely comes back. Where several sequences parted others will part, whatever the entry was kept for. Its cost is its bytes,
 * without those that it shares with the entry before it.
 */
export class PrefixStore<Kept extends Keepable> implements Disposable {
  readonly #options: StoreOptions<Kept>;
  readonly #trees = new Map<string, PrefixTree<Entry<Kept>>>();
  readonly #entries = new Set<Entry<Kept>>();
  /** Entries of each tree, so that an empty one goes. */
  readonly #counts = new Map<PrefixTree<Entry<Kept>>, { salt: string; entries: number }>();
  #bytes = 0;
  #clock = 0;

  constructor(options: StoreOptions<Kept>) {
    this.#options = options;
  }

  /** Number of entries. */
  get size(): number {
    return this.#entries.size;
  }

  /** Bytes of all entries, what several share once. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * The longest entry that these tokens begin with. It counts as used, and so do those before it at which sequences
   * parted: others will part there.
   */
  lookup(tokens: Uint32Array, salt = ""): StoreHit<Kept> | undefined {
    this.#clock++;
    const tree = this.#trees.get(salt);
    if (tree === undefined) return undefined;
    for (;;) {
      const entry = tree.longestPrefix(tokens);
      if (entry === undefined) return undefined;
      if (this.#options.valid?.(entry.kept) === false) {
        this.#remove(entry);
        continue;
      }
      this.#use(entry);
      for (let up = before(entry); up !== undefined; up = before(up)) {
        if (parts(up.node)) this.#use(up);
        else up.passed++;
      }
      return { kept: entry.kept, length: entry.length };
    }
  }

  /** What is kept, in no order. */
  *kept(): Generator<Kept> {
    for (const { kept } of this.#entries) yield kept;
  }

  /** How many of these tokens the longest entry that they begin with has. It does not count as used. */
  known(tokens: Uint32Array, salt = ""): number {
    return this.#trees.get(salt)?.longestPrefix(tokens)?.length ?? 0;
  }

  /** Whether there is an entry of exactly these tokens. */
  has(tokens: Uint32Array, salt = ""): boolean {
    return this.#trees.get(salt)?.find(tokens) !== undefined;
  }

  /**
   * Keeps what `make` gives, under these tokens; it is the store's from then on. Where there is an entry of them already,
   * that one stays, as used now, and `make` is not called.
   *
   * @param make may throw: then nothing is kept, and the error goes on.
   * @param likely how likely it is to be used, beside others that are as old.
   * @returns whether there is such an entry now: not where it is the one whose value for its cost is least.
   */
  insert(tokens: Uint32Array, make: () => Kept, salt = "", likely = 1): boolean {
    const { budget, bytes } = this.#options;
    if (tokens.length === 0) return false;
    const known = this.#trees.get(salt)?.find(tokens);
    if (known !== undefined) {
      this.#use(known);
      return true;
    }
    if (bytes(tokens.length, tokens.length) > budget) return false;
    const kept = make();
    const tree = this.#treeOf(salt);
    let entry!: Entry<Kept>;
    tree.insert(tokens, (node) => (entry = { kept, length: tokens.length, tree, node, likely, used: this.#clock, passed: 0 }));
    this.#entries.add(entry);
    this.#counts.get(tree)!.entries++;
    this.#bytes += this.#bytesAround(entry);
    while (this.#bytes > budget) this.#remove(this.#least()!);
    return this.#entries.has(entry);
  }

  /**
   * Takes away the entry of least value for its cost.
   *
   * @param which only of these. @default all
   * @returns false where there is none.
   */
  evict(which?: (kept: Kept) => boolean): boolean {
    const entry = this.#least(which);
    if (entry === undefined) return false;
    this.#remove(entry);
    return true;
  }

  /** Takes all entries away. */
  clear(): void {
    for (const entry of this.#entries) this.#remove(entry);
  }

  /** {@link clear}. */
  [Symbol.dispose](): void {
    this.clear();
  }

  #use(entry: Entry<Kept>): void {
    entry.used = this.#clock;
    entry.passed = 0;
  }

  #least(which?: (kept: Kept) => boolean): Entry<Kept> | undefined {
    let least: Entry<Kept> | undefined;
    let leastValue = Infinity;
    for (const entry of this.#entries) {
      if (which?.(entry.kept) === false) continue;
      const shared = before(entry)?.length ?? 0;
      const likely = parts(entry.node) ? 1 : entry.likely;
      const halvings = (this.#clock - entry.used) / (halfLife * this.#entries.size) + entry.passed;
      const saved = (entry.length - shared) * likely * 2 ** -halvings;
      const value = saved / this.#options.bytes(entry.length, shared);
      if (value < leastValue) [least, leastValue] = [entry, value];
    }
    return least;
  }

  #remove(entry: Entry<Kept>): void {
    this.#bytes -= this.#bytesAround(entry);
    this.#entries.delete(entry);
    entry.tree.remove(entry.node);
    const count = this.#counts.get(entry.tree)!;
    if (--count.entries === 0) {
      this.#trees.delete(count.salt);
      this.#counts.delete(entry.tree);
    }
    entry.kept[Symbol.dispose]();
  }

  /**
   * How many bytes fewer there would be without an entry: its own, less what entries after it share with it and not with
   * the one before it.
   */
  #bytesAround(entry: Entry<Kept>): number {
    const { bytes } = this.#options;
    const shared = before(entry)?.length ?? 0;
    let sum = bytes(entry.length, shared);
    for (const next of after(entry.node)) sum += bytes(next.length, entry.length) - bytes(next.length, shared);
    return sum;
  }

  #treeOf(salt: string): PrefixTree<Entry<Kept>> {
    let tree = this.#trees.get(salt);
    if (tree === undefined) {
      this.#trees.set(salt, (tree = new PrefixTree()));
      this.#counts.set(tree, { salt, entries: 0 });
    }
    return tree;
  }
}

/** The entry before one on its way: of the tokens that both begin with, the longest. */
function before<Kept>(entry: Entry<Kept>): Entry<Kept> | undefined {
  let place = entry.node.parent;
  while (place !== undefined && place.value === undefined) place = place.parent;
  return place?.value;
}

/** Whether more than one sequence goes on from a place. A place without a value is there for nothing else. */
function parts<Kept>({ children }: PrefixNode<Entry<Kept>>): boolean {
  if (children.size !== 1) return children.size > 1;
  for (const child of children.values()) return child.value === undefined;
  return false;
}

/** The entries that follow a place with none between. */
function* after<Kept>(place: PrefixNode<Entry<Kept>>): Generator<Entry<Kept>> {
  for (const child of place.children.values()) {
    if (child.value !== undefined) yield child.value;
    else yield* after(child);
  }
}
