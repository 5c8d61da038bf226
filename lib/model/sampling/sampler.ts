import { GatedDeltaError } from "../../errors.ts";
import { CandidateMemory, candidatesOf } from "./candidates.ts";
import type { Candidates, Logits } from "./candidates.ts";
import { uniformAt } from "./philox.ts";
import type { SamplingSettings } from "./settings.ts";

/**
 * Chooses tokens from logits, in float64:
 *
 * 1. logits of earlier tokens are divided (if positive) or multiplied by the repetition penalty;
 * 2. at temperature 0 the token with the largest logit is chosen, of equal ones that with the lowest id;
 * 3. otherwise each token has the weight exp((logit − largest) / temperature); top-k, then top-p, then min-p select
 *    candidates ({@link candidatesOf}), and the chosen token is the first, by ascending id, at which the running sum of
 *    weights exceeds u times the whole sum. u is {@link uniformAt} the seed and the position.
 */
export class Sampler {
  readonly settings: SamplingSettings;
  readonly #seed: number;
  /** 1 for each token that came before, for the penalty. */
  readonly #seen: Uint8Array | undefined;
  readonly #seenTokens: number[] = [];
  /** Logits with the penalty. */
  readonly #penalised: Float64Array | undefined;
  readonly #memory: CandidateMemory | undefined;

  /**
   * @param seed an integer, 0 .. 2^53 − 1.
   * @param vocabSize the number of logits in a row.
   */
  constructor(settings: SamplingSettings, seed: number, vocabSize: number) {
    this.settings = settings;
    this.#seed = seed;
    if (settings.repetitionPenalty !== 1) {
      this.#seen = new Uint8Array(vocabSize);
      this.#penalised = new Float64Array(vocabSize);
    }
    if (settings.temperature > 0) this.#memory = new CandidateMemory(vocabSize);
  }

  /** Adds tokens that precede the next choice. */
  saw(tokens: Iterable<number>): void {
    const seen = this.#seen;
    if (seen === undefined) return;
    for (const token of tokens) {
      if (seen[token] === 1) continue;
      seen[token] = 1;
      this.#seenTokens.push(token);
    }
  }

  /**
   * Chooses the token at a position.
   *
   * @param logits `[vocabSize]`, those after the preceding token; not modified.
   * @param position the number of preceding tokens.
   * @throws {GatedDeltaError} of code `invalid-argument` if a logit is NaN or ∞, or all are −∞.
   */
  choose(logits: Float32Array, position: number): number {
    const { row, id, most } = this.#read(logits);
    if (this.settings.temperature === 0) return id;
    const { ids, weights } = candidatesOf(row, most, this.settings, this.#memory);
    let total = 0;
    for (let i = 0; i < weights.length; i++) total += weights[i]!;
    const wanted = uniformAt(this.#seed, position) * total;
    let sum = 0;
    for (let i = 0; i < weights.length; i++) {
      sum += weights[i]!;
      if (sum > wanted) return ids[i]!;
    }
    return ids[ids.length - 1]!; // u times the sum was rounded up to the sum
  }

  /** The tokens from which {@link choose} would choose; a single one with greedy settings. */
  candidates(logits: Float32Array): Candidates {
    const { row, id, most } = this.#read(logits);
    if (this.settings.temperature === 0) return { ids: Int32Array.of(id), weights: Float64Array.of(1) };
    return candidatesOf(row, most, this.settings);
  }

  /** Logits after the penalty, if any, and the largest of them. */
  #read(logits: Float32Array): { row: Logits; id: number; most: number } {
    const row = this.#penalised;
    if (row === undefined) return { row: logits, ...largestOf(logits) };
    largestOf(logits); // refuses NaN and ∞ before a penalty could change them
    row.set(logits);
    const penalty = this.settings.repetitionPenalty;
    for (const token of this.#seenTokens) {
      const logit = row[token]!;
      row[token] = logit > 0 ? logit / penalty : logit * penalty;
    }
    return { row, ...largestOf(row) };
  }
}

/**
 * The largest logit and the lowest id with it.
 *
 * @throws {GatedDeltaError} for logits that are not numbers.
 */
export function largestOf(logits: Float32Array | Float64Array): { readonly id: number; readonly most: number } {
  let id = 0;
  let most = -Infinity;
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i]!;
    if (logit > most) {
      most = logit;
      id = i;
    } else if (logit !== logit) {
      throw wrong(i, "NaN");
    }
  }
  if (most === Infinity) throw wrong(id, "Infinity");
  if (most === -Infinity) throw wrong(0, "-Infinity for every token");
  return { id, most };
}

function wrong(token: number, received: string): GatedDeltaError {
  return new GatedDeltaError("invalid-argument", { op: "sample", argument: `logits[${token}]`, expected: "a finite number", received });
}
