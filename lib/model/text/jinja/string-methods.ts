/** The methods of Python's `str` that templates use. Each tracks the origin of its characters. */
import type { Budget } from "./budget.ts";
import { changed, concat, join, slice, template } from "./origin.ts";
import type { Text } from "./origin.ts";
import { Arguments } from "./arguments.ts";
import { pythonBlanks } from "../python-blanks.ts";
import { boolean, integer, isList, isText, list, text, textOf, tuple } from "./values.ts";
import type { Value } from "./values.ts";

const lineEnd = /\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]/g;

/** The length in code points, as in Python. */
export function pointsIn(value: string): number {
  let count = 0;
  for (const _ of value) count++;
  return count;
}

/** Removes a set of characters from the ends; blanks by default. */
export function strip(subject: Text, characters: string | undefined, sides: "both" | "left" | "right" = "both"): Text {
  const from = characters === undefined ? pythonBlanks : new Set(characters);
  const { value } = subject;
  let start = 0;
  let end = value.length;
  while (sides !== "right" && start < end) {
    const character = String.fromCodePoint(value.codePointAt(start)!);
    if (!from.has(character)) break;
    start += character.length;
  }
  while (sides !== "left" && end > start) {
    const pair = end - start > 1 && value.codePointAt(end - 2)! > 0xffff;
    const character = value.slice(end - (pair ? 2 : 1), end);
    if (!from.has(character)) break;
    end -= character.length;
  }
  return slice(subject, start, end);
}

/** The positions of another string in it, from the left. */
function* occurrences(subject: Text, what: string, most: number): Generator<number> {
  let found = 0;
  for (let at = 0; found < most; found++) {
    at = subject.value.indexOf(what, at);
    if (at < 0) return;
    yield at;
    at += what.length;
  }
}

/** `str.split(separator, most)` */
function split(subject: Text, separator: string | undefined, most: number, budget: Budget): Text[] {
  const parts: Text[] = [];
  let start = 0;
  if (separator === undefined) {
    let rest = strip(subject, undefined, "left");
    while (rest.value !== "") {
      budget.step(4);
      let end = 0;
      while (end < rest.value.length && !pythonBlanks.has(rest.value[end]!)) end++;
      if (parts.length === most) return [...parts, rest];
      parts.push(slice(rest, 0, end));
      rest = strip(slice(rest, end), undefined, "left");
    }
    return parts;
  }
  for (const at of occurrences(subject, separator, most)) {
    budget.step(4);
    parts.push(slice(subject, start, at));
    start = at + separator.length;
  }
  return [...parts, slice(subject, start)];
}

/** `str.rsplit(separator, most)` with a separator. */
function splitRight(subject: Text, separator: string, most: number, budget: Budget): Text[] {
  const parts: Text[] = [];
  let end = subject.value.length;
  while (parts.length < most) {
    const at = end < separator.length ? -1 : subject.value.lastIndexOf(separator, end - separator.length);
    if (at < 0) break;
    budget.step(4);
    parts.unshift(slice(subject, at + separator.length, end));
    end = at;
  }
  return [slice(subject, 0, end), ...parts];
}

/** `str.replace(what, by, most)` */
export function replace(subject: Text, what: string, by: Text, most: number, budget: Budget): Text {
  const { value } = subject;
  const length = by.value.length;
  if (what === "") {
    if (most <= 0) return subject;
    budget.step(4 * value.length);
    budget.make(value.length + length * Math.min(most, value.length + 1));
    const points = [...value];
    const parts: Text[] = [];
    let at = 0;
    for (const [i, point] of points.entries()) {
      if (i < most) parts.push(by);
      parts.push(slice(subject, at, (at += point.length)));
    }
    if (points.length < most) parts.push(by);
    return join(parts, template(""));
  }
  const parts = split(subject, what, most, budget);
  if (parts.length === 1) return subject;
  budget.make(value.length + (parts.length - 1) * length);
  return join(parts, by);
}

/** `str.title`: a capital after each character that is not a letter. */
const titled = (value: string): string => value.replace(/(\p{L})([\p{L}\p{M}]*)/gu, (_, first: string, rest: string) => capital(first) + rest.toLowerCase());

