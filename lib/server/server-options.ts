/** Options of a server. */
import type { SessionCache } from "../model/session/prefix-cache.ts";
import type { SessionStore } from "./store/session-store.ts";

/** Limits of a server. */
export interface ServerLimits {
  /** The most bytes of a request's body. @default 32 MiB */
  readonly bodyBytes?: number | undefined;
  /** The most tokens of an answer. Requests for more get this many, and an answer of this length ends with "length". @default 32768 */
  readonly answerTokens?: number | undefined;
  /** The most answers to one request (`n`), an integer in 1..128. @default 16 */
  readonly answers?: number | undefined;
  /** How many requests are answered at the same time; they share the model's states and pages. @default 64 */
  readonly concurrent?: number | undefined;
  /** How many more requests may wait for their turn; further ones are refused. @default 256 */
  readonly queue?: number | undefined;
  /** The longest wait for a turn, in seconds. @default 60 */
  readonly queueSeconds?: number | undefined;
  /** The longest time for the answer to a request, in seconds. @default 3600 */
  readonly seconds?: number | undefined;
}

/** Options of {@link createHandler}. */
export interface ServerOptions {
  /** A cache of the model, with which a conversation's next request reads only the new messages. @default none */
  readonly cache?: SessionCache | undefined;
  /**
   * A store that several servers share, so that a conversation begun on one continues on another without reading its earlier messages
   * again. Needs {@link ServerOptions.cache} and {@link ServerOptions.secret}. The store stays open. @default none
   */
  readonly store?: SessionStore | undefined;
  /**
   * The secret of all servers with the same store, of at least 32 bytes. It names and signs the objects: objects signed with another
   * secret are not used. Anyone who knows it can decide the answers of all these servers. @default none
   */
  readonly secret?: string | Uint8Array | undefined;
  /**
   * Who may read `GET /metrics`: everyone who reaches the server (`"open"`), clients with a key of {@link ServerOptions.keys}
   * (`"key"`), or no one (`"off"`). Needs the package `prom-client`. The metrics have no texts, but show how much the server is used.
   * @default "open"
   */
  readonly metrics?: "open" | "key" | "off" | undefined;
  /** The model's name in answers and in the list of models. Requests may name any. @default the name of the model's folder or file */
  readonly name?: string | undefined;
  /**
   * The keys of which a client has to send one, as `Authorization: Bearer KEY` or `x-api-key: KEY` (if both are sent, the first known one
   * counts); or an object with the salt for each key: clients with different salts share nothing in the cache. Each key of an array has
   * its own salt. @default none: every client is served
   */
  readonly keys?: readonly string[] | Readonly<Record<string, string>> | undefined;
  /** Limits. @default those of {@link ServerLimits} */
  readonly limits?: ServerLimits | undefined;
  /**
   * The sampling settings that a request does not give: those of the model's `generation_config.json` (`"model"`), or those that choose
   * the most likely tokens (`"greedy"`). @default "model"
   */
  readonly sampling?: "model" | "greedy" | undefined;
  /** Whether the next tokens are guessed from the earlier text: the same answers in fewer steps. @default false */
  readonly drafts?: boolean | undefined;
  /** Whether `GET /` is a page to chat with the model. It needs no key; its requests do. @default true */
  readonly page?: boolean | undefined;
  /** Called once for each request, when its response has ended. Its errors and rejections are ignored. @default none */
  readonly log?: ((entry: RequestLog) => void) | undefined;
}

/** A request whose response has ended. */
export interface RequestLog {
  /** The request's number, from 1: the response's header `x-request-id`. */
  readonly id: number;
  /** The HTTP method. */
  readonly method: string;
  /** The path of the address, without the query. */
  readonly path: string;
  /** The HTTP status, an integer; 499 if the client left earlier. */
  readonly status: number;
  /** Milliseconds from the request's arrival to its end. */
  readonly milliseconds: number;
  /** Milliseconds to the first token; undefined if there was none. */
  readonly firstMilliseconds?: number;
  /** Number of tokens of the prompt; undefined if it was not read. */
  readonly promptTokens?: number;
  /** Number of tokens of the prompt that the cache had. */
  readonly cachedTokens?: number;
  /** Number of tokens of the prompt that came from the store; they also count as the cache's. Undefined without a store. */
  readonly restoredTokens?: number;
  /** How many tokens were generated. */
  readonly answerTokens?: number;
  /** Why the request failed, even after the response had begun; undefined if it did not. */
  readonly problem?: string;
  /** The error behind a failure that is not the client's fault. */
  readonly cause?: unknown;
}

/** The part of `Bun.serve`'s server that a handler uses. */
export interface ServerTimeouts {
  /** Sets after how many seconds without a byte a request's connection is closed; 0 for never. */
  timeout(request: Request, seconds: number): void;
}

/** A handler of HTTP requests: `fetch` of `Bun.serve`, or any other server of requests and responses. */
export interface ServerHandler {
  /**
   * Answers a request. Rejects for a value that is not a request; all other failures are responses in the form of the request's API.
   *
   * @param server the server of `Bun.serve`, which passes itself, so that it does not close connections that wait for an answer.
   */
  (request: Request, server?: unknown): Promise<Response>;
  /** Number of requests that are being answered or wait. */
  readonly active: number;
  /**
   * Refuses further requests with status 503, and resolves when those that are being answered have ended and the store has everything
   * that it is to keep of them. Never throws.
   */
  drain(): Promise<void>;
}
