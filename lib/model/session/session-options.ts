/** What sessions take. */
import type { NgramOptions } from "../ngram-drafter.ts";
import type { SamplingOptions } from "../sampling/settings.ts";
import type { SessionCache } from "./prefix-cache.ts";

/** Options of a session. */
export interface SessionOptions {
  /** The cache that the session takes known beginnings from and adds its own to. @default none */
  readonly cache?: SessionCache | undefined;
  /** Sessions of different salts share nothing of a cache: such as a user's name. @default "" */
  readonly salt?: string | undefined;
  /**
   * What happens where requests at work have all states or pages: `"wait"`, the requests go on in the order in which they came,
   * and each ends with its answer; `"error"`, it ends with an error of code `out-of-memory` at once. What caches and idle
   * sessions have is taken in either case: they read again what they need later. @default "wait"
   */
  readonly whenFull?: "wait" | "error" | undefined;
}

/** Options of a session that a file holds. */
export interface LoadSessionOptions extends SessionOptions {
  /**
   * Whether what the file holds may become part of the cache, which other sessions go on from. A file's states, keys and values
   * can't be checked: whoever wrote it decides them, and its checksum too. So without this the session, its forks and what they
   * read from there on take from the cache, and add nothing to it. `true` is for files that only programs of your own can have
   * written. @default false
   */
  readonly trust?: boolean | undefined;
}

/** Options of a generation. */
export interface GenerateOptions extends SamplingOptions {
  /** How many tokens at most. With 0 nothing is read, and the one piece has no token. @default as many as the model has positions for */
  readonly maxTokens?: number | undefined;
  /** The text ends before the first of these strings that it has. Wants a tokenizer. @default none */
  readonly stop?: string | readonly string[] | undefined;
  /** Tokens that end the text, beside those of the model's configuration. @default none */
  readonly stopTokens?: readonly number[] | undefined;
  /** Whether the model's own end tokens are ordinary tokens, after which the generation goes on. @default false */
  readonly ignoreModelStops?: boolean | undefined;
  /**
   * Whether next tokens are guessed from what the sequence had before, to be read together: fewer steps where a guess is
   * right, and the same tokens. `true`, or how. @default false
   */
  readonly drafts?: boolean | DraftingOptions | undefined;
  /** Whether pieces have {@link Piece.logprob}: about a millisecond a token where the vocabulary has 250 thousand. @default false */
  readonly logprobs?: boolean | undefined;
  /** Ends the generation: the iterator throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each step that has read a piece of the prompt. What it throws ends the generation. */
  readonly onProgress?: ((progress: ReadProgress) => void) | undefined;
}

/** How tokens are guessed. */
export interface DraftingOptions extends NgramOptions {
  /** How many at a time. @default 8 */
  readonly tokens?: number | undefined;
}

/** Options of appending. */
export interface AppendOptions {
  /**
   * How the text of a control token, such as `<|im_end|>`, or of another added one counts within a text: as that token
   * (`"parse"`, as transformers has it), or as text like any other (`"text"`, for what users write). Token ids are taken as they
   * are. @default "parse"
   */
  readonly specialTokens?: "parse" | "text" | undefined;
}

/** Options of reading what was appended. */
export interface ReadOptions {
  /** Ends the wait: what was read by then stays read. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each step that has read a piece. What it throws ends the call. */
  readonly onProgress?: ((progress: ReadProgress) => void) | undefined;
}

/** How far a prompt was read. */
export interface ReadProgress {
  /** Tokens that are read, or were known. Fewer than before where the session gave its memory to an earlier request. */
  readonly read: number;
  /** Tokens of the prompt. */
  readonly total: number;
}

/** How many tokens something took. */
export interface Usage {
  /** Tokens of the prompt. */
  readonly promptTokens: number;
  /** Those of the prompt that were known, and did not have to be read. */
  readonly cachedTokens: number;
  /** How many tokens were generated. */
  readonly generatedTokens: number;
}

/** A whole answer. */
export interface Completion {
  /** The text of all pieces; empty without a tokenizer. */
  readonly text: string;
  /** The ids of all pieces. */
  readonly tokens: readonly number[];
  /** Why it ended, as {@link Piece.end}. */
  readonly end: "token" | "string" | "length";
  /** Of this answer: its prompt is all that the session had before. */
  readonly usage: Usage;
}

/** A token of an answer. */
export interface Piece {
  /** Its id; −1, which is no token's, in the one piece of an answer with `maxTokens: 0`. */
  readonly token: number;
  /** The text that it completes: whole characters, possibly none; empty without a tokenizer. */
  readonly text: string;
  /**
   * Why it is the last: `"token"`, it is one that ends a text; `"string"`, it completes a stop string, which no piece's text
   * has a part of; `"length"`, as many as were asked for, or fit. Absent for any other piece.
   */
  readonly end?: "token" | "string" | "length";
  /**
   * The natural logarithm of the token's probability as the model has it: its logit less the logarithm of the sum of all logits'
   * exponentials, in float64, before temperature, penalty and what else was asked for. With {@link GenerateOptions.logprobs} alone.
   */
  readonly logprob?: number;
}
