/** Reads ECMAScript regular expressions. */
import { joinPoints, otherPoints } from "./automaton.ts";
import type { Points } from "./automaton.ts";

/** The error for an expression that is wrong or has an unknown part. */
export class ExpressionProblem extends Error {}

/** A part of an expression. */
export type Part =
  | { readonly kind: "points"; readonly points: Points }
  | { readonly kind: "sequence" | "choice"; readonly parts: readonly Part[] }
  | { readonly kind: "repeat"; readonly part: Part; readonly least: number; readonly most: number };

/** An alternative of the whole expression. */
export interface Branch {
  readonly fromStart: boolean;
  readonly toEnd: boolean;
  /** Expressions that must, or must not, fit at the beginning of the alternative. */
  readonly lookaheads: readonly { readonly branches: readonly Branch[]; readonly wanted: boolean }[];
  readonly part: Part;
}

const range = (from: string | number, to: string | number = from): [number, number] => [
  typeof from === "number" ? from : from.codePointAt(0)!,
  typeof to === "number" ? to : to.codePointAt(0)!,
];
const lineEnds = joinPoints([range(10), range(13), range(0x2028, 0x2029)]);
const digits = joinPoints([range("0", "9")]);
const words = joinPoints([range("0", "9"), range("A", "Z"), range("a", "z"), range("_")]);
const blanks = joinPoints([range(9, 13), range(32), range(0xa0), range(0x1680), range(0x2000, 0x200a), range(0x2028, 0x2029), range(0x202f), range(0x205f), range(0x3000), range(0xfeff)]);
const classes: Readonly<Record<string, Points>> = { d: digits, D: otherPoints(digits), w: words, W: otherPoints(words), s: blanks, S: otherPoints(blanks) };
const controls: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9, f: 12, v: 11 };

/** The largest count of a quantifier, and the most parts once quantifiers are expanded. */
export const mostParts = 20_000;

/** The most characters of an expression. */
const mostCharacters = 100_000;

/** Reads the source of an expression. */
export class ExpressionReader {
  readonly #characters: readonly string[];
  #at = 0;
  #depth = 0;

  constructor(source: string) {
    if (source.length > mostCharacters) throw new ExpressionProblem(`at most ${mostCharacters} characters`);
    this.#characters = [...source];
  }

