/** Options and results of sessions. */
import type { ConstraintOptions } from "../constraints/constraint-grammar.ts";
import type { NgramOptions } from "../ngram-drafter.ts";
import type { TokenLogprob } from "../sampling/logprobs.ts";
import type { SamplingOptions } from "../sampling/settings.ts";
import type { AnswerMessage } from "../text/formats/answer-message.ts";
import type { AnswerPiece, ToolCall } from "../text/formats/answer-piece.ts";
import type { SessionCache } from "./prefix-cache.ts";

/** Options of a session. */
export interface SessionOptions {
  /** The cache in which the session looks for its prefix and to which it adds its own. @default none */
  readonly cache?: SessionCache | undefined;
  /** Sessions with different salts, such as user names, share nothing in a cache. @default "" */
  readonly salt?: string | undefined;
  /**
   * How a request behaves when other requests hold all states or pages. With `"wait"`, requests are served in order of
   * arrival, and each ends with its answer. With `"error"`, it fails at once with code `out-of-memory`. In either case it
   * takes memory from caches and idle sessions, which read their tokens again later. @default "wait"
   */
  readonly whenFull?: "wait" | "error" | undefined;
}

/** Options of a session loaded from a file. */
export interface LoadSessionOptions extends SessionOptions {
  /**
   * Whether the session may add to the cache, from which other sessions continue. A file's states, keys and values can't be
   * checked: the file's writer determines them and the checksum. So by default the session and its forks use the cache but
   * add nothing to it. Use `true` only for files that your own programs wrote. @default false
   */
  readonly trust?: boolean | undefined;
}

/** Options of a generation. */
export interface GenerateOptions extends SamplingOptions, ConstraintOptions {
  /** The largest number of tokens. With 0, nothing is read, and the only piece has no token. @default as many as the model's positions */
  readonly maxTokens?: number | undefined;
  /** The smallest number of tokens: until then no end token and no token of {@link stopTokens} is chosen. @default 0 */
  readonly minTokens?: number | undefined;
  /**
   * The largest number of tokens in thoughts. After that many, the tag that ends thoughts in the model's chat template follows.
   * Has no effect without thoughts. @default no limit
   */
  readonly maxReasoningTokens?: number | undefined;
  /** The text ends before the first occurrence of any of these strings. Needs a tokenizer. @default none */
  readonly stop?: string | readonly string[] | undefined;
  /** Tokens that end the text, in addition to those of the model's configuration. @default none */
  readonly stopTokens?: readonly number[] | undefined;
  /** Whether generation continues after the model's own end tokens. @default false */
  readonly ignoreModelStops?: boolean | undefined;
  /**
   * Whether the next tokens are guessed from the earlier sequence and verified together: `true`, or options. Right guesses
   * save steps; the tokens are the same. @default false
   */
  readonly drafts?: boolean | DraftingOptions | undefined;
  /** Whether pieces have {@link Piece.logprob}, at about a millisecond per token for a vocabulary of 250 thousand. @default false */
  readonly logprobs?: boolean | undefined;
  /** How many tokens {@link Piece.topLogprobs} has, 0 .. 100; with any, pieces have {@link Piece.logprob} too. @default 0 */
  readonly topLogprobs?: number | undefined;
  /** Ends the generation: the iterator throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each step that read a piece of the prompt. An error that it throws ends the generation. */
  readonly onProgress?: ((progress: ReadProgress) => void) | undefined;
}

/** Options for guessing tokens. */
export interface DraftingOptions extends NgramOptions {
  /** The number of guessed tokens at a time. @default 8 */
  readonly tokens?: number | undefined;
}

/** Options of {@link Session.append}. */
export interface AppendOptions {
  /**
   * Whether the text of a control token, such as `<|im_end|>`, or of another added token becomes that token (`"parse"`, as in
   * transformers) or stays text (`"text"`, for user input). Token ids are not affected. @default "parse"
   */
  readonly specialTokens?: "parse" | "text" | undefined;
}

/** Options of {@link Session.logits} and {@link Session.hidden}. */
export interface ReadOptions {
  /** Ends the wait; tokens that have been read stay read. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each step that read a piece of the tokens. An error that it throws ends the call. */
  readonly onProgress?: ((progress: ReadProgress) => void) | undefined;
}

/** Progress of reading a prompt. */
export interface ReadProgress {
  /** Number of tokens that were read or known. It falls if the session gives its memory to an earlier request. */
  readonly read: number;
  /** Number of tokens of the prompt. */
  readonly total: number;
}

/** Token counts. */
export interface Usage {
  /** Number of tokens of the prompt. */
  readonly promptTokens: number;
  /** Number of tokens of the prompt that were known and did not have to be read. */
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
  /** Why the answer ended, as {@link Piece.end}. */
  readonly end: "token" | "string" | "length";
  /** Token counts of this answer; its prompt is everything that the session had before. */
  readonly usage: Usage;
}

/** A whole answer to messages. */
export interface Answered extends Completion {
  /** The answer as a message for chat templates. The session already has it: {@link Session.chat} takes the messages that follow. */
  readonly message: AnswerMessage;
  /** The text of the answer, without thoughts and calls. */
  readonly content: string;
  /** The thoughts before the text; empty if there are none. */
  readonly reasoning: string;
  /** The tool calls, in order, ready to be executed. */
  readonly toolCalls: readonly ToolCall[];
}

/** How the tokens of a session changed with a turn: see {@link Session.turn}. */
export interface Turn {
  /** How many tokens the session had and still has. */
  readonly keptTokens: number;
  /** How many of the session's tokens were dropped, because the template no longer writes their text, such as earlier thoughts. */
  readonly droppedTokens: number;
  /** How many tokens were added. */
  readonly addedTokens: number;
  /** How many of the kept tokens had been read and must be read again, because no cache has them. */
  readonly rereadTokens: number;
}

/** A token of an answer, and the text that it completes. */
export interface GeneratedPiece {
  /** The token's id; −1, which is not an id, in the only piece of a generation that gives no token, such as with `maxTokens: 0`. */
  readonly token: number;
  /**
   * The text that the token completes, as generated: whole characters, possibly none; empty without a tokenizer. A generation's first
   * piece begins with text that an earlier one, which was left, had held back for its stop strings; so a piece without a token may
   * have text. An incomplete character at the end is U+FFFD, and its remaining bytes give the character if the session goes on.
   */
  readonly text: string;
  /**
   * Set in the last piece only: `"token"` for an end token; `"string"` when the text reaches a stop string, which is not part of
   * any piece's text; `"length"` when `maxTokens` is reached or nothing more fits.
   */
  readonly end?: "token" | "string" | "length";
  /**
   * The natural logarithm of the token's probability in the model: its logit minus the logarithm of the sum of all logits'
   * exponentials, in float64, before temperature, penalties and other settings. Only with {@link GenerateOptions.logprobs}.
   */
  readonly logprob?: number;
  /**
   * The most likely tokens at this position, whatever the settings: in descending order, of equal ones the lowest id first. Only
   * with {@link GenerateOptions.topLogprobs}.
   */
  readonly topLogprobs?: readonly TokenLogprob[];
}

/** A token of an answer, and the parts of the answer that it completes. */
export interface Piece extends GeneratedPiece {
  /**
   * The thoughts, text and tool calls that become certain with this token, in order; possibly none. They follow the model's
   * chat template if the session's prompt came from {@link Session.chat}; otherwise everything is text.
   */
  readonly parts: readonly AnswerPiece[];
}
