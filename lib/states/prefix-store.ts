/** A store of states by prefixes of token sequences, for {@link PrefixCache} and for the cache of sessions. */
import { PrefixTree } from "./prefix-tree.ts";
import type { PrefixNode } from "./prefix-tree.ts";

/** Options of {@link PrefixStore}. */
export interface StoreOptions<Kept extends Disposable> {
  /** The most bytes that all entries may take. */
  readonly budget: number;
  /**
   * Bytes that the eviction of an entry of `length` tokens would free if it shares the first `shared` of them with another
   * entry.
   */
  readonly bytes: (length: number, shared: number) => number;
  /** Whether an entry can still be used. @default always */
  readonly valid?: ((kept: Kept) => boolean) | undefined;
  /**
   * Which entry is evicted first. `value`: the entry with the least value for its bytes. `age`: the least recently used entry; a
   * new one evicts others and is never refused for its value.
   * @default "value"
   */
  readonly evict?: "value" | "age" | undefined;
}

/** Result of {@link PrefixStore.lookup}. */
export interface StoreHit<Kept> {
  /** Owned by the store: fork it. */
  readonly kept: Kept;
  /** Number of tokens that the state covers. */
  readonly length: number;
}

/** The half-life of an entry's likelihood, in lookups per entry of the store. */
const halfLife = 4;

interface Entry<Kept> {
  readonly kept: Kept;
  readonly length: number;
  readonly salt: string;
  readonly node: PrefixNode<Entry<Kept>>;
  readonly likely: number;
  /** The store's clock at the entry's last use. */
  used: number;
  /** Number of lookups since then that found a later entry of its sequence. */
  passed: number;
}

/**
 * States by the tokens that led to them, and by a salt: an entry of one salt is not found with another. Tokens are compared,
 * never hashes of them.
 *
 * Above the budget the entry with the least value for its cost is evicted (or the oldest one: {@link StoreOptions.evict}).
 * An entry's value is the number of tokens that a lookup would have to read without it, those since the previous entry of
 * the same sequence, times the likelihood of such a lookup. The likelihood halves after four lookups for each entry of the
 * store, and with each lookup that found a later entry: a conversation that went on rarely returns to an earlier position. An
 * entry where several sequences diverge counts as likely at any position: others will diverge there. An entry's cost is its
 * bytes without those that it shares with the previous entry.
 */
export class PrefixStore<Kept extends Disposable> implements Disposable {
  readonly #options: StoreOptions<Kept>;
  readonly #byAge: boolean;
  readonly #trees = new Map<string, PrefixTree<Entry<Kept>>>();
  /** By age: in the order of last use. */
  readonly #entries = new Set<Entry<Kept>>();
  #bytes = 0;
  #clock = 0;

  constructor(options: StoreOptions<Kept>) {
    this.#options = options;
    this.#byAge = options.evict === "age";
  }

  /** Number of entries. */
  get size(): number {
    return this.#entries.size;
  }

  /** Bytes of all entries; shared ones count once. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * The longest entry that is a prefix of these tokens. It counts as used; unless eviction is by age, so do the shorter
   * prefixes at which sequences diverge.
   */
  lookup(tokens: Uint32Array, salt = ""): StoreHit<Kept> | undefined {
    this.#clock++;
    const tree = this.#trees.get(salt);
    if (tree === undefined) return undefined;
    for (;;) {
      const entry = tree.longestPrefix(tokens);
      if (entry === undefined) return undefined;
      if (!this.#valid(entry)) {
        this.#remove(entry);
        continue;
      }
      this.#use(entry);
      for (let up = this.#byAge ? undefined : before(entry); up !== undefined; up = before(up)) {
        if (diverges(up.node)) this.#use(up);
        else up.passed++;
      }
      return { kept: entry.kept, length: entry.length };
    }
  }

