import { expectMaker, maker } from "../../arguments/made.ts";
import type { Maker } from "../../arguments/made.ts";
import { checkOptions } from "../../arguments/options.ts";
import { GatedDeltaError } from "../../errors.ts";
import { PrefixStore } from "../../states/prefix-store.ts";
import type { Sequence } from "../sequence.ts";
import { checkpointPositions, defaultFirst, likelyEnd } from "./checkpoint-positions.ts";
import type { CheckpointPosition } from "./checkpoint-positions.ts";
import type { Reserve } from "./room.ts";
import type { Scheduler } from "./scheduler.ts";
import { sessionCacheOptions } from "./session-schemas.ts";

/** Options of {@link SessionCache}. */
export interface SessionCacheOptions {
  /** The most bytes of the model's states, keys and values, and of token ids, that the cache may hold. */
  readonly bytes: number;
  /** The least distance between two kept positions, and of the first one from the beginning of its message, in tokens. @default 64 */
  readonly step?: number | undefined;
  /** The factor between the distances of two successive positions from the beginning of their message. @default 2 */
  readonly ratio?: number | undefined;
}

/** The scheduler and the sizes of the model that a cache is for. */
export interface CacheModel {
  readonly scheduler: Scheduler;
  readonly stateBytes: number;
  readonly pageBytes: number;
  readonly pageTokens: number;
}

/** Makes a cache. */
export let makeCache: (model: CacheModel, options: SessionCacheOptions) => SessionCache;

/** The interface of a cache for sessions; undefined for any other value. */
export let cacheParts: (value: unknown) => CacheAccess | undefined;

/** The interface of a cache for sessions. */
export interface CacheAccess {
  readonly scheduler: Scheduler;
  /** The least distance between two kept positions. */
  readonly step: number;
  /** Length of the longest entry that is a prefix of these tokens. */
  known(tokens: Uint32Array, salt: string): number;
  /** A fork of the longest entry that is a prefix of these tokens; the caller owns it. */
  lookup(tokens: Uint32Array, salt: string): Sequence | undefined;
  /** The entries that are prefixes of these tokens, the shortest first; the cache owns them. They do not count as used. */
  prefixes(tokens: Uint32Array, salt: string): readonly { readonly kept: Sequence; readonly length: number }[];
  /** Positions between two others at which to insert. */
  positions(from: number, to: number, messageEnds: readonly number[]): CheckpointPosition[];
  /** Keeps a fork of a sequence, unless no state is free for it. */
  insert(tokens: Uint32Array, sequence: Sequence, salt: string, likely: number): void;
}

/**
 * States, keys and values by the tokens that sessions have read: a session continues from the longest prefix that an earlier
 * session has read, with the same bits as if it had read the prefix itself (with f32 states).
 *
 * The cache keeps the ends of messages and answers, and some positions within long messages. Above the budget, and if
 * sessions need states or pages and none are free, it first evicts entries that save few tokens for their bytes and were not
 * used recently. Sessions with different salts share nothing.
 */
export class SessionCache implements Disposable {
  readonly #store: PrefixStore<Sequence>;
  readonly #access: CacheAccess;
  readonly #reserve: Reserve;
  #hits = 0;
  #tokensSaved = 0;
  #disposed = false;

  private constructor(by: Maker, model: CacheModel, options: SessionCacheOptions) {
    const op = "model.cache";
    expectMaker(by, "SessionCache", "model.cache(…)");
    const { bytes: budget, step: first, ratio } = checkOptions(sessionCacheOptions, op, options);
    const { scheduler, stateBytes, pageBytes, pageTokens } = model;
    this.#store = new PrefixStore({
      budget,
      bytes: (length, shared) => stateBytes + pageBytes * (Math.ceil(length / pageTokens) - Math.floor(shared / pageTokens)) + 4 * (length - shared),
      valid: (sequence) => !sequence.disposed && sequence.valid,
    });
    this.#reserve = { kept: () => this.#store.kept(), evict: (which) => this.#store.evict(which) };
    this.#access = {
      scheduler,
      step: first ?? defaultFirst,
      known: (tokens, salt) => this.#store.known(tokens, salt),
      lookup: (tokens, salt) => this.#lookup(tokens, salt),
      prefixes: (tokens, salt) => this.#store.prefixes(tokens, salt),
      positions: (from, to, messageEnds) => (this.#disposed ? [] : checkpointPositions(from, to, messageEnds, { first, ratio })),
      insert: (tokens, sequence, salt, likely) => this.#insert(tokens, sequence, salt, likely),
    };
    scheduler.room.add(this.#reserve);
    Object.freeze(this);
  }

  static {
    makeCache = (model, options) => new SessionCache(maker, model, options);
    cacheParts = (value) => (typeof value === "object" && value !== null && #access in value ? value.#access : undefined);
  }

  /** Number of entries. */
  get size(): number {
    return this.#store.size;
  }

  /** Bytes of all entries; shared ones count once. */
  get bytes(): number {
    return this.#store.bytes;
  }

  /** How many times a session continued from an entry. */
  get hits(): number {
    return this.#hits;
  }

  /** Number of tokens that sessions found in the cache and did not read. */
  get tokensSaved(): number {
    return this.#tokensSaved;
  }

  /** Whether the cache was disposed. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /** Removes every entry; sessions that continued from an entry are not affected. */
  clear(): void {
    this.#store.clear();
    this.#access.scheduler.freed();
  }

  /** {@link clear}, permanently: sessions continue without a cache. */
  [Symbol.dispose](): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.clear();
    this.#access.scheduler.room.remove(this.#reserve);
  }

  #lookup(tokens: Uint32Array, salt: string): Sequence | undefined {
    const hit = this.#store.lookup(tokens, salt);
    if (hit === undefined) return undefined;
    const forked = hit.kept.fork();
    this.#hits++;
    this.#tokensSaved += hit.length;
    return forked;
  }

  #insert(tokens: Uint32Array, sequence: Sequence, salt: string, likely: number): void {
    if (this.#disposed || tokens.length === 0) return;
    for (;;) {
      try {
        this.#store.insert(tokens, () => sequence.fork(), salt, likely);
        return;
      } catch (error) {
        if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory") throw error;
        // No state is free: an entry that is likely to be used takes another entry's state.
        if (likely < likelyEnd || !this.#store.evict()) return;
      }
    }
  }
}
