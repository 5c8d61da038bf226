import { GatedDeltaError } from "../../errors.ts";
import { mostBest, mostBestOf } from "./best-logits.ts";
import type { BestLogits } from "./best-logits.ts";
import { CandidateMemory, candidatesOf } from "./candidates.ts";
import type { Candidates, Logits } from "./candidates.ts";
import { uniformAt } from "./philox.ts";
import { Processing } from "./processing.ts";
import type { LogitsProcessor, SamplingSettings } from "./settings.ts";
import { TokenCounts } from "./token-counts.ts";

/** Parts of a sampler in addition to its settings. */
export interface SamplerParts {
  /** Added to logits; ∞ and −∞ as {@link SamplingOptions.logitBias} says. Ids are below the size of the vocabulary. */
  readonly logitBias?: ReadonlyMap<number, number> | undefined;
  readonly processors?: readonly LogitsProcessor[] | undefined;
}

/** Tokens that can't be chosen at a position. */
export interface Barred {
  /** A bit for each token, in order from the lowest bit of the first element: 1 where it is allowed. Missing bits are 0. */
  readonly allowed?: Int32Array | undefined;
  /** Tokens that are not allowed; costs a copy of the logits. */
  readonly without?: ReadonlySet<number> | undefined;
  /** Names of the options that bar tokens, for errors. */
  readonly by: string;
}

/**
 * Chooses tokens from logits, in float64:
 *
 * 1. processors change a copy of the logits;
 * 2. barred tokens get the logit −∞;
 * 3. biases are added;
 * 4. logits of earlier tokens are divided (if positive) or multiplied by the repetition penalty;
 * 5. logits of the answer's tokens are reduced by the frequency and presence penalties;
 * 6. at temperature 0 the token with the largest logit is chosen, of equal ones the one with the lowest id;
 * 7. otherwise each token has the weight exp((logit − largest) / temperature); top-k, then top-p, then min-p select
 *    candidates ({@link candidatesOf}), and the chosen token is the first, by ascending id, at which the running sum of
 *    weights exceeds u times the whole sum. u is {@link uniformAt} the seed and the position.
 */
export class Sampler {
  readonly settings: SamplingSettings;
  /**
   * How many of the largest logits {@link chooseFrom} needs; undefined if the settings need all, or more than are found.
   */
  readonly best: number | undefined;
  readonly #seed: number;
  readonly #processing: Processing | undefined;
  readonly #bias: ReadonlyMap<number, number> | undefined;
  /** The only tokens that remain. */
  readonly #only: ReadonlySet<number> | undefined;
  /** Tokens of the whole sequence. */
  readonly #earlier: TokenCounts | undefined;
  /** Tokens of the answer. */
  readonly #answered: TokenCounts | undefined;
  /** Logits after adjustments; made when they are first needed. */
  #adjusted: Float64Array | undefined;
  /** Logits that a mask allows, and their ids; made when they are first needed. */
  #gathered: { readonly ids: Int32Array; readonly logits: Float64Array } | undefined;
  /** Made when it is first needed. */
  #memory: CandidateMemory | undefined;

