/**
 * What a session is made of, as this room's other modules use it: its tokens, and the sequence that has read some of them.
 * The sequence is taken when the first token is read, may be given back at any time between two steps, and may stand
 * behind the tokens: what it has not read comes next.
 */
import { DisposedError, GatedDeltaError } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { memoryOf } from "../model-memory.ts";
import type { RunResult } from "../run-result.ts";
import type { Sequence } from "../sequence.ts";
import { expectFits } from "./capacity.ts";
import { SessionMemory } from "./memory.ts";
import type { CacheAccess } from "./prefix-cache.ts";
import { ReadAll } from "./read-all.ts";
import type { Request } from "./request.ts";
import type { Scheduler, Work } from "./scheduler.ts";
import type { ReadProgress } from "./session-options.ts";

/** What forks of a conversation have in common with it. */
export interface ConversationParts {
  readonly model: LanguageModel;
  readonly scheduler: Scheduler;
  readonly cache: CacheAccess | undefined;
  readonly salt: string;
  readonly whenFull: "wait" | "error";
}

/** What is wanted of the last token. */
export interface Wanted {
  readonly hidden: boolean;
  readonly onProgress: ((progress: ReadProgress) => void) | undefined;
}

export class Conversation {
  readonly parts: ConversationParts;
  readonly memory = new SessionMemory(this);
  readonly tokens: number[] = [];
  /** Positions after the last token of each message, ascending. */
  readonly messageEnds: number[] = [];
  /** A copy of the logits after the last token, where these were wanted and no token was chosen from them. */
  logits: Float32Array | undefined;
  /** A copy of the hidden state after the last token, where this was asked for. */
  hidden: Float32Array | undefined;
  /** What runs: a generation, from its first token to its end, or the reading of what was appended. */
  request: Request | undefined;
  /** What {@link request} is, for errors. */
  running: string | undefined;
  /** Whether work of it waits for a step or is in one. */
  pending = false;
  /** The scheduler's clock when work of it was over last. */
  used = 0;
  disposed = false;
  readonly ended = new AbortController();
  /**
   * Where what it has comes from: what a file holds, and what is made of that, may not be what the tokens make. A cache gets it
   * only where the caller trusts the file.
   */
  origin: "tokens" | "file" | "trusted-file" = "tokens";
  /** Whether reading the tokens gives what was read: not where a file was written with other kernels. */
  recomputable = true;
  /** Tokens that were generated. */
  generated = 0;
  /** Tokens that a cache had and that were not read before. */
  cached = 0;
  /** Tokens that were read or found in a cache at any time. */
  #furthest = 0;
  /** Ends when nothing saves it any more. */
  #saving: Promise<void> = Promise.resolve();
  #saves = 0;

  constructor(parts: ConversationParts) {
    this.parts = parts;
  }

  get model(): LanguageModel {
    return this.parts.model;
  }

  /** Its first tokens, as many as it has read. */
  get sequence(): Sequence | undefined {
    return this.memory.holding?.sequence;
  }

  /** How many of the tokens were read. */
  get read(): number {
    return this.memory.read;
  }

  /** Whether reading its tokens again gives what it has, to the bit. */
  get rereads(): boolean {
    return this.recomputable && memoryOf(this.model).pool.shape.stateDtype === "f32";
  }

