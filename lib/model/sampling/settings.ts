/** Options of sampling. */

/**
 * How the next token is chosen. From the logits z, with earlier tokens made less likely by `repetitionPenalty` r,
 *
 * ```math
 * z_i' = \begin{cases} z_i / r & z_i > 0 \\ z_i \, r & z_i \le 0 \end{cases}
 * \qquad
 * p_i = \frac{e^{(z_i' - \max z') / temperature}}{\sum_j e^{(z_j' - \max z') / temperature}}
 * ```
 *
 * `topK`, `topP` and `minP` remove tokens, in this order. Of the rest, by ascending id, the first token is chosen at which
 * the running sum of probabilities exceeds u times the whole sum, with u in [0, 1) from the seed and the position. All
 * arithmetic is float64. A temperature of 0 chooses the largest logit.
 *
 * @see Holtzman et al., [The Curious Case of Neural Text Degeneration](https://arxiv.org/abs/1904.09751), 2019, for `topP`
 * @see Fan, Lewis, Dauphin, [Hierarchical Neural Story Generation](https://arxiv.org/abs/1805.04833), 2018, for `topK`
 * @see Nguyen et al., [Turning Up the Heat: Min-p Sampling](https://arxiv.org/abs/2407.01082), 2024, for `minP`
 * @see Keskar et al., [CTRL](https://arxiv.org/abs/1909.05858), 2019, for `repetitionPenalty`
 * @see Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, for u
 */
export interface SamplingOptions {
  /**
   * Divisor of the logits before they become probabilities; 0 takes the most likely token, of equal ones the one with the
   * lowest id. @default 0
   */
  readonly temperature?: number | undefined;
  /** How many of the most likely tokens remain, of equal ones those with lower ids; 0 for all. @default 0 */
  readonly topK?: number | undefined;
  /** Of these, the smallest number of most likely tokens remains whose probabilities reach this sum, above 0. @default 1 */
  readonly topP?: number | undefined;
  /** Of these, tokens remain that have at least this part of the largest probability. @default 0 */
  readonly minP?: number | undefined;
  /**
   * Logits of tokens that the sequence already has are divided by this if positive, and multiplied by it if negative.
   * @default 1
   */
  readonly repetitionPenalty?: number | undefined;
  /**
   * An integer, 0 .. 2^53 − 1. The choice at a position of a sequence depends only on the logits there, the options, the
   * seed and the position. @default a new random one each time
   */
  readonly seed?: number | undefined;
  /**
   * `"model"` takes options that are not given from the model's `generation_config.json`, which is otherwise ignored.
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
}

/** Greedy: the most likely token, always. */
export const greedy: SamplingSettings = { temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1 };

/** The given options; then, if requested, those of the model's folder; then {@link greedy}. */
export function settingsOf(options: SamplingOptions, model: Partial<SamplingSettings>): SamplingSettings {
  const base = options.sampling === "model" ? model : {};
  return {
    temperature: options.temperature ?? base.temperature ?? greedy.temperature,
    topK: options.topK ?? base.topK ?? greedy.topK,
    topP: options.topP ?? base.topP ?? greedy.topP,
    minP: options.minP ?? base.minP ?? greedy.minP,
    repetitionPenalty: options.repetitionPenalty ?? base.repetitionPenalty ?? greedy.repetitionPenalty,
  };
}
