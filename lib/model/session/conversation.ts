/**
 * The internals of a session, for the other modules of this room: its tokens, and the sequence that has read some of them.
 * The sequence is made when the first token is read and can be taken at any time between two steps. It may have read fewer
 * tokens than the session has; the rest is read next.
 */
import { unlessAborted } from "../../arguments/signals.ts";
import { DisposedError, GatedDeltaError } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { memoryOf } from "../model-memory.ts";
import type { RunResult } from "../run-result.ts";
import type { Sequence } from "../sequence.ts";
import { expectFits } from "./capacity.ts";
import { plainEnd } from "./generated-text.ts";
import { SessionMemory } from "./memory.ts";
import { noDialogue } from "./dialogue.ts";
import type { Dialogue } from "./dialogue.ts";
import type { CacheAccess } from "./prefix-cache.ts";
import { ReadAll } from "./read-all.ts";
import type { Request } from "./request.ts";
import { keyOf } from "./roles.ts";
import type { Scheduler, Work } from "./scheduler.ts";
import type { ReadProgress, Turn } from "./session-options.ts";
import type { Stored } from "./stored.ts";
import { TokenRanges } from "./token-ranges.ts";

/** Shared by a conversation and its forks. */
export interface SharedContext {
  readonly model: LanguageModel;
  readonly scheduler: Scheduler;
  readonly cache: CacheAccess | undefined;
  readonly salt: string;
  readonly whenFull: "wait" | "error";
}

/** Options for reading all tokens. */
export interface Wanted {
  readonly hidden: boolean;
  readonly onProgress: ((progress: ReadProgress) => void) | undefined;
}

export class Conversation {
  readonly context: SharedContext;
  readonly memory = new SessionMemory(this);
  readonly tokens: number[] = [];
  /** Positions after the last token of each message, ascending. */
  readonly messageEnds: number[] = [];
  /** The tokens that were generated. */
  generated = new TokenRanges();
  /** The session's messages; undefined if they do not describe all tokens. */
  dialogue: Dialogue | undefined = noDialogue;
  /** The text of the dialogue's answer, if a stop string or token ended it before the end of its tokens' text. */
  cutAnswer: string | undefined;
  /** How the text that generations gave ends. */
  textEnd = plainEnd;
  /** The token numbers of the last turn. */
  turn: Turn | undefined;
  /** A copy of the logits after the last token, if they were requested and no token was chosen from them. */
  logits: Float32Array | undefined;
  /** A copy of the last token's hidden state, if it was requested. */
  hidden: Float32Array | undefined;
  /** The current request: a generation from its first token to its end, or the reading of appended tokens. */
  request: Request | undefined;
  /** The name of {@link request}, for errors. */
  running: string | undefined;
  /** Whether the session's work waits for a step or is in one. */
  pending = false;
  /** The scheduler's clock when the session's last work ended. */
  used = 0;
  disposed = false;
  readonly #ended = new AbortController();
  /**
   * The origin of the session's state. A state from a file, or computed from one, may not match its tokens, so it is added to a
   * cache only if the caller trusts the file.
   */
  origin: "tokens" | "file" | "trusted-file" = "tokens";
  /** Whether reading the tokens again gives the same bits: false for a file that other kernels have written. */
  recomputable = true;
  /** Number of tokens found in a cache and not read before. */
  cached = 0;
  /** The most tokens that were ever read or found in a cache. */
  #furthest = 0;
  /** The copy given to {@link continueFrom}, which the cache does not have. */
  #continues: Stored | undefined;
  /** Resolves when no save is running. */
  #saving: Promise<void> = Promise.resolve();
  #saves = 0;

  constructor(context: SharedContext) {
    this.context = context;
  }

  /** Ends the session's pending work, for this reason. */
  abort(reason: unknown): void {
    this.#ended.abort(reason);
  }

  get model(): LanguageModel {
    return this.context.model;
  }

  /** The sequence that has read the session's first tokens. */
  get sequence(): Sequence | undefined {
    return this.memory.holding?.sequence;
  }

  /** How many of the tokens were read. */
  get read(): number {
    return this.memory.read;
  }

  /** Whether reading the tokens again would give the same bits. */
  get rereads(): boolean {
    return this.recomputable && memoryOf(this.model).pool.shape.stateDtype === "f32";
  }

