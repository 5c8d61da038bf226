import { asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import { DisposedError, GatedDeltaError, describe } from "../errors.ts";
import { checkOptions } from "../arguments/options.ts";
import { PrefixStore } from "./prefix-store.ts";
import { areTypedIds, asArray } from "../arguments/reading.ts";
import { givesSlot, isHandle } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import { isStatePool } from "./state-pool.ts";
import type { StatePool } from "./state-pool.ts";
import { prefixCacheOptions } from "./state-schemas.ts";

/** Token ids, 0..2^32 − 1. */
export type Tokens = Uint32Array | Int32Array | readonly number[];

/** Options of {@link PrefixCache}. */
export interface PrefixCacheOptions {
  /** The most bytes of states and token ids to keep. */
  readonly bytes: number;
}

/** Result of {@link PrefixCache.lookup}. */
export interface PrefixHit {
  /** The state after the first `length` tokens: a fork, which the caller steps and frees. */
  readonly state: StateHandle;
  /** Number of tokens that the state covers. */
  readonly length: number;
}

/**
 * States by the tokens that led to them, so that the next turn of a conversation continues from the prefix that it shares
 * with an earlier one. A state cannot be cut shorter, so a lookup finds only prefixes that were inserted: insert the
 * checkpoints of a prefill and the end of each turn.
 *
 * Entries are found by comparing tokens, never by a hash alone. Above the budget the least recently used entry is evicted.
 * If the pool needs slots, entries are evicted in the same order, except those that would free no slot because an open step
 * still needs it.
 *
 * @example
 * using cache = new PrefixCache(pool, { bytes: 2 ** 30 });
 * const hit = cache.lookup(prompt.slice(0, -1)); // leave a token to compute the next one's probabilities from
 * const state = hit?.state ?? pool.allocate();
 * pool.run([state], (step) => …); // the rest of the prompt, from hit?.length ?? 0 on
 * cache.insert(prompt, state);
 */
export class PrefixCache implements Disposable {
  /** The pool of the cached states. */
  readonly pool: StatePool;
  /** The budget in bytes. */
  readonly budget: number;
  readonly #store: PrefixStore<StateHandle>;
  #disposed = false;

  constructor(pool: StatePool, options: PrefixCacheOptions) {
    const op = "PrefixCache";
    if (!isStatePool(pool)) throw invalid(op, "pool", "a StatePool", pool);
    this.pool = pool;
    this.budget = checkOptions(prefixCacheOptions, op, options).bytes;
    this.#store = new PrefixStore({
      budget: this.budget,
      bytes: (length) => pool.slotBytes + Uint32Array.BYTES_PER_ELEMENT * length,
      valid: (state) => state.valid,
      evict: "age",
    });
  }

  /** Number of entries. */
  get size(): number {
    return this.#store.size;
  }

  /** Bytes of all entries: for each a slot in every layer, and its token ids. */
  get bytes(): number {
    return this.#store.bytes;
  }

  /**
   * Finds the longest inserted prefix of these tokens, which may be all of them, and forks its state.
   *
   * @returns undefined if no prefix was inserted.
   * @throws {GatedDeltaError} of code `out-of-memory` if the pool has no slot for the fork, even after evicting other entries.
   */
  lookup(tokens: Tokens): PrefixHit | undefined {
    const op = "cache.lookup";
    this.#alive(op);
    const hit = this.#store.lookup(asTokens(op, tokens));
    if (hit === undefined) return undefined;
    this.#makeRoom(1, hit.kept);
    return { state: hit.kept.fork(), length: hit.length };
  }

  /**
   * Keeps a fork of a state under the tokens that led to it; the caller keeps the handle. An existing entry of these tokens
   * stays and counts as used.
   *
   * @param handle not in a step.
   * @returns whether there is such an entry now: false if the budget or pool has no room, even after evicting other entries.
   * @throws {GatedDeltaError} for invalid tokens, and for a handle that is in a step (code `state`), freed, invalid or of
   *   another pool. Nothing is kept then.
   */
  insert(tokens: Tokens, handle: StateHandle): boolean {
    const op = "cache.insert";
    this.#alive(op);
    if (!isHandle(handle)) throw invalid(op, "handle", "a StateHandle", handle);
    if (handle.pool !== this.pool) {
      const expected = "a StateHandle of the cache's pool";
      throw new GatedDeltaError("invalid-argument", { op, argument: "handle", expected, received: "one of another pool" });
    }
    if (handle.freed) throw new DisposedError({ op, argument: "handle", expected: "a state that is not freed", received: "a freed one" });
    if (handle.step !== undefined) {
      throw new GatedDeltaError("state", { op, argument: "handle", message: "this state has an open step: call its done() or abort() first" });
    }
    return this.#store.insert(asTokens(op, tokens), () => (this.#makeRoom(1) ? handle.fork() : undefined));
  }

  /**
   * Evicts entries, the least recently used first, until that many slots of the pool are free.
   *
   * @param slots 0 or more.
   * @returns whether that many are free now.
   * @throws {GatedDeltaError} for any other number, and after disposal.
   */
  makeRoom(slots: number): boolean {
    const op = "cache.makeRoom";
    this.#alive(op);
    return this.#makeRoom(asInteger(op, "slots", slots, 0, largestIndex));
  }

  /** Removes every entry. Forks of their states stay valid. */
  clear(): void {
    this.#alive("cache.clear");
    this.#store.clear();
  }

  /** {@link clear}, after which the cache cannot be used. */
  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#store.clear();
  }

  /** Evicts entries whose eviction frees a slot, but not `except`; returns whether `slots` are free then. */
  #makeRoom(slots: number, except?: StateHandle): boolean {
    const frees = (state: StateHandle): boolean => state !== except && givesSlot(state);
    while (this.pool.free < slots && this.#store.evict(frees)) continue;
    return this.pool.free >= slots;
  }

  #alive(op: string): void {
    if (this.#disposed) throw new DisposedError({ op, expected: "a cache that is not disposed" });
    if (this.pool.disposed) throw new DisposedError({ op, expected: "a pool that is not disposed" });
  }
}

/** Copies token ids, so that later changes of the caller's array do not affect an entry. */
function asTokens(op: string, value: unknown): Uint32Array {
  const argument = "tokens";
  const typed = areTypedIds(value);
  if (typed && value instanceof Uint32Array) return value.slice();
  const source = typed ? value : asArray(op, argument, "a Uint32Array, an Int32Array or an array of token ids", value, largestIndex);
  return Uint32Array.from(source, (token: unknown, i) => {
    if (typeof token === "number" && token >>> 0 === token) return token;
    const expected = "a token id in 0..4294967295";
    throw new GatedDeltaError("invalid-argument", { op, argument: `tokens[${i}]`, expected, received: describe(token) });
  });
}
