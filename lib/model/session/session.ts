import { expectMaker, maker } from "../../arguments/made.ts";
import type { Maker } from "../../arguments/made.ts";
import { asInteger, invalid, largestIndex } from "../../arguments/checks.ts";
import { membersOf } from "../../arguments/members.ts";
import { checkOptions } from "../../arguments/options.ts";
import { BoundsError, DisposedError, GatedDeltaError, errorOf } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { isModel, memoryOf } from "../model-memory.ts";
import { anySeed } from "../sampling/philox.ts";
import type { ChatMessage, ChatOptions } from "../text/chat-template.ts";
import { viewsOf } from "../snapshot.ts";
import { readTokenIds } from "../token-ids.ts";
import { allTogether } from "./all-together.ts";
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
 * A conversation with a model. Tokens are appended and generated; the model reads them when they are needed, together
 * with those of all its other sessions. With f32 states a session's logits have the same bits, and so its tokens are the
 * same, regardless of the other sessions, of how its tokens were appended, of whether they were read, forked or found in a
 * cache, and of drafts.
 *
 * @example
 * using session = model.session();
 * session.append(model.text.chat([{ role: "user", content: "Why is the sky blue?" }]));
 * for await (const { text } of session.generate({ maxTokens: 200 })) process.stdout.write(text);
 */
export class Session implements Disposable {
  static readonly #collected = new FinalizationRegistry<Conversation>((of) => end(of));

  /** The model that it belongs to. */
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

