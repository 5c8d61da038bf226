/** Conversations with servers that share a store. */
import { createHandler } from "../../lib/server.ts";
import type { RequestLog, ServerHandler, ServerOptions, SessionStore } from "../../lib/server.ts";
import type { LanguageModel, SessionCache } from "../../lib/model.ts";

/** The secret that the tests' servers share. */
export const secret = "a secret of thirty-two bytes, or more";

/** A server without a port. */
export interface PlainServer extends Disposable {
  readonly handler: ServerHandler;
  readonly cache: SessionCache | undefined;
  readonly log: readonly RequestLog[];
  /** The whole answer to a request, with its log entry. */
  ask(request: object, headers?: Record<string, string>): Promise<{ readonly body: any; readonly entry: RequestLog }>;
}

/** Makes a server with its own cache. */
export function plainServer(model: LanguageModel, options: ServerOptions = {}): PlainServer {
  const log: RequestLog[] = [];
  const cache = "cache" in options ? undefined : model.cache({ bytes: model.states * model.stateBytes + model.pages * model.pageBytes });
  const handler = createHandler(model, { cache, ...options, log: (entry) => log.push(entry) });
  const ask = async (request: object, headers: Record<string, string> = {}) => {
    const response = await handler(new Request("http://server/v1/chat/completions", { method: "POST", body: JSON.stringify(request), headers }));
    return { body: await response.json(), entry: log.at(-1)! };
  };
  return { handler, cache, log, ask, [Symbol.dispose]: () => cache?.[Symbol.dispose]() };
}

/** {@link plainServer} with a store. */
export function storeServer(model: LanguageModel, store: SessionStore, options: ServerOptions = {}): PlainServer {
  return plainServer(model, { store, secret, ...options });
}

/** An answer's text and its tokens' probabilities, as one text: equal texts mean equal bits. */
export function answerText({ choices: [{ message, logprobs }] }: any): string {
  return JSON.stringify([message, logprobs]);
}

/** Words determined by a seed. */
export function words(count: number, seed: number): string {
  const some = ["lake", "river", "north", "deep", "winter", "stone", "island", "wind", "shore", "ice"];
  let state = seed * 2_654_435_761;
  return Array.from({ length: count }, () => some[(state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) % some.length]).join(" ");
}
