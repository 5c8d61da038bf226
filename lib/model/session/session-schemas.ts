/** The zod schemas of sessions' options. Loaded when the first one is needed: importing zod takes 13 ms. */
import { z } from "zod";
import { choice, integer, options, signal } from "../../arguments/schema-parts.ts";
import { samplingShape } from "../sampling/sampling-schemas.ts";
import type { SessionCacheOptions } from "./prefix-cache.ts";
import type { AppendOptions, GenerateOptions, ReadOptions, ReadProgress } from "./session-options.ts";

const count = integer(0, 2 ** 31 - 1);
const onProgress = z.custom<(progress: ReadProgress) => void>((value) => typeof value === "function", "a function").optional();
const stopText = "a non-empty text, or an array of them";
const stop = z.string(stopText).min(1, stopText).refine((text) => text.isWellFormed(), "a well-formed text");
const ratio = "a number above 1, at most 16";

const drafting = z.strictObject(
  {
    tokens: integer(1, 64).optional(),
    longest: integer(1, 64).optional(),
    shortest: integer(1, 64).optional(),
    window: integer(1, 2 ** 24).optional(),
  },
  "a boolean or { tokens?, longest?, shortest?, window? }",
);

/** {@link GenerateOptions} */
export const generateOptions = options<GenerateOptions>()({
  ...samplingShape,
  maxTokens: count.optional(),
  stop: z.union([stop, z.array(stop, stopText)], stopText).optional(),
  stopTokens: z.array(count, "an array of token ids").optional(),
  ignoreModelStops: z.boolean("a boolean").optional(),
  drafts: z.union([z.boolean(), drafting], "a boolean or { tokens?, longest?, shortest?, window? }").optional(),
  logprobs: z.boolean("a boolean").optional(),
  signal,
  onProgress,
});

/** {@link AppendOptions} */
export const appendOptions = options<AppendOptions>()({ specialTokens: choice("parse", "text").optional() });

/** {@link ReadOptions} */
export const readOptions = options<ReadOptions>()({ signal, onProgress });

/** {@link SessionCacheOptions} */
export const sessionCacheOptions = options<SessionCacheOptions>()({
  bytes: integer(0, Number.MAX_SAFE_INTEGER),
  step: integer(1, 2 ** 20).optional(),
  ratio: z.number(ratio).gt(1, ratio).max(16, ratio).optional(),
});

/** {@link SessionOptions}; its cache is checked elsewhere. */
export const sessionShape = z.strictObject(
  {
    cache: z.unknown().optional(),
    salt: z.string("a text").optional(),
    whenFull: choice("wait", "error").optional(),
  },
  "an object of options",
);

/** {@link SessionOptions} */
export const sessionOptions = { keys: Object.keys(sessionShape.shape), safeParse: (value: unknown) => sessionShape.safeParse(value) };

const loadShape = sessionShape.extend({ trust: z.boolean("a boolean").default(false) });

/** {@link LoadSessionOptions} */
export const loadSessionOptions = { keys: Object.keys(loadShape.shape), safeParse: (value: unknown) => loadShape.safeParse(value) };
