/** The schemas of a server's options. */
import { lazily, options } from "../arguments/schemas.ts";
import type { Checked } from "../arguments/schemas.ts";
import type { SessionCache } from "../model/session/prefix-cache.ts";
import type { RequestLog, ServerOptions } from "./server-options.ts";
import type { SessionStore } from "./store/session-store.ts";
import { isStore } from "./store/store-schemas.ts";

const limits = lazily(({ z, integer }) => {
  const expected = "a number of seconds in 0.001..86400";
  const seconds = z.number(expected).min(0.001, expected).max(86_400, expected);
  const shape = {
    bodyBytes: integer(1, 2 ** 31 - 1).default(32 * 2 ** 20),
    answerTokens: integer(1, 2 ** 31 - 1).default(32_768),
    answers: integer(1, 128).default(16),
    concurrent: integer(1, 100_000).default(64),
    queue: integer(0, 1_000_000).default(256),
    queueSeconds: seconds.default(60),
    seconds: seconds.default(3600),
  };
  return z.strictObject(shape, `an object of ${Object.keys(shape).join(", ")}`).prefault({});
});

/** {@link ServerOptions} */
export const serverOptions = options<ServerOptions>()(({ z, callback, choice, flag }) => {
  const key = "a key of 1 .. 1000 printable ASCII characters without spaces";
  const isKey = (text: string): boolean => /^[!-~]{1,1000}$/.test(text);
  const keys = "an array of keys, or an object of their salts";
  const secret = "a text or a Uint8Array of at least 32 bytes";
  return {
    // The model's sessions check whether it is a cache of this model.
    cache: z.custom<SessionCache>(() => true).optional(),
    store: z.custom<SessionStore>(isStore, "a store, as openStore gives").optional(),
    secret: z.union([z.string(secret), z.instanceof(Uint8Array)], secret).refine((given) => Buffer.byteLength(given) >= 32, secret).optional(),
    metrics: choice("open", "key", "off").default("open"),
    name: z.string("a text").min(1, "a text that is not empty").optional(),
    keys: z.union([z.array(z.string(key).refine(isKey, key)), z.record(z.string(key).refine(isKey, key), z.string("a salt"))], keys).optional(),
    limits: limits(),
    sampling: choice("model", "greedy").default("model"),
    drafts: flag.default(false),
    page: flag.default(true),
    log: callback<(entry: RequestLog) => void>().optional(),
  };
});

/** {@link ServerOptions}, checked and complete. */
export type CheckedServerOptions = Checked<typeof serverOptions>;
