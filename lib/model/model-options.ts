/** Options of {@link LanguageModel}'s methods. */
import type { FloatDType } from "../tensor/dtype.ts";
import type { LoadProgress } from "./load-weights.ts";
import type { Sequence } from "./sequence.ts";

/** How many states a model has room for, and in what form. */
export interface StatesOptions {
  /** How many sequences there can be at a time. Forks count like any other. @default two for each of the `sessions` */
  readonly slots?: number | undefined;
  /**
   * Element type of the recurrent states. Only f32 ones give the same bits however a sequence is cut into runs: others are
   * rounded once a run. @default "f32"
   */
  readonly dtype?: FloatDType | undefined;
}

/** How many keys and values a model has room for, and in what form. */
export interface PagesOptions {
  /** Pages of all sequences together. Forks share those that they have in common. @default those of `sessions` and `context` */
  readonly count?: number | undefined;
  /** Tokens of a page. @default 64 */
  readonly tokens?: number | undefined;
  /** Element type of keys and values: rounded when stored, and always read from there. @default the model's `dtype` */
  readonly dtype?: FloatDType | undefined;
}

/**
 * Options of {@link LanguageModel.load}. Without any, states, keys and values take up to half of the memory that is free once
 * the weights are loaded; `gated-delta doctor FOLDER` prints how much that is.
 */
export interface LoadModelOptions {
  /** How many sessions can be at work at the same time; more of them take turns. @default 4, or as many as fit */
  readonly sessions?: number | undefined;
  /** For how many tokens of each there is memory. @default as many as fit, at most 32768 and the model's positions */
  readonly context?: number | undefined;
  /** In place of `sessions`: how many sequences there can be at a time, caches' entries included, or that and in what form. */
  readonly states?: number | StatesOptions | undefined;
  /** In place of `context`: how many pages of keys and values there are, or that and in what form. */
  readonly pages?: number | PagesOptions | undefined;
  /** Dtype of the activations between the ops. Weights stay in the form that they are stored in. @default "f32" */
  readonly dtype?: FloatDType | undefined;
  /**
   * The most tokens that go through the layers at a time: memory for activations is made for so many. A longer batch is
   * cut, each sequence after every so many of its tokens in the call. @default 512
   */
  readonly batchTokens?: number | undefined;
  /**
   * The most tokens of prompts that are read in a step in which sessions generate. A smaller number makes the steps of those
   * shorter, a larger one reads prompts sooner. @default 64
   */
  readonly promptTokens?: number | undefined;
  /**
   * How many bytes of the host's memory copies of states, keys and values may take while others have their place. Sessions with
   * recurrent states of 16 bits, and those that were loaded from a file, are copied; others are read again. Where it is full they
   * keep what they have, and others wait. @default as many as all states and pages have
   */
  readonly swap?: number | undefined;
  /**
   * The most tokens of sessions with `drafts` that are verified in a step: guesses, and those before them that were not read.
   * Memory for their records is made when the model is loaded: for each token and Gated DeltaNet layer its keys and values
   * in float32 and the convolution's input, about 40 KB in a model of 16 heads of 128. Where more tokens are guessed fewer
   * are verified. 0 is for a model that verifies none. @default 32
   */
  readonly draftTokens?: number | undefined;
  /** Called after every piece of the weights that was read. What it throws ends the load. */
  readonly onProgress?: ((progress: LoadProgress) => void) | undefined;
}

/** Options of {@link LanguageModel.identity}. */
export interface IdentityOptions {
  /** Ends the wait, and the work where nothing else waits for it. */
  readonly signal?: AbortSignal | undefined;
}

/** Of which tokens logits, or hidden states, are wanted. */
export type WantedLogits = "last" | "all" | "none";

/** One sequence's part of a batch. */
export interface BatchEntry {
  /** Which one; no other entry of the batch has it. */
  readonly sequence: Sequence;
  /** At least one token id, each 0 .. vocabSize − 1. */
  readonly tokens: readonly number[] | Int32Array | Uint32Array;
  /** Of which of the tokens logits are wanted. @default "last" */
  readonly logits?: WantedLogits | undefined;
  /**
   * Of which of the tokens hidden states are wanted: what the last layer gives, after the final norm, as the output projection
   * reads it (transformers' `last_hidden_state`). They cost a norm, and not the product with the vocabulary that logits cost;
   * but steps of single tokens are no recorded plan then, and take more of JavaScript's time.
   *
   * @default "none"
   */
  readonly hidden?: WantedLogits | undefined;
}