  /** What it has: tokens, of these such as need not be read, and what a cache had or was generated ever. */
  get counts(): { readonly length: number; readonly known: number; readonly cached: number; readonly generated: number } {
    return { length: this.tokens.length, known: Math.min(this.#furthest, this.tokens.length), cached: this.cached, generated: this.generated };
  }

  /** Adds a token that was given out. */
  push(token: number): void {
    this.tokens.push(token);
    this.generated++;
    this.forget();
  }

  /** Another token is the last one, or none is read. */
  forget(): void {
    this.logits = undefined;
    this.hidden = undefined;
  }

  /** A second conversation of the same tokens. */
  fork(): Conversation {
    const other = new Conversation(this.parts);
    for (const token of this.tokens) other.tokens.push(token);
    for (const end of this.messageEnds) other.messageEnds.push(end);
    other.memory.shareFrom(this.memory);
    other.#furthest = this.#furthest;
    other.logits = this.logits;
    other.hidden = this.hidden;
    other.origin = this.origin;
    other.recomputable = this.recomputable;
    other.cached = this.cached;
    other.generated = this.generated;
    other.used = this.used;
    return other;
  }

  /** Throws where it can't go on, and drops what has become invalid. */
  check(): void {
    if (this.disposed) throw endedError();
    if (this.request?.refused !== undefined) throw this.request.refused;
    this.memory.check();
  }

  /** Has its memory begin, or come back. */
  begin(): void {
    const hit = this.memory.begin();
    this.cached += Math.max(0, hit - this.#furthest);
    this.advanced();
    this.parts.scheduler.clock++;
  }

  /** Notes what was read. */
  advanced(): void {
    this.#furthest = Math.max(this.#furthest, this.read);
  }

  /** Drops what was read. The tokens stay, to be read again. */
  drop(): void {
    this.memory.drop();
    this.forget();
  }

  /** Reads its sequence, or what is stored of it, while nothing changes it: its next step waits. */
  async whileSaving(save: () => Promise<void>): Promise<void> {
    this.#saves++;
    const { holding } = this.memory;
    const saved = holding?.valid === true ? holding.whileRead(save) : save();
    const over = saved.finally(() => {
      this.#saves--;
      this.parts.scheduler.freed();
    });
    this.#saving = Promise.allSettled([this.#saving, over]).then(() => {});
    await over;
  }

  /** Keeps what was read, where there is a cache. */
  keep(likely = 1): void {
    const { cache, salt } = this.parts;
    const { holding } = this.memory;
    if (cache === undefined || this.origin === "file" || holding?.valid !== true) return;
    const { sequence } = holding;
    cache.insert(Uint32Array.from(this.tokens.slice(0, sequence.tokens)), sequence, salt, likely);
  }

  /** A signal that ends with another one, if any, and with the session. */
  signalWith(signal: AbortSignal | undefined): AbortSignal {
    return signal === undefined ? this.ended.signal : AbortSignal.any([signal, this.ended.signal]);
  }

  /** Reads all tokens, the last one too, and keeps what it gave. */
  async readAll(op: string, signal: AbortSignal | undefined, { hidden, onProgress }: Wanted): Promise<void> {
    if (this.tokens.length === 0) throw new GatedDeltaError("state", { op, message: "this session has no tokens: append some first" });
    expectFits(op, this.model, this.tokens.length, 0);
    // What a token gave that was read already is not kept: it is read again, with all before it.
    if (this.read === this.tokens.length) this.drop();
    const take = (result: RunResult): void => {
      this.logits = result.logits.slice();
      if (hidden) this.hidden = result.hidden.slice();
    };
    await this.asRequest("reading", () => this.do(new ReadAll(this, { take, hidden, onProgress }), this.signalWith(signal)));
    if (this.disposed) throw endedError(op);
  }

  /** Reads again what was taken, and the last logits where it had these. */
  async readAgain(op: string): Promise<void> {
    const { taken } = this.memory;
    if (taken?.logits === true) return this.readAll(op, undefined, { hidden: false, onProgress: undefined });
    if (taken !== undefined && taken.read > 0) {
      await this.asRequest("saving", () => this.do(new ReadAll(this, { to: taken.read }), this.ended.signal));
    }
  }

  /** Does something that counts as one request, of the age that it has at its beginning. */
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
    this.request = this.parts.scheduler.request(this.parts.whenFull);
  }

  endRequest(): void {
    this.running = undefined;
    this.request = undefined;
    this.used = ++this.parts.scheduler.clock;
    this.parts.scheduler.freed();
  }

  /** The error of what is missing by now that all work needs; undefined where nothing is. */
  #lost(): DisposedError | undefined {
    const { disposed, device } = this.model;
    if (this.disposed || (!disposed && !device.closed)) return undefined;
    const [expected, received] = disposed ? ["a model that is not disposed", "a disposed one"] : ["a device that is open", "a closed one"];
    return new DisposedError({ op: "session", expected, received });
  }

  /**
   * Does work of its request in the scheduler's steps, once nothing saves the session any more.
   *
   * @param signal of {@link signalWith}.
   */
  async do(work: Work, signal: AbortSignal): Promise<void> {
    const request = this.request!;
    while (this.#saves > 0) await this.#saving;
    this.pending = true;
    request.works();
    try {
      await this.parts.scheduler.do({ conversation: this, request, work, signal });
    } catch (error) {
      throw (signal.aborted ? undefined : this.#lost()) ?? error;
    } finally {
      this.pending = false;
      this.used = ++this.parts.scheduler.clock;
      request.rests();
      if (this.disposed) this.drop();
    }
  }
}

/** The use of a session that was disposed. */
export function endedError(op = "session"): DisposedError {
  return new DisposedError({ op, expected: "a session that is not disposed", received: "a disposed one" });
}

/** Two runs of one session at once. */
export function runningError(op: string, running: string): GatedDeltaError {
  const message = `${running} of this session is under way: let it end, leave its iterator or abort it first`;
  return new GatedDeltaError("state", { op, message });
}
