import { invalid, largestIndex } from "../../arguments/checks.ts";
import { checkOptions } from "../../arguments/options.ts";
import { BoundsError, DisposedError, GatedDeltaError, errorOf } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { isModel, memoryOf } from "../model-memory.ts";
import type { ChatMessage, ChatOptions } from "../text/chat-template.ts";
import { viewsOf } from "../snapshot.ts";
import { readTokenIds } from "../token-ids.ts";
import { Conversation, endedError, runningError, stateFor } from "./conversation.ts";
import { Generation } from "./generation.ts";
import { cacheParts } from "./prefix-cache.ts";
import type { Scheduler } from "./scheduler.ts";
import { readSession, writeSession } from "./session-file.ts";
import type { GenerateOptions, Piece, ReadOptions, SessionOptions } from "./session-options.ts";

/** Makes a session. */
export let makeSession: (model: LanguageModel, scheduler: Scheduler, options: SessionOptions) => Session;

const schemas = () => require("./session-schemas.ts") as typeof import("./session-schemas.ts");

let making = false;

/**
 * A conversation with a model. Tokens are appended and generated; both are read by the model when they are needed, together
 * with those of all other sessions of the model. With f32 states a session's logits have the same bits, and so its tokens
 * are the same, whatever the other sessions do, however its tokens came, whether they were read, forked or found in a
 * cache, and with or without drafts.
 *
 * @example
 * using session = model.session();
 * session.append(model.text.chat([{ role: "user", content: "Why is the sky blue?" }]));
 * for await (const { text } of session.generate({ maxTokens: 200 })) process.stdout.write(text);
 */
export class Session implements Disposable {
  static readonly #collected = new FinalizationRegistry<Scheduler>((scheduler) => scheduler.hold(-1));

  /** The model whose session it is. */
  readonly model: LanguageModel;
  readonly #of: Conversation;

  private constructor(of: Conversation) {
    if (!making) throw new GatedDeltaError("invalid-argument", { op: "Session", expected: "model.session()" });
    this.model = of.model;
    this.#of = of;
    of.scheduler.hold(1);
    Session.#collected.register(this, of.scheduler, this);
    Object.freeze(this);
  }

