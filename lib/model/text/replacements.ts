/** Replacements in a tokenizer's normalizer and pre-tokenizer: a file must not make a short text long without bound. */
import { FileError, UnsupportedError, describe } from "../../errors.ts";
import { isRecord } from "../../checkpoint/json.ts";

/** The most that all replacements together may lengthen a text: most real ones replace one character with another. */
const mostGrowth = 4096;

/** An expression that consumes a character: a class, an escaped character or a plain one. Others may match between two characters. */
const takesOne = /^(?:\[(?:[^\]\\]|\\.)+\]|\\[^bBAzZG\d]|[^\\^$.|?*+()[\]{}])\+?$/;

/**
 * Checks a tokenizer's replacements.
 *
 * @param steps the normalizer and the pre-tokenizer of a `tokenizer.json`.
 * @throws {FileError} for replacements that together lengthen a text too much; {@link UnsupportedError} for a text with a pattern of
 *   `String.replaceAll`, which the library would not take literally.
 */
export function checkReplacements(op: string, path: string, steps: readonly unknown[]): void {
  const growth = steps.reduce<number>((product, step) => product * growthOf(op, path, step), 1);
  if (growth <= mostGrowth) return;
  throw new FileError(path, { op, expected: `replacements that make a text at most ${mostGrowth} times as long`, received: `up to ${growth} times` });
}

/** How many times as long a step can make a text. */
function growthOf(op: string, path: string, step: unknown): number {
  if (!isRecord(step)) return 1;
  const inner = [step["normalizers"], step["pretokenizers"]].flatMap((steps) => (Array.isArray(steps) ? steps : []));
  const own = step["type"] === "Replace" ? growthOfOne(op, path, step) : 1;
  return inner.reduce<number>((product, one) => product * growthOf(op, path, one), own);
}

function growthOfOne(op: string, path: string, { pattern, content = "" }: Record<string, unknown>): number {
  if (typeof content !== "string") return 1;
  if (/\$[$&`'<\d]/.test(content)) throw new UnsupportedError({ op, argument: path, expected: "replacements by plain texts", received: describe(content) });
  const { String: text, Regex: expression } = isRecord(pattern) ? pattern : {};
  if (typeof text === "string" && text !== "") return Math.max(1, content.length / text.length);
  return typeof expression === "string" && takesOne.test(expression) ? Math.max(1, content.length) : 1 + content.length;
}
