/** Values of arguments as JSON text. */
import { parseWithDigits } from "../json-digits.ts";
import type { JsonValue } from "./answer-piece.ts";

/** The deepest nesting of arrays and objects in a value, so that programs can walk arguments recursively. */
const deepestValue = 100;

/** The longest number, in characters: reading the digits of a bigint takes more than linear time. */
const longestNumber = 400;

/** Whether a character is JSON's blank. */
export const isSpace = (character: string): boolean => character === " " || character === "\n" || character === "\t" || character === "\r";

/** A JSON value; undefined for text that is not JSON, or whose numbers or nesting are out of bounds. */
export function readJson(text: string, deepest = deepestValue): { readonly value: JsonValue } | undefined {
  if (!isBounded(text, deepest)) return undefined;
  try {
    return { value: parseWithDigits(text) as JsonValue };
  } catch {
    return undefined;
  }
}

/** Whether a value is a JSON object. */
export function isObject(value: JsonValue): value is { readonly [key: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const named: Readonly<Record<string, string>> = { '"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f" };

/** A text as the inside of a JSON string. Any part of a text may be escaped on its own, even half of a surrogate pair. */
export function escapeJson(text: string): string {
  return text.replace(/["\\\u0000-\u001f]/g, (character) => named[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A text as a JSON string. */
export const quoteJson = (text: string): string => `"${escapeJson(text)}"`;

/** Whether brackets nest no deeper than `deepest` and numbers are not too long, outside strings. */
function isBounded(text: string, deepest: number): boolean {
  let [depth, word, inString] = [0, 0, false];
  for (let i = 0; i < text.length; i++) {
    const character = text[i]!;
    if (inString) {
      if (character === "\\") i++;
      else if (character === '"') inString = false;
      continue;
    }
    word = character >= "0" && character <= "9" ? word + 1 : 0;
    if (word > longestNumber) return false;
    if (character === '"') inString = true;
    else if (character === "[" || character === "{") {
      if (++depth > deepest) return false;
    } else if (character === "]" || character === "}") depth--;
  }
  return true;
}
