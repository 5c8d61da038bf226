/** The schemas of stores' options. */
import { options } from "../../arguments/schemas.ts";
import type { SessionStore, StoreOptions } from "./session-store.ts";

/** {@link StoreOptions} */
export const storeOptions = options<StoreOptions>()(({ integer }) => ({
  seconds: integer(1, 2 ** 31 - 1).default(7 * 86_400),
  bytes: integer(1, Number.MAX_SAFE_INTEGER).default(2 ** 36),
}));

/** The functions of a {@link SessionStore}. */
const functions: readonly (keyof SessionStore)[] = ["members", "add", "has", "read", "write", "remove", "close"];

/** Whether a value has the functions of a store. */
export function isStore(value: unknown): value is SessionStore {
  return typeof value === "object" && value !== null && functions.every((name) => typeof (value as Partial<SessionStore>)[name] === "function");
}
