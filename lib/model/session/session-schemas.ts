/** The schemas of sessions' options. */
import { lazily, options } from "../../arguments/schemas.ts";
import type { Checked } from "../../arguments/schemas.ts";
import { constraintShape } from "../constraints/constraint-schemas.ts";
import { samplingShape } from "../sampling/sampling-schemas.ts";
import type { SessionCache, SessionCacheOptions } from "./prefix-cache.ts";
import type { AppendOptions, GenerateOptions, LoadSessionOptions, ReadOptions, ReadProgress, SessionOptions } from "./session-options.ts";

/** {@link ReadOptions} */
export const readOptions = options<ReadOptions>()(({ callback, signal }) => ({
  signal,
  onProgress: callback<(progress: ReadProgress) => void>().optional(),
}));

/** {@link GenerateOptions} */
export const generateOptions = options<GenerateOptions>()(({ z, callback, flag, integer, signal }) => {
  const count = integer(0, 2 ** 31 - 1);
  const stopText = "a non-empty text, or an array of them";
  const stop = z.string(stopText).min(1, stopText).refine((text) => text.isWellFormed(), "a well-formed text");
  const draftsText = "a boolean or { tokens?, longest?, shortest?, window? }";
  const count64 = integer(1, 64);
  const drafting = z
    .strictObject({ tokens: count64.default(8), longest: count64.default(4), shortest: count64.default(2), window: integer(1, 2 ** 24).default(32768) }, draftsText)
    .refine(({ shortest, longest }) => shortest <= longest, { path: ["shortest"], error: "an integer in 1..longest" });
  return {
    ...samplingShape(),
    ...constraintShape(),
    maxTokens: count.default(Infinity),
    minTokens: count.default(0),
    maxReasoningTokens: count.optional(),
    stop: z.union([stop, z.array(stop, stopText)], stopText).default([]),
    stopTokens: z.array(count, "an array of token ids").default([]),
    ignoreModelStops: flag.default(false),
    drafts: z.union([z.boolean(), drafting], draftsText).transform((drafts) => (drafts === true ? drafting.parse({}) : drafts)).default(false),
    logprobs: flag.default(false),
    topLogprobs: integer(0, 100).default(0),
    signal,
    onProgress: callback<(progress: ReadProgress) => void>().optional(),
  };
});

/** {@link GenerateOptions}, checked and complete. */
export type CheckedGenerateOptions = Checked<typeof generateOptions>;

/** {@link AppendOptions} */
export const appendOptions = options<AppendOptions>()(({ choice }) => ({ specialTokens: choice("parse", "text").optional() }));

/** {@link SessionCacheOptions} */
export const sessionCacheOptions = options<SessionCacheOptions>()(({ z, integer }) => {
  const ratio = "a number above 1, at most 16";
  return {
    bytes: integer(0, Number.MAX_SAFE_INTEGER),
    step: integer(1, 2 ** 20).optional(),
    ratio: z.number(ratio).gt(1, ratio).max(16, ratio).optional(),
  };
});

/** The session itself checks that `cache` is a cache of the same model. */
const sessionShape = lazily(({ z, choice }) => ({
  cache: z.custom<SessionCache>(() => true).optional(),
  salt: z.string("a text").default(""),
  whenFull: choice("wait", "error").default("wait"),
}));

/** {@link SessionOptions} */
export const sessionOptions = options<SessionOptions>()(sessionShape);

/** {@link LoadSessionOptions} */
export const loadSessionOptions = options<LoadSessionOptions>()(({ flag }) => ({ ...sessionShape(), trust: flag.default(false) }));
