/** Walking over tokens: matching brackets, splitting lists, skipping attributes. Ranges are [begin, end) indices. */
import { SourceError, type Token } from "./tokens.ts";

export type Range = { readonly begin: number; readonly end: number };

const closers: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

export class Tokens {
  readonly list: readonly Token[];
  readonly source: string;
  constructor(list: readonly Token[], source: string) {
    this.list = list;
    this.source = source;
  }

  at(index: number): Token {
    const token = this.list[index];
    if (token !== undefined) return token;
    const last = this.list[this.list.length - 1];
    throw new SourceError(last ?? { file: "(empty)", line: 1 }, "the source ends in the middle of a declaration");
  }

  text(index: number): string {
    return this.list[index]?.text ?? "";
  }

  is(index: number, text: string): boolean {
    return this.list[index]?.text === text && this.list[index]?.kind !== "string";
  }

  isWord(index: number): boolean {
    return this.list[index]?.kind === "identifier";
  }

  /** The text of a range as written, white space squeezed. */
  slice(range: Range): string {
    if (range.end <= range.begin) return "";
    return this.source.slice(this.at(range.begin).start, this.at(range.end - 1).end).replace(/\s+/g, " ");
  }

  /** The index after the bracket that closes the one at `index`: ( [ or {. */
  close(index: number, limit = this.list.length): number {
    const open = this.at(index);
    const stack: string[] = [];
    for (let i = index; i < limit; i += 1) {
      const token = this.at(i);
      if (token.kind !== "punctuation") continue;
      const closer = closers[token.text];
      if (closer !== undefined) stack.push(closer);
      else if (token.text === stack[stack.length - 1]) {
        stack.pop();
        if (stack.length === 0) return i + 1;
      } else if (token.text === ")" || token.text === "]" || token.text === "}") {
        throw new SourceError(token, `"${token.text}" does not match what was opened at line ${open.line}`);
      }
    }
    throw new SourceError(open, `"${open.text}" is not closed`);
  }

  /** The index after the ">" that closes the "<" at `index`, or -1 if that "<" opens no argument list. */
  closeAngle(index: number, limit = this.list.length): number {
    let depth = 0;
    for (let i = index; i < limit; i += 1) {
      const token = this.at(i);
      if (token.kind === "punctuation") {
        if (token.text === "<") depth += 1;
        else if (token.text === ">") {
          depth -= 1;
          if (depth === 0) return i + 1;
        } else if (token.text in closers) i = this.close(i, limit) - 1;
        else if (token.text === ";" || token.text === "&&" || token.text === "||") return -1;
        else if (token.text === ")" || token.text === "]" || token.text === "}") return -1;
      }
    }
    return -1;
  }

  isAttribute(index: number): boolean {
    return this.is(index, "[") && this.is(index + 1, "[") && this.at(index).end === this.at(index + 1).start;
  }

  /** The index after the attributes, alignas and __attribute__ specifiers that start at `index`. */
  skipAttributes(index: number): number {
    let i = index;
    for (;;) {
      if (this.isAttribute(i)) i = this.close(i);
      else if (/^(alignas|__attribute__|__declspec|_Alignas)$/.test(this.text(i)) && this.is(i + 1, "("))
        i = this.close(i + 1);
      else return i;
    }
  }

  /** Splits at top-level commas, ignoring those inside brackets of any kind or template argument lists. */
  split(range: Range): Range[] {
    const parts: Range[] = [];
    let begin = range.begin;
    for (let i = range.begin; i < range.end; i += 1) {
      const token = this.at(i);
      if (token.kind !== "punctuation") continue;
      if (token.text in closers) i = this.close(i, range.end) - 1;
      else if (token.text === "<" && i > range.begin && this.isWord(i - 1)) {
        const after = this.closeAngle(i, range.end);
        if (after > 0) i = after - 1;
      } else if (token.text === ",") {
        parts.push({ begin, end: i });
        begin = i + 1;
      }
    }
    if (begin < range.end) parts.push({ begin, end: range.end });
    return parts;
  }
}

export type Attribute = {
  readonly name: string;
  /** The arguments' text, "" if there are none. */
  readonly argument: string;
  readonly range: Range;
};

/** All attributes of every [[...]] in a range, including those inside nested brackets. */
export function attributesIn(tokens: Tokens, range: Range): Attribute[] {
  const found: Attribute[] = [];
  for (let i = range.begin; i < range.end; i += 1) {
    if (!tokens.isAttribute(i)) continue;
    const end = tokens.close(i);
    for (const part of tokens.split({ begin: i + 2, end: end - 2 })) {
      let nameEnd = part.begin;
      while (nameEnd < part.end && !tokens.is(nameEnd, "(")) nameEnd += 1;
      const inner = nameEnd < part.end ? { begin: nameEnd + 1, end: part.end - 1 } : { begin: part.end, end: part.end };
      found.push({
        name: tokens.slice({ begin: part.begin, end: nameEnd }).replace(/\s/g, ""),
        argument: tokens.slice(inner),
        range: { begin: i, end },
      });
    }
    i = end - 1;
  }
  return found;
}

/** The value of adjacent string literals, which form one string. */
export function stringValue(text: string): string {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map((m) => m[1] ?? "").join("");
}
