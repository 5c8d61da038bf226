/** Checks that hold for every text. */
import { isDeepStrictEqual } from "node:util";
import { AnswerParser } from "../../lib/model/text/formats/answer-parser.ts";
import { mergePieces } from "../../lib/model/text/formats/answer-piece.ts";
import type { AnswerPiece } from "../../lib/model/text/formats/answer-piece.ts";
import { parseWithDigits } from "../../lib/model/text/json-digits.ts";
import { Difference } from "../support/schedules.ts";
import type { Counts } from "../support/schedules.ts";
import type { Random } from "../support/random.ts";
import { formats } from "./formats.ts";
import type { AnswerText } from "./texts.ts";
import { workOf } from "./work.ts";

/** The most characters that are looked at: `each` for each character of the text, and `all` for each text. */
export const mostWork = { each: 16, all: 200 };

const parserOf = ({ format, reasoning, tools }: AnswerText): AnswerParser => new AnswerParser(formats[format]!, { tools, reasoning });

/** The merged pieces of a text that is pushed in parts. */
export function piecesOf(given: AnswerText, cuts: readonly number[] = [], parser = parserOf(given)): AnswerPiece[] {
  const { text } = given;
  const ends = [...cuts.toSorted((a, b) => a - b), text.length];
  return mergePieces([...ends.flatMap((end, i) => [...parser.push(text.slice(ends[i - 1] ?? 0, end))]), ...parser.end()]);
}

function expect(holds: boolean, what: string): void {
  if (!holds) throw new Difference(what);
}

/** @throws if a check does not hold. */
export function checkText(given: AnswerText, random: Random, counts: Counts): void {
  let whole: AnswerPiece[] = [];
  const parser = parserOf(given);
  const work = workOf(() => {
    whole = piecesOf(given, [], parser);
  });
  const { text } = given;
  expect(whole.map(({ raw }) => raw).join("") === text, "a character of the raw text is lost or added");
  expect(work <= mostWork.each * text.length + mostWork.all, `${work} characters are looked at for ${text.length}`);
  for (const cuts of [[random.below(text.length + 1)], Array.from({ length: 1 + random.below(8) }, () => random.below(text.length + 1))]) {
    expect(isDeepStrictEqual(piecesOf(given, cuts), whole), `cut at ${cuts} it gives other pieces`);
  }
  checkPieces(whole, text);
  checkPairs(given, random.below(text.length + 1));
  const every = Array.from({ length: text.length }, (_, i) => i);
  if (random.below(16) === 0) expect(isDeepStrictEqual(piecesOf(given, every), whole), "one character at a time it gives other pieces");
  counts.add("characters", text.length);
  counts.add(`answers of ${given.format}`);
  for (const piece of whole) {
    counts.add(piece.type === "tool-call" ? (piece.done === undefined ? "calls taken back" : "calls") : piece.reason === undefined ? `pieces of ${piece.type}` : "texts that are not calls");
  }
}

/** Checks that no piece of a well-formed text ends within a pair of surrogates, if the text is not cut there. */
function checkPairs(given: AnswerText, at: number): void {
  const { text } = given;
  const cut = text.slice(0, at).isWellFormed() ? at : Math.max(0, at - 1);
  if (!text.isWellFormed()) return;
  const parser = parserOf(given);
  for (const piece of [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut)), ...parser.end()]) {
    expect(piece.raw.isWellFormed() && (piece.type === "tool-call" || piece.text.isWellFormed()), "a pair of surrogates is cut");
  }
}

function checkPieces(pieces: readonly AnswerPiece[], text: string): void {
  let next = 0;
  let open: number | undefined;
  let given = "";
  for (const piece of pieces) {
    if (piece.type !== "tool-call") {
      const replaced = piece.index === undefined ? piece.raw : given + piece.raw;
      expect(piece.reason === undefined || (piece.index === undefined ? piece.text === replaced : piece.text.endsWith(replaced)), "a text that is not a call is not whole");
      expect(open === piece.index, "a call is neither done nor taken back");
      open = undefined;
      expect(isPartOf(piece.text, text), "a text has other characters than the answer");
      expect(piece.reason === undefined || piece.text !== "", "a reason without a text");
      continue;
    }
    expect(open === undefined, "a call is neither done nor taken back");
    expect(piece.index >= next && piece.name !== "", "calls are not numbered in order");
    if (piece.done === undefined) {
      open = next = piece.index;
      given = piece.raw;
    } else {
      expect(piece.done.name === piece.name && isDeepStrictEqual(piece.done.arguments, parseWithDigits(piece.arguments)), "the arguments differ from their JSON");
      next = piece.index + 1;
    }
  }
  expect(open === undefined, "a call is neither done nor taken back");
}

/** Whether another text contains all characters of a text, in the same order. */
function isPartOf(text: string, whole: string): boolean {
  let at = 0;
  for (let i = 0; i < text.length; i++, at++) {
    at = whole.indexOf(text[i]!, at);
    if (at < 0) return false;
  }
  return true;
}
