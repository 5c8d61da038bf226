/** One request and its response. */
import type { SessionCache } from "../model/session/prefix-cache.ts";
import type { GenerateOptions } from "../model/session/session-options.ts";
import { stringifyWithDigits } from "../model/text/json-digits.ts";
import type { Admission } from "./admission.ts";
import { wholeAnswers } from "./answer-event.ts";
import type { AnswerEvent, TokenCounts } from "./answer-event.ts";
import type { AnsweringApi, Asked, Served } from "./api.ts";
import { apiOf, failuresOf } from "./apis.ts";
import { readJson } from "./body.ts";
import { commentLine, streamHeaders, streamOf, within } from "./event-stream.ts";
import type { Keys } from "./keys.ts";
import type { Metrics } from "./metrics.ts";
import { modelList, modelNamed } from "./model-list.ts";
import { chatPage } from "./page/page.ts";
import { Problem, clientLeft, problemOf, statusOf } from "./problem.ts";
import { answerEvents } from "./run-answer.ts";
import type { RequestLog, ServerTimeouts } from "./server-options.ts";
import type { Prefixes } from "./store/prefixes.ts";

/** The common part of all requests of a handler. */
export interface Serving {
  readonly served: Served;
  readonly cache: SessionCache | undefined;
  readonly prefixes: Prefixes | undefined;
  readonly metrics: Metrics | undefined;
  /** Whether metrics need no key. */
  readonly openMetrics: boolean;
  readonly keys: Keys;
  readonly admission: Admission;
  readonly bodyBytes: number;
  readonly seconds: number;
  /** Options of generations that requests do not set. */
  readonly defaults: GenerateOptions;
  /** Whether there is a page at `/`. */
  readonly page: boolean;
  readonly log: ((entry: RequestLog) => void) | undefined;
}

/** Milliseconds after which a stream begins with a comment instead of its first event. Until then a failure can have a status. */
const longestSilence = 100;

/** Milliseconds in which a client has to take the last event of an answer that was ended. */
const longestTaking = 1000;

/** A request from its arrival to the end of its response. */
export class Exchange {
  readonly #serving: Serving;
  readonly #id: number;
  readonly #request: Request;
  readonly #server: Partial<ServerTimeouts> | undefined;
  readonly #path: string;
  readonly #begun = performance.now();
  /** Ends the work for the request, with the reason. */
  readonly #end = new AbortController();
  #memberOf: (argument: string) => string;
  #first: number | undefined;
  #counts: TokenCounts | undefined;
  #problem: Problem | undefined;
  #status = statusOf.left as number;

  constructor(serving: Serving, id: number, request: Request, server: unknown) {
    this.#serving = serving;
    this.#id = id;
    this.#request = request;
    this.#path = pathOf(request.url);
    this.#memberOf = apiOf.get(this.#path)?.memberOf ?? ((argument) => argument);
    this.#server = server as Partial<ServerTimeouts> | undefined;
  }

  /** The response. Never throws. */
  async respond(): Promise<Response> {
    try {
      return await this.#response();
    } catch (error) {
      return this.#failed(error);
    }
  }

  async #response(): Promise<Response> {
    const { served, keys, metrics, openMetrics, admission, bodyBytes, page } = this.#serving;
    const { method, headers } = this.#request;
    const path = this.#path;
    if (path === "/health") {
      this.#expect("GET");
      return this.#json(admission.closed ? 503 : 200, { status: admission.closed ? "ending" : "ok" });
    }
    if (path === "/" && page) {
      this.#expect("GET");
      return this.#page();
    }
    if (path === "/metrics" && metrics !== undefined) {
      if (!openMetrics) keys.saltOf(headers);
      this.#expect("GET");
      return await this.#text(metrics);
    }
    const salt = keys.saltOf(headers);
    const api = apiOf.get(path);
    if (api !== undefined) {
      this.#expect("POST");
      const body = await readJson(this.#request, bodyBytes, served.model.config.maxPositions);
      if ("reply" in api) return this.#json(200, api.reply(body, served));
      return await this.#answer(api, api.read(body, served), salt);
    }
    if (path === "/v1/models" || path.startsWith("/v1/models/")) {
      this.#expect("GET");
      return this.#json(200, path === "/v1/models" ? modelList(served) : modelNamed(served, path.slice("/v1/models/".length)));
    }
    throw new Problem("not-found", `there is no ${method} ${path} here`);
  }

