import { checkOptions } from "../../arguments/options.ts";
import { GatedDeltaError } from "../../errors.ts";
import { defaultStep, ladder, likelyEnd } from "../prefix/ladder.ts";
import type { LadderOptions } from "../prefix/ladder.ts";
import { PrefixStore } from "../prefix/prefix-store.ts";
import type { Sequence } from "../sequence.ts";
import type { Reserve } from "./room.ts";
import type { Scheduler } from "./scheduler.ts";

/** Options of {@link SessionCache}. */
export interface SessionCacheOptions {
  /** How many bytes of states, keys and values the cache may hold, within the model's states and pages. */
  readonly bytes: number;
  /** The least distance between two kept positions, and from the start of a message to the first, in tokens. @default 64 */
  readonly step?: number | undefined;
  /** The factor by which each step is longer than the previous one. @default 2 */
  readonly ratio?: number | undefined;
}

/** The parts of a model that its cache needs. */
export interface CacheParts {
  readonly scheduler: Scheduler;
  readonly stateBytes: number;
  readonly pageBytes: number;
  readonly pageTokens: number;
}

/** Makes a cache. */
export let makeCache: (parts: CacheParts, options: SessionCacheOptions) => SessionCache;

/** A cache's interface for sessions; undefined for a value that is not a cache. */
export let cacheParts: (value: unknown) => CacheAccess | undefined;

/** A cache's interface for sessions. */
export interface CacheAccess {
  readonly scheduler: Scheduler;
  /** The least distance between two kept positions. */
  readonly step: number;
  /** The length of the longest entry that is a prefix of these tokens. */
  known(tokens: Uint32Array, salt: string): number;
  /** A fork of the longest entry that is a prefix of these tokens; the caller owns it. */
  lookup(tokens: Uint32Array, salt: string): Sequence | undefined;
  /** Positions to keep while reading `from` to `to`. */
  positions(from: number, to: number, messageEnds: readonly number[]): { readonly position: number; readonly likely: number }[];
  /** Keeps a fork of a sequence, if a state is free for it. */
  insert(tokens: Uint32Array, sequence: Sequence, salt: string, likely: number): void;
}

const schemas = () => require("./session-schemas.ts") as typeof import("./session-schemas.ts");

let making = false;

/**
 * States, keys and values of tokens that sessions have read. A session with the same prefix as an earlier one continues
 * from the shared prefix, with the same bits as if it had read the prefix itself (with f32 states).
 *
 * The cache keeps the ends of messages and of answers, and steps within long messages. When it exceeds its budget, or
 * sessions need states or pages, it first drops entries that save few tokens for their bytes and were not used recently.
 * Sessions with different salts share nothing.
 */
export class SessionCache implements Disposable {
  readonly #store: PrefixStore<Sequence>;
  readonly #access: CacheAccess;
  readonly #reserve: Reserve;
  #hits = 0;
  #tokensSaved = 0;
  #disposed = false;

  private constructor(parts: CacheParts, options: SessionCacheOptions) {
    const op = "model.cache";
    if (!making) throw new GatedDeltaError("invalid-argument", { op: "SessionCache", expected: "model.cache(…)" });
    const { bytes: budget, step: first, ratio } = checkOptions(schemas().sessionCacheOptions, op, options);
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
    makeCache = (parts, options) => {
      making = true;
      try {
        return new SessionCache(parts, options);
      } finally {
        making = false;
      }
    };
    cacheParts = (value) => (typeof value === "object" && value !== null && #access in value ? value.#access : undefined);
  }

  /** Number of entries. */
  get size(): number {
    return this.#store.size;
  }

  /** Bytes of all entries; shared pages count once. */
  get bytes(): number {
    return this.#store.bytes;
  }

  /** How many sessions continued from an entry. */
  get hits(): number {
    return this.#hits;
  }

  /** How many tokens these sessions did not have to read. */
  get tokensSaved(): number {
    return this.#tokensSaved;
  }

  /** Whether it was disposed. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /** Drops every entry; sessions that continued from one are not affected. */
  clear(): void {
    this.#store.clear();
    this.#access.scheduler.freed();
  }

  /** Clears the cache and ends it: its sessions continue without a cache. */
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
        // No state is free. A position that is likely to be used replaces another entry.
        if (likely < likelyEnd || !this.#store.evict()) return;
      }
    }
  }
}
