import { expectMaker, maker } from "../../arguments/made.ts";
import type { Maker } from "../../arguments/made.ts";
import { checkOptions } from "../../arguments/options.ts";
import { GatedDeltaError } from "../../errors.ts";
import { defaultStep, ladder, likelyEnd } from "../prefix/ladder.ts";
import type { LadderOptions } from "../prefix/ladder.ts";
import { PrefixStore } from "../prefix/prefix-store.ts";
import type { Sequence } from "../sequence.ts";
import type { Reserve } from "./room.ts";
import type { Scheduler } from "./scheduler.ts";
import { sessionCacheOptions } from "./session-schemas.ts";

/** Options of {@link SessionCache}. */
export interface SessionCacheOptions {
  /** How many bytes of states, keys and values the cache may hold. They are of the model's states and pages. */
  readonly bytes: number;
  /** The least distance between two kept positions, and that of the first one from a message's beginning, in tokens. @default 64 */
  readonly step?: number | undefined;
  /** The factor by which each further step is longer than the one before. @default 2 */
  readonly ratio?: number | undefined;
}

/** What a cache needs of its model. */
export interface CacheParts {
  readonly scheduler: Scheduler;
  readonly stateBytes: number;
  readonly pageBytes: number;
  readonly pageTokens: number;
}

/** Makes a cache. */
export let makeCache: (parts: CacheParts, options: SessionCacheOptions) => SessionCache;

/** A cache's parts, as sessions use them. */
export let cacheParts: (value: unknown) => CacheAccess | undefined;

/** What sessions do with a cache. */
export interface CacheAccess {
  readonly scheduler: Scheduler;
  /** The least distance between two kept positions. */
  readonly step: number;
  /** How many of these tokens the longest entry has that they begin with. */
  known(tokens: Uint32Array, salt: string): number;
  /** A fork of the longest entry that these tokens begin with; the caller's. */
  lookup(tokens: Uint32Array, salt: string): Sequence | undefined;
  /** Positions to keep on the way. */
  positions(from: number, to: number, messageEnds: readonly number[]): { readonly position: number; readonly likely: number }[];
  /** Keeps a fork of a sequence; nothing where no state is free for it. */
  insert(tokens: Uint32Array, sequence: Sequence, salt: string, likely: number): void;
}

/**
 * States, keys and values of what sessions have read, by its tokens: a session that begins as an earlier one did goes on
 * from what they share, with the same bits as if it had read that itself (with f32 states).
 *
 * Kept are the ends of messages and of answers, and steps within long messages. Above the budget, and where the model has
 * no free states or pages for sessions, what goes first is what saves the fewest tokens for its bytes and was not used for
 * long. Sessions of different salts share nothing.
 */
export class SessionCache implements Disposable {
  readonly #store: PrefixStore<Sequence>;
  readonly #access: CacheAccess;
  readonly #reserve: Reserve;
  #hits = 0;
  #tokensSaved = 0;
  #disposed = false;

  private constructor(by: Maker, parts: CacheParts, options: SessionCacheOptions) {
    const op = "model.cache";
    expectMaker(by, "SessionCache", "model.cache(…)");
    const { bytes: budget, step: first, ratio } = checkOptions(sessionCacheOptions, op, options);
    const { scheduler, stateBytes, pageBytes, pageTokens } = parts;
    const steps: LadderOptions = { first, ratio };
    this.#store = new PrefixStore({
      budget,
      bytes: (length, shared) => stateBytes + pageBytes * (Math.ceil(length / pageTokens) - Math.floor(shared / pageTokens)) + 4 * (length - shared),
      valid: (sequence) => !sequence.disposed && sequence.valid,
    });
    this.#reserve = { kept: () => this.#store.kept(), evict: (which) => this.#store.evict(which) };
    this.#access = {
      scheduler,
      step: first ?? defaultStep,
      known: (tokens, salt) => this.#store.known(tokens, salt),
      lookup: (tokens, salt) => this.#lookup(tokens, salt),
      positions: (from, to, messageEnds) => (this.#disposed ? [] : ladder(from, to, messageEnds, steps)),
      insert: (tokens, sequence, salt, likely) => this.#insert(tokens, sequence, salt, likely),
    };
    scheduler.room.add(this.#reserve);
    Object.freeze(this);
  }

  static {
    makeCache = (parts, options) => new SessionCache(maker, parts, options);
    cacheParts = (value) => (typeof value === "object" && value !== null && #access in value ? value.#access : undefined);
  }

  /** Number of entries. */
  get size(): number {
    return this.#store.size;
  }

  /** Bytes of all entries, what several share once. */
  get bytes(): number {
    return this.#store.bytes;
  }

  /** How many sessions went on from an entry. */
  get hits(): number {
    return this.#hits;
  }

  /** How many tokens they did not have to read. */
  get tokensSaved(): number {
    return this.#tokensSaved;
  }

  /** Whether it was disposed. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /** Drops every entry; sessions that went on from one keep what they have. */
  clear(): void {
    this.#store.clear();
    this.#access.scheduler.freed();
  }

  /** {@link clear}, for good: sessions go on without it. */
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
    if (this.#disposed) return;
    for (;;) {
      try {
        this.#store.insert(tokens, () => sequence.fork(), salt, likely);
        return;
      } catch (error) {
        if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory") throw error;
        // No state is free. What is likely to be used takes that of another entry.
        if (likely < likelyEnd || !this.#store.evict()) return;
      }
    }
  }
}