  /** Checks the method. HEAD asks for the same as GET without the body, which `Bun.serve` leaves out. */
  #expect(method: "GET" | "POST"): void {
    const { method: given } = this.#request;
    if (given === method || (given === "HEAD" && method === "GET")) return;
    throw new Problem("wrong-method", `${this.#path} takes ${method}, not ${given}`, { headers: { allow: method } });
  }

  async #answer(api: AnsweringApi, asked: Asked, salt: string): Promise<Response> {
    const { admission, seconds } = this.#serving;
    const { signal } = this.#request;
    if (asked.memberOf !== undefined) this.#memberOf = asked.memberOf;
    const left = (): void => this.#end.abort(clientLeft());
    // A long prompt is read, or an answer waits for its turn, without a byte on the connection. (A body must arrive without such a pause.)
    this.#server?.timeout?.(this.#request, 0);
    if (signal.aborted) left();
    signal.addEventListener("abort", left);
    const leave = await admission.enter(this.#end.signal);
    const timer = setTimeout(() => this.#end.abort(new Problem("out-of-time", `the answer took longer than the limit of ${seconds} s`)), 1000 * seconds);
    const ended = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", left);
      leave();
    };
    const events = this.#events(asked, salt);
    if (!asked.stream) {
      const answers = await wholeAnswers(events, asked.request.answers).finally(ended);
      return this.#json(200, asked.whole(answers));
    }

    const texts = this.#texts(api, asked, events, ended);
    // A client that stops reading does not see the end of its answer.
    this.#end.signal.addEventListener("abort", () => void setTimeout(() => void texts.return(), longestTaking).unref());
    const first = texts.next();
    const early = await within(first, longestSilence);
    if (early !== undefined && this.#problem !== undefined) {
      await texts.return();
      throw this.#problem;
    }
    this.#status = 200;
    const begin = early === undefined ? Promise.resolve({ done: false as const, value: commentLine }) : first;
    const rest = early === undefined ? resumed(first, texts) : texts;
    const leaving = (): void => {
      left();
      void texts.return(); // ends it where the abort does not
    };
    return new Response(streamOf(begin, rest, leaving), { status: 200, headers: { ...streamHeaders, ...this.#headers() } });
  }

  /** The events of the answers. */
  async *#events({ request }: Asked, salt: string): AsyncGenerator<AnswerEvent, void, void> {
    const { served, cache, prefixes, defaults } = this.#serving;
    const run = { ...request, options: { ...defaults, ...request.options } };
    for await (const event of answerEvents(run, { model: served.model, cache, salt, prefixes, signal: this.#end.signal })) {
      if (event.type === "begin" || event.type === "over") this.#counts = event.counts;
      this.#first ??= performance.now() - this.#begun;
      yield event;
    }
  }

  /** The texts of a stream, of which a failure is the last. The request ends when the client has taken them. */
  async *#texts({ failures }: AnsweringApi, asked: Asked, events: AsyncIterable<AnswerEvent>, ended: () => void): AsyncGenerator<string, void, void> {
    try {
      for await (const event of events) {
        const text = asked.next(event);
        if (text !== "") yield text;
      }
    } catch (error) {
      this.#problem = problemOf(error, this.#memberOf);
      yield asked.failed?.(this.#problem) ?? failures.last(this.#problem);
    } finally {
      ended();
      if (this.#status === 200) this.#logged();
    }
  }

  /** Headers of every response: the request's number in the log, under the names that OpenAI's and Anthropic's clients read. */
  #headers(): Record<string, string> {
    return { "x-request-id": `${this.#id}`, "request-id": `${this.#id}` };
  }

  #json(status: number, body: object, headers: Record<string, string> = {}): Response {
    this.#status = status;
    this.#logged();
    return new Response(stringifyWithDigits(body), { status, headers: { "content-type": "application/json", ...this.#headers(), ...headers } });
  }

  #page(): Response {
    const { text, headers } = chatPage();
    this.#status = 200;
    this.#logged();
    return new Response(text, { status: 200, headers: { ...headers, ...this.#headers() } });
  }

  async #text(metrics: Metrics): Promise<Response> {
    const { type, text } = await metrics.page();
    this.#status = 200;
    this.#logged();
    return new Response(text, { status: 200, headers: { "content-type": type, ...this.#headers() } });
  }

  #failed(error: unknown): Response {
    const problem = problemOf(error, this.#memberOf);
    this.#problem = problem;
    const failures = failuresOf(this.#path, this.#request.headers);
    const headers = {
      ...(problem.retryAfter === undefined ? {} : { "retry-after": `${problem.retryAfter}` }),
      ...problem.headers,
    };
    return this.#json(failures.status(problem), failures.body(problem), headers);
  }

  /** Logs the request. */
  #logged(): void {
    const { method } = this.#request;
    const problem = this.#problem ?? (this.#end.signal.aborted ? (this.#end.signal.reason as Problem) : undefined);
    const counts = this.#counts;
    const entry: RequestLog = {
      id: this.#id,
      method,
      path: this.#path,
      status: this.#status,
      milliseconds: performance.now() - this.#begun,
      ...(this.#first === undefined ? {} : { firstMilliseconds: this.#first }),
      ...(counts === undefined ? {} : { promptTokens: counts.prompt, cachedTokens: counts.cached, answerTokens: counts.answer }),
      ...(counts === undefined || this.#serving.prefixes === undefined ? {} : { restoredTokens: counts.restored }),
      ...(problem === undefined ? {} : { problem: problem.message }),
      ...(problem?.kind === "internal" ? { cause: problem.cause } : {}),
    };
    this.#serving.metrics?.ended(entry);
    try {
      const logged: unknown = this.#serving.log?.(entry); // a promise, if it is async
      Promise.resolve(logged).catch(() => {});
    } catch {
      // A log that fails must not fail a response.
    }
  }
}

/** The path of a request's address. The address's host comes from the client, and may be missing or malformed. */
function pathOf(url: string): string {
  return URL.parse(url, "http://localhost")?.pathname ?? /^\w+:\/\/[^/]*([^?#]*)/.exec(url)?.[1] ?? "";
}

/** A generator whose first value was already requested. */
async function* resumed(first: Promise<IteratorResult<string, void>>, texts: AsyncGenerator<string, void, void>): AsyncGenerator<string, void, void> {
  const { done, value } = await first;
  if (done) return;
  yield value;
  yield* texts;
}
