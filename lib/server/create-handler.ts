/** Makes the handler of a server. */
import { basename, resolve } from "node:path";
import { invalid } from "../arguments/checks.ts";
import { checkOptions } from "../arguments/options.ts";
import { reading } from "../arguments/reading.ts";
import { isSignal } from "../arguments/signals.ts";
import { GatedDeltaError } from "../errors.ts";
import type { LanguageModel } from "../model/language-model.ts";
import { isModel } from "../model/model-memory.ts";
import { cacheParts } from "../model/session/prefix-cache.ts";
import { Admission } from "./admission.ts";
import { Exchange } from "./exchange.ts";
import { expectCache } from "./expect-cache.ts";
import type { Serving } from "./exchange.ts";
import { Keys } from "./keys.ts";
import { Metrics } from "./metrics.ts";
import type { ServerHandler, ServerOptions } from "./server-options.ts";
import { serverOptions } from "./server-schemas.ts";
import type { CheckedServerOptions } from "./server-schemas.ts";
import { Prefixes } from "./store/prefixes.ts";

/**
 * A handler of HTTP requests that serves a model through other servers' APIs, so that their clients work unchanged:
 * `POST /v1/chat/completions`, `/v1/completions`, `/v1/responses`, `/v1/messages` and `/v1/messages/count_tokens`, `GET /v1/models`,
 * `GET /health`, `GET /metrics`, and `GET /`, a page to chat with the model. Answers are streamed or whole.
 *
 * Unknown members of a body are ignored. A request for something that is not supported, such as an image, is refused with status
 * 400. Every failure has the API's own form. When a client leaves, its answer ends.
 *
 * @example
 * const handler = createHandler(model, { cache: model.cache({ bytes: 2 ** 30 }) });
 * const server = Bun.serve({ hostname: "127.0.0.1", port: 8080, fetch: handler });
 * process.on("SIGTERM", async () => {
 *   await handler.drain();
 *   await server.stop();
 * });
 *
 * @param model a model with a tokenizer, and with a chat template if messages are to be answered. It must not be disposed before the
 *   handler has ended its last response.
 * @throws {GatedDeltaError} that names the argument, for wrong options and a cache of another model; `UnsupportedError` for a model
 *   without a tokenizer.
 * @see OpenAI, [API reference](https://platform.openai.com/docs/api-reference/chat), 2026
 * @see Anthropic, [API reference](https://docs.claude.com/en/api/messages), 2026
 */
export function createHandler(model: LanguageModel, options: ServerOptions = {}): ServerHandler {
  const op = "createHandler";
  if (!isModel(model)) throw invalid(op, "model", "a LanguageModel", model);
  const checked = checkOptions(serverOptions, op, options);
  const { cache, name = basename(resolve(model.text.folder), ".gguf"), keys, limits, sampling, drafts, page, log } = checked;
  expectCache(op, model, cache);
  if (checked.metrics === "key" && keys === undefined) throw invalid(op, "metrics", '"open" | "off" where there are no keys', checked.metrics);
  void model.text.tokenizer; // a large vocabulary takes a second, which the first client would wait for
  const prefixes = prefixesOf(op, model, checked);
  const admission = new Admission(limits);
  const metrics = checked.metrics === "off" ? undefined : new Metrics({ model, name, cache, admission, figures: prefixes?.figures });
  const { answerTokens, answers, bodyBytes, seconds } = limits;
  const served = { model, name, since: Math.floor(Date.now() / 1000), answerTokens, answers };
  const defaults = { drafts, ...(sampling === "model" ? { sampling } : {}) };
  const serving: Serving = { served, cache, prefixes, metrics, openMetrics: checked.metrics === "open", keys: new Keys(keys), admission, bodyBytes, seconds, defaults, page, log };
  let requests = 0;
  const handle = async (request: Request, server?: unknown): Promise<Response> => {
    if (!isRequest(request)) throw invalid("handler", "request", "a Request", request);
    return await new Exchange(serving, ++requests, request, server).respond();
  };
  const drain = async (): Promise<void> => {
    await admission.close();
    await prefixes?.flush();
  };
  return Object.defineProperties(handle, { active: { get: () => admission.active }, drain: { value: drain } }) as ServerHandler;
}

/** Whether a value has a request's members: requests of other packages are not instances of Bun's class. */
function isRequest(value: unknown): boolean {
  return reading("handler", "request", () => {
    const { url, method, headers, signal } = Object(value) as Partial<Request>;
    return typeof url === "string" && typeof method === "string" && typeof headers?.get === "function" && isSignal(signal);
  });
}

/** The prefixes that servers share, if there is a store. */
function prefixesOf(op: string, model: LanguageModel, { cache, store, secret }: CheckedServerOptions): Prefixes | undefined {
  if (store === undefined) {
    if (secret !== undefined) throw new GatedDeltaError("invalid-argument", { op, argument: "secret", expected: "a secret with a store", received: "one without" });
    return undefined;
  }
  if (cache === undefined) throw invalid(op, "cache", "a cache, from which the store is filled", cache);
  if (secret === undefined) throw invalid(op, "secret", "the secret of all servers with this store", secret);
  return new Prefixes({ model, cache: cacheParts(cache)!, store, secret: Uint8Array.from(Buffer.from(secret as string)) });
}
