import { expectMaker, maker } from "../../arguments/made.ts";
import type { Maker } from "../../arguments/made.ts";
import { asInteger, invalid, largestIndex } from "../../arguments/checks.ts";
import { membersOf } from "../../arguments/members.ts";
import { checkOptions } from "../../arguments/options.ts";
import { BoundsError, DisposedError, GatedDeltaError, errorOf } from "../../errors.ts";
import type { LanguageModel } from "../language-model.ts";
import { isModel } from "../model-memory.ts";
import { anySeed } from "../sampling/philox.ts";
import type { ChatMessage, ChatOptions } from "../text/chat-template.ts";
import { readTokenIds } from "../token-ids.ts";
import { allTogether } from "./all-together.ts";
import { Answer } from "./answer.ts";
import { allMessages, dialogueOf } from "./dialogue.ts";
import { Conversation, endedError, runningError } from "./conversation.ts";
import { Generation } from "./generation.ts";
import { cacheParts } from "./prefix-cache.ts";
import type { Scheduler } from "./scheduler.ts";
import { restore, saveConversation } from "./save.ts";
import { readSession } from "./session-file.ts";
import type { Answered, AppendOptions, Completion, GenerateOptions, LoadSessionOptions, Piece, ReadOptions, SessionOptions, Turn, Usage } from "./session-options.ts";
import { appendOptions, generateOptions, loadSessionOptions, readOptions, sessionOptions } from "./session-schemas.ts";
import { readTurn, takeTurn } from "./turn.ts";
import { answered, completed } from "./whole-answer.ts";

/** The internals of a session. */
export let conversationOf: (session: Session) => Conversation;

/** Makes a session. */
export let makeSession: (model: LanguageModel, scheduler: Scheduler, options: SessionOptions) => Session;

/**
 * A conversation with a model. Tokens are appended and generated; the model reads them when they are needed, together
 * with those of all its other sessions. With f32 states, a session's logits have the same bits, and so its tokens are the
 * same, regardless of other sessions, of drafts, of how its tokens were appended, and of whether they were read, forked or
 * found in a cache.
 *
 * @example
 * using session = model.session();
 * session.append(model.text.chat([{ role: "user", content: "Why is the sky blue?" }]));
 * for await (const { text } of session.generate({ maxTokens: 200 })) process.stdout.write(text);
 */
export class Session implements Disposable {
  static readonly #collected = new FinalizationRegistry<Conversation>((of) => end(of));

