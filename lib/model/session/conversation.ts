/**
 * What a session is made of, as this room's other modules use it: its tokens, and the sequence that has read some of them.
 * The sequence is taken when the first token is read, and may stand behind the tokens: what it has not read comes next.
 */
import { DisposedError, GatedDeltaError } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import type { RunResult } from "../run-result.ts";
import { sequenceParts } from "../sequence.ts";
import type { Sequence } from "../sequence.ts";
import { beginSequenceFrom } from "../snapshot.ts";
import type { SequenceSnapshot } from "../snapshot.ts";
import type { CacheAccess } from "./prefix-cache.ts";
import type { Scheduler, Work, WorkEntry } from "./scheduler.ts";

/** Of which token the logits are wanted, and what takes them: they can be read until it returns. */
export interface Wanted {
  readonly logits: (logits: Float32Array) => void;
}

export class Conversation {
  readonly model: LanguageModel;
  readonly scheduler: Scheduler;
  readonly cache: CacheAccess | undefined;
  readonly salt: string;
  readonly whenFull: "wait" | "error";
  readonly tokens: number[];
  /** Positions after the last token of each message, ascending. */
  readonly messageEnds: number[];
  /** Its first tokens, as many as it has read. */
  sequence: Sequence | undefined;
  /** What a file holds of its first tokens, until a sequence is made of it. */
  stored: SequenceSnapshot | undefined;
  /** A copy of the logits after the last token, where these were wanted and no token was chosen from them. */
  logits: Float32Array | undefined;
  /** A copy of the hidden state after the last token, where this was asked for. */
  hidden: Float32Array | undefined;
  /** What runs: a generation, from its first token to its end, or the reading of what was appended. */
  running: string | undefined;
  /** Whether work of it waits for a step or is in one. */
  pending = false;
  disposed = false;
  readonly ended = new AbortController();
  /** Those that save it: its sequence stays as it is until the last of them is over. */
  #saves = 0;
  #saved: PromiseWithResolvers<void> | undefined;
  /** Sequences that it had during them, and has no more. */
  readonly #retired: Sequence[] = [];
  /** What is made of {@link stored}. */
  #restoring: Sequence | undefined;
  #restoreError: { readonly error: unknown } | undefined;

  constructor(parts: Pick<Conversation, "model" | "scheduler" | "cache" | "salt" | "whenFull" | "tokens" | "messageEnds">) {
    this.model = parts.model;
    this.scheduler = parts.scheduler;
    this.cache = parts.cache;
    this.salt = parts.salt;
    this.whenFull = parts.whenFull;
    this.tokens = parts.tokens;
    this.messageEnds = parts.messageEnds;
  }

  /** How many of the tokens were read. */
  get read(): number {
    return this.sequence === undefined ? (this.stored?.tokens ?? 0) : this.sequence.tokens;
  }

  /** Adds a token that was given out. */
  push(token: number): void {
    this.tokens.push(token);
    this.forget();
  }

  /** Another token is the last one, or none is read. */
  forget(): void {
    this.logits = undefined;
    this.hidden = undefined;
  }

