/**
 * Tokens of preprocessed Metal source. Each token knows its place in the text (for edits) and the file and line in which it was
 * written (for messages), as given by the preprocessor's line markers.
 */

export type TokenKind = "identifier" | "number" | "string" | "character" | "punctuation" | "pragma";

export type Token = {
  readonly kind: TokenKind;
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly file: string;
  readonly line: number;
};

export type Place = { readonly file: string; readonly line: number };

export class SourceError extends Error {
  readonly place: Place;
  constructor(place: Place, message: string) {
    super(`${place.file}:${place.line}: ${message}`);
    this.name = "SourceError";
    this.place = place;
  }
}

const spaces = /[ \t\r\f\v]+/y;
const marker = /#[ \t]*(?:line[ \t]+)?(\d+)[ \t]+"((?:[^"\\]|\\.)*)"[^\n]*/y;
const pragma = /#[ \t]*pragma\b[^\n]*/y;
const directive = /#[^\n]*/y;
const word = /[A-Za-z_$][\w$]*/y;
const number = /\.?\d(?:[eEpP][+-]|['\w.])*/y;
const text = /(?:u8|u|U|L)?"(?:[^"\\\n]|\\.)*"/y;
const character = /'(?:[^'\\\n]|\\.)*'/y;
// A closing angle bracket stands alone, so that template argument lists nest; "[[" is two tokens for the same reason.
const punctuation =
  /\.\.\.|<<=|->\*|::|->|\+\+|--|<<|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|\/=|%=|&=|\|=|\^=|##|\.\*|[^\s\w]/y;

/** Splits preprocessed text. `file` names the text up to its first line marker. */
export function tokenize(source: string, file: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  let line = 1;
  let name = file;
  let fresh = true;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    return pattern.exec(source);
  };
  const push = (kind: TokenKind, value: string): void => {
    tokens.push({ kind, text: value, start: at, end: at + value.length, file: name, line });
    at += value.length;
    fresh = false;
  };
  while (at < source.length) {
    const here = source[at] ?? "";
    if (here === "\n") {
      at += 1;
      line += 1;
      fresh = true;
      continue;
    }
    const blank = match(spaces);
    if (blank !== null) {
      at += blank[0].length;
      continue;
    }
    if (here === "#" && fresh) {
      const found = match(marker);
      if (found !== null) {
        name = (found[2] ?? name).replace(/\\(.)/g, "$1");
        line = Number(found[1]) - 1;
        at += found[0].length;
        continue;
      }
      const kept = match(pragma);
      if (kept !== null) {
        push("pragma", kept[0]);
        continue;
      }
      at += match(directive)?.[0].length ?? 1;
      continue;
    }
    const quoted = match(text);
    if (quoted !== null) {
      push("string", quoted[0]);
      continue;
    }
    const identifier = match(word);
    if (identifier !== null) {
      push("identifier", identifier[0]);
      continue;
    }
    const digits = match(number);
    if (digits !== null) {
      push("number", digits[0]);
      continue;
    }
    const letter = match(character);
    if (letter !== null) {
      push("character", letter[0]);
      continue;
    }
    const mark = match(punctuation);
    if (mark === null) throw new SourceError({ file: name, line }, `cannot read ${JSON.stringify(here)}`);
    push("punctuation", mark[0]);
  }
  return tokens;
}
