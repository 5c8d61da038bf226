/** Sampling options. */

/**
 * A function that changes the logits of a position before anything else does.
 *
 * @param logits `[vocabSize]`, in float32: a copy, valid during the call. −∞ removes a token.
 * @param tokens all tokens before the position; a copy, valid during the call.
 */
export type LogitsProcessor = (logits: Float32Array, tokens: Int32Array) => void;

/**
 * How the next token is chosen. First, `processors` change the model's logits. Then the logits z become, with `logitBias` b, the
 * `repetitionPenalty` r for a token that is among the last `repetitionWindow` ones (1 for others), and the number n of times that
 * the answer has the token,
 *
 * ```math
 * y_i = z_i + b_i
 * \qquad
 * z_i' = \begin{cases} y_i / r_i & y_i > 0 \\ y_i \, r_i & y_i \le 0 \end{cases}
 *   - n_i \, frequencyPenalty - [n_i > 0] \, presencePenalty
 * \qquad
 * p_i = \frac{e^{(z_i' - \max z') / temperature}}{\sum_j e^{(z_j' - \max z') / temperature}}
 * ```
 *
 * `topK`, `topP` and `minP` remove tokens, in this order. Of the rest, by ascending id, the first token is chosen at which
 * the running sum of probabilities exceeds u times the whole sum, with u in [0, 1) from the seed and the position. All
 * arithmetic after the processors is float64. A temperature of 0 chooses the largest logit.
 *
 * The answer here is everything that was generated since the last appended token or end token: an answer that was interrupted,
 * forked or loaded from a file continues with its counts.
 *
 * @see Holtzman et al., [The Curious Case of Neural Text Degeneration](https://arxiv.org/abs/1904.09751), 2019, for `topP`
 * @see Fan, Lewis, Dauphin, [Hierarchical Neural Story Generation](https://arxiv.org/abs/1805.04833), 2018, for `topK`
 * @see Nguyen et al., [Turning Up the Heat: Min-p Sampling](https://arxiv.org/abs/2407.01082), 2024, for `minP`
 * @see Keskar et al., [CTRL](https://arxiv.org/abs/1909.05858), 2019, for `repetitionPenalty`
 * @see OpenAI, [Advanced usage: frequency and presence penalties](https://platform.openai.com/docs/advanced-usage), 2024, for `frequencyPenalty`
 *   and `presencePenalty`
 * @see Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, for u
 */
export interface SamplingOptions {
  /**
   * Divisor of the logits before they become probabilities; 0 takes the most likely token, of equal ones the one with the
   * lowest id. @default 0
   */
  readonly temperature?: number | undefined;
  /** How many of the most likely tokens remain, of equal ones those with the lower ids; 0 for all. @default 0 */
  readonly topK?: number | undefined;
  /** Of these, the fewest most likely tokens remain whose probabilities reach this sum, above 0. @default 1 */
  readonly topP?: number | undefined;
  /** Of these, tokens remain that have at least this part of the largest probability. @default 0 */
  readonly minP?: number | undefined;
  /**
   * Logits of tokens that the sequence already has are divided by this number if positive, and multiplied by it if negative.
   * @default 1
   */
  readonly repetitionPenalty?: number | undefined;
  /** How many of the sequence's last tokens {@link repetitionPenalty} applies to, including those of the prompt. @default all */
  readonly repetitionWindow?: number | undefined;
  /** Subtracted from the logits of tokens that the answer already has; −100 .. 100, and a factor of 1 for each token. @default 0 */
  readonly presencePenalty?: number | undefined;
  /** Subtracted from a token's logit for each time that the answer already has it: a factor, −100 .. 100. @default 0 */
  readonly frequencyPenalty?: number | undefined;
  /**
   * Numbers added to logits, by token id: −100 .. 100. −∞ removes a token; if any is ∞, only tokens with ∞ remain, with unchanged
   * logits. An object or a map. @default none
   */
  readonly logitBias?: Readonly<Record<number, number>> | ReadonlyMap<number, number> | undefined;
  /**
   * Functions that change logits, called in order, once for each position. An error that one throws ends the generation. Their result
   * should depend only on their arguments: with {@link GenerateOptions.drafts} they are called for tokens that you have not received
   * yet. @default none
   */
  readonly processors?: readonly LogitsProcessor[] | undefined;
  /**
   * An integer, 0 .. 2^53 − 1. The choice at a position of a sequence depends only on the logits there, the options, the
   * seed and the position. @default a new random one each time
   */
  readonly seed?: number | undefined;
  /**
   * `"model"` takes missing options from the model's `generation_config.json`, or from `general.sampling` in a GGUF file's metadata;
   * otherwise these are ignored.
   * @default none
   */
  readonly sampling?: "model" | undefined;
}

/** {@link SamplingOptions}, complete. */
export interface SamplingSettings {
  /** Divisor of the logits; 0 takes the most likely token. */
  readonly temperature: number;
  /** How many of the most likely tokens remain; 0 for all. */
  readonly topK: number;
  /** The sum of probabilities that the remaining most likely tokens reach. */
  readonly topP: number;
  /** The part of the largest probability that other tokens need. */
  readonly minP: number;
  /** Divisor of positive logits of earlier tokens, and factor of negative ones. */
  readonly repetitionPenalty: number;
  /** How many of the last tokens the repetition penalty applies to; Infinity for all. */
  readonly repetitionWindow: number;
  /** Subtracted from logits of tokens that the answer has; a factor of 1 for each such token. */
  readonly presencePenalty: number;
  /** Subtracted from a logit for each time that the answer has the token; a factor. */
  readonly frequencyPenalty: number;
}

/** Greedy: the most likely token, always. */
export const greedy: SamplingSettings = {
  temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1, repetitionWindow: Infinity, presencePenalty: 0, frequencyPenalty: 0,
};

/** The given options; then, if requested, the options of the model's folder; then {@link greedy}. */
export function settingsOf(options: SamplingOptions, model: Partial<SamplingSettings>): SamplingSettings {
  const base = { ...greedy, ...(options.sampling === "model" ? model : {}) };
  const names = Object.keys(greedy) as (keyof SamplingSettings)[];
  return Object.fromEntries(names.map((name) => [name, options[name] ?? base[name]])) as unknown as SamplingSettings;
}
