/**
 * A server of a language model for clients of other servers' APIs: a handler for `Bun.serve`.
 *
 * @module
 */
export { createHandler } from "./server/create-handler.ts";
export type { RequestLog, ServerHandler, ServerLimits, ServerOptions, ServerTimeouts } from "./server/server-options.ts";