  /** The number of tokens, how many of these need not be read, and how many were found in a cache or generated. */
  get counts(): { readonly length: number; readonly known: number; readonly cached: number; readonly generated: number } {
    return { length: this.tokens.length, known: Math.min(this.#furthest, this.tokens.length), cached: this.cached, generated: this.generated.count };
  }

  /** How many of the first tokens the cache has, without the last token, which is always read. */
  get knownInCache(): number {
    const { cache, salt } = this.context;
    return cache?.known(this.key(this.tokens.length - 1), salt) ?? 0;
  }

  /** Whether results depend on the roles of tokens. */
  get byRole(): boolean {
    return memoryOf(this.model).byRole;
  }

  /** The key of the first `length` tokens in a cache. */
  key(length: number): Uint32Array {
    return keyOf(this.tokens, length, this.byRole ? this.generated : undefined);
  }

  /** Adds a generated token. */
  push(token: number): void {
    this.generated.push(this.tokens.length);
    this.tokens.push(token);
    this.cutAnswer = undefined;
    this.textEnd = plainEnd;
    if (this.dialogue?.answer === undefined) this.dialogue = undefined;
    this.forget();
  }

  /** Adds the tokens of a prompt. */
  add(tokens: ArrayLike<number>): void {
    if (tokens.length === 0) return;
    const { tokens: all, messageEnds } = this;
    const ends = new Set(this.model.config.eosTokens);
    for (let i = 0; i < tokens.length; i++) {
      const token = tokens[i]!;
      all.push(token);
      if (ends.has(token)) messageEnds.push(all.length);
    }
    if (messageEnds.at(-1) !== all.length) messageEnds.push(all.length);
    this.textEnd = plainEnd;
    this.forget();
  }

  /**
   * Goes back to the first `length` tokens. A state can't be cut shorter: if the session has read more, it starts again from
   * the prefix that a cache has.
   *
   * @returns how many of these tokens it had read and must read again, unless a cache has them.
   */
  rewind(length: number): number {
    if (length === this.tokens.length) return 0;
    this.memory.settle();
    const read = Math.max(this.read, this.memory.taken?.read ?? 0);
    const back = read > length;
    if (back) {
      this.memory.drop();
      this.recomputable = true;
      this.cached = 0;
    }
    this.#furthest = back ? 0 : Math.min(this.#furthest, length);
    this.tokens.length = length;
    while (this.messageEnds.length > 0 && this.messageEnds.at(-1)! > length) this.messageEnds.pop();
    this.generated.cut(length);
    this.textEnd = plainEnd;
    this.forget();
    return back ? length : 0;
  }

  /**
   * Continues from a copy of the state after the first tokens, instead of reading them. The caller guarantees that the copy is the state
   * of these tokens, as this model's kernels compute it. Not called while a step of the conversation is running.
   */
  continueFrom(stored: Stored): void {
    const { tokens } = stored.snapshot;
    this.drop();
    this.memory.stored = stored;
    this.#continues = stored;
    this.cached += Math.max(0, tokens - this.#furthest);
    this.advanced();
  }

  /** Called when the session's memory has a copy's contents again. */
  restored(stored: Stored): void {
    if (this.#continues === stored) this.keep();
    this.#continues = undefined;
  }

  /** Drops the logits and the hidden state: the last token is another one, or unread. */
  forget(): void {
    this.logits = undefined;
    this.hidden = undefined;
  }

  /** Makes an independent conversation with the same tokens. */
  fork(): Conversation {
    const other = new Conversation(this.context);
    for (const token of this.tokens) other.tokens.push(token);
    for (const end of this.messageEnds) other.messageEnds.push(end);
    other.memory.shareFrom(this.memory);
    other.#furthest = this.#furthest;
    other.logits = this.logits;
    other.hidden = this.hidden;
    other.origin = this.origin;
    other.recomputable = this.recomputable;
    other.cached = this.cached;
    other.generated = new TokenRanges(this.generated.bounds);
    other.dialogue = this.dialogue;
    other.cutAnswer = this.cutAnswer;
    other.textEnd = this.textEnd;
    other.turn = this.turn;
    other.used = this.used;
    return other;
  }

  /** Throws if the session can't continue, and drops an invalid sequence. */
  check(): void {
    const lost = this.#lost();
    if (lost !== undefined) throw lost;
    if (this.request?.refused !== undefined) throw this.request.refused;
    this.memory.check();
  }

  /** Starts or restores the session's memory. */
  begin(): void {
    const hit = this.memory.begin();
    this.cached += Math.max(0, hit - this.#furthest);
    this.advanced();
    this.context.scheduler.clock++;
  }

  /** Records how far the session was read. */
  advanced(): void {
    this.#furthest = Math.max(this.#furthest, this.read);
  }

  /** Drops the sequence and results. The tokens stay, and are read again. */
  drop(): void {
    this.memory.drop();
    this.forget();
  }

  /** Reads the sequence or stored copy for a save; the session's next step waits. */
  async whileSaving(save: () => Promise<void>): Promise<void> {
    this.#saves++;
    const { holding } = this.memory;
    const saved = holding?.valid === true ? holding.whileRead(save) : save();
    const over = saved.finally(() => {
      this.#saves--;
      this.context.scheduler.freed();
    });
    this.#saving = Promise.allSettled([this.#saving, over]).then(() => {});
    await over;
  }

  /** Adds the sequence to the cache, if there is one. */
  keep(likely = 1): void {
    const { cache, salt } = this.context;
    const { holding } = this.memory;
    if (cache === undefined || this.origin === "file" || holding?.valid !== true) return;
    const { sequence } = holding;
    cache.insert(this.key(sequence.tokens), sequence, salt, likely);
  }

  /** A signal that aborts with `signal` and with the end of the session. */
  signalWith(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.#ended.signal : AbortSignal.any([signal, this.#ended.signal]);
  }

  /**
   * Reads all tokens and keeps the last one's results.
   *
   * @returns the results, because code of the caller that runs before the next await ends may change the session. `hidden` is empty
   *   unless wanted.
   */
  async readAll(op: string, signal: AbortSignal | undefined, { hidden, onProgress }: Wanted): Promise<{ readonly logits: Float32Array; readonly hidden: Float32Array }> {
    if (this.tokens.length === 0) throw new GatedDeltaError("state", { op, message: "this session has no tokens: append some first" });
    expectFits(op, this.model, this.tokens.length, 0);
    // Results of an earlier read were not kept, so all tokens are read again.
    if (this.read === this.tokens.length) this.drop();
    const results = { logits: new Float32Array(), hidden: new Float32Array() };
    const take = (result: RunResult): void => {
      results.logits = this.logits = result.logits.slice();
      if (hidden) results.hidden = this.hidden = result.hidden.slice();
    };
    await this.asRequest("reading", () => this.do(new ReadAll(this, { take, hidden, onProgress }), this.signalWith(signal)));
    if (this.disposed) throw endedError(op);
    return results;
  }

  /** Reads lost tokens again, including the last logits if the session had them. */
  async readAgain(op: string): Promise<void> {
    const { taken } = this.memory;
    if (taken?.logits === true) {
      await this.readAll(op, undefined, { hidden: false, onProgress: undefined });
    } else if (taken !== undefined && taken.read > 0) {
      await this.asRequest("saving", () => this.do(new ReadAll(this, { to: taken.read }), this.#ended.signal));
    }
  }

  /** Runs a function as one request, which gets its age at the start. */
  async asRequest<T>(running: string, run: () => Promise<T>): Promise<T> {
    this.beginRequest(running);
    try {
      return await run();
    } finally {
      this.endRequest();
    }
  }

  beginRequest(running: string): void {
    this.running = running;
    this.request = this.context.scheduler.request(this.context.whenFull);
  }

  endRequest(): void {
    this.running = undefined;
    this.request = undefined;
    this.used = ++this.context.scheduler.clock;
    this.context.scheduler.freed();
  }

  /** Returns a DisposedError if the session, the model or its device is gone. */
  #lost(): DisposedError | undefined {
    if (this.disposed) return endedError();
    const { disposed, device } = this.model;
    if (!disposed && !device.closed) return undefined;
    const [expected, received] = disposed ? ["a model that is not disposed", "a disposed one"] : ["a device that is open", "a closed one"];
    return new DisposedError({ op: "session", expected, received });
  }

  /**
   * Runs work of its request in the scheduler's steps, after all saves of the session.
   *
   * @param signal from {@link signalWith}.
   */
  async do(work: Work, signal: AbortSignal): Promise<void> {
    const request = this.request!;
    while (this.#saves > 0) {
      signal.throwIfAborted();
      await unlessAborted(this.#saving, signal);
    }
    this.pending = true;
    request.works();
    try {
      await this.context.scheduler.do({ conversation: this, request, work, signal });
    } catch (error) {
      throw (signal.aborted ? undefined : this.#lost()) ?? error;
    } finally {
      this.pending = false;
      this.used = ++this.context.scheduler.clock;
      request.rests();
      if (this.disposed) this.drop();
    }
  }
}

/** The error for using a disposed session. */
export function endedError(op = "session"): DisposedError {
  return new DisposedError({ op, expected: "a session that is not disposed" });
}

/** The error for two runs of one session at once. */
export function runningError(op: string, running: string): GatedDeltaError {
  const message = `${running} of this session is running: let it end, leave its iterator or abort it first`;
  return new GatedDeltaError("state", { op, message });
}
