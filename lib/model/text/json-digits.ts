/** JSON that keeps the digits of integers beyond ±2⁵³, as bigints. */

const json = JSON as unknown as {
  rawJSON(digits: string): unknown;
  parse(text: string, revive: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown;
};

/**
 * Writes bigints as integers, and numbers of their size with an exponent, so that they stay numbers. Throws for values that
 * JSON.stringify refuses for another reason.
 */
export function stringifyWithDigits(value: unknown): string {
  return JSON.stringify(value, (_, member: unknown) => {
    if (typeof member === "bigint") return json.rawJSON(String(member));
    return Number.isInteger(member) && !Number.isSafeInteger(member) ? json.rawJSON((member as number).toExponential()) : member;
  });
}

/** Parses JSON; integers that a number would round become bigints. Throws for text that is not JSON and for numbers out of range. */
export function parseWithDigits(text: string): unknown {
  // Only texts that may have such a number need a second pass over every value.
  if (!/\d{16}|[eE]\+?\d{3}/.test(text)) return JSON.parse(text);
  return json.parse(text, (_, member, { source }) => {
    if (typeof member !== "number" || Number.isSafeInteger(member)) return member;
    if (/^-?\d+$/.test(source!)) return BigInt(source!);
    if (!Number.isFinite(member)) throw new SyntaxError(`${source} is beyond the largest number`);
    return member;
  });
}