  get #next(): string | undefined {
    return this.#characters[this.#at];
  }

  #take(text: string): boolean {
    for (const [i, character] of [...text].entries()) if (this.#characters[this.#at + i] !== character) return false;
    this.#at += text.length;
    return true;
  }

  #refuse(expected: string): never {
    throw new ExpressionProblem(`${expected} at character ${this.#at}`);
  }

  expectEnd(): void {
    if (this.#next !== undefined) this.#refuse("no \")\" without \"(\"");
  }

  /** @param whole whether anchors and lookaheads are allowed here. */
  branches(whole: boolean): Branch[] {
    const found = [this.#branch(whole)];
    while (this.#take("|")) found.push(this.#branch(whole));
    return found;
  }

  #branch(whole: boolean): Branch {
    const fromStart = this.#take("^");
    const lookaheads: Branch["lookaheads"][number][] = [];
    while (this.#take("(?=") || this.#take("(?!")) {
      if (!whole || !fromStart) this.#refuse("lookaheads only after ^, at the beginning of the expression,");
      const wanted = this.#characters[this.#at - 1] === "=";
      lookaheads.push({ branches: this.#inner(true), wanted });
    }
    const parts: Part[] = [];
    let toEnd = false;
    while (this.#next !== undefined && this.#next !== "|" && this.#next !== ")") {
      if (this.#take("$")) {
        toEnd = true;
        if (this.#next !== undefined && this.#next !== "|" && this.#next !== ")") this.#refuse("$ only at the end of an alternative");
        break;
      }
      parts.push(this.#quantified(this.#atom()));
    }
    if (!whole && (fromStart || toEnd)) this.#refuse("^ and $ only at the ends of the expression's alternatives");
    return { fromStart, toEnd, lookaheads, part: { kind: "sequence", parts } };
  }

  /** The rest of a group, whose beginning was read. */
  #inner(whole: boolean): Branch[] {
    if (++this.#depth > 200) this.#refuse("at most 200 groups within each other");
    const branches = this.branches(whole);
    if (!this.#take(")")) this.#refuse("\")\"");
    this.#depth--;
    return branches;
  }

  #atom(): Part {
    if (this.#take("(")) {
      if (this.#next === "?" && !this.#take("?:") && !this.#name()) this.#refuse("groups, or lookaheads at the beginning,");
      return { kind: "choice", parts: this.#inner(false).map(({ part }) => part) };
    }
    if (this.#take("[")) return { kind: "points", points: this.#class() };
    if (this.#take(".")) return { kind: "points", points: otherPoints(lineEnds) };
    if (this.#take("\\")) return { kind: "points", points: this.#escape(false) };
    const character = this.#next!;
    if ("*+?{^".includes(character)) this.#refuse(character === "^" ? "^ only at the beginning of an alternative" : `something before "${character}"`);
    if (!character.isWellFormed()) this.#refuse("no lone surrogate");
    this.#at++;
    return { kind: "points", points: [range(character)] };
  }

  #name(): boolean {
    if (!this.#take("?<") || this.#next === "=" || this.#next === "!") return false;
    while (this.#next !== undefined && this.#next !== ">") this.#at++;
    return this.#take(">");
  }

  #quantified(part: Part): Part {
    let [least, most] = [1, 1];
    if (this.#take("*")) [least, most] = [0, Infinity];
    else if (this.#take("+")) most = Infinity;
    else if (this.#take("?")) least = 0;
    else if (this.#take("{")) {
      least = this.#number();
      most = this.#take(",") ? (this.#next === "}" ? Infinity : this.#number()) : least;
      if (!this.#take("}") || most < least) this.#refuse("a quantifier {n}, {n,} or {n,m} with n ≤ m");
    } else return part;
    this.#take("?"); // lazy: the same texts
    return { kind: "repeat", part, least, most };
  }

  #number(): number {
    let text = "";
    while (/^\d$/.test(this.#next ?? "")) text += this.#characters[this.#at++]!;
    if (text === "" || Number(text) > mostParts) this.#refuse(`a number of at most ${mostParts}`);
    return Number(text);
  }

  #class(): Points {
    const negative = this.#take("^");
    const found: (readonly [number, number])[] = [];
    while (!this.#take("]")) {
      if (this.#next === undefined) this.#refuse("\"]\"");
      const first = this.#member();
      if (this.#next !== "-" || this.#characters[this.#at + 1] === "]") {
        found.push(...first);
        continue;
      }
      this.#at++;
      if (this.#next === undefined) this.#refuse("\"]\"");
      const last = this.#member();
      const [from, to] = [first[0]?.[0], last[0]?.[0]];
      const single = (points: Points): boolean => points.length === 1 && points[0]![0] === points[0]![1];
      if (from === undefined || to === undefined || !single(first) || !single(last) || from > to) this.#refuse("a range from one character to a later one");
      found.push([from, to]);
    }
    const points = joinPoints(found);
    return negative ? otherPoints(points) : otherPoints(otherPoints(points));
  }

  #member(): Points {
    if (this.#take("\\")) return this.#escape(true);
    return [range(this.#characters[this.#at++]!)];
  }

  #escape(inClass: boolean): Points {
    const character = this.#characters[this.#at++];
    if (character === undefined) this.#refuse("a character after \"\\\"");
    const known = classes[character];
    if (known !== undefined) return known;
    const control = controls[character];
    if (control !== undefined) return [range(control)];
    if (character === "b" && inClass) return [range(8)];
    if (character === "0" && !/^\d$/.test(this.#next ?? "")) return [range(0)];
    if (character === "x") return [range(this.#hexadecimal(2))];
    if (character === "u") {
      if (!this.#take("{")) return [range(this.#unit())];
      let text = "";
      while (this.#next !== undefined && this.#next !== "}") text += this.#characters[this.#at++]!;
      if (!this.#take("}") || !/^[\dA-Fa-f]{1,6}$/.test(text) || parseInt(text, 16) > 0x10ffff) this.#refuse("a code point");
      return [range(parseInt(text, 16))];
    }
    if (character === "c" && /^[A-Za-z]$/.test(this.#next ?? "")) return [range(this.#characters[this.#at++]!.charCodeAt(0) % 32)];
    if (/^[A-Za-z0-9]$/.test(character)) this.#refuse(`no "\\${character}"`);
    return [range(character)];
  }

  #hexadecimal(count: number): number {
    const text = this.#characters.slice(this.#at, this.#at + count).join("");
    if (!new RegExp(`^[\\dA-Fa-f]{${count}}$`).test(text)) this.#refuse(`${count} hexadecimal digits`);
    this.#at += count;
    return parseInt(text, 16);
  }

  /** A code unit, or two that are one code point. */
  #unit(): number {
    const first = this.#hexadecimal(4);
    if (first < 0xd800 || first > 0xdbff || !this.#take("\\u")) return first;
    const second = this.#hexadecimal(4);
    if (second < 0xdc00 || second > 0xdfff) this.#refuse("the second half of a surrogate pair");
    return 0x10000 + (first - 0xd800) * 0x400 + second - 0xdc00;
  }
}
