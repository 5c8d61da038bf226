/** How the next token is chosen. */

/**
 * How the next token is chosen. Of the logits z, with the tokens already there made less likely by `repetitionPenalty` r,
 *
 * ```math
 * z_i' = \begin{cases} z_i / r & z_i > 0 \\ z_i \, r & z_i \le 0 \end{cases}
 * \qquad
 * p_i = \frac{e^{(z_i' - \max z') / temperature}}{\sum_j e^{(z_j' - \max z') / temperature}}
 * ```
 *
 * `topK`, `topP` and `minP` take tokens away, in this order; of the rest, by ascending id, the first is taken whose sum of
 * probabilities exceeds u times the sum of all, with u in [0, 1) from the seed and the position. All of it is float64. A
 * temperature of 0 takes the largest logit.
 *
 * @see Holtzman et al., [The Curious Case of Neural Text Degeneration](https://arxiv.org/abs/1904.09751), 2019, for `topP`
 * @see Fan, Lewis, Dauphin, [Hierarchical Neural Story Generation](https://arxiv.org/abs/1805.04833), 2018, for `topK`
 * @see Nguyen et al., [Turning Up the Heat: Min-p Sampling](https://arxiv.org/abs/2407.01082), 2024, for `minP`
 * @see Keskar et al., [CTRL](https://arxiv.org/abs/1909.05858), 2019, for `repetitionPenalty`
 * @see Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, for u
 */
export interface SamplingOptions {
  /**
   * What the logits are divided by before they become probabilities; 0 takes the most likely token, of several that are
   * the one with the lowest id. @default 0
   */
  readonly temperature?: number | undefined;
  /** How many of the most likely tokens stay, of equal ones those with lower ids; 0 for all. @default 0 */
  readonly topK?: number | undefined;
  /** Of these, the fewest most likely tokens stay whose probabilities reach this sum, above 0. @default 1 */
  readonly topP?: number | undefined;
  /** Of these, tokens stay that have at least this part of the most likely one's probability. @default 0 */
  readonly minP?: number | undefined;
  /**
   * Logits of tokens that the sequence has already are divided by this where they are positive, and multiplied by it
   * where they are negative. @default 1
   */
  readonly repetitionPenalty?: number | undefined;
  /**
   * An integer, 0 .. 2^53 − 1. The choice at a position of a sequence depends on the logits there, the options, the seed and
   * the position alone. @default another one each time
   */
  readonly seed?: number | undefined;
  /**
   * `"model"` takes what the options above do not say from the model's `generation_config.json`: as if it were said here.
   * Nothing of that file applies else. @default none
   */
  readonly sampling?: "model" | undefined;
}

/** {@link SamplingOptions}, complete. */
export interface SamplingSettings {
  /** What the logits are divided by; 0 takes the most likely token. */
  readonly temperature: number;
  /** How many of the most likely tokens stay; 0 for all. */
  readonly topK: number;
  /** The sum of probabilities that the fewest most likely tokens reach. */
  readonly topP: number;
  /** The part of the most likely token's probability that others need. */
  readonly minP: number;
  /** What the logits of tokens that are there already are divided by, or multiplied where they are negative. */
  readonly repetitionPenalty: number;
}

/** Greedy: the most likely token, always. */
export const greedy: SamplingSettings = { temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1 };

/** What was said, over what the model's folder says where that was asked for, over {@link greedy}. */
export function settingsOf(said: SamplingOptions, model: Partial<SamplingSettings>): SamplingSettings {
  const base = said.sampling === "model" ? model : {};
  return {
    temperature: said.temperature ?? base.temperature ?? greedy.temperature,
    topK: said.topK ?? base.topK ?? greedy.topK,
    topP: said.topP ?? base.topP ?? greedy.topP,
    minP: said.minP ?? base.minP ?? greedy.minP,
    repetitionPenalty: said.repetitionPenalty ?? base.repetitionPenalty ?? greedy.repetitionPenalty,
  };
}
