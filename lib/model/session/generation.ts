/** An answer, token by token. */
import { invalid } from "../../arguments/checks.ts";
import { unlessAborted } from "../../arguments/signals.ts";
import { BoundsError, GatedDeltaError, UnsupportedError } from "../../errors.ts";
import { NgramDrafter } from "../ngram-drafter.ts";
import { anySeed } from "../sampling/philox.ts";
import { readLogitBias } from "../sampling/logit-bias.ts";
import { logprobsOf } from "../sampling/logprobs.ts";
import { Sampler } from "../sampling/sampler.ts";
import type { Barred } from "../sampling/sampler.ts";
import { settingsOf } from "../sampling/settings.ts";
import type { LanguageModel } from "../language-model.ts";
import { rowOf } from "../run-result.ts";
import type { LogitsRow, RunResult } from "../run-result.ts";
import { capacityOf, expectFits } from "./capacity.ts";
import { endedError } from "./conversation.ts";
import { Guide } from "./guide.ts";
import type { Conversation } from "./conversation.ts";
import { DraftStep } from "./draft-step.ts";
import { GeneratedText } from "./generated-text.ts";
import { ReadAll } from "./read-all.ts";
import type { CheckedGenerateOptions } from "./session-schemas.ts";
import type { GeneratedPiece } from "./session-options.ts";

/** The token of the only piece of an answer that gets no token. */
export const noToken = -1;

/** A token, with log probabilities if requested. */
type Chosen = Pick<GeneratedPiece, "token" | "logprob" | "topLogprobs">;

/** One generation of a conversation. */
export class Generation {
  readonly #of: Conversation;
  readonly #sampler: Sampler;
  readonly #guide: Guide;
  readonly #drafter: NgramDrafter | undefined;
  readonly #draftTokens: number;
  readonly #stopTokens: ReadonlySet<number>;
  readonly #text: GeneratedText;
  readonly #signal: AbortSignal;
  /** The most tokens that the session can have at the end. */
  readonly #most: number;
  /** The number of tokens with which end tokens may be chosen. */
  readonly #least: number;
  /** The end tokens, barred until then. */
  readonly #unended: Barred;
  readonly #logprobs: boolean;
  readonly #topLogprobs: number;
  /** Tokens that were chosen but not returned yet. */
  readonly #chosen: Chosen[] = [];
  /** Thrown after the chosen tokens are returned: no token could be chosen after them. */
  #failure: { readonly error: unknown } | undefined;
  #onProgress: CheckedGenerateOptions["onProgress"];

  /**
   * @param left aborted when the consumer leaves the generation.
   * @throws {GatedDeltaError} for options that do not fit the model, or a session without tokens or room.
   */
  constructor(op: string, of: Conversation, options: CheckedGenerateOptions, left: AbortSignal) {
    const { model } = of;
    const { config, text } = model;
    const { maxTokens, minTokens, stop, stopTokens, ignoreModelStops, drafts, logprobs, topLogprobs, seed = anySeed(), signal, onProgress } = options;
    if (minTokens > maxTokens) throw invalid(op, "minTokens", `an integer in 0..${maxTokens}, which is maxTokens`, minTokens);
    for (const [i, token] of stopTokens.entries()) {
      if (token < config.vocabSize) continue;
      throw new BoundsError({ op, argument: `stopTokens[${i}]`, expected: `a token id in 0..${config.vocabSize - 1}`, received: `${token}` });
    }
    const stops = typeof stop === "string" ? [stop] : stop;
    if (stops.length > 0 && !text.hasTokenizer) {
      throw new UnsupportedError({ op, argument: "stop", expected: "a model with a tokenizer", received: `none in ${text.folder}` });
    }
    if (of.tokens.length === 0) {
      throw new GatedDeltaError("state", { op, message: "this session has no tokens to go on from: append some first" });
    }
    if (of.tokens.length >= config.maxPositions && maxTokens > 0) {
      const expected = `a session of fewer tokens than the model's ${config.maxPositions} positions`;
      throw new BoundsError({ op, expected, received: `${of.tokens.length}` });
    }
    this.#of = of;
    const settings = settingsOf(options, options.sampling === "model" ? model.modelSampling() : {});
    const logitBias = readLogitBias(op, options.logitBias, config.vocabSize);
    this.#sampler = new Sampler(settings, seed, config.vocabSize, { logitBias, processors: options.processors });
    const begin = of.messageEnds.at(-1) ?? 0;
    this.#sampler.saw(of.tokens.slice(0, begin));
    this.#sampler.saw(of.tokens.slice(begin), true);
    this.#draftTokens = drafts === false ? 0 : drafts.tokens;
    if (drafts !== false) {
      this.#drafter = new NgramDrafter(drafts);
      this.#drafter.extend(of.tokens);
    }
    this.#stopTokens = new Set([...(ignoreModelStops ? [] : config.eosTokens), ...stopTokens]);
    this.#text = new GeneratedText(text.hasTokenizer ? text.tokenizer : undefined, stops, { tokens: of.tokens, begin, end: of.textEnd });
    this.#least = of.tokens.length + minTokens;
    this.#unended = { without: this.#stopTokens, by: "minTokens" };
    this.#logprobs = logprobs || topLogprobs > 0;
    this.#topLogprobs = topLogprobs;
    this.#signal = of.signalWith(signal === undefined ? left : AbortSignal.any([signal, left]));
    this.#onProgress = onProgress;
    this.#most = mostTokens(op, model, of.tokens.length, maxTokens);
    this.#guide = new Guide(op, of, options, this.#stopTokens, begin);
  }

