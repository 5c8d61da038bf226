/**
 * The regular expressions of a `tokenizer.json`. They come with a model's folder, and a short malicious one can take hours on
 * a short text. Expressions of published models are known to take linear time and run in the calling thread; others run in a
 * Worker.
 */
import { FileError } from "../../errors.ts";
import { isRecord } from "../../checkpoint/json.ts";
import { findInWorker } from "./expression-worker.ts";
import { knownExpressions } from "./known-expressions.ts";

/** The most characters of an expression; the longest published ones have about three hundred. */
const longestExpression = 10_000;

/** Milliseconds for unknown expressions in an `encode`: a fixed part, and a part for each thousand characters. */
const limitOfText = 250;
const limitPerThousand = 1;

const known = new Set(knownExpressions);

/** The time left for unknown expressions. */
export interface Clock {
  left: number;
}

/** Resets the time for a text. */
export function startClock(clock: Clock, characters: number): void {
  clock.left = limitOfText + limitPerThousand * (characters / 1000);
}

/** Replaces an expression in the library's objects, with the methods that `String.prototype` calls. */
class GuardedExpression {
  readonly flags = "gu";
  readonly #expression: RegExp;
  readonly #clock: Clock;

  constructor(expression: RegExp, clock: Clock) {
    this.#expression = expression;
    this.#clock = clock;
  }

  *[Symbol.matchAll](text: string): Generator<{ readonly 0: string; readonly index: number }> {
    const { found, took } = findInWorker(this.#expression, text, this.#clock.left);
    this.#clock.left = Math.max(0, this.#clock.left - took);
    for (let i = 0; i < found.length; i += 2) yield { 0: text.slice(found[i], found[i + 1]), index: found[i]! };
  }

  [Symbol.match](text: string): string[] | null {
    const all = [...this[Symbol.matchAll](text)].map((match) => match[0]);
    return all.length === 0 ? null : all;
  }

  [Symbol.split](text: string): string[] {
    return this.#between(text);
  }

  [Symbol.replace](text: string, by: string): string {
    return this.#between(text).join(by);
  }

  #between(text: string): string[] {
    const parts: string[] = [];
    let start = 0;
    for (const { 0: match, index } of this[Symbol.matchAll](text)) {
      parts.push(text.slice(start, index));
      start = index + match.length;
    }
    return [...parts, text.slice(start)];
  }
}

/** @throws {FileError} for an expression that is too long. */
export function checkExpressions(op: string, path: string, json: unknown): void {
  for (const expression of expressionsOf(json)) {
    if (expression.length <= longestExpression) continue;
    throw new FileError(path, { op, expected: `regular expressions of at most ${longestExpression} characters`, received: `${expression.length}` });
  }
}

function expressionsOf(json: unknown): string[] {
  if (Array.isArray(json)) return json.flatMap(expressionsOf);
  if (!isRecord(json)) return [];
  const own = isRecord(json["pattern"]) ? json["pattern"]["Regex"] : undefined;
  return [...(typeof own === "string" ? [own] : []), ...expressionsOf(json["pretokenizers"]), ...expressionsOf(json["normalizers"])];
}

/** The used part of the library's normalizers and pre-tokenizers, which may contain others. */
export interface Step {
  readonly config?: { readonly pattern?: { readonly Regex?: unknown } | undefined } | undefined;
  pattern?: unknown;
  readonly tokenizers?: readonly (Step | null)[] | undefined;
  readonly normalizers?: readonly (Step | null)[] | undefined;
}

/** Replaces each unknown expression with a guarded one. */
export function guardExpressions(step: Step | null | undefined, clock: Clock): void {
  if (step === null || step === undefined) return;
  const { pattern } = step;
  if (pattern instanceof RegExp && typeof step.config?.pattern?.Regex === "string" && !known.has(step.config.pattern.Regex)) {
    step.pattern = new GuardedExpression(pattern, clock);
  }
  for (const inner of [...(step.tokenizers ?? []), ...(step.normalizers ?? [])]) guardExpressions(inner, clock);
}
