/** Texts, made by `ofRole`, that are read whole and alone; sessions' answers, logits and hidden states are compared with them. */
import type { GenerateOptions, LanguageModel } from "../../lib/model.ts";
import { plain, runsOf } from "./roles.ts";
import { Sampler } from "../../lib/model/sampling/sampler.ts";
import { settingsOf } from "../../lib/model/sampling/settings.ts";

/** Results of all tokens of a text. */
interface Rows {
  /** `[tokens, vocabSize]` */
  readonly logits: Float32Array;
  /** `[tokens, hiddenSize]` */
  readonly hidden: Float32Array;
}

/** The cold runs of one model, each made only once. */
export class ColdTexts {
  readonly model: LanguageModel;
  readonly #texts: { readonly key: string; readonly rows: Promise<Rows> }[] = [];
  /** The model runs one text at a time. */
  #last: Promise<unknown> = Promise.resolve();

  /** @param model runs nothing else, and has a state and pages for any of the texts. */
  constructor(model: LanguageModel) {
    this.model = model;
  }

  /** The logits after the last token of a text. */
  async logits(tokens: readonly number[]): Promise<Float32Array> {
    const { vocabSize } = this.model.config;
    return (await this.#rows(tokens)).logits.subarray((tokens.length - 1) * vocabSize, tokens.length * vocabSize);
  }

  /** The hidden state of the last token of a text. */
  async hidden(tokens: readonly number[]): Promise<Float32Array> {
    const { hiddenSize } = this.model.config;
    return (await this.#rows(tokens)).hidden.subarray((tokens.length - 1) * hiddenSize, tokens.length * hiddenSize);
  }

  /**
   * Compares the tokens of an answer with those that the cold run's logits give.
   *
   * @throws at the first difference, and if the answer continues after an end token.
   */
  async expectAnswer(tokens: readonly number[], given: readonly number[], options: GenerateOptions): Promise<void> {
    if (given.length === 0) return;
    await this.#rows([...tokens, ...given]); // one run for all results
    const sampler = new Sampler(settingsOf(options, {}), options.seed ?? 0, this.model.config.vocabSize);
    sampler.saw(plain(tokens));
    for (const [i, token] of given.entries()) {
      const before = [...tokens, ...given.slice(0, i)];
      const expected = sampler.choose(await this.logits(before), before.length);
      const [id] = plain([token]) as [number];
      if (id !== expected) throw new Error(`token ${i} of ${given.length} after ${tokens.length} is ${id}, and ${expected} in the cold run`);
      if (i + 1 < given.length && options.stopTokens?.includes(id) === true) throw new Error(`a generation goes on after stop token ${id}`);
      sampler.saw([id]);
    }
  }

  /** Results for at least these tokens; they may come from a longer text that begins with these tokens. */
  #rows(tokens: readonly number[]): Promise<Rows> {
    const key = `${tokens.join()},`;
    const known = this.#texts.find((text) => text.key.startsWith(key));
    if (known !== undefined) return known.rows;
    const rows = this.#last.then(async () => {
      using sequence = this.model.sequence();
      const { vocabSize, hiddenSize } = this.model.config;
      const found = { logits: new Float32Array(tokens.length * vocabSize), hidden: new Float32Array(tokens.length * hiddenSize) };
      for (const run of runsOf(tokens)) {
        const before = sequence.tokens;
        const [result] = await this.model.run([{ sequence, ...run, logits: "all", hidden: "all" }]);
        found.logits.set(result!.logits, before * vocabSize);
        found.hidden.set(result!.hidden, before * hiddenSize);
      }
      return found;
    });
    this.#last = rows.catch(() => {});
    this.#texts.push({ key, rows });
    return rows;
  }
}
