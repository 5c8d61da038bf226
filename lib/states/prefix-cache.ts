import { asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import { DisposedError, GatedDeltaError, describe } from "../errors.ts";
import { checkOptions } from "../arguments/options.ts";
import { PrefixTree } from "./prefix-tree.ts";
import type { PrefixNode } from "./prefix-tree.ts";
import { asArray } from "../arguments/reading.ts";
import { givesSlot, isHandle } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import { StatePool } from "./state-pool.ts";

/** Token ids, 0..2^32 − 1. */
export type Tokens = Uint32Array | Int32Array | readonly number[];

/** Options of {@link PrefixCache}. */
export interface PrefixCacheOptions {
  /** How many bytes of states and token ids to keep at most. */
  readonly bytes: number;
}

/** What {@link PrefixCache.lookup} found. */
export interface PrefixHit {
  /** The state after the first `length` tokens: a fork, the caller's to step and to free. */
  readonly state: StateHandle;
  /** How many of the tokens it covers. */
  readonly length: number;
}

const schemas = () => require("./state-schemas.ts") as typeof import("./state-schemas.ts");

interface Entry {
  readonly state: StateHandle;
  readonly node: PrefixNode<Entry>;
  readonly length: number;
  readonly bytes: number;
}

/**
 * States by the tokens that led to them, so that a conversation's next turn starts where the part that it shares with
 * an earlier one ends. A state cannot be cut shorter, so what can be found is what was inserted: insert the checkpoints
 * of a prefill and the end of each turn.
 *
 * Entries are found by comparing tokens, never by a hash alone. Above the budget the entry that was not used for
 * longest goes first. Where the pool needs slots, entries go in the same order, those apart whose eviction gives none
 * back: an open step still needs what they hold.
 *
 * @example
 * using cache = new PrefixCache(pool, { bytes: 2 ** 30 });
 * const hit = cache.lookup(prompt.slice(0, -1)); // leave a token to compute the next one's probabilities from
 * const state = hit?.state ?? pool.allocate();
 * pool.run([state], (step) => …); // the rest of the prompt, from hit?.length ?? 0 on
 * cache.insert(prompt, state);
 */
export class PrefixCache implements Disposable {
  /** The pool whose states the cache holds. */
  readonly pool: StatePool;
  /** The budget in bytes. */
  readonly budget: number;
  readonly #tree = new PrefixTree<Entry>();
  /** From the one not used for longest to the one used last. */
  readonly #entries = new Set<Entry>();
  #bytes = 0;
  #disposed = false;

  constructor(pool: StatePool, options: PrefixCacheOptions) {
    const op = "PrefixCache";
    if (!(pool instanceof StatePool)) throw invalid(op, "pool", "a StatePool", pool);
    this.pool = pool;
    this.budget = checkOptions(schemas().prefixCacheOptions, op, options).bytes;
  }

  /** Number of entries. */
  get size(): number {
    return this.#entries.size;
  }

  /** Bytes of all entries: a slot in every layer, and the token ids. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * The longest inserted prefix of these tokens, all of them included, and a fork of its state.
   *
   * @returns undefined where none was inserted.
   * @throws {GatedDeltaError} of code `out-of-memory` when the pool has no slot for the fork, after evicting what can be.
   */
  lookup(tokens: Tokens): PrefixHit | undefined {
    const op = "cache.lookup";
    this.#alive(op);
    const key = asTokens(op, tokens);
    let entry = this.#tree.longestPrefix(key);
    // An entry whose state was lost with a failed submission is none.
    while (entry !== undefined && !entry.state.valid) {
      this.#remove(entry);
      entry = this.#tree.longestPrefix(key);
    }
    if (entry === undefined) return undefined;
    this.#touch(entry);
    while (this.pool.free === 0 && this.#evictForSlot(entry)) continue;
    return { state: entry.state.fork(), length: entry.length };
  }

  /**
   * Keeps a state, under the tokens that led to it. The caller keeps its handle; the cache has a fork. Where there is an
   * entry of these tokens already, that one stays, as used just now.
   *
   * @param handle not in a step.
   * @returns whether there is such an entry now: not where budget or pool have no room, after evicting what can be.
   * @throws {GatedDeltaError} for tokens that are none, for a handle in a step (code `state`), a freed one, an invalid one and
   *   one of another pool. Nothing is kept then.
   */
  insert(tokens: Tokens, handle: StateHandle): boolean {
    const op = "cache.insert";
    this.#alive(op);
    if (!isHandle(handle)) throw invalid(op, "handle", "a StateHandle", handle);
    if (handle.pool !== this.pool) {
      const expected = "a StateHandle of the cache's pool";
      throw new GatedDeltaError("invalid-argument", { op, argument: "handle", expected, received: "one of another pool" });
    }
    if (handle.freed) throw new DisposedError({ op, argument: "handle", expected: "a state that is not freed" });
    if (handle.step !== undefined) {
      throw new GatedDeltaError("state", { op, argument: "handle", message: "this state has an open step: call its done() or abort() first" });
    }
    const key = asTokens(op, tokens);
    const known = this.#tree.find(key);
    if (known?.state.valid) {
      this.#touch(known);
      return true;
    }
    if (known !== undefined) this.#remove(known);
    const bytes = this.pool.slotBytes + key.byteLength;
    if (bytes > this.budget) return false;
    while (this.#bytes + bytes > this.budget) this.#remove(this.#entries.values().next().value!);
    while (this.pool.free === 0) if (!this.#evictForSlot()) return false;
    const state = handle.fork();
    this.#entries.add(this.#tree.insert(key, (node) => ({ state, node, length: key.length, bytes })));
    this.#bytes += bytes;
    return true;
  }

  /**
   * Evicts entries until so many slots of the pool are free, the least recently used first.
   *
   * @param slots 0 or more.
   * @returns whether that many are free now.
   * @throws {GatedDeltaError} for what is no such number, and after disposal.
   */
  makeRoom(slots: number): boolean {
    const op = "cache.makeRoom";
    this.#alive(op);
    const wanted = asInteger(op, "slots", slots, 0, largestIndex);
    while (this.pool.free < wanted) if (!this.#evictForSlot()) return false;
    return true;
  }

  /** Drops every entry, also those in use: forks keep their states. */
  clear(): void {
    this.#alive("cache.clear");
    for (const entry of this.#entries) this.#remove(entry);
  }

  /** {@link clear}, for good. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const entry of this.#entries) this.#remove(entry);
  }

  #touch(entry: Entry): void {
    this.#entries.delete(entry);
    this.#entries.add(entry);
  }

  /** Evicts the least recently used entry whose eviction gives the pool a slot; false where none does. */
  #evictForSlot(except?: Entry): boolean {
    for (const entry of this.#entries) {
      if (entry === except || !givesSlot(entry.state)) continue;
      this.#remove(entry);
      return true;
    }
    return false;
  }

  #remove(entry: Entry): void {
    this.#entries.delete(entry);
    this.#tree.remove(entry.node);
    this.#bytes -= entry.bytes;
    entry.state[Symbol.dispose]();
  }

  #alive(op: string): void {
    if (this.#disposed) throw new DisposedError({ op, expected: "a cache that is not disposed" });
    if (this.pool.disposed) throw new DisposedError({ op, expected: "a pool that is not disposed" });
  }
}

/** Token ids, copied: what the caller does to its array later must not change what an entry stands for. */
function asTokens(op: string, value: unknown): Uint32Array {
  const argument = "tokens";
  if (value instanceof Uint32Array) return value.slice();
  if (!(value instanceof Int32Array) && !Array.isArray(value)) {
    throw invalid(op, argument, "a Uint32Array, an Int32Array or an array of token ids", value);
  }
  const source = Array.isArray(value) ? asArray(op, argument, "an array of token ids", value, largestIndex) : value;
  return Uint32Array.from(source, (token: unknown, i) => {
    if (typeof token === "number" && token >>> 0 === token) return token;
    const expected = "a token id in 0..4294967295";
    throw new GatedDeltaError("invalid-argument", { op, argument: `tokens[${i}]`, expected, received: describe(token) });
  });
}
