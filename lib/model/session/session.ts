import { expectMaker, maker } from "../../arguments/made.ts";
import type { Maker } from "../../arguments/made.ts";
import { invalid, largestIndex } from "../../arguments/checks.ts";
import { checkOptions } from "../../arguments/options.ts";
import { BoundsError, DisposedError, GatedDeltaError, errorOf } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { isModel, memoryOf } from "../model-memory.ts";
import type { ChatMessage, ChatOptions } from "../text/chat-template.ts";
import { viewsOf } from "../snapshot.ts";
import { readTokenIds } from "../token-ids.ts";
import { Answer } from "./answer.ts";
import { Conversation, endedError, runningError } from "./conversation.ts";
import { Generation } from "./generation.ts";
import { cacheParts } from "./prefix-cache.ts";
import type { Scheduler } from "./scheduler.ts";
import { readSession, writeSession } from "./session-file.ts";
import type { AppendOptions, Completion, GenerateOptions, LoadSessionOptions, Piece, ReadOptions, SessionOptions, Usage } from "./session-options.ts";
import { appendOptions, generateOptions, loadSessionOptions, readOptions, sessionOptions } from "./session-schemas.ts";
import { Stored } from "./stored.ts";

/** Makes a session. */
export let makeSession: (model: LanguageModel, scheduler: Scheduler, options: SessionOptions) => Session;

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
  static readonly #collected = new FinalizationRegistry<Conversation>((of) => end(of));

  /** The model whose session it is. */
  readonly model: LanguageModel;
  readonly #of: Conversation;

  private constructor(by: Maker, of: Conversation) {
    expectMaker(by, "Session", "model.session()");
    this.model = of.model;
    this.#of = of;
    Session.#collected.register(this, of, this);
    Object.freeze(this);
  }

  static {
    makeSession = (model, scheduler, options) => {
      const op = "model.session";
      const { cache, salt, whenFull } = checkOptions(sessionOptions, op, options);
      const access = cache === undefined ? undefined : cacheParts(cache);
      if (cache !== undefined && access?.scheduler !== scheduler) throw invalid(op, "cache", "a cache of this model", cache);
      return new Session(maker, new Conversation({ model, scheduler, cache: access, salt, whenFull }));
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
   * turned into tokens one by one, which may give others than the texts as one. For what users write,
   * `{ specialTokens: "text" }`: then no text of theirs is a control token.
   *
   * @throws {GatedDeltaError} for ids outside the vocabulary, more tokens than the model has positions, a text where there
   *   is no tokenizer, and during a generation. Nothing was added then.
   */
  append(content: string | readonly number[] | Int32Array | Uint32Array, options?: AppendOptions): this {
    const op = "session.append";
    this.#idle(op);
    const specialTokens = options === undefined ? undefined : checkOptions(appendOptions, op, options).specialTokens;
    const { vocabSize, maxPositions } = this.model.config;
    const limits = { expected: "a text, or an array of token ids, an Int32Array or a Uint32Array", vocabSize, most: largestIndex };
    const tokens = typeof content === "string" ? this.model.text.encode(content, { specialTokens }) : readTokenIds(op, "content", content, limits);
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
    const checked = checkOptions(generateOptions, op, options);
    return new Answer(this, this.#of, (left) => {
      this.#idle(op);
      return new Generation(op, this.#of, checked, left);
    });
  }

  /**
   * {@link generate}, to its end.
   *
   * @throws as {@link generate}.
   */
  async complete(options: GenerateOptions = {}): Promise<Completion> {
    const { length: promptTokens, known, cached } = this.#of.counts;
    const tokens: number[] = [];
    let text = "";
    let end: Piece["end"];
    for await (const piece of this.generate(options)) {
      if (piece.token >= 0) tokens.push(piece.token);
      text += piece.text;
      end = piece.end;
    }
    const cachedTokens = known + this.#of.counts.cached - cached;
    return { text, tokens, end: end ?? "length", usage: { promptTokens, cachedTokens, generatedTokens: tokens.length } };
  }

  /** How many tokens came from the caller, how many of these a cache had, and how many were generated. */
  get usage(): Usage {
    const { length, generated: generatedTokens, cached: cachedTokens } = this.#of.counts;
    return { promptTokens: length - generatedTokens, cachedTokens, generatedTokens };
  }

  /**
   * Reads what was not read.
   *
   * @returns `[vocabSize]`: the logits of the token after the last one; the caller's.
   * @throws as {@link generate}.
   */
  async logits(options: ReadOptions = {}): Promise<Float32Array> {
    const op = "session.logits";
    const { signal, onProgress } = this.#readOptions(op, options);
    if (this.#of.logits === undefined) await this.#of.readAll(op, signal, { hidden: false, onProgress });
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
    const { signal, onProgress } = this.#readOptions(op, options);
    if (this.#of.hidden === undefined) await this.#of.readAll(op, signal, { hidden: true, onProgress });
    return this.#of.hidden!.slice();
  }

  #readOptions(op: string, options: ReadOptions): ReadOptions {
    this.#idle(op);
    return checkOptions(readOptions, op, options);
  }

  /**
   * A second session of the same tokens, which goes on by itself. What was read is shared, and not copied; the two part when
   * one of them goes on. That takes no memory now, and none is refused.
   *
   * @throws {GatedDeltaError} of code `state` while a step of the session is under way.
   */
  fork(): Session {
    const op = "session.fork";
    this.#alive(op);
    const of = this.#of;
    if (of.pending) throw runningError(op, of.running ?? "a step");
    of.memory.settle();
    return new Session(maker, of.fork());
  }

  /**
   * Writes it to a file as it is now: tokens, states, keys, values and the last logits. Other work goes on meanwhile; the
   * session's own next step waits until the file is written. A process that is killed leaves the file that was there.
   *
   * The first one of a model waits for its {@link LanguageModel.identity}, some seconds for a large one.
   *
   * @throws {FileError} (as a rejection) where it can't be written, and where a file of the model has changed, as
   *   {@link LanguageModel.identity}; {@link GatedDeltaError} of code `state` while a step of it is under way, and where the
   *   model is disposed meanwhile. The file that was there is unchanged then.
   */
  async save(path: string): Promise<void> {
    const op = "session.save";
    this.#alive(op);
    expectPath(op, path);
    const of = this.#of;
    if (of.pending) throw runningError(op, of.running ?? "a step");
    const write = (from: Conversation): Promise<void> => {
      const { logits, recomputable, memory: { readable, stored } } = from;
      const read = readable === undefined ? stored?.snapshot : viewsOf(readable);
      const contents = { tokens: Int32Array.from(from.tokens), messageEnds: Int32Array.from(from.messageEnds), logits: logits?.slice(), read, recomputable };
      return from.whileSaving(async () => {
        await memoryOf(of.model).idle(); // guesses that were accepted just now
        await writeSession(op, path, of.model, contents);
      });
    };
    of.memory.settle();
    if (of.memory.taken === undefined) return write(of);
    // A copy of it reads again what it had, so that it can go on meanwhile.
    const copy = of.fork();
    try {
      await copy.readAgain(op);
      await write(copy);
    } finally {
      copy.drop();
    }
  }

  /**
   * The session that a file holds, as it was: it goes on with the same bits, and reads nothing again. It takes a state and
   * pages when it goes on. Other work goes on while the file is read.
   *
   * The model is compared by its {@link LanguageModel.identity}. A cache gets nothing of the session, or of its forks, unless
   * {@link LoadSessionOptions.trust} says that the file is one's own.
   *
   * @param model the one that has written it, or another one of the same weights with states and pages of the same dtypes.
   * @throws {FileError} (as a rejection) for a file that is damaged, no session, one of another model, or one that an earlier
   *   version of the library has written; and where a file of the model has changed, as {@link LanguageModel.identity}.
   */
  static async load(model: LanguageModel, path: string, options: LoadSessionOptions = {}): Promise<Session> {
    const op = "Session.load";
    if (!isModel(model)) throw invalid(op, "model", "a LanguageModel", model);
    expectPath(op, path);
    const { trust, ...others } = checkOptions(loadSessionOptions, op, options);
    const session = named(op, () => model.session(others));
    try {
      const of = session.#of;
      of.origin = trust ? "trusted-file" : "file";
      const { tokens, messageEnds, logits, read, recomputable } = await readSession(op, path, model);
      session.#alive(op);
      for (const token of tokens) of.tokens.push(token);
      for (const end of messageEnds) of.messageEnds.push(end);
      of.logits = logits;
      of.recomputable = recomputable || read === undefined;
      of.memory.stored = read === undefined ? undefined : new Stored(read);
      return session;
    } catch (error) {
      session[Symbol.dispose]();
      throw error;
    }
  }

  /** Ends it: a generation of it ends with an error. Gives its state and pages back, once no step of it is under way. */
  [Symbol.dispose](): void {
    end(this.#of);
    Session.#collected.unregister(this);
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

/** Ends a session: what it has goes back once no step of it is under way. */
function end(of: Conversation): void {
  if (of.disposed) return;
  of.disposed = true;
  of.ended.abort(endedError());
  if (!of.pending) of.drop();
  of.parts.scheduler.freed();
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
