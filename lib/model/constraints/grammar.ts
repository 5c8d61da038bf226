/** Grammars as data, and their text in xgrammar's EBNF. */
import { commonPoints, joinPoints, otherPoints, smallestOf } from "./automaton.ts";
import type { Automaton, Points, State } from "./automaton.ts";
import { spend } from "./effort.ts";
import { byteRangesOf } from "./utf8-ranges.ts";

/**
 * A character class of xgrammar. Without `except` it matches a byte: xgrammar's classes know no characters beyond ASCII. With `except` it
 * matches a character other than these ASCII ones, and treats each sequence of bytes in the form of UTF-8 as one character.
 */
interface CharacterClass {
  readonly bytes: readonly (readonly [number, number])[];
  readonly except: boolean;
  readonly repeated: boolean;
}

/** A part of a grammar. An empty choice matches nothing. */
export type Part =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "class"; readonly class: CharacterClass }
  | { readonly kind: "sequence" | "choice"; readonly parts: readonly Part[] }
  | { readonly kind: "rule"; readonly name: string };

export const text = (content: string): Part => ({ kind: "text", text: content });
const classPart = (bytes: Points, except: boolean, repeated: boolean): Part => ({ kind: "class", class: { bytes, except, repeated } });
/** ASCII characters. */
export const ascii = (points: Points): Part => classPart(points, false, false);
/** Any number of characters other than these ASCII ones. */
export const anyExcept = (points: Points): Part => classPart(points, true, true);
export const sequence = (...parts: readonly Part[]): Part => ({ kind: "sequence", parts });
export const choice = (...parts: readonly Part[]): Part => ({ kind: "choice", parts });
export const rule = (name: string): Part => ({ kind: "rule", name });
export const never: Part = choice();
export const nothing: Part = text("");

/** How an automaton's code points are written: as they are, or within a JSON string. */
export type Writing = "plain" | "json";

const asciiPoints: Points = [[0, 0x7f]];
const beyondAscii: Points = [[0x80, 0xd7ff], [0xe000, 0x10ffff]];
/** Characters that must be escaped in a JSON string: the quote, the backslash and controls. */
export const escapedInJson: Points = [[0, 0x1f], [0x22, 0x22], [0x5c, 0x5c]];
const plainInJson = otherPoints(escapedInJson);
/** Their short escapes. */
const escapes: readonly (readonly [number, string])[] = [
  [0x22, '\\"'], [0x5c, "\\\\"], [8, "\\b"], [9, "\\t"], [10, "\\n"], [12, "\\f"], [13, "\\r"],
];
const escaped = new Map(escapes);

/** The text after a JSON string or number: from assertions about it, xgrammar decides which tokens may extend beyond the value's end. */
const followers = { string: "[ \\n\\t]* [,}\\]:]", number: "[ \\n\\t]* [,}\\]]" } as const;

/** The error for a grammar larger than xgrammar compiles in reasonable time. `message` says what is allowed. */
export class GrammarTooLarge extends Error {
  readonly received: string;

  constructor(expected: string, received: string) {
    super(expected);
    this.received = received;
  }
}

/** The most states at which any character may come: with a large vocabulary, xgrammar takes about a tenth of a second for each. */
const mostWideStates = 1000;
/** The most rules, and characters of all texts: xgrammar takes about a millisecond for a rule, and for a few hundred characters. */
const mostRules = 12_000;
const mostCharacters = 1_500_000;
/** The characters that a range of a class counts as. */
const charactersOfRange = 8;
/** The most pairs of optional properties that may follow one another: xgrammar takes about two microseconds for each. */
const mostPairs = 5_000_000;

/** A grammar that is being made: rules by name. */
export class Grammar {
  readonly #rules = new Map<string, Part>();
  /** The text after each rule, where it is known, so that xgrammar need not try, for each mask, tokens that extend beyond the rule. */
  readonly #followers = new Map<string, string>();
  /** Parts that are used again, by their {@link shared} keys. */
  readonly #shared = new Map<string, Part>();
  /** States of automata at which most tokens may come, each of which takes time to compile. */
  #wide = 0;
  #characters = 0;
  #pairs = 0;

  /** Adds a rule. @param of the kind of value that its texts end, if any. */
  set(name: string, part: Part, of?: keyof typeof followers): Part {
    this.#rules.set(name, part);
    this.#expectRules(0);
    if (of !== undefined) this.#followers.set(name, followers[of]);
    return rule(name);
  }

  /** The part that was made for the same key, or else a new one: equal schemas have the same rules. */
  shared(key: string, make: () => Part): Part {
    let found = this.#shared.get(key);
    if (found === undefined) this.#shared.set(key, (found = make()));
    return found;
  }

