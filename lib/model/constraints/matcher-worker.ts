/** A Worker with the vocabulary of a model, and the grammars that it has compiled. */
import { Worker } from "node:worker_threads";
import { GatedDeltaError } from "../../errors.ts";
import { turns } from "../../turns.ts";
import { serveMasks } from "./matcher-program.ts";
import type { MatcherAnswer, MatcherData, MatcherRequest } from "./matcher-program.ts";

/** Tokens in a message. */
const tokensAtOnce = 4096;

/** Number of compiled grammars that a Worker keeps although no text uses them. */
const mostGrammars = 16;

type Asked = Exclude<MatcherRequest, { readonly kind: "tokens" | "close" }>;
type WithoutId<Request> = Request extends unknown ? Omit<Request, "id"> : never;

/** The error when the library has failed or did not answer in time. */
export class MatcherFailure extends Error {}

/** A model's tokens, for a Worker. */
export interface MatcherTokens {
  /** Number of logits. */
  readonly vocabSize: number;
  readonly ends: readonly number[];
  /** Tokens by id, as {@link MatcherRequest} has them. */
  textOf(id: number): string;
}

export class MatcherWorker {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve(answer: MatcherAnswer): void; reject(error: unknown): void }>();
  /** Grammars that the Worker may have, the most recently used at the end. */
  readonly #grammars = new Set<string>();
  #ids = 0;
  #open = 0;
  /** Grammars of the requests to begin a text that have no answer yet. */
  readonly #opening: string[] = [];
  #ended = false;
  readonly #ready: Promise<void>;

  /** @param library the path of the library. */
  constructor(library: string, { vocabSize, ends, textOf }: MatcherTokens) {
    const workerData: MatcherData = { library, vocabSize, ends, mostGrammars };
    this.#worker = new Worker(`(${serveMasks})()`, { eval: true, workerData, name: "gated-delta constraints" });
    this.#worker.on("message", (answer: MatcherAnswer) => this.#take(answer));
    this.#worker.on("error", (error: unknown) => this.end(error instanceof Error ? error.message : String(error)));
    this.#worker.on("exit", () => this.end("its Worker ended"));
    this.#worker.unref();
    this.#ready = this.#sendTokens(vocabSize, textOf);
  }

  /** How many texts are open. */
  get open(): number {
    return this.#open;
  }

  /** Whether the Worker may be compiling; requests wait meanwhile. */
  get compiling(): boolean {
    return this.#opening.length > 0;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Whether the Worker has compiled a grammar and, as far as known, kept it: it drops unused ones. */
  has(grammar: string): boolean {
    return this.#grammars.has(grammar);
  }

  /** Whether the Worker is compiling a grammar, or about to. */
  compiles(grammar: string): boolean {
    return this.#opening.includes(grammar);
  }

  /**
   * Asks for an answer.
   *
   * @param limit milliseconds after which the request is given up, and the Worker with it.
   * @throws {MatcherFailure}
   */
  async ask(request: WithoutId<Asked>, limit: number): Promise<MatcherAnswer> {
    if (request.kind !== "open") return this.#answer(request, limit);
    const { grammar } = request;
    this.#open++;
    this.#opening.push(grammar);
    this.#grammars.delete(grammar);
    this.#grammars.add(grammar);
    for (const oldest of this.#grammars) {
      if (this.#grammars.size <= mostGrammars) break;
      this.#grammars.delete(oldest);
    }
    try {
      return await this.#answer(request, limit);
    } finally {
      this.#opening.splice(this.#opening.indexOf(grammar), 1);
    }
  }

  async #answer(request: WithoutId<Asked>, limit: number): Promise<MatcherAnswer> {
    await this.#ready;
    if (this.#ended) throw new MatcherFailure("its Worker ended");
    const id = ++this.#ids;
    const { promise, resolve, reject } = Promise.withResolvers<MatcherAnswer>();
    this.#waiting.set(id, { resolve, reject });
    if (this.#waiting.size === 1) this.#worker.ref();
    const timer = setTimeout(() => this.end(`no end after ${limit / 1000} s`), limit);
    try {
      this.#worker.postMessage({ ...request, id });
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
      if (this.#waiting.size === 0) this.#worker.unref();
    }
  }

  /** Closes a text that `open` opened. */
  close(matcher: number): void {
    this.#open--;
    if (!this.#ended) this.#worker.postMessage({ kind: "close", matcher } satisfies MatcherRequest);
  }

  /** Ends the Worker; its pending requests fail. */
  end(reason: string): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const { reject } of this.#waiting.values()) reject(new MatcherFailure(reason));
    void this.#worker.terminate();
  }

  #take(answer: MatcherAnswer): void {
    if (answer.kind !== "failed") {
      this.#waiting.get(answer.id)?.resolve(answer);
      return;
    }
    // After a failure the state of the library's memory is unknown.
    const reason = answer.message.replace(/^\[FATAL\] \S+: /, "");
    this.#waiting.get(answer.id)?.reject(new MatcherFailure(reason));
    this.#waiting.delete(answer.id);
    this.end(`another text's grammar failed (${reason})`);
  }

  async #sendTokens(size: number, textOf: (id: number) => string): Promise<void> {
    const turn = turns();
    for (let from = 0; from < size; from += tokensAtOnce) {
      const tokens = Array.from({ length: Math.min(tokensAtOnce, size - from) }, (_, i) => textOf(from + i));
      if (this.#ended) return;
      this.#worker.postMessage({ kind: "tokens", tokens } satisfies MatcherRequest);
      await turn();
    }
  }
}

/** The error for a failure of the library that no argument explains. */
export function failedError(op: string, cause: unknown): GatedDeltaError {
  const message = `@mlc-ai/web-xgrammar has failed: ${cause instanceof Error ? cause.message : String(cause)}`;
  return new GatedDeltaError("internal", { op, message, cause });
}
