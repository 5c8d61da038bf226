import { expect, test } from "bun:test";
import fc from "fast-check";
import { StopStrings } from "../../lib/model/text/stop-strings.ts";

/** The text before the stop string that is complete first, or before the longest of several that are complete at the same time. */
function cut(text: string, stops: readonly string[]): { text: string; found: string | undefined } {
  for (let end = 1; end <= text.length; end++) {
    const found = stops.filter((stop) => text.slice(0, end).endsWith(stop)).sort((a, b) => b.length - a.length)[0];
    if (found !== undefined) return { text: text.slice(0, end - found.length), found };
  }
  return { text, found: undefined };
}

test("whatever the pieces, the text before the first stop string is given out and nothing of it is taken back", () => {
  const letters = fc.constantFrom("a", "b", "ab", "aab", "é", "🎉");
  const text = fc.array(letters, { maxLength: 30 }).map((parts) => parts.join(""));
  const stop = fc.array(letters, { minLength: 1, maxLength: 4 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(text, fc.array(stop, { maxLength: 4 }), fc.array(fc.nat({ max: 4 })), (whole, stops, lengths) => {
      const expected = cut(whole, stops);
      const matcher = new StopStrings(stops);
      const characters = [...whole];
      let given = "";
      let found: string | undefined;
      while (characters.length > 0 && found === undefined) {
        const piece = matcher.push(characters.splice(0, lengths.length > 0 ? lengths.shift() : 1).join(""));
        found = piece.found;
        given += piece.text;
        expect(piece.text.isWellFormed()).toBe(true);
        expect(expected.text.startsWith(given)).toBe(true);
        const longest = Math.max(0, ...stops.map((one) => one.length));
        expect(matcher.held.length).toBeLessThan(Math.max(1, longest));
      }
      if (found === undefined) given += matcher.end();
      expect({ text: given, found }).toEqual(expected);
    }),
    { numRuns: 3000, seed: 20260 },
  );
});

test("what waited goes on when it turns out to be none", () => {
  const matcher = new StopStrings(["</answer>"]);
  const given = ["1 <", "/ans", "2", " </answ", "er> rest"].map((piece) => matcher.push(piece));
  expect(given.map(({ text }) => text)).toEqual(["1 ", "", "</ans2", " ", ""]);
  expect(given.at(-1)!.found).toBe("</answer>");
});