  /** How many of its tokens the model has read: the others are read by the next {@link generate} or {@link logits}. */
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
   * Adds tokens, or the tokens of a text, at the end. Nothing is read yet. Each text is tokenized by itself, so appending
   * two texts may give other tokens than appending both as one. Pass `{ specialTokens: "text" }` for user input, so that
   * none of it becomes a control token.
   *
   * @throws {GatedDeltaError} for ids outside the vocabulary, more tokens than the model has positions, a text without a
   *   tokenizer, and during a generation. Nothing is added then.
   */
  append(content: string | readonly number[] | Int32Array | Uint32Array, options?: AppendOptions): this {
    const op = "session.append";
    this.#idle(op);
    const specialTokens = options === undefined ? undefined : checkOptions(appendOptions, op, options).specialTokens;
    const { vocabSize, maxPositions } = this.model.config;
    const limits = { expected: "a text, or an array of token ids, an Int32Array or a Uint32Array", vocabSize, most: largestIndex };
    const tokens = typeof content === "string" ? this.model.text.encode(content, { specialTokens }) : readTokenIds(op, "content", content, limits);
    this.#idle(op); // reading an array can run code of the caller
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
   * Renders messages with the model's chat template, including the start of an answer, and appends them.
   *
   * Only for the first turn: templates render whole conversations, so a later turn starts a new session with all messages.
   * A {@link SessionOptions.cache} finds the part that was read before.
   *
   * @throws {GatedDeltaError} as {@link append}, and if the folder has no chat template or the template refuses the messages.
   */
  chat(messages: readonly ChatMessage[], options?: ChatOptions): this {
    this.#idle("session.chat");
    return this.append(this.model.text.chat(messages, options));
  }

  /**
   * Generates an answer token by token. The model works when the iterator is asked for the next piece, and the session gets
   * a token when its piece is returned. If you leave the iterator, or abort, the session stays after the last returned
   * piece; it can then be appended to, forked or continued. During a generation it can be forked between two pieces.
   *
   * @throws {GatedDeltaError} for wrong options, and if the session has no tokens or no room for one. The iterator throws it
   *   while another generation of the session is running, with code `out-of-memory` when states or pages run short (see
   *   {@link SessionOptions.whenFull}), and for logits that are not numbers; it throws the signal's reason when aborted.
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
   * Runs {@link generate} to its end.
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

  /**
   * Generates several answers to the same prompt, at once, each in a fork: the session itself gets none of them. The prompt is read
   * once. Answer i is that of {@link complete} with the seed `seed + i`, modulo 2^53; without a seed, the first one is random.
   *
   * @param count number of answers, 1 .. 1024.
   * @returns the answers in order. Each counts the prompt as known.
   * @throws {GatedDeltaError} for wrong arguments; as {@link generate}: the first error ends all answers.
   */
  async completeMany(count: number, options: GenerateOptions = {}): Promise<Completion[]> {
    const op = "session.completeMany";
    this.#idle(op);
    const answers = asInteger(op, "count", count, 1, 1024);
    const given = membersOf(op, options, generateOptions().keys as (keyof GenerateOptions)[]) as GenerateOptions;
    const { signal, onProgress, seed = anySeed() } = checkOptions(generateOptions, op, given);
    if (this.#of.logits === undefined) await this.#of.readAll(op, signal, { hidden: false, onProgress });
    using forks = new DisposableStack();
    const sessions = Array.from({ length: answers }, () => forks.use(this.fork()));
    return await allTogether(signal, (both) => sessions.map((one, i) => one.complete({ ...given, seed: (seed + i) % 2 ** 53, signal: both })));
  }

  /** How many tokens were appended, how many of these a cache had, and how many were generated. */
  get usage(): Usage {
    const { length, generated: generatedTokens, cached: cachedTokens } = this.#of.counts;
    return { promptTokens: length - generatedTokens, cachedTokens, generatedTokens };
  }

  /**
   * Reads the tokens that were not read yet.
   *
   * @returns `[vocabSize]`: the logits for the token after the last one, as a copy.
   * @throws as {@link generate}.
   */
  async logits(options: ReadOptions = {}): Promise<Float32Array> {
    const op = "session.logits";
    const { signal, onProgress } = this.#readOptions(op, options);
    if (this.#of.logits === undefined) await this.#of.readAll(op, signal, { hidden: false, onProgress });
    return this.#of.logits!.slice();
  }

  /**
   * Reads the tokens that were not read yet. A session does not keep hidden states: if its last token was already read, it
   * is read again, starting from a cached prefix if there is one.
   *
   * @returns `[hiddenSize]`: the hidden state of the last token after the final norm, in float32, as a copy.
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
   * Makes an independent session with the same tokens. The two share states, keys and values until one of them continues.
   * A fork takes no memory by itself and never fails for lack of it.
   *
   * @throws {GatedDeltaError} of code `state` while a step of the session is running.
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
   * Writes its tokens, states, keys, values and last logits to a file. Other work continues meanwhile; the session's own
   * next step waits until the file is written. If the process is killed meanwhile, an existing file stays intact.
   *
   * The first save of a model waits for its {@link LanguageModel.identity}, some seconds for a large one.
   *
   * @throws {FileError} (as a rejection) if the file can't be written, or a file of the model has changed, as
   *   {@link LanguageModel.identity}; {@link GatedDeltaError} of code `state` while a step of the session is running, and if
   *   the model is disposed meanwhile. An existing file is unchanged then.
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
        await memoryOf(of.model).idle(); // guesses may have been accepted just now
        await writeSession(op, path, of.model, contents);
      });
    };
    of.memory.settle();
    if (of.memory.taken === undefined) return write(of);
    // Its memory was taken. A fork reads the tokens again, so that the session itself can continue meanwhile.
    const copy = of.fork();
    try {
      await copy.readAgain(op);
      await write(copy);
    } finally {
      copy.drop();
    }
  }

  /**
   * Loads a session from a file. It continues with the same bits and reads nothing again. It takes a state and pages only
   * when it continues. Other work continues while the file is read.
   *
   * The model is compared by its {@link LanguageModel.identity}. The session and its forks add nothing to a cache without
   * {@link LoadSessionOptions.trust}.
   *
   * @param model the model that wrote it, or another with the same weights and the same dtypes of states and pages.
   * @throws {FileError} (as a rejection) for a file that is damaged, not a session, of another model, or written by an earlier
   *   version of the library; and if a file of the model has changed, as {@link LanguageModel.identity}.
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

  /** Ends the session; a running generation ends with an error. Frees its state and pages once no step of it is running. */
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

/** Ends a session; its memory is freed once no step of it is running. */
function end(of: Conversation): void {
  if (of.disposed) return;
  of.disposed = true;
  of.abort(endedError());
  if (!of.pending) of.drop();
  of.context.scheduler.freed();
}

/** Calls another public function, and names this call in its errors. */
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