  /** All kept states, in no particular order. */
  *kept(): Generator<Kept> {
    for (const { kept } of this.#entries) yield kept;
  }

  /** The valid entries that are prefixes of these tokens, the shortest first. They do not count as used. */
  prefixes(tokens: Uint32Array, salt = ""): StoreHit<Kept>[] {
    const entries = this.#trees.get(salt)?.prefixes(tokens) ?? [];
    return entries.filter((entry) => this.#valid(entry)).map(({ kept, length }) => ({ kept, length }));
  }

  /** Length of the longest entry that is a prefix of these tokens. The entry does not count as used. */
  known(tokens: Uint32Array, salt = ""): number {
    return this.#trees.get(salt)?.longestPrefix(tokens)?.length ?? 0;
  }

  /**
   * Keeps the result of `make` under these tokens; the store owns it from then on. An existing valid entry of these tokens
   * stays and counts as used, and `make` is not called.
   *
   * @param make may return undefined or throw: then nothing is kept, and the error reaches the caller.
   * @param likely how likely the entry is to be used, relative to other entries of the same age.
   * @returns whether such an entry exists now: false if `make` gave none, it exceeds the budget, or it has the least value
   *   for its cost.
   */
  insert(tokens: Uint32Array, make: () => Kept | undefined, salt = "", likely = 1): boolean {
    const { budget, bytes } = this.#options;
    const known = this.#trees.get(salt)?.find(tokens);
    if (known !== undefined && this.#valid(known)) {
      this.#use(known);
      return true;
    }
    if (known !== undefined) this.#remove(known);
    if (bytes(tokens.length, tokens.length) > budget) return false;
    if (this.#byAge) this.#makeRoom(bytes(tokens.length, 0));
    const kept = make();
    if (kept === undefined) return false;
    let tree = this.#trees.get(salt);
    if (tree === undefined) this.#trees.set(salt, (tree = new PrefixTree()));
    const entry = tree.insert(tokens, (node) => ({ kept, length: tokens.length, salt, node, likely, used: this.#clock, passed: 0 }));
    this.#entries.add(entry);
    this.#bytes += this.#bytesAround(entry);
    this.#makeRoom(0);
    return this.#entries.has(entry);
  }

  /**
   * Evicts one entry, in the order of {@link StoreOptions.evict}.
   *
   * @param which which entries may be evicted. @default all
   * @returns false if there is none.
   */
  evict(which?: (kept: Kept) => boolean): boolean {
    const entry = this.#first(which);
    if (entry === undefined) return false;
    this.#remove(entry);
    return true;
  }

  /** Removes all entries. */
  clear(): void {
    for (const entry of this.#entries) this.#remove(entry);
  }

  /** {@link clear}. */
  [Symbol.dispose](): void {
    this.clear();
  }

  #valid({ kept }: Entry<Kept>): boolean {
    return this.#options.valid?.(kept) !== false;
  }

  #use(entry: Entry<Kept>): void {
    entry.used = this.#clock;
    entry.passed = 0;
    if (!this.#byAge) return;
    this.#entries.delete(entry);
    this.#entries.add(entry);
  }

  /** Evicts until `bytes` more fit into the budget, or nothing is left. */
  #makeRoom(bytes: number): void {
    while (this.#bytes + bytes > this.#options.budget && this.evict()) continue;
  }

  /** The entry to evict first. */
  #first(which?: (kept: Kept) => boolean): Entry<Kept> | undefined {
    let first: Entry<Kept> | undefined;
    let leastValue = Infinity;
    for (const entry of this.#entries) {
      if (which?.(entry.kept) === false) continue;
      if (this.#byAge) return entry;
      const shared = before(entry)?.length ?? 0;
      const likely = diverges(entry.node) ? 1 : entry.likely;
      const halvings = (this.#clock - entry.used) / (halfLife * this.#entries.size) + entry.passed;
      const saved = (entry.length - shared) * likely * 2 ** -halvings;
      const value = saved / this.#options.bytes(entry.length, shared);
      if (value < leastValue) [first, leastValue] = [entry, value];
    }
    return first;
  }

  #remove(entry: Entry<Kept>): void {
    this.#bytes -= this.#bytesAround(entry);
    this.#entries.delete(entry);
    const tree = this.#trees.get(entry.salt)!;
    tree.remove(entry.node);
    if (tree.empty) this.#trees.delete(entry.salt);
    entry.kept[Symbol.dispose]();
  }

  /**
   * Bytes that the removal of an entry would free: its own, less those that later entries share with it but not with the
   * previous entry.
   */
  #bytesAround(entry: Entry<Kept>): number {
    const { bytes } = this.#options;
    const shared = before(entry)?.length ?? 0;
    let sum = bytes(entry.length, shared);
    for (const next of after(entry.node)) sum += bytes(next.length, entry.length) - bytes(next.length, shared);
    return sum;
  }
}

/** The previous entry of the same sequence: the longest one that is a shorter prefix. */
function before<Kept>(entry: Entry<Kept>): Entry<Kept> | undefined {
  let place = entry.node.parent;
  while (place !== undefined && place.value === undefined) place = place.parent;
  return place?.value;
}

/** Whether more than one sequence continues from a node. A node without a value exists only for that. */
function diverges<Kept>({ children }: PrefixNode<Entry<Kept>>): boolean {
  if (children.size !== 1) return children.size > 1;
  for (const child of children.values()) return child.value === undefined;
  return false;
}

/** The entries that directly follow a node. */
function* after<Kept>(place: PrefixNode<Entry<Kept>>): Generator<Entry<Kept>> {
  for (const child of place.children.values()) {
    if (child.value !== undefined) yield child.value;
    else yield* after(child);
  }
}