  /**
   * Takes a sequence: one that the cache has the beginning of, or an empty one. Drops one that has become invalid. Where a
   * stored one takes time, it is {@link restoring} afterwards, and this is called again.
   */
  begin(): void {
    if (this.disposed) throw endedError();
    this.settle();
    if (this.sequence !== undefined && (this.sequence.disposed || !this.sequence.valid)) this.drop();
    if (this.sequence !== undefined || this.#restoring !== undefined) return;
    if (this.#restoreError !== undefined) {
      const { error } = this.#restoreError;
      this.#restoreError = undefined;
      throw error;
    }
    if (this.stored !== undefined) {
      this.#restore(this.stored);
      return;
    }
    // The last token is read in any case: it gives the logits.
    const known = Uint32Array.from(this.tokens.slice(0, -1));
    this.sequence = this.cache?.lookup(known, this.salt) ?? stateFor("session", () => this.model.sequence());
  }

  /** Whether a verification of guesses is open. */
  get verifying(): boolean {
    return this.sequence !== undefined && sequenceParts(this.sequence)!.verification?.open === true;
  }

  /**
   * Ends a verification of guesses: those that were given out are accepted. The last token stays to be read, unless its logits
   * are kept. Tokens that were chosen and not given out are read again, should they be.
   */
  settle(): void {
    const { sequence, tokens, logits, verifying } = this;
    if (!verifying) return;
    const verification = sequenceParts(sequence)!.verification!;
    const drafts = tokens.length - verification.tokens - (logits === undefined ? 1 : 0);
    if (drafts >= 0 && sequence!.valid) verification.accept(drafts);
    else verification.leave();
  }

  /** Whether its sequence is being filled with what was stored. */
  get restoring(): boolean {
    return this.#restoring !== undefined;
  }

  #restore(stored: SequenceSnapshot): void {
    const { sequence, filled } = stateFor("session", () => beginSequenceFrom(this.model, stored));
    this.#restoring = sequence;
    void filled.then((done) => {
      if (this.#restoring !== sequence) return;
      this.#restoring = undefined;
      if (!done) return;
      this.sequence = sequence;
      this.stored = undefined;
    }, (error: unknown) => {
      if (this.#restoring !== sequence) return;
      this.#restoring = undefined;
      this.#restoreError = { error };
    }).then(() => this.scheduler.freed());
  }

  /** Gives the sequence back. The tokens stay, to be read again. */
  drop(): void {
    this.replace(undefined);
    this.#restoring?.[Symbol.dispose]();
    this.#restoring = undefined;
    this.stored = undefined;
    this.forget();
  }

  /** Goes on with another sequence, of tokens that it has. */
  replace(sequence: Sequence | undefined): void {
    const old = this.sequence;
    this.sequence = sequence;
    if (old === undefined) return;
    if (this.#saves > 0) this.#retired.push(old);
    else old[Symbol.dispose]();
  }

  /** Does something that reads the sequence, while nothing changes it: its next step waits. */
  async whileSaving(read: () => Promise<void>): Promise<void> {
    this.#saves++;
    this.scheduler.hold(1); // also where the session ends meanwhile
    try {
      await read();
    } finally {
      if (--this.#saves === 0) {
        for (const sequence of this.#retired.splice(0)) sequence[Symbol.dispose]();
        this.#saved?.resolve();
        this.#saved = undefined;
      }
      this.scheduler.hold(-1);
    }
  }

  /** The sequence, where something was read that can be gone on from. */
  get readable(): Sequence | undefined {
    const { sequence } = this;
    return sequence === undefined || sequence.disposed || !sequence.valid || sequence.tokens === 0 ? undefined : sequence;
  }

  /** Keeps what was read, where there is a cache. */
  keep(likely = 1): void {
    const { sequence, cache } = this;
    if (cache === undefined || sequence === undefined || sequence.disposed || !sequence.valid) return;
    cache.insert(Uint32Array.from(this.tokens.slice(0, sequence.tokens)), sequence, this.salt, likely);
  }

  /** A signal that ends with another one, if any, and with the session. */
  signalWith(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.ended.signal : AbortSignal.any([signal, this.ended.signal]);
  }

  /** Reads all tokens, the last one too, and keeps what it gave. */
  async readAll(op: string, signal: AbortSignal | undefined, hidden: boolean): Promise<void> {
    if (this.tokens.length === 0) throw new GatedDeltaError("state", { op, message: "this session has no tokens: append some first" });
    // What a token gave that was read already is not kept: it is read again, with all before it.
    if (this.read === this.tokens.length) this.drop();
    this.running = "reading";
    const keep = (result: RunResult): void => {
      this.logits = result.logits.slice();
      if (hidden) this.hidden = result.hidden.slice();
    };
    try {
      await this.do(new ReadAll(this, keep, hidden), this.signalWith(signal));
    } finally {
      this.running = undefined;
    }
    if (this.disposed) throw endedError(op);
  }

  /** What is missing by now that all work needs. Whatever meets it first names its own call, which the caller has not made. */
  #lost(): DisposedError | undefined {
    const { disposed, device } = this.model;
    if (this.disposed || (!disposed && !device.closed)) return undefined;
    const [expected, received] = disposed ? ["a model that is not disposed", "a disposed one"] : ["a device that is open", "a closed one"];
    return new DisposedError({ op: "session", expected, received });
  }

  /**
   * Does work in the scheduler's steps, once nothing saves the session any more.
   *
   * @param signal of {@link signalWith}.
   */
  async do(work: Work, signal: AbortSignal): Promise<void> {
    while (this.#saves > 0) await (this.#saved ??= Promise.withResolvers<void>()).promise;
    this.pending = true;
    try {
      await this.scheduler.do(work, { whenFull: this.whenFull, signal });
    } catch (error) {
      throw (signal.aborted ? undefined : this.#lost()) ?? error;
    } finally {
      this.pending = false;
      if (this.disposed) this.drop();
    }
  }
}

/** Reads all tokens that were not read, in pieces where they are many, and keeps positions on the way in the cache. */
export class ReadAll implements Work {
  readonly #of: Conversation;
  readonly #to: number;
  readonly #take: (result: RunResult) => void;
  readonly #hidden: boolean;
  /** Positions to keep that were not reached. */
  #positions: { readonly position: number; readonly likely: number }[] | undefined;

  /**
   * @param take called with the last token's result.
   * @param hidden whether this has its hidden state beside its logits.
   */
  constructor(of: Conversation, take: (result: RunResult) => void, hidden = false) {
    this.#of = of;
    this.#to = of.tokens.length;
    this.#take = take;
    this.#hidden = hidden;
  }

  get preparing(): boolean {
    return this.#of.restoring;
  }

  get whole(): boolean {
    return this.#of.sequence !== undefined && !this.#of.sequence.disposed && this.#to - this.#of.read === 1;
  }

  begin(): void {
    this.#of.begin();
    if (this.preparing) return;
    const { cache, read, messageEnds } = this.#of;
    // A token of an answer is none to keep.
    if (this.#to - read > 1) this.#positions ??= cache?.positions(read, this.#to - 1, messageEnds);
  }

  next(most: number): readonly WorkEntry[] {
    const { tokens, read } = this.#of;
    const sequence = this.#of.sequence!;
    const until = this.#positions?.find(({ position }) => position > read)?.position ?? this.#to;
    const end = Math.min(until, read + most);
    return [{ sequence, tokens: tokens.slice(read, end), logits: end === this.#to ? "last" : "none", hidden: this.#hidden && end === this.#to ? "last" : "none" }];
  }

  ran([result]: readonly RunResult[]): boolean {
    const { read } = this.#of;
    const reached = this.#positions?.find(({ position }) => position === read);
    if (reached !== undefined) this.#of.keep(reached.likely);
    if (read < this.#to) return false;
    this.#take(result!);
    return true;
  }
}

/** Takes a state, or a state and the pages of a snapshot, under the name of the session's call. */
export function stateFor<T>(op: string, take: () => T): T {
  try {
    return take();
  } catch (error) {
    if (!(error instanceof GatedDeltaError) || error.code !== "out-of-memory" || error.expected === undefined) throw error;
    const short = error.argument === "snapshot" ? "pages" : "states";
    const expected = `${error.expected} (\`${short}\` of LanguageModel.load; sessions give theirs back when they are disposed)`;
    throw new GatedDeltaError("out-of-memory", { op, expected, received: error.received, cause: error });
  }
}

/** What is done with a session that was disposed. */
export function endedError(op = "session"): DisposedError {
  return new DisposedError({ op, expected: "a session that is not disposed", received: "a disposed one" });
}

/** Two runs of one session at once. */
export function runningError(op: string, running: string): GatedDeltaError {
  const message = `${running} of this session is under way: let it end, leave its iterator or abort it first`;
  return new GatedDeltaError("state", { op, message });
}
