/** Decides, in addition to the sampler, which tokens an answer may have: it ends thoughts that are too long and keeps a constraint. */
import { invalid } from "../../arguments/checks.ts";
import { UnsupportedError } from "../../errors.ts";
import { Constraint } from "../constraints/constraint.ts";
import { constraintOf } from "../constraints/constraint-grammar.ts";
import type { ConstraintGrammar } from "../constraints/constraint-grammar.ts";
import { Reasoning } from "../constraints/reasoning.ts";
import { memoryOf } from "../model-memory.ts";
import type { Barred } from "../sampling/sampler.ts";
import type { AnswerFormat } from "../text/formats/answer-format.ts";
import { opensReasoning } from "../text/formats/known-formats.ts";
import type { Conversation } from "./conversation.ts";
import type { CheckedGenerateOptions } from "./session-schemas.ts";

/** How an answer begins. */
interface Beginning {
  readonly format: AnswerFormat | undefined;
  /** Whether the answer begins inside thoughts. */
  readonly open: boolean;
  readonly tools: readonly object[];
}

/** The number of tokens before an answer that determine how it begins, where no messages do. */
const tokensBefore = 64;

export class Guide {
  readonly #reasoning: Reasoning | undefined;
  readonly #constraint: Constraint | undefined;
  /** The model's end tokens. */
  readonly #ends: readonly number[];

  /**
   * @param start how many tokens come before the answer.
   * @throws {GatedDeltaError} for options that do not fit the model or each other.
   */
  constructor(op: string, of: Conversation, options: CheckedGenerateOptions, stopTokens: ReadonlySet<number>, start: number) {
    const { maxReasoningTokens } = options;
    this.#ends = of.model.config.eosTokens;
    let beginning: Beginning | undefined;
    const context = (): Beginning => (beginning ??= beginningOf(of, start));
    const grammar = constraintOf(op, options, context);
    if (grammar === undefined && maxReasoningTokens === undefined) return;
    expectTokenizer(op, grammar?.argument ?? "maxReasoningTokens", of);
    const { format, open } = context();
    const { tokenizer } = of.model.text;
    if (format?.reasoning !== undefined) {
      const textOf = (token: number): string => tokenizer.decode([token], { specialTokens: true });
      const endTokens = tokenizer.encode(format.reasoning.end);
      this.#reasoning = new Reasoning({ tags: format.reasoning, textOf, endTokens }, open, maxReasoningTokens ?? Infinity);
    } else if (maxReasoningTokens !== undefined) {
      throw new UnsupportedError({ op, argument: "maxReasoningTokens", expected: "a model whose chat template has thoughts", received: "one without" });
    }
    if (grammar !== undefined) this.#constraint = beginConstraint(op, of, options, grammar, stopTokens, format, open);
    for (const token of of.tokens.slice(start)) this.chose(token);
  }

  /** The next token, if only one is possible. */
  get forced(): number | undefined {
    return this.#reasoning?.forced;
  }

