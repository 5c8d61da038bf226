/**
 * Limits how deeply the JSON of a request nests and how many values it has, by a pass over its text. JavaScriptCore reads text that nests
 * tens of thousands of levels at once, but takes seconds to report that a later copy of its value overflows the stack, and a second to make
 * a million objects, or members of one.
 */
import { Problem } from "./problem.ts";

/** The most arrays and objects within one another, including the body. */
export const mostNested = 256;

/** The most values of a body, in addition to those of a prompt of token ids. */
const mostValues = 2 ** 18;

const [quote, backslash, comma, colon, openBracket, closeBracket, openBrace, closeBrace] = [...'"\\,:[]{}'].map((one) => one.charCodeAt(0)) as [number, number, number, number, number, number, number, number];

/** The kind of an excess in a JSON text, and the member that contains it. */
interface Excess {
  readonly of: "depth" | "values";
  readonly member: string | undefined;
}

/** The first excess of a JSON text; undefined if it has none. The result for texts that are not JSON is arbitrary. */
export function excessOf(text: string, most = Infinity): Excess | undefined {
  let [depth, values, member] = [0, 0, undefined as string | undefined];
  let [start, end] = [0, 0];
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit === quote) {
      start = at + 1;
      end = stringEnd(text, start);
      if (end < 0) return undefined;
      at = end;
    } else if (unit === openBrace || unit === openBracket) {
      if (++depth > mostNested) return { of: "depth", member };
      if (++values > most) return { of: "values", member };
    } else if (unit === closeBrace || unit === closeBracket) depth--;
    else if (unit === comma) {
      if (++values > most) return { of: "values", member };
    } else if (unit === colon && depth === 1) member = nameOf(text.slice(start, end));
  }
  return undefined;
}

/** The place of the quote that ends a string; −1 if there is none. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start); end >= 0; end = text.indexOf('"', end + 1)) {
    let from = end;
    while (from > start && text.charCodeAt(from - 1) === backslash) from--;
    if ((end - from) % 2 === 0) return end;
  }
  return -1;
}

/** A member's name, if it is one that a message can repeat. */
const nameOf = (text: string): string | undefined => (/^\w{1,64}$/.test(text) ? text : undefined);

/**
 * Checks the JSON text of a body before it is read.
 *
 * @param positions the model's number of positions.
 * @throws {Problem} that names the member at fault.
 */
export function expectModest(text: string, positions: number): void {
  const most = mostValues + positions;
  const excess = excessOf(text, most);
  if (excess === undefined) return;
  const { of, member } = excess;
  const about = of === "depth" ? `arrays and objects that nest at most ${mostNested} deep, got deeper ones` : `at most ${most} values in the body, got more`;
  throw new Problem("invalid", `${member ?? "the body"}: expected ${about}`, { member });
}