/** A letter whose upper case has two letters, such as ß, gets only the first as a capital. */
function capital(letter: string): string {
  const [first = "", ...rest] = letter.toUpperCase();
  return first + rest.join("").toLowerCase();
}

export function capitalized(value: string): string {
  const [first = ""] = value;
  return capital(first) + value.slice(first.length).toLowerCase();
}

/** The lines of a text, with their line ends if `ends` is true. */
export function lines(subject: Text, ends: boolean): Text[] {
  const found: Text[] = [];
  let start = 0;
  for (const { 0: end, index } of subject.value.matchAll(lineEnd)) {
    found.push(slice(subject, start, index + (ends ? end.length : 0)));
    start = index + end.length;
  }
  if (start < subject.value.length) found.push(slice(subject, start));
  return found;
}

const texts = (parts: readonly Text[]): Value => list(parts.map(text));
/** The argument of `str.startswith(prefix, …)`: a string or a tuple of strings. */
const affixes = (value: Value | undefined, budget: Budget): string[] => {
  const all = value === undefined ? [] : isList(value) ? value.value : [value];
  if (value === undefined || !all.every(isText)) throw new Error("startswith and endswith take a string or a tuple of strings");
  return all.map((one) => {
    budget.make(one.value.length);
    return one.value;
  });
};
const every = (expression: RegExp) => (subject: Text) => boolean(expression.test(subject.value));
type Method = (subject: Text, args: Arguments, budget: Budget) => Value;

const inForm =
  (form: (value: string) => string): Method =>
  (subject, _, budget) => {
    budget.make(8 * subject.value.length); // some forms work letter by letter
    return text(changed(subject, form(subject.value)));
  };

const padded =
  (left: boolean): Method =>
  (subject, args, budget) => {
    const missing = Math.max(0, args.integer("width", -1) - pointsIn(subject.value));
    budget.make(subject.value.length + missing);
    const fill = template(args.string("fillchar", " ").repeat(missing));
    return text(left ? concat(fill, subject) : concat(subject, fill));
  };

const parted =
  (last: boolean): Method =>
  (subject, args) => {
    const separator = args.string("sep", "");
    if (separator === "") throw new Error("empty separator");
    const at = last ? subject.value.lastIndexOf(separator) : subject.value.indexOf(separator);
    const empty = template("");
    const parts = at < 0 ? (last ? [empty, empty, subject] : [subject, empty, empty]) : [slice(subject, 0, at), slice(subject, at, at + separator.length), slice(subject, at + separator.length)];
    return tuple(parts.map(text));
  };

const found =
  (last: boolean, must: boolean): Method =>
  (subject, args) => {
    const what = args.string("sub");
    const at = last ? subject.value.lastIndexOf(what) : subject.value.indexOf(what);
    if (at < 0 && must) throw new Error("substring not found");
    return integer(at < 0 ? -1 : pointsIn(subject.value.slice(0, at)));
  };