  /** Records that this many optional properties may come next at some place. */
  leaves(optional: number): void {
    this.#pairs += optional;
    if (this.#pairs > mostPairs) throw new GrammarTooLarge(`objects with fewer optional properties, such as ${Math.floor(Math.sqrt(2 * mostPairs))} in all`, "more");
  }

  #expectRules(more: number): void {
    if (this.#rules.size + more > mostRules) throw new GrammarTooLarge(`at most ${mostRules} rules of a grammar: one for each state of a string or number, member of an object and item of an array`, "more");
  }

  has(name: string): boolean {
    return this.#rules.has(name);
  }

  /** A name that no rule has. */
  name(like: string): string {
    const base = like.replace(/[^A-Za-z0-9_]/g, "_").replace(/^(?=\d)/, "_");
    for (let i = this.#rules.size; ; i++) if (!this.#rules.has(`${base}_${i}`)) return `${base}_${i}`;
  }

  /** Adds the rules of an automaton. Its texts are followed by `end`. */
  automaton(name: string, automaton: Automaton, writing: Writing, end: Part = nothing, of?: keyof typeof followers): Part {
    const small = smallestOf(automaton);
    if (small === undefined) return never;
    this.#expectRules(small.length);
    const isWide = (state: State): boolean => state.edges.some(({ from, to }) => to - from > 100);
    this.#wide += small.filter(isWide).length;
    if (this.#wide > mostWideStates) throw new GrammarTooLarge(`strings of any characters with lengths of at most ${mostWideStates} in all`, `${this.#wide}`);
    const names = small.map(() => {
      const one = this.name(name);
      this.#rules.set(one, never);
      return one;
    });
    for (const [i, state] of small.entries()) {
      const byTarget = new Map<number, (readonly [number, number])[]>();
      for (const { from, to, state: target } of state.edges) {
        const list = byTarget.get(target);
        if (list === undefined) byTarget.set(target, [[from, to]]);
        else list.push([from, to]);
      }
      const ways: Part[] = [];
      let loop: Part | undefined;
      for (const [target, ranges] of byTarget) {
        const all = joinPoints(ranges);
        const plain = writing === "json" ? commonPoints(all, plainInJson) : all;
        const [low, high] = [commonPoints(plain, asciiPoints), commonPoints(plain, beyondAscii)];
        const whole = JSON.stringify(high) === JSON.stringify(beyondAscii);
        const next = rule(names[target]!);
        // Bytes that are not UTF-8 become U+FFFD, which a loop over all characters also accepts.
        if (target === i && whole) loop = anyExcept(commonPoints(otherPoints(low), asciiPoints));
        else {
          if (target === i && low.length > 0) loop = classPart(low, false, true);
          else if (low.length > 0) ways.push(sequence(ascii(low), next));
          if (whole) ways.push(sequence(this.#beyondAscii(), next));
          else for (const bytes of byteRangesOf(high)) ways.push(sequence(...bytes.map((range) => classPart([range], false, false)), next));
        }
        if (writing === "json") for (const one of escapesOf(all)) ways.push(sequence(one, next));
      }
      if (state.accepts) ways.push(end);
      this.set(names[i]!, loop === undefined ? choice(...ways) : choice(...ways.map((way) => sequence(loop, way))), of);
    }
    return rule(names[0]!);
  }

  /** Any character beyond ASCII. */
  #beyondAscii(): Part {
    if (this.has("beyond_ascii")) return rule("beyond_ascii");
    return this.set("beyond_ascii", choice(...byteRangesOf(beyondAscii).map((bytes) => sequence(...bytes.map((range) => classPart([range], false, false))))));
  }

  /**
   * The grammar's text, without parts that can never be matched.
   *
   * @returns undefined if nothing matches the grammar.
   * @throws {GrammarTooLarge}
   */
  write(root: Part): string | undefined {
    const finite = this.#finite();
    const isFinite = (part: Part): boolean => finiteWith(part, finite);
    if (!isFinite(root)) return undefined;
    const lines: string[] = [];
    const written = new Set<string>();
    const waiting: string[] = [];
    const write = (part: Part): string => {
      switch (part.kind) {
        case "text":
          this.#characters += part.text.length;
          if (this.#characters > mostCharacters) throw new GrammarTooLarge(`names, listed values and classes of at most ${mostCharacters} characters in all`, "more");
          return quoted(part.text);
        case "class":
          this.#characters += charactersOfRange * part.class.bytes.length;
          return classText(part.class);
        case "rule":
          if (!written.has(part.name)) {
            written.add(part.name);
            waiting.push(part.name);
          }
          return part.name;
        case "sequence": {
          const parts = part.parts.filter((one) => one.kind !== "text" || one.text !== "");
          return parts.length === 0 ? '""' : parts.map(write).join(" ");
        }
        case "choice": {
          const parts = part.parts.filter(isFinite);
          return parts.length === 1 ? write(parts[0]!) : `(${parts.map(write).join(" | ")})`;
        }
      }
    };
    this.#characters = 0;
    lines.push(`root ::= ${write(root)}`);
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
      const follower = this.#followers.get(name);
      lines.push(`${name} ::= ${write(this.#rules.get(name)!)}${follower === undefined ? "" : ` (=${follower})`}`);
    }
    return `${lines.join("\n")}\n`;
  }

  /** The rules that match some text of finite length. */
  #finite(): ReadonlySet<string> {
    const finite = new Set<string>();
    // Rules refer to earlier and to later ones. So a few passes leave only rules that refer to themselves, and the users of these.
    let left = [...this.#rules];
    for (let pass = 0; pass < 4; pass++) left = left.filter(([name, part]) => !finiteWith(part, finite) || finite.add(name).size === 0).reverse();
    const users = new Map<string, (typeof left)[number][]>();
    for (const one of left) {
      for (const used of namesIn(one[1])) {
        const list = users.get(used);
        if (list === undefined) users.set(used, [one]);
        else list.push(one);
      }
    }
    // Each remaining rule is examined again when a rule that it refers to turns out to be finite.
    for (let next = left.pop(); next !== undefined; next = left.pop()) {
      const [name, part] = next;
      if (finite.has(name) || !finiteWith(part, finite)) continue;
      finite.add(name);
      for (const user of users.get(name) ?? []) left.push(user);
    }
    return finite;
  }
}

/** The rules that a part refers to. */
function* namesIn(part: Part): Generator<string> {
  if (part.kind === "rule") yield part.name;
  else if (part.kind === "sequence" || part.kind === "choice") for (const one of part.parts) yield* namesIn(one);
}

function finiteWith(part: Part, finite: ReadonlySet<string>): boolean {
  spend(1);
  switch (part.kind) {
    case "text":
    case "class":
      return true;
    case "rule":
      return finite.has(part.name);
    case "sequence":
      return part.parts.every((one) => finiteWith(one, finite));
    case "choice":
      return part.parts.some((one) => finiteWith(one, finite));
  }
}

/** JSON escapes for the code points that need them. */
function escapesOf(all: Points): Part[] {
  const has = (point: number): boolean => all.some(([from, to]) => from <= point && point <= to);
  const found: Part[] = [];
  const short = escapes.filter(([point]) => has(point)).map(([, written]) => written[1]!);
  if (short.length > 0) found.push(sequence(text("\\"), ascii(joinPoints(short.map((one) => [one.codePointAt(0)!, one.codePointAt(0)!])))));
  for (const half of [0, 1]) {
    const digits = Array.from({ length: 16 }, (_, i) => 16 * half + i).filter((point) => has(point) && !escaped.has(point)).map((point) => (point % 16).toString(16));
    if (digits.length > 0) found.push(sequence(text(`\\u00${half}`), ascii(joinPoints(digits.map((one) => [one.codePointAt(0)!, one.codePointAt(0)!])))));
  }
  return found;
}

function classText({ bytes, except, repeated }: CharacterClass): string {
  spend(bytes.length);
  const ranges = bytes.map(([from, to]) => `${pointText(from)}-${pointText(to)}`);
  // xgrammar would write a class of a single byte as the character of that number.
  if (ranges.length === 1) ranges.push(...ranges);
  return `[${except ? "^" : ""}${ranges.join("")}]${repeated ? "*" : ""}`;
}

/** A code point in xgrammar's text. */
const pointText = (point: number): string => asciiTexts[point] ?? pointTextOf(point);

function pointTextOf(point: number): string {
  if (/^[A-Za-z0-9]$/.test(String.fromCodePoint(point))) return String.fromCodePoint(point);
  return point <= 0xffff ? `\\u${point.toString(16).padStart(4, "0")}` : `\\U${point.toString(16).padStart(8, "0")}`;
}

const asciiTexts: readonly string[] = Array.from({ length: 128 }, (_, point) => pointTextOf(point));

/** A text in quotes. */
export function quoted(content: string): string {
  let written = '"';
  for (const one of content) written += pointText(one.codePointAt(0)!);
  return `${written}"`;
}
