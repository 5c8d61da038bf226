/** Parameters of functions and of templates. */
import { attributesIn, type Attribute, type Range, type Tokens } from "./cursor.ts";
import type { Place } from "./tokens.ts";

export type AddressSpace = "device" | "constant" | "threadgroup" | "thread";

export type Parameter = {
  /** "" if it is unnamed. */
  readonly name: string;
  /** The declared type without attributes and name. */
  readonly type: string;
  readonly place: Place;
  readonly range: Range;
  readonly attributes: readonly Attribute[];
  readonly space: AddressSpace | null;
  readonly pointer: boolean;
  readonly reference: boolean;
  /** The pointee or referent is const (which `constant` implies). */
  readonly constant: boolean;
  /** "..." was seen. */
  readonly pack: boolean;
};

const spaces = new Set(["device", "constant", "threadgroup", "thread"]);
/** Words that end a type but are not names. */
const typeWords =
  /^(const|volatile|device|constant|threadgroup|thread|unsigned|signed|int|char|short|long|float|half|bfloat|bool|void|typename|class|auto|struct)$/;

export function parseParameters(tokens: Tokens, range: Range): Parameter[] {
  return tokens
    .split(range)
    .filter((part) => !(part.end - part.begin === 1 && tokens.is(part.begin, "void")))
    .map((part) => parseParameter(tokens, part));
}

function parseParameter(tokens: Tokens, range: Range): Parameter {
  const attributes = attributesIn(tokens, range);
  const kept: number[] = [];
  let space: AddressSpace | null = null;
  let pointer = false;
  let reference = false;
  let constBefore = false;
  let pack = false;
  let end = range.end;
  for (let i = range.begin; i < range.end; i += 1) {
    if (tokens.isAttribute(i)) {
      i = tokens.close(i) - 1;
      continue;
    }
    if (tokens.is(i, "=")) {
      end = i;
      break;
    }
    if (tokens.is(i, "<") && i > range.begin && tokens.isWord(i - 1)) {
      const after = tokens.closeAngle(i, range.end);
      if (after > 0) {
        for (; i < after; i += 1) kept.push(i);
        i -= 1;
        continue;
      }
    }
    const text = tokens.text(i);
    if (spaces.has(text) && tokens.isWord(i) && (space === null || !pointer)) space = text as AddressSpace;
    if (text === "coherent" && tokens.is(i + 1, "(")) {
      i = tokens.close(i + 1) - 1;
      continue;
    }
    if (text === "const" && !pointer && !reference) constBefore = true;
    if (text === "*") pointer = true;
    if (text === "&" || text === "&&") reference = true;
    if (text === "...") pack = true;
    kept.push(i);
  }
  // The name is the last word, unless only qualifiers precede it: then that word is the type.
  let nameAt = -1;
  let bracket = kept.length;
  for (let k = 0; k < kept.length; k += 1) {
    if (tokens.is(kept[k] ?? -1, "[")) {
      bracket = k;
      break;
    }
  }
  const last = kept[bracket - 1];
  if (last !== undefined && tokens.isWord(last) && bracket > 1 && !typeWords.test(tokens.text(last))) {
    const before = kept.slice(0, bracket - 1);
    const typed = before.some(
      (k) => !/^(const|volatile|device|constant|threadgroup|thread|::|typename|struct)$/.test(tokens.text(k)),
    );
    const qualified = tokens.is(kept[bracket - 2] ?? -1, "::");
    if (typed && !qualified) nameAt = last;
  }
  if (tokens.is(kept[0] ?? -1, "typename") || tokens.is(kept[0] ?? -1, "class")) {
    const word = kept.find((k, n) => n > 0 && tokens.isWord(k));
    if (word !== undefined && kept.length <= 3) nameAt = word;
  }
  // A pointer to a function: its name is inside the first parentheses.
  for (let k = 0; k + 3 < kept.length; k += 1) {
    const [open, star, word, close] = kept.slice(k, k + 4);
    if (
      tokens.is(open ?? -1, "(") &&
      tokens.is(star ?? -1, "*") &&
      tokens.isWord(word ?? -1) &&
      tokens.is(close ?? -1, ")")
    ) {
      nameAt = word ?? -1;
      break;
    }
  }
  const type = kept.filter((k) => k !== nameAt).map((k) => tokens.text(k));
  return {
    name: nameAt < 0 ? "" : tokens.text(nameAt),
    type: joinTokens(type),
    place: tokens.at(range.begin),
    range: { begin: range.begin, end },
    attributes,
    space,
    pointer,
    reference,
    pack,
    constant: constBefore || space === "constant",
  };
}

/** The tokens of a type as one readable string. */
export function joinTokens(words: readonly string[]): string {
  let out = "";
  for (const word of words) {
    const glued = out === "" || /^(\*|&|&&|,|>|<|::|\[|\]|\)|\()$/.test(word) || /(::|<|\[|\()$/.test(out);
    out += glued ? word : ` ${word}`;
    if (word === ",") out += " ";
  }
  return out.replace(/ {2,}/g, " ").replace(/, $/, "").trim();
}
