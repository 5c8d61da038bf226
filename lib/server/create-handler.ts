/** Makes the handler of a server. */
import { basename, resolve } from "node:path";
import { invalid } from "../arguments/checks.ts";
import { checkOptions } from "../arguments/options.ts";
import { GatedDeltaError } from "../errors.ts";
import type { LanguageModel } from "../model/language-model.ts";
import { isModel } from "../model/model-memory.ts";
import { Admission } from "./admission.ts";
import { Exchange } from "./exchange.ts";
import type { Serving } from "./exchange.ts";
import { Keys } from "./keys.ts";
import type { ServerHandler, ServerOptions } from "./server-options.ts";
import { serverOptions } from "./server-schemas.ts";

/**
 * A handler of HTTP requests that answers with a model in the forms of other servers' APIs, so that their clients work unchanged:
 * `POST /v1/chat/completions`, `/v1/completions`, `/v1/responses`, `/v1/messages` and `/v1/messages/count_tokens`, `GET /v1/models`
 * and `GET /health`. Answers are streamed or whole.
 *
 * Members of a body that are not known are ignored. A request that asks for what is not supported, such as an image, is refused with
 * status 400 in the API's own form, and so is every other failure. When a client leaves, its answer ends.
 *
 * @example
 * const handler = createHandler(model, { cache: model.cache({ bytes: 2 ** 30 }) });
 * const server = Bun.serve({ hostname: "127.0.0.1", port: 8080, fetch: handler });
 * process.on("SIGTERM", async () => {
 *   await handler.drain();
 *   await server.stop();
 * });
 *
 * @param model a model with a tokenizer, and a chat template where messages are to be answered. It must not be disposed before the
 *   handler has ended its last response.
 * @throws {GatedDeltaError} that names the argument, for wrong options and a cache of another model; `UnsupportedError` for a model
 *   without a tokenizer.
 * @see OpenAI, [API reference](https://platform.openai.com/docs/api-reference/chat), 2026
 * @see Anthropic, [API reference](https://docs.claude.com/en/api/messages), 2026
 */
export function createHandler(model: LanguageModel, options: ServerOptions = {}): ServerHandler {
  const op = "createHandler";
  if (!isModel(model)) throw invalid(op, "model", "a LanguageModel", model);
  const { cache, name = basename(resolve(model.text.folder), ".gguf"), keys, limits, sampling, drafts, log } = checkOptions(serverOptions, op, options);
  try {
    model.session({ cache })[Symbol.dispose]();
  } catch (error) {
    if (error instanceof GatedDeltaError && error.argument === "cache") throw invalid(op, "cache", "a cache of this model", cache);
    throw error;
  }
  void model.text.tokenizer; // a large vocabulary takes a second, which the first client would wait for
  const admission = new Admission(limits);
  const { answerTokens, answers, bodyBytes, seconds } = limits;
  const served = { model, name, since: Math.floor(Date.now() / 1000), answerTokens, answers };
  const defaults = { drafts, ...(sampling === "model" ? { sampling } : {}) };
  const serving: Serving = { served, cache, keys: new Keys(keys), admission, bodyBytes, seconds, defaults, log };
  let requests = 0;
  const handle = (request: Request, server?: unknown): Promise<Response> => new Exchange(serving, ++requests, request, server).respond();
  const drain = (): Promise<void> => admission.close();
  return Object.defineProperties(handle, { active: { get: () => admission.active }, drain: { value: drain } }) as ServerHandler;
}
