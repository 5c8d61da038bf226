/** The Workers of a model that match texts with grammars. */
import { optionalPackage } from "../../native/optional-package.ts";
import { DisposedError, GatedDeltaError, UnsupportedError } from "../../errors.ts";
import { byteCharacters } from "../text/byte-level.ts";
import type { ModelText } from "../text/model-text.ts";
import { tokenBytes } from "../text/tokenizer.ts";
import { MatcherFailure, MatcherWorker, failedError } from "./matcher-worker.ts";
import type { MatcherTokens } from "./matcher-worker.ts";

/** The optional package. */
const packageName = "@mlc-ai/web-xgrammar";

/** The most Workers, and the most milliseconds to check, to compile and to answer. */
const mostWorkers = 3;
const checkLimit = 10_000;
const compileLimit = 120_000;
const answerLimit = 30_000;

/** Masks of tokens as the Worker gives them. */
export type Masks = readonly Int32Array[];

/** A text that follows a grammar. */
export interface Matching {
  /**
   * Adds tokens, and examines guesses after them.
   *
   * @returns the masks after the tokens and after each guess that fits; the index of the first token that does not fit.
   */
  next(tokens: readonly number[], guesses: readonly number[]): Promise<{ readonly masks: Masks } | { readonly unfit: number }>;
  close(): void;
}

/** A text that waits for a Worker. */
interface Opening {
  readonly grammar: string;
  begin(worker: MatcherWorker): void;
  fail(reason: string): void;
}

export class Matchers implements Disposable {
  readonly #workers: MatcherWorker[] = [];
  /** Callers' grammars that were parsed without a problem. */
  readonly #checked = new Set<string>();
  /** Texts that wait for a Worker, in order. */
  readonly #waiting: Opening[] = [];
  #tokens: MatcherTokens | undefined;
  #disposed = false;

