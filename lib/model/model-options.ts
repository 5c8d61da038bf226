/** Options of {@link LanguageModel}'s methods. */
import type { ActivationForm } from "../native/options.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import type { LoadProgress } from "./load-weights.ts";
import type { Sequence } from "./sequence.ts";

/** Where weights are: in their mapped files, or in the library's memory. */
export type WeightsPlace = "copied" | "mapped";

/** How tokens that are read are multiplied. */
export type Prompts = "exact" | "matrix";

/** The number and form of a model's states. */
export interface StatesOptions {
  /** How many sequences can exist at a time, forks included. @default two for each of the `sessions` */
  readonly slots?: number | undefined;
  /**
   * Element type of the recurrent states. Only f32 states give the same bits for every split of a sequence into runs: other
   * types are rounded once per run. @default "f32"
   */
  readonly dtype?: FloatDType | undefined;
}

/** The number and form of a model's pages of keys and values. */
export interface PagesOptions {
  /** Number of pages of all sequences together. Forks share common pages. @default enough for `sessions` and `context` */
  readonly count?: number | undefined;
  /** Number of tokens of a page. @default 64 */
  readonly tokens?: number | undefined;
  /** Element type of keys and values, which are rounded when stored and always read from there. @default the model's `dtype` */
  readonly dtype?: FloatDType | undefined;
}

/**
 * Options of {@link LanguageModel.load}. By default states, keys and values take up to half of the memory that is free after
 * the weights are loaded; `gated-delta doctor FOLDER` prints how much that is.
 */
export interface LoadModelOptions {
  /** How many sessions can work at the same time; more sessions take turns. @default 4, or as many as fit */
  readonly sessions?: number | undefined;
  /** How many tokens there is memory for in each session. @default as many as fit, at most 32768 and the model's positions */
  readonly context?: number | undefined;
  /** Instead of `sessions`: how many sequences can exist at a time, cache entries included; or options with that number. */
  readonly states?: number | StatesOptions | undefined;
  /** Instead of `context`: the number of pages of keys and values; or options with that number. */
  readonly pages?: number | PagesOptions | undefined;
  /**
   * Dtype of the activations between the ops. Weights stay in their stored form. On Metal bf16 activations take less GPU time,
   * and their rounding is that of the weights' own training.
   *
   * @default "f32"; on Metal "bf16", unless the model's embedding is stored in f32 or f16
   */
  readonly dtype?: FloatDType | undefined;
  /**
   * How activations are multiplied by packed weights. `"exact"`: as they are. `"int8"`: rounded to 8 bits for each product, in
   * groups that the weight's format fixes, as `linear` describes: different results in less time, with the same promises of equal
   * bits. The CPU only; float and `mxfp8` weights are still multiplied exactly, and `LanguageModel.matrices` lists all matrices.
   * This option is part of the model's identity. @default "exact"
   */
  readonly activations?: ActivationForm | undefined;
  /**
   * How a GPU multiplies tokens that are read. `"exact"`: in the same written order as generated tokens, so that a session's bits
   * do not depend on how its tokens came. `"matrix"`, on Metal: by the GPU's matrix units, which are faster and have an order of
   * their own. Each token's kernels then follow from its role: read tokens give the same results however they are split, batched,
   * forked, cached or read again, and so do generated tokens, but an answer that is read as part of a prompt gives different
   * results from when it was generated. No Mac has run it yet; until one has, `"matrix"` promises no equal bits across splits.
   * @default "exact"
   */
  readonly prompts?: Prompts | undefined;
  /**
   * Where the weights are. `"copied"`: in the library's memory, into which they are read. `"mapped"`: in the files, as the
   * system caches them. A mapped model is available at once, shares its memory with other processes that have mapped the same
   * files, and leaves parts on disk that no token needs. Weights that are not stored as they are used are still copied: rows that
   * have to be gathered, tensors that are joined, and tensors that begin where an element cannot.
   *
   * Mapped files must not change until the model is disposed. Each submission compares their sizes and times with those at the
   * time of mapping, and is refused with a `FileError` if a file was written to, truncated, replaced, renamed or linked.
   * Truncating a file while a kernel reads it ends the process (`SIGBUS`). @default "copied"
   */
  readonly weights?: WeightsPlace | undefined;
  /**
   * The most tokens that go through the layers at a time; memory for activations is allocated for that many. In a longer
   * batch, each sequence is split after every `batchTokens` of its tokens. @default 512
   */
  readonly batchTokens?: number | undefined;
  /**
   * The most prompt tokens in a step in which sessions generate. A smaller number makes these steps shorter; a larger one
   * reads prompts sooner. @default 64
   */
  readonly promptTokens?: number | undefined;
  /**
   * The most bytes of host memory for copies of sessions that gave way to others. Sessions with 16-bit recurrent states are copied, and
   * so are sessions from a file that another version, other kernels or another device has written; others read their tokens again.
   * When this memory is full, such sessions keep theirs, and others wait. @default the bytes of all states and pages
   */
  readonly swap?: number | undefined;
  /**
   * The most tokens of sessions with `drafts` that are verified in a step: guesses, and the unread tokens before them. Memory
   * for their records is allocated when the model is loaded: for each token and Gated DeltaNet layer, keys and values in
   * float32 and the convolution's input, about 40 KB in a model with 16 heads of 128. Further guesses are not verified. Use 0
   * for a model whose sessions do not draft. @default 32
   */
  readonly draftTokens?: number | undefined;
  /** Called after every piece of the weights is read, and after kernels are compiled. An error that it throws ends the load. */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
}

/** Options of {@link LanguageModel.identity}. */
export interface IdentityOptions {
  /** Ends the wait, and the work if nothing else waits for it. */
  readonly signal?: AbortSignal | undefined;
}

/** The tokens whose logits or hidden states are returned. */
export type WantedLogits = "last" | "all" | "none";

/**
 * How a token came to a sequence: `"read"` as part of a prompt, `"generated"` as the model's own choice, including accepted
 * guesses.
 */
export type TokenRole = "read" | "generated";

/** One sequence's part of a batch. */
export interface BatchEntry {
  /** The sequence; each can be in a batch only once. */
  readonly sequence: Sequence;
  /** At least one token id, each 0 .. vocabSize − 1. */
  readonly tokens: readonly number[] | Int32Array | Uint32Array;
  /**
   * The role of these tokens, by which kernels are chosen in a model with `prompts: "matrix"`: tokens that are read again have the
   * same bits only with the same role. In any other model both roles have the same bits. @default "read"
   */
  readonly role?: TokenRole | undefined;
  /** The tokens whose logits are returned. @default "last" */
  readonly logits?: WantedLogits | undefined;
  /**
   * The tokens whose hidden states are returned: the output of the last layer after the final norm, which the output
   * projection reads (transformers' `last_hidden_state`). They cost a norm but no product with the vocabulary. Steps of single
   * tokens then do not run as a recorded plan, and take more JavaScript time.
   *
   * @default "none"
   */
  readonly hidden?: WantedLogits | undefined;
}