  static #make(of: Conversation): Session {
    making = true;
    try {
      return new Session(of);
    } finally {
      making = false;
    }
  }

  static {
    makeSession = (model, scheduler, options) => {
      const op = "model.session";
      const { cache, salt = "", whenFull = "wait" } = checkOptions(schemas().sessionOptions, op, options);
      const access = cache === undefined ? undefined : cacheParts(cache);
      if (cache !== undefined && access?.scheduler !== scheduler) throw invalid(op, "cache", "a cache of this model", cache);
      return Session.#make(new Conversation({ model, scheduler, cache: access, salt, whenFull, tokens: [], messageEnds: [] }));
    };
  }

  /** How many tokens it has, read or not. */
  get length(): number {
    return this.#of.tokens.length;
  }

  /** How many of its tokens the model has read: the others are read when something is generated or {@link logits} are asked for. */
  get read(): number {
    this.#alive("session.read");
    return this.#of.read;
  }

  /** Its tokens; a copy. */
  get tokens(): Int32Array {
    return Int32Array.from(this.#of.tokens);
  }

  /** Whether it was disposed. */
  get disposed(): boolean {
    return this.#of.disposed;
  }

  /**
   * Adds tokens, or the tokens of a text: what comes after the tokens that are there. Nothing is read yet. Several texts are
   * turned into tokens one by one, which may give others than the texts as one.
   *
   * @throws {GatedDeltaError} for ids outside the vocabulary, more tokens than the model has positions, a text where there
   *   is no tokenizer, and during a generation. Nothing was added then.
   */
  append(content: string | readonly number[] | Int32Array | Uint32Array): this {
    const op = "session.append";
    this.#idle(op);
    const { vocabSize, maxPositions } = this.model.config;
    const limits = { expected: "a text, or an array of token ids, an Int32Array or a Uint32Array", vocabSize, most: largestIndex };
    const tokens = typeof content === "string" ? this.model.text.encode(content) : readTokenIds(op, "content", content, limits);
    this.#idle(op); // reading an array can run code of the caller's
    const { tokens: all, messageEnds } = this.#of;
    if (tokens.length > maxPositions - all.length) {
      const expected = `at most ${maxPositions - all.length} tokens: the session has ${all.length} of the model's ${maxPositions} positions`;
      throw new BoundsError({ op, argument: "content", expected, received: `${tokens.length}` });
    }
    if (tokens.length === 0) return this;
    const ends = new Set(this.model.config.eosTokens);
    for (const token of tokens) {
      all.push(token);
      if (ends.has(token)) messageEnds.push(all.length);
    }
    if (messageEnds.at(-1) !== all.length) messageEnds.push(all.length);
    this.#of.forget();
    return this;
  }

  /**
   * {@link append} of messages as the model's chat template writes them, with the beginning of an answer.
   *
   * For the first turn. What a template writes between an answer and the next message, such as the end of the answer's turn, it
   * writes as part of a whole conversation: for the next turn make a new session of all messages, with a
   * {@link SessionOptions.cache} that finds what was read before.
   *
   * @throws {GatedDeltaError} as {@link append}, and where the folder has no chat template or the template refuses the messages.
   */
  chat(messages: readonly ChatMessage[], options?: ChatOptions): this {
    this.#idle("session.chat");
    return this.append(this.model.text.chat(messages, options));
  }

  /**
   * Goes on, token by token. The model works when the iterator is asked for the next piece, and the session has a token once
   * its piece was given out: leaving the iterator, or aborting, leaves it after the last one. It can then be appended to,
   * forked, or go on. During a generation it may be forked between two pieces.
   *
   * @throws {GatedDeltaError} for wrong options, where the session has no tokens or no room for one, and, from the
   *   iterator, while another generation of it is under way, of code `out-of-memory` where states or pages are short (see
   *   {@link SessionOptions.whenFull}), and for logits that are not numbers; the signal's reason where it is aborted.
   */
  generate(options: GenerateOptions = {}): AsyncGenerator<Piece, void, void> {
    const op = "session.generate";
    this.#alive(op);
    const checked: GenerateOptions = checkOptions(schemas().generateOptions, op, options);
    return this.#generate(op, checked);
  }

  async *#generate(op: string, options: GenerateOptions): AsyncGenerator<Piece, void, void> {
    this.#idle(op);
    const of = this.#of;
    of.running = "a generation";
    try {
      yield* new Generation(op, of, options).run();
    } finally {
      of.running = undefined;
    }
  }

  /**
   * Reads what was not read.
   *
   * @returns `[vocabSize]`: the logits of the token after the last one; the caller's.
   * @throws as {@link generate}.
   */
  async logits(options: ReadOptions = {}): Promise<Float32Array> {
    const op = "session.logits";
    const signal = this.#readSignal(op, options);
    if (this.#of.logits === undefined) await this.#of.readAll(op, signal, false);
    return this.#of.logits!.slice();
  }

  /**
   * Reads what was not read. A session does not keep hidden states of its own accord: one whose last token was read before is
   * read again, from what its cache has.
   *
   * @returns `[hiddenSize]`: the hidden state of the last token after the final norm, in float32; the caller's.
   * @throws as {@link generate}.
   */
  async hidden(options: ReadOptions = {}): Promise<Float32Array> {
    const op = "session.hidden";
    const signal = this.#readSignal(op, options);
    if (this.#of.hidden === undefined) await this.#of.readAll(op, signal, true);
    return this.#of.hidden!.slice();
  }

  #readSignal(op: string, options: ReadOptions): AbortSignal | undefined {
    this.#idle(op);
    return checkOptions(schemas().readOptions, op, options).signal;
  }

  /**
   * A second session of the same tokens, which goes on by itself. What was read is shared, and not copied.
   *
   * @throws {GatedDeltaError} of code `out-of-memory` when no state is free, after the model's caches have given theirs
   *   back; of code `state` while a step of the session is under way.
   */
  fork(): Session {
    const op = "session.fork";
    this.#alive(op);
    const of = this.#of;
    if (of.pending) throw runningError(op, of.running ?? "a step");
    of.settle();
    const { model, scheduler, cache, salt, whenFull } = of;
    const other = new Conversation({ model, scheduler, cache, salt, whenFull, tokens: of.tokens.slice(), messageEnds: of.messageEnds.slice() });
    if (of.sequence !== undefined && !of.sequence.disposed && of.sequence.valid) {
      while (model.freeStates === 0 && scheduler.evict()) continue;
      const { sequence } = of;
      other.sequence = stateFor(op, () => sequence.fork());
    }
    other.stored = of.stored;
    other.logits = of.logits;
    other.hidden = of.hidden;
    return Session.#make(other);
  }

  /**
   * Writes it to a file as it is now: tokens, states, keys, values and the last logits. Other work goes on meanwhile; the
   * session's own next step waits until the file is written. A process that is killed leaves the file that was there.
   *
   * @throws {FileError} (as a rejection) where it can't be written; {@link GatedDeltaError} of code `state` while a step
   *   of it is under way, and where the model is disposed meanwhile. The file that was there is unchanged then.
   */
  async save(path: string): Promise<void> {
    const op = "session.save";
    this.#alive(op);
    expectPath(op, path);
    const of = this.#of;
    if (of.pending) throw runningError(op, of.running ?? "a step");
    of.settle();
    const { tokens, messageEnds, readable, stored, logits } = of;
    const read = readable === undefined ? stored : viewsOf(readable);
    const contents = { tokens: Int32Array.from(tokens), messageEnds: Int32Array.from(messageEnds), logits: logits?.slice(), read };
    await of.whileSaving(async () => {
      await memoryOf(of.model).idle(); // guesses that were accepted just now
      await writeSession(op, path, of.model, contents);
    });
  }

  /**
   * The session that a file holds, as it was: it goes on with the same bits, and reads nothing again. It takes a state and
   * pages when it goes on. Other work goes on while the file is read.
   *
   * @param model the one that has written it, or another one of the same weights with states and pages of the same dtypes.
   * @throws {FileError} (as a rejection) for a file that is damaged, no session, or one of another model.
   */
  static async load(model: LanguageModel, path: string, options: SessionOptions = {}): Promise<Session> {
    const op = "Session.load";
    if (!isModel(model)) throw invalid(op, "model", "a LanguageModel", model);
    expectPath(op, path);
    const session = named(op, () => model.session(options));
    try {
      const of = session.#of;
      const { tokens, messageEnds, logits, read } = await readSession(op, path, model);
      session.#alive(op);
      for (const token of tokens) of.tokens.push(token);
      for (const end of messageEnds) of.messageEnds.push(end);
      of.logits = logits;
      of.stored = read;
      return session;
    } catch (error) {
      session[Symbol.dispose]();
      throw error;
    }
  }

  /** Ends it: a generation of it ends with an error. Gives its state and pages back, once no step of it is under way. */
  [Symbol.dispose](): void {
    const of = this.#of;
    if (of.disposed) return;
    of.disposed = true;
    of.ended.abort(endedError());
    if (!of.pending) of.drop();
    Session.#collected.unregister(this);
    of.scheduler.hold(-1);
  }

  #alive(op: string): void {
    if (this.#of.disposed) throw endedError(op);
    if (this.model.disposed) throw new DisposedError({ op, expected: "a model that is not disposed", received: "a disposed one" });
  }

  #idle(op: string): void {
    this.#alive(op);
    if (this.#of.running !== undefined) throw runningError(op, this.#of.running);
  }
}

/** Calls another function of the public ones; what it refuses is refused in this call's name. */
function named<T>(op: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof GatedDeltaError) || error.expected === undefined) throw error;
    const { code, argument, expected, received } = error;
    throw errorOf(code, { op, argument, expected, received, cause: error });
  }
}

function expectPath(op: string, path: string): void {
  if (typeof path !== "string" || path === "") throw invalid(op, "path", "a file's path", path);
}