  /**
   * Begins a text of a grammar. The text exists at once; its requests wait until the grammar is compiled, and fail if that fails: with a
   * {@link GatedDeltaError} for a grammar that takes too long to compile, and if the library fails.
   *
   * @param argument the option that the grammar comes from, for errors.
   * @throws {UnsupportedError} without the package.
   */
  async open(op: string, argument: string, text: ModelText, limits: { readonly vocabSize: number; readonly eosTokens: readonly number[] }, grammar: string): Promise<Matching> {
    const library = libraryPath(op);
    this.#alive(op);
    const vocabulary = (this.#tokens ??= tokensOf(text, limits.vocabSize, limits.eosTokens));
    const { promise, resolve, reject } = Promise.withResolvers<{ readonly worker: MatcherWorker; readonly matcher: number }>();
    const begin = (worker: MatcherWorker): void => {
      const asked = worker.ask({ kind: "open", grammar }, compileLimit);
      resolve(asked.then(({ id: matcher }) => ({ worker, matcher })).finally(() => this.#begin(library, vocabulary)));
    };
    const opening: Opening = { grammar, begin, fail: (reason) => reject(new MatcherFailure(reason)) };
    const opened = promise.catch((cause: unknown) => {
      this.#alive(op);
      if (!(cause instanceof MatcherFailure)) throw failedError(op, cause);
      throw new UnsupportedError({ op, argument, expected: `a grammar that xgrammar compiles, within ${compileLimit / 1000} s`, received: cause.message, cause });
    });
    opened.catch(() => {});
    this.#waiting.push(opening);
    this.#begin(library, vocabulary);
    let closed = false;
    /** Settles with the last request: the Worker forgets a closed text and must not be asked about it. */
    let asked: Promise<unknown> = opened;
    return {
      next: async (tokens, guesses) => {
        if (closed) throw failedError(op, "the text is closed");
        const answering = opened.then(({ worker, matcher }) => {
          const limit = worker.compiling ? compileLimit + answerLimit : answerLimit;
          return worker.ask({ kind: "next", matcher, tokens, guesses }, limit).catch((cause: unknown) => {
            this.#alive(op);
            throw failedError(op, cause);
          });
        });
        // Without a value, which would hold all masks of the answer.
        asked = Promise.allSettled([asked, answering]).then(() => {});
        const answer = await answering;
        if (answer.kind === "unfit") return { unfit: answer.index };
        if (answer.kind === "masks") return { masks: answer.masks };
        throw failedError(op, answer.kind);
      },
      close: () => {
        if (closed) return;
        closed = true;
        const place = this.#waiting.indexOf(opening);
        if (place < 0) {
          const close = () => opened.then(({ worker, matcher }) => worker.close(matcher));
          asked.then(close).catch(() => {});
          return;
        }
        // Its compilation has not begun, and no text waits for it any longer.
        this.#waiting.splice(place, 1);
        opening.fail("it was closed");
      },
    };
  }

  /**
   * Tries a caller's grammar with a vocabulary of bytes, in a separate Worker: a wrong grammar can end the library or hang it.
   *
   * @throws {GatedDeltaError} of code `invalid-argument` that says where the grammar is wrong.
   */
  async check(op: string, argument: string, grammar: string): Promise<void> {
    if (this.#checked.has(grammar)) return;
    const bytes = byteCharacters.length;
    const worker = new MatcherWorker(libraryPath(op), { vocabSize: bytes + 1, ends: [bytes], textOf: (id) => byteCharacters[id] ?? "" });
    try {
      const { id: matcher } = await worker.ask({ kind: "open", grammar }, checkLimit);
      await worker.ask({ kind: "next", matcher, tokens: [], guesses: [] }, checkLimit);
    } catch (cause) {
      if (!(cause instanceof MatcherFailure)) throw failedError(op, cause);
      throw new GatedDeltaError("invalid-argument", { op, argument, expected: "a grammar in the EBNF of xgrammar", received: cause.message, cause });
    } finally {
      worker.end("its grammar was checked");
    }
    if (this.#checked.size === 64) this.#checked.clear();
    this.#checked.add(grammar);
  }

  #alive(op: string): void {
    if (this.#disposed) throw new DisposedError({ op, expected: "a model that is not disposed" });
  }

  /** Gives Workers to the texts that wait for one, in order. */
  #begin(library: string, tokens: MatcherTokens): void {
    if (this.#disposed) return;
    for (const opening of [...this.#waiting]) {
      try {
        const worker = this.#worker(library, tokens, opening.grammar);
        if (worker === undefined) continue;
        opening.begin(worker);
      } catch (cause) {
        opening.fail(cause instanceof Error ? cause.message : "a Worker could not be made");
      }
      this.#waiting.splice(this.#waiting.indexOf(opening), 1);
    }
  }

  /**
   * The Worker for a grammar: one that has the grammar and compiles nothing, one that compiles it, an unused one, a new one, or else, of
   * those that do not compile, the one with the fewest texts; none if all compile.
   */
  #worker(library: string, tokens: MatcherTokens, grammar: string): MatcherWorker | undefined {
    const alive = this.#workers.filter((worker) => !worker.ended);
    const free = alive.filter((worker) => !worker.compiling);
    const found = free.find((worker) => worker.has(grammar)) ?? alive.find((worker) => worker.compiles(grammar)) ?? free.find((worker) => worker.open === 0);
    if (found !== undefined) return found;
    if (alive.length < mostWorkers) {
      const made = new MatcherWorker(library, tokens);
      this.#workers.splice(0, Infinity, ...alive, made);
      return made;
    }
    return free.sort((one, other) => one.open - other.open)[0];
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    for (const worker of this.#workers) worker.end("the model was disposed");
    this.#workers.length = 0;
    for (const { fail } of this.#waiting.splice(0)) fail("the model was disposed");
  }
}

/**
 * The path of the package.
 *
 * @throws {UnsupportedError} that says how to install it.
 */
export function libraryPath(op: string): string {
  return optionalPackage(op, packageName);
}

/** The tokens of a model. Control tokens have no text: a grammar never gives them. */
function tokensOf(text: ModelText, vocabSize: number, ends: readonly number[]): MatcherTokens {
  const { tokenizer } = text;
  const { bytesOf } = tokenBytes(tokenizer);
  const silent = new Set(ends);
  return {
    vocabSize,
    ends,
    textOf: (id) => {
      if (silent.has(id) || tokenizer.isSpecial(id)) return "";
      let token = "";
      for (const byte of bytesOf(id) ?? []) token += byteCharacters[byte]!;
      return token;
    },
  };
}