  /** The model that the session belongs to. */
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
    conversationOf = (session) => session.#of;
    makeSession = (model, scheduler, options) => {
      const op = "model.session";
      const { cache, salt, whenFull } = checkOptions(sessionOptions, op, options);
      const access = cache === undefined ? undefined : cacheParts(cache);
      if (cache !== undefined && access?.scheduler !== scheduler) throw invalid(op, "cache", "a cache of this model", cache);
      return new Session(maker, new Conversation({ model, scheduler, cache: access, salt, whenFull }));
    };
  }

  /** How many tokens the session has, read or not. */
  get length(): number {
    return this.#of.tokens.length;
  }

  /** How many of the session's tokens the model has read: the next {@link generate} or {@link logits} reads the others. */
  get read(): number {
    this.#alive("session.read");
    return this.#of.read;
  }

  /** A copy of the session's tokens. */
  get tokens(): Int32Array {
    return Int32Array.from(this.#of.tokens);
  }

  /** Whether the session was disposed. */
  get disposed(): boolean {
    return this.#of.disposed;
  }

  /**
   * Adds tokens, or the tokens of a text, at the end. Nothing is read yet. Each text is tokenized by itself, so appending
   * two texts may give different tokens from appending both as one. Pass `{ specialTokens: "text" }` for user input, so that
   * none of it becomes a control token.
   *
   * @throws {GatedDeltaError} for ids outside the vocabulary, for more tokens than the model has positions, for text without
   *   a tokenizer, and during a generation. Nothing is added then.
   */
  append(content: string | readonly number[] | Int32Array | Uint32Array, options?: AppendOptions): this {
    const op = "session.append";
    this.#idle(op);
    const specialTokens = options === undefined ? undefined : checkOptions(appendOptions, op, options).specialTokens;
    const { vocabSize, maxPositions } = this.model.config;
    const limits = { expected: "a text, or an array of token ids, an Int32Array or a Uint32Array", vocabSize, most: largestIndex };
    const tokens = typeof content === "string" ? this.model.text.encode(content, { specialTokens }) : readTokenIds(op, "content", content, limits);
    this.#idle(op); // reading an array can run code of the caller
    const { length } = this.#of.tokens;
    if (tokens.length > maxPositions - length) {
      const expected = `at most ${maxPositions - length} tokens: the session has ${length} of the model's ${maxPositions} positions`;
      throw new BoundsError({ op, argument: "content", expected, received: `${tokens.length}` });
    }
    if (tokens.length === 0) return this;
    this.#of.add(tokens);
    this.#of.dialogue = undefined;
    return this;
  }

  /**
   * Adds the messages that come next in the conversation: at first all existing messages, later those that follow the
   * session's answer, such as a user's message or tool results. The session itself adds the answer.
   *
   * The model's chat template writes the whole conversation, including the start of an answer, and the session keeps its
   * tokens as far as they match this text. Generated tokens are kept if their text is the same. If the template now writes an
   * earlier part differently, such as an answer without its thoughts, the session goes back to the longest prefix that its
   * {@link SessionOptions.cache} has, or without a cache to the start. {@link turn} has the numbers.
   *
   * Each option except `addGenerationPrompt` stays for later turns until it is given again; `tools: []` removes the tools. An
   * answer that was cut off is taken as it is, and the template ends it.
   *
   * @throws {GatedDeltaError} if the folder has no chat template or no tokenizer, the template refuses the messages, or the
   *   conversation has more tokens than the model has positions; of code `state` after {@link append}, because messages no
   *   longer describe the session's tokens, and during a generation. Nothing changes then.
   */
  chat(messages: readonly ChatMessage[], options: ChatOptions = {}): this {
    const op = "session.chat";
    this.#idle(op);
    const turn = readTurn(op, this.#of, messages, options);
    this.#idle(op); // reading them can run code of the caller
    this.#of.turn = takeTurn(op, this.#of, turn);
    return this;
  }

  /**
   * Frozen copies of the conversation's messages, in the form that chat templates read: those given to {@link chat}, and the
   * answers, of which the last may be unfinished.
   *
   * @throws {GatedDeltaError} of code `state` after {@link append}, because messages no longer describe the session's tokens.
   */
  get messages(): readonly ChatMessage[] {
    const op = "session.messages";
    this.#alive(op);
    return allMessages(this.#of, dialogueOf(op, this.#of));
  }

  /** How the last {@link chat} changed the session's tokens; undefined before the first, and in a session from a file. */
  get turn(): Turn | undefined {
    return this.#of.turn;
  }

  /**
   * Generates an answer token by token. The model works when the iterator is asked for the next piece, and the session gets
   * a token when its piece is returned. If you leave the iterator, or abort, the session stays after the last returned
   * piece; it can then be appended to, forked or continued. During a generation it can be forked between two pieces.
   *
   * An answer to messages that was left is continued, so that a session can be saved within an answer. An answer that has ended is
   * not continued without {@link GenerateOptions.ignoreModelStops}: the only piece has no token then.
   *
   * @throws {GatedDeltaError} for wrong options, and if the session has no tokens or no room for another. The iterator throws
   *   it while another generation of the session is running, with code `out-of-memory` when states or pages run short (see
   *   {@link SessionOptions.whenFull}), and for logits that are not numbers; it throws the signal's reason when aborted.
   */
  generate(options: GenerateOptions = {}): AsyncGenerator<Piece, void, void> {
    const op = "session.generate";
    this.#alive(op);
    const checked = checkOptions(generateOptions, op, options);
    return new Answer(this, this.#of, (left, ended) => {
      this.#idle(op);
      const none = ended && !checked.ignoreModelStops ? { maxTokens: 0, minTokens: 0 } : {};
      return new Generation(op, this.#of, { ...checked, ...none }, left);
    });
  }

  /**
   * Runs {@link generate} to its end.
   *
   * @throws as {@link generate}.
   */
  async complete(options: GenerateOptions = {}): Promise<Completion> {
    return await completed(this.#of, this.generate(options));
  }

  /**
   * Runs {@link generate} to its end, and gives the answer as a message with its thoughts and tool calls. If the session
   * already has the beginning of the answer, from a generation that was left or aborted, the message is the whole answer; with
   * `maxTokens: 0` it is the answer so far.
   *
   * @throws as {@link generate}; {@link GatedDeltaError} of code `state` if the prompt did not come from {@link chat};
   *   `UnsupportedError` if the folder has no chat template or no tokenizer.
   */
  async answer(options: GenerateOptions = {}): Promise<Answered> {
    const op = "session.answer";
    this.#alive(op);
    return await answered(op, this.#of, () => this.complete(options));
  }

  /**
   * Generates several answers to the same prompt at once, each in a fork: the session itself gets none of them. The prompt is read
   * once. Answer i is that of {@link complete} with the seed `seed + i`, modulo 2^53; without a seed, the first seed is random.
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

  /** How many of the session's tokens came with prompts, how many of these a cache had, and how many were generated. */
  get usage(): Usage {
    const { length, generated: generatedTokens, cached: cachedTokens } = this.#of.counts;
    return { promptTokens: length - generatedTokens, cachedTokens, generatedTokens };
  }

  /**
   * Reads the tokens that have not been read yet.
   *
   * @returns `[vocabSize]`: the logits for the token after the last one, as a copy.
   * @throws as {@link generate}.
   */
  async logits(options: ReadOptions = {}): Promise<Float32Array> {
    const op = "session.logits";
    const { signal, onProgress } = this.#readOptions(op, options);
    const logits = this.#of.logits ?? (await this.#of.readAll(op, signal, { hidden: false, onProgress })).logits;
    return logits.slice();
  }

  /**
   * Reads the tokens that have not been read yet. A session does not keep hidden states: if its last token was already read,
   * the session is read again, starting from a cached prefix if there is one.
   *
   * @returns `[hiddenSize]`: the hidden state of the last token after the final norm, in float32, as a copy.
   * @throws as {@link generate}.
   */
  async hidden(options: ReadOptions = {}): Promise<Float32Array> {
    const op = "session.hidden";
    const { signal, onProgress } = this.#readOptions(op, options);
    const hidden = this.#of.hidden ?? (await this.#of.readAll(op, signal, { hidden: true, onProgress })).hidden;
    return hidden.slice();
  }

  #readOptions(op: string, options: ReadOptions): ReadOptions {
    this.#idle(op);
    return checkOptions(readOptions, op, options);
  }

  /**
   * Makes an independent session with the same tokens and messages. The two share states, keys and values until one of them continues.
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
   * Writes the session's tokens, messages, states, keys, values and last logits to a file. Other work continues meanwhile; the
   * session's own next step waits until the file is written. If the process is killed meanwhile, an existing file stays intact.
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
    await saveConversation(op, path, of);
  }

  /**
   * Loads a session from a file. The session continues with the same bits, reads nothing again, and takes a state and pages
   * only when it continues. Other work continues while the file is read.
   *
   * The model is compared by its {@link LanguageModel.identity}. Without {@link LoadSessionOptions.trust}, the session and its
   * forks add nothing to a cache.
   *
   * @param model the model that wrote the file, or another with the same weights and the same dtypes of states and pages.
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
      const stored = await readSession(op, path, model);
      session.#alive(op);
      restore(of, stored);
      return session;
    } catch (error) {
      session[Symbol.dispose]();
      throw error;
    }
  }

  /** Ends the session; a running generation ends with an error. State and pages are freed once no step of it is running. */
  [Symbol.dispose](): void {
    end(this.#of);
    Session.#collected.unregister(this);
  }

  #alive(op: string): void {
    if (this.#of.disposed) throw endedError(op);
    if (this.model.disposed) throw new DisposedError({ op, expected: "a model that is not disposed" });
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
  if (typeof path !== "string" || path === "" || path.includes("\0") || !path.isWellFormed()) throw invalid(op, "path", "a file's path", path);
}