  /**
   * @param seed an integer, 0 .. 2^53 − 1.
   * @param vocabSize the number of logits in a row.
   */
  constructor(settings: SamplingSettings, seed: number, vocabSize: number, { logitBias, processors = [] }: SamplerParts = {}) {
    const { repetitionPenalty, repetitionWindow, presencePenalty, frequencyPenalty, temperature } = settings;
    this.settings = settings;
    this.#seed = seed;
    if (processors.length > 0) this.#processing = new Processing(processors, vocabSize);
    if (logitBias !== undefined && logitBias.size > 0) {
      const only = [...logitBias].filter(([, bias]) => bias === Infinity).map(([id]) => id);
      if (only.length > 0) this.#only = new Set(only);
      else this.#bias = logitBias;
    }
    if (repetitionPenalty !== 1) this.#earlier = new TokenCounts(vocabSize, repetitionWindow);
    if (presencePenalty !== 0 || frequencyPenalty !== 0) this.#answered = new TokenCounts(vocabSize);
    const count = temperature === 0 ? 1 : Math.min(settings.topK, vocabSize);
    const changes = [this.#processing, this.#bias, this.#only, this.#earlier, this.#answered].some((one) => one !== undefined);
    if (!changes && count >= 1 && count <= mostBest && vocabSize <= mostBestOf) this.best = count;
  }

  /**
   * Adds tokens that precede the next choice.
   *
   * @param ofAnswer whether the tokens are part of the answer, for the frequency and presence penalties.
   */
  saw(tokens: Iterable<number>, ofAnswer = false): void {
    if (this.#processing === undefined && this.#earlier === undefined && this.#answered === undefined) return;
    for (const token of tokens) {
      this.#processing?.saw(token);
      this.#earlier?.add(token);
      if (ofAnswer) this.#answered?.add(token);
    }
  }

  /**
   * Chooses the token at a position.
   *
   * @param logits `[vocabSize]`, those after the preceding token; not modified.
   * @param position the number of preceding tokens.
   * @throws {GatedDeltaError} of code `invalid-argument` if a logit is NaN or ∞, or all are −∞; what a processor throws.
   */
  choose(logits: Float32Array, position: number, barred?: Barred): number {
    const { row, id, most, only } = this.#read(logits, barred);
    if (this.settings.temperature === 0) return only?.[id] ?? id;
    const { ids, weights } = candidatesOf(row, most, this.settings, (this.#memory ??= new CandidateMemory(logits.length)));
    const chosen = ids[this.#place(weights, position)]!;
    return only?.[chosen] ?? chosen;
  }

  /**
   * The token that {@link choose} would choose if none is barred, from {@link best} or more of the largest logits.
   *
   * @throws {GatedDeltaError} as {@link choose}.
   */
  chooseFrom({ values, ids }: BestLogits, position: number): number {
    const most = values[0]!;
    // NaN comes first, so a row with one is refused. A row of −∞ is refused by its first id, which is the lowest.
    expectFinite(most, ids[0]!);
    if (this.settings.temperature === 0) return ids[0]!;
    // Top-k leaves no other tokens. Sums run over ascending ids.
    const among = Array.from({ length: this.best! }, (_, i) => i).sort((a, b) => ids[a]! - ids[b]!);
    const row = Float32Array.from(among, (i) => values[i]!);
    const candidates = candidatesOf(row, most, this.settings);
    return ids[among[candidates.ids[this.#place(candidates.weights, position)]!]!]!;
  }

  /** The index in the weights where a position's number falls. */
  #place(weights: Float64Array, position: number): number {
    let total = 0;
    for (let i = 0; i < weights.length; i++) total += weights[i]!;
    const wanted = uniformAt(this.#seed, position) * total;
    let sum = 0;
    for (let i = 0; i < weights.length; i++) {
      sum += weights[i]!;
      if (sum > wanted) return i;
    }
    return weights.length - 1; // u times the sum was rounded up to the sum
  }

  /** The tokens from which {@link choose} would choose; a single one with greedy settings. */
  candidates(logits: Float32Array, barred?: Barred): Candidates {
    const { row, id, most, only } = this.#read(logits, barred);
    const { ids, weights } = this.settings.temperature === 0 ? { ids: Int32Array.of(id), weights: Float64Array.of(1) } : candidatesOf(row, most, this.settings);
    return { ids: only === undefined ? ids : ids.map((i) => only[i]!), weights };
  }

  /** Logits after all adjustments, and the largest of them; with a mask, only the logits that it allows, and their ids. */
  #read(logits: Float32Array, barred: Barred | undefined): { row: Logits; id: number; most: number; only?: Int32Array } {
    const own = largestOf(logits); // refuses NaN and ∞ before an adjustment could change them
    const processed = this.#processing?.run(logits) ?? logits;
    const checked = processed === logits ? own : largestOf(processed, "processors");
    const changes = [this.#bias, this.#only, this.#earlier, this.#answered].some((one) => one !== undefined);
    if (!changes && barred === undefined) return { row: processed, ...checked };
    let row: Logits = processed;
    const by = [barred?.by, this.#bias ?? this.#only ? "logitBias" : undefined].filter((name) => name !== undefined).join(", ");
    if (changes || barred?.without !== undefined) {
      row = this.#adjusted ??= new Float64Array(logits.length);
      row.set(processed);
      for (const id of barred?.without ?? []) row[id] = -Infinity;
      if (changes) this.#adjust(row);
    }
    if (barred?.allowed === undefined) return { row, ...largestOf(row, by) };
    const memory = (this.#gathered ??= { ids: new Int32Array(logits.length), logits: new Float64Array(logits.length) });
    const count = gather(row, barred.allowed, memory.ids, memory.logits);
    const kept = memory.logits.subarray(0, count);
    return { row: kept, ...largestOf(kept, by), only: memory.ids };
  }

  #adjust(row: Float64Array): void {
    const { repetitionPenalty: repetition, frequencyPenalty: frequency, presencePenalty: presence } = this.settings;
    const only = this.#only;
    if (only !== undefined) for (let id = 0; id < row.length; id++) if (!only.has(id)) row[id] = -Infinity;
    for (const [id, bias] of this.#bias ?? []) row[id]! += bias;
    this.#earlier?.each((id) => {
      const logit = row[id]!;
      row[id] = logit > 0 ? logit / repetition : logit * repetition;
    });
    this.#answered?.each((id, count) => {
      row[id]! -= count * frequency + presence;
    });
  }
}

/** Copies the logits that a mask allows. Returns how many there are. */
function gather(row: Logits, allowed: Int32Array, ids: Int32Array, logits: Float64Array): number {
  const words = Math.min(allowed.length, Math.ceil(row.length / 32));
  let count = 0;
  for (let word = 0; word < words; word++) {
    let bits = allowed[word]!;
    const first = word * 32;
    if (bits === -1 && first + 32 <= row.length) {
      for (let id = first; id < first + 32; id++) {
        ids[count] = id;
        logits[count++] = row[id]!;
      }
      continue;
    }
    while (bits !== 0) {
      const id = first + 31 - Math.clz32(bits & -bits);
      bits &= bits - 1;
      if (id >= row.length) break;
      ids[count] = id;
      logits[count++] = row[id]!;
    }
  }
  return count;
}

/**
 * The largest logit and the lowest id with it.
 *
 * @param by names of options that have changed the logits, for errors.
 * @throws {GatedDeltaError} for logits that are not numbers.
 */
export function largestOf(logits: Float32Array | Float64Array, by = ""): { readonly id: number; readonly most: number } {
  let id = 0;
  let most = -Infinity;
  for (let i = 0; i < logits.length; i++) {
    const logit = logits[i]!;
    if (logit > most) {
      most = logit;
      id = i;
    } else if (logit !== logit) {
      throw wrong(i, "NaN", by);
    }
  }
  if (most === -Infinity && by !== "") {
    throw new GatedDeltaError("invalid-argument", { op: "sample", argument: by, expected: "at least one token that may come next", received: "none" });
  }
  expectFinite(most, id, by);
  return { id, most };
}

/** @param id the lowest id with the largest logit. */
function expectFinite(most: number, id: number, by = ""): void {
  if (Number.isFinite(most)) return;
  throw wrong(id, most === -Infinity ? "-Infinity for every token" : `${most}`, by);
}

function wrong(token: number, received: string, by: string): GatedDeltaError {
  const after = by === "" ? "" : ` after ${by}`;
  return new GatedDeltaError("invalid-argument", { op: "sample", argument: `logits[${token}]`, expected: `a finite number${after}`, received });
}
