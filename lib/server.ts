/**
 * A language model server for clients of other servers' APIs: a handler for `Bun.serve`.
 *
 * @module
 */
export { createHandler } from "./server/create-handler.ts";
export { openStore } from "./server/store/open-store.ts";
export type { SessionStore, StoredObject, StoreOptions } from "./server/store/session-store.ts";
export type { RequestLog, ServerHandler, ServerLimits, ServerOptions, ServerTimeouts } from "./server/server-options.ts";