/** The methods by name. Arguments that can also be given by name are the same as in Python. */
const stringMethods: Readonly<Record<string, Method>> = {
  strip: (subject, args) => text(strip(subject, args.optionalString("chars"))),
  lstrip: (subject, args) => text(strip(subject, args.optionalString("chars"), "left")),
  rstrip: (subject, args) => text(strip(subject, args.optionalString("chars"), "right")),
  upper: inForm((value) => value.toUpperCase()),
  lower: inForm((value) => value.toLowerCase()),
  casefold: inForm((value) => value.toUpperCase().toLowerCase()),
  swapcase: inForm((value) => value.replace(/\p{L}/gu, (letter) => (letter === letter.toUpperCase() ? letter.toLowerCase() : letter.toUpperCase()))),
  title: inForm(titled),
  capitalize: inForm(capitalized),
  startswith: (subject, args, budget) => boolean(affixes(args.value("prefix"), budget).some((one) => subject.value.startsWith(one))),
  endswith: (subject, args, budget) => boolean(affixes(args.value("suffix"), budget).some((one) => subject.value.endsWith(one))),
  removeprefix: (subject, args) => text(subject.value.startsWith(args.string("prefix")) ? slice(subject, args.string("prefix").length) : subject),
  removesuffix: (subject, args) => {
    const suffix = args.string("suffix");
    return text(subject.value.endsWith(suffix) ? slice(subject, 0, subject.value.length - suffix.length) : subject);
  },
  split: (subject, args, budget) => {
    const [separator, most] = [args.optionalString("sep"), args.count("maxsplit")];
    if (separator === "") throw new Error("empty separator");
    return texts(split(subject, separator, most, budget));
  },
  rsplit: (subject, args, budget) => {
    const [separator, most] = [args.optionalString("sep"), args.count("maxsplit")];
    if (separator === "") throw new Error("empty separator");
    if (separator !== undefined) return texts(splitRight(subject, separator, most, budget));
    if (most !== Infinity) throw new Error("rsplit with a count and without a separator is not supported");
    return texts(split(subject, undefined, most, budget));
  },
  splitlines: (subject, args, budget) => {
    const all = lines(subject, args.flag("keepends", false));
    budget.step(4 * all.length);
    return texts(all);
  },
  partition: parted(false),
  rpartition: parted(true),
  replace: (subject, args, budget) => {
    const [what, by] = [args.string("old"), args.text("new")];
    return text(replace(subject, what, by, args.count("count"), budget));
  },
  join: (subject, args, budget) => {
    const items = args.value("iterable");
    if (items !== undefined && isText(items)) budget.step(4 * items.value.length);
    const all = items === undefined ? undefined : isList(items) ? items.value : isText(items) ? [...items.value].map((value) => text({ value, fromTemplate: items.fromTemplate === true })) : undefined;
    if (all === undefined || !all.every(isText)) throw new Error("join takes a list of strings");
    budget.make(all.reduce((sum, { value }) => sum + value.length + subject.value.length, 0));
    return text(join(all.map(textOf), subject));
  },
  find: found(false, false),
  rfind: found(true, false),
  index: found(false, true),
  rindex: found(true, true),
  count: (subject, args) => {
    const what = args.string("sub");
    if (what === "") return integer(pointsIn(subject.value) + 1);
    let count = 0;
    for (const _ of occurrences(subject, what, Infinity)) count++;
    return integer(count);
  },
  ljust: padded(false),
  rjust: padded(true),
  isdigit: every(/^[\p{Nd}²³¹⁰-⁹₀-₉]+$/u),
  isdecimal: every(/^\p{Nd}+$/u),
  isnumeric: every(/^\p{N}+$/u),
  isalpha: every(/^\p{L}+$/u),
  isalnum: every(/^[\p{L}\p{N}]+$/u),
  isspace: (subject) => boolean(subject.value !== "" && strip(subject, undefined).value === ""),
  islower: (subject) => boolean(subject.value !== subject.value.toUpperCase() && subject.value === subject.value.toLowerCase()),
  isupper: (subject) => boolean(subject.value !== subject.value.toLowerCase() && subject.value === subject.value.toUpperCase()),
};

const signatures: Readonly<Record<string, readonly string[]>> = {
  strip: ["chars"], lstrip: ["chars"], rstrip: ["chars"], startswith: ["prefix"], endswith: ["suffix"], removeprefix: ["prefix"],
  removesuffix: ["suffix"], split: ["sep", "maxsplit"], rsplit: ["sep", "maxsplit"], splitlines: ["keepends"], partition: ["sep"],
  rpartition: ["sep"], replace: ["old", "new", "count"], join: ["iterable"], find: ["sub"], rfind: ["sub"], index: ["sub"],
  rindex: ["sub"], count: ["sub"], ljust: ["width", "fillchar"], rjust: ["width", "fillchar"],
};

/** A method of a string, bound to it; undefined if there is none of that name. */
export function stringMethod(name: string, subject: Text, budget: Budget): ((args: Value[]) => Value) | undefined {
  const method = Object.hasOwn(stringMethods, name) ? stringMethods[name] : undefined;
  if (method === undefined) return undefined;
  return (given) => {
    const args = new Arguments(name, given, signatures[name] ?? []);
    budget.make(subject.value.length);
    budget.search(subject.value.length, args.longestText);
    return method(subject, args, budget);
  };
}