  /** The next piece. Not called again after a piece with `end`. */
  async next(): Promise<GeneratedPiece> {
    const of = this.#of;
    if (of.disposed) throw endedError("session.generate");
    this.#signal.throwIfAborted();
    if (this.#text.before.found !== undefined) return this.#endWithout(this.#text.before);
    // An answer ends with its last piece, so this is an answer with `maxTokens: 0`.
    if (of.tokens.length >= this.#most) return this.#endWithout(this.#text.end());
    if (this.#chosen.length === 0) {
      if (this.#failure !== undefined) throw this.#failure.error;
      await this.#choose();
    }
    return this.#give(this.#chosen.shift()!);
  }

  /** Ends the generation. */
  close(): void {
    this.#guide.close();
    this.#of.memory.settle();
    if (!this.#of.disposed) this.#of.keep();
  }

  /** The only piece of an answer to which no token is added. */
  #endWithout({ text, found }: GeneratedText["before"]): GeneratedPiece {
    this.#of.textEnd = this.#text.textEnd;
    return { token: noToken, text, end: found === undefined ? "length" : "string" };
  }

  /** Chooses at least one token. */
  async #choose(): Promise<void> {
    const of = this.#of;
    this.#signal.throwIfAborted();
    of.memory.settle();
    const { logits } = of;
    if (logits !== undefined) {
      if (!this.#guide.ready) await this.#guided(this.#guide.arrived());
      this.#take({ logits, best: undefined });
      if (this.#chosen.length === 0) this.#signal.throwIfAborted();
      return;
    }
    // The logits were not kept, so everything is read again.
    if (of.read === of.tokens.length) of.drop();
    const guesses = this.#guesses();
    if (guesses.length === 0) this.#guide.ask();
    const drafts = guesses.length === 0 ? guesses : await this.#guided(this.#guide.after(guesses));
    let waiting: Float32Array | undefined;
    const take = (result: RunResult): void => {
      // Masks are made while the model runs, and may take longer.
      if (this.#guide.ready) this.#take(rowOf(result, 0));
      else waiting = result.logits.slice();
    };
    const best = this.#best;
    // This step chooses one token, and the next step chooses another.
    const goesOn = best === 1 && this.#drafter === undefined && of.tokens.length + 2 <= this.#most;
    const options = { take, best, goesOn, onProgress: this.#onProgress };
    const work = drafts.length > 0 ? new DraftStep(of, drafts, (row) => this.#take(row), options) : new ReadAll(of, options);
    await of.do(work, this.#signal);
    this.#onProgress = undefined; // the prompt has been read
    if (waiting !== undefined) {
      of.logits = waiting; // for the next generation, if this one ends here
      await this.#guided(this.#guide.arrived());
      this.#take({ logits: waiting, best: undefined });
    }
    // If aborted during the step, no token was chosen and the logits are kept for the next generation.
    if (this.#chosen.length === 0) this.#signal.throwIfAborted();
    if (this.#drafter === undefined) this.#guide.ask();
  }

  /** How many of the largest logits the next tokens are chosen from; 0 for whole rows. */
  get #best(): number {
    const whole = this.#logprobs || this.#guide.bars || this.#of.tokens.length < this.#least;
    return whole ? 0 : (this.#sampler.best ?? 0);
  }

  /** Guesses of the next tokens. */
  #guesses(): readonly number[] {
    // A step chooses one token more than there are guesses.
    return this.#drafter?.draft(Math.min(this.#draftTokens, this.#most - this.#of.tokens.length - 1)) ?? [];
  }

  /** Waits for the guide. The request is not idle meanwhile, because its consumer has asked for a piece. */
  async #guided<T>(work: Promise<T>): Promise<T> {
    const { request } = this.#of;
    request?.works();
    try {
      return await unlessAborted(work, this.#signal);
    } finally {
      request?.rests();
    }
  }

  /** Chooses the token after a row of logits; none if the generation was aborted or the chosen tokens end it. */
  #take(row: LogitsRow): number | undefined {
    const { logits } = row;
    const of = this.#of;
    if (this.#chosen.length > 0 && this.#stopTokens.has(this.#chosen.at(-1)!.token)) return undefined;
    const position = of.tokens.length + this.#chosen.length;
    if (this.#chosen.length === 0 && this.#signal.aborted) {
      of.logits = logits.slice();
      return undefined;
    }
    let token: number;
    try {
      token = this.#guide.forced ?? this.#select(row, position);
    } catch (error) {
      if (this.#chosen.length === 0) {
        of.logits = logits.slice();
        throw error;
      }
      this.#failure = { error };
      return undefined;
    }
    this.#sampler.saw([token], true);
    this.#guide.chose(token);
    this.#chosen.push({ token, ...this.#logprobsOf(logits, token) });
    return token;
  }

  #select({ logits, best }: LogitsRow, position: number): number {
    if (best !== undefined) return this.#sampler.chooseFrom(best, position);
    const barred = position < this.#least ? this.#unended : this.#guide.barred();
    const refused = new Set<number>();
    for (;;) {
      const token = this.#sampler.choose(logits, position, refused.size === 0 ? barred : { ...barred, without: refused, by: "the constraint" });
      if (!this.#guide.refuses(token)) return token;
      refused.add(token);
    }
  }

  #logprobsOf(logits: Float32Array, token: number): Omit<Chosen, "token"> {
    if (!this.#logprobs) return {};
    const { logprob, top } = logprobsOf(logits, token, this.#topLogprobs);
    return this.#topLogprobs === 0 ? { logprob } : { logprob, topLogprobs: top };
  }

  /** Returns a chosen token, which is part of the session from now on. */
  #give(chosen: Chosen): GeneratedPiece {
    const of = this.#of;
    const { token } = chosen;
    of.push(token);
    this.#drafter?.push(token);
    if (this.#stopTokens.has(token)) {
      of.messageEnds.push(of.tokens.length);
      return { ...chosen, text: this.#text.end().text, end: "token" };
    }
    let { text, found } = this.#text.push(token);
    const last = of.tokens.length >= this.#most;
    if (last && found === undefined) {
      const rest = this.#text.end();
      text += rest.text;
      found = rest.found;
    }
    if (found !== undefined) return { ...chosen, text, end: "string" };
    of.textEnd = this.#text.textEnd;
    return last ? { ...chosen, text, end: "length" } : { ...chosen, text };
  }
}

/**
 * The most tokens that a conversation of `tokens` can have at the end of an answer.
 *
 * @throws {GatedDeltaError} of code `out-of-memory` if a given `maxTokens` exceeds all pages; an answer without it ends
 *   there.
 */
function mostTokens(op: string, model: LanguageModel, tokens: number, maxTokens: number): number {
  const { maxPositions } = model.config;
  const most = Math.min(tokens + maxTokens, maxPositions);
  expectFits(op, model, tokens, maxTokens === Infinity ? 1 : most - tokens);
  return Math.min(most, capacityOf(model));
}