  /** Whether a constraint applies to the next position. */
  get #constrained(): boolean {
    return this.#constraint !== undefined && this.#reasoning?.inside !== true;
  }

  /** Whether the guide may bar tokens of the answer, now or later. */
  get bars(): boolean {
    return this.#constraint !== undefined;
  }

  /** Whether it is known which tokens may come next. */
  get ready(): boolean {
    return !this.#constrained || this.#constraint!.ready;
  }

  /** Begins to find out which tokens may come next. Never throws: {@link arrived} does. */
  ask(): void {
    if (this.#constrained) this.#constraint!.ask();
  }

  /** Waits until the guide is {@link ready}. */
  async arrived(): Promise<void> {
    if (!this.#constrained) return;
    this.#constraint!.ask();
    await this.#constraint!.arrived();
  }

  /** Waits until it is known which tokens may come next and after guesses. Returns the allowed guesses. */
  async after(guesses: readonly number[]): Promise<readonly number[]> {
    if (this.#constrained) return await this.#constraint!.after(guesses);
    if (this.#reasoning === undefined || guesses.length === 0) return guesses;
    // Guesses end with the thoughts.
    const ahead = this.#reasoning.copy();
    const usable: number[] = [];
    for (const guess of guesses) {
      if (ahead.forced !== undefined && ahead.forced !== guess) break;
      const wasInside = ahead.inside;
      ahead.next(guess);
      usable.push(guess);
      if (this.#constraint !== undefined && wasInside && !ahead.inside) {
        // The grammar begins after the end of thoughts, and has no masks yet.
        usable.pop();
        break;
      }
    }
    return usable;
  }

  /** The tokens that can't come next. */
  barred(): Barred | undefined {
    return this.#constrained ? this.#constraint!.barred() : undefined;
  }

  /** Whether a token within thoughts escapes the constraint: it ends the answer, or it ends the thoughts and also has answer text. */
  refuses(token: number): boolean {
    if (this.#constraint === undefined || this.#reasoning?.inside !== true) return false;
    return this.#ends.includes(token) || this.#reasoning.endsWithText(token);
  }

  /** Takes the next token of the answer. */
  chose(token: number): void {
    if (this.#constrained) this.#constraint!.chose(token);
    this.#reasoning?.next(token);
  }

  /** Ends the guide. */
  close(): void {
    this.#constraint?.close();
  }
}

function beginConstraint(
  op: string,
  of: Conversation,
  { ignoreModelStops, minTokens }: CheckedGenerateOptions,
  { argument, grammar, foreign, calls }: ConstraintGrammar,
  stopTokens: ReadonlySet<number>,
  format: AnswerFormat | undefined,
  open: boolean,
): Constraint {
  const { text, config } = of.model;
  if (ignoreModelStops) throw invalid(op, "ignoreModelStops", `false next to ${argument}, whose text ends with an end token`, ignoreModelStops);
  if (minTokens > 0) throw invalid(op, "minTokens", `0 next to ${argument}, which says where the answer may end`, minTokens);
  if (config.eosTokens.length === 0) throw new UnsupportedError({ op, argument, expected: "a model with end tokens", received: "one without" });
  const { tokenizer } = text;
  const { matchers } = memoryOf(of.model);
  const matching = (async () => {
    if (foreign) await matchers.check(op, argument, grammar);
    return await matchers.open(op, argument, text, config, grammar);
  })();
  matching.catch(() => {});
  const ofCalls = calls ? [] : [format?.toolCall];
  const tags = [format?.reasoning, ...ofCalls].flatMap((pair) => (pair === undefined ? [] : [pair.begin, pair.end])).map((tag) => tokenizer.idOf(tag));
  const lineEnds = ["\n", "\n\n"].flatMap((ends) => {
    const tokens = tokenizer.encode(ends);
    return tokens.length === 1 ? [[tokens[0]!, ends.length] as const] : [];
  });
  const parts = { op, argument, matching, ends: config.eosTokens, stopTokens, tags: new Set(tags.filter((id) => id !== undefined)), lineEnds: new Map(lineEnds) };
  return new Constraint(parts, open);
}

function expectTokenizer(op: string, argument: string, { model: { text } }: Conversation): void {
  if (!text.hasTokenizer) throw new UnsupportedError({ op, argument, expected: "a model with a tokenizer", received: `none in ${text.folder}` });
}

/** How the answer after a session's first tokens begins, according to its messages or else to the text before it. */
function beginningOf(of: Conversation, start: number): Beginning {
  const { dialogue, model: { text } } = of;
  if (dialogue?.answer?.start === start) {
    return { format: text.template.format(dialogue.settings.template), open: dialogue.answer.reasoning === "open", tools: dialogue.settings.tools ?? [] };
  }
  const format = formatOf(of);
  if (format === undefined || !text.hasTokenizer) return { format: undefined, open: false, tools: [] };
  const before = text.tokenizer.decode(of.tokens.slice(Math.max(0, start - tokensBefore), start), { specialTokens: true });
  return { format, open: opensReasoning(format, before), tools: [] };
}

/** The format of answers, if the model has a chat template. */
function formatOf({ model: { text } }: Conversation): AnswerFormat | undefined {
  try {
    return text.template.format();
  } catch (error) {
    if (error instanceof UnsupportedError) return undefined;
    throw error;
  }
}
