/** Reads the documentation of what a module exports: comments and declarations in the style of this repository's sources. */
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** A member of a class or an interface. */
export interface Member {
  readonly name: string;
  /** `field`, `getter` or `method`. */
  readonly kind: "field" | "getter" | "method";
  /** The declaration up to its body, on one line. */
  readonly text: string;
  readonly doc: string;
}

/** Something that is exported. */
export interface Exported {
  readonly name: string;
  readonly kind: "class" | "interface" | "type" | "function" | "const";
  readonly file: string;
  readonly text: string;
  readonly doc: string;
  readonly members: readonly Member[];
  /** Whether the module exports only its type. */
  readonly typeOnly: boolean;
  /** Names of the types that an interface extends. */
  readonly bases: readonly string[];
}

const declaration = /^export (?:declare )?(?:abstract )?(class|interface|type|function|async function|const) (\w+)/;

/** The comment that ends on the line before `line`, without its stars; empty if there is none. */
function docBefore(lines: readonly string[], line: number): string {
  if (!/\*\/\s*$/.test(lines[line - 1] ?? "")) return "";
  let first = line - 1;
  while (first > 0 && !/^\s*\/\*\*/.test(lines[first]!)) first--;
  return lines
    .slice(first, line)
    .map((text) => text.replace(/^\s*(?:\/\*\*|\*(?!\/))? ?/, "").replace(/\s*\*\/\s*$/, ""))
    .join("\n")
    .trim();
}

/** A declaration from its first line to where its body begins or it ends. */
function signature(lines: readonly string[], line: number, indent: string): string {
  const parts: string[] = [];
  for (let i = line; i < lines.length; i++) {
    parts.push(lines[i]!.trim());
    if (/[{;]$/.test(lines[i]!) && (i === line || lines[i]!.startsWith(`${indent}}`) || lines[i]!.startsWith(`${indent})`) || /;$/.test(lines[i]!))) break;
  }
  return parts.join(" ");
}

function membersOf(lines: readonly string[], from: number, to: number): Member[] {
  const members: Member[] = [];
  for (let i = from; i < to; i++) {
    const match = /^ {2}(?!\s|private\b|\/|\*|\}|\)|static \{|[^(=]*#)((?:static |readonly |async |get |set )*)(?:\[(?:Symbol\.|key: )(\w+)\]|(\w+))\??!?([(<:= ])/.exec(lines[i]!);
    if (match === null || match[3] === "constructor") continue;
    const doc = docBefore(lines, i);
    if (/@internal/.test(doc)) continue;
    const kind = /\bget /.test(match[1]!) ? "getter" : match[4] === "(" || match[4] === "<" ? "method" : "field";
    members.push({ name: match[2] === undefined ? match[3]! : `[Symbol.${match[2]}]`, kind, text: signature(lines, i, "  "), doc });
  }
  return members;
}

/** Every declaration that a file exports. */
function declarations(file: string): Exported[] {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.flatMap((line, i) => {
    const match = declaration.exec(line);
    if (match === null) return [];
    const kind = match[1]!.replace("async ", "") as Exported["kind"];
    const ends = /[;}]$/.test(line) ? i : lines.findIndex((text, j) => j > i && /^\}/.test(text));
    const text = kind === "type" ? lines.slice(i, lines.findIndex((part, j) => j >= i && /;$/.test(part) && !/^ {4}/.test(part)) + 1).join("\n") : signature(lines, i, "");
    const members = kind === "class" || kind === "interface" ? membersOf(lines, i + 1, ends) : [];
    const bases = [...(/ extends ([^{]*)/.exec(line)?.[1] ?? "").matchAll(/\b([A-Z]\w+)/g)].map(([, name]) => name!);
    return [{ name: match[2]!, kind, file, text, doc: docBefore(lines, i), members, bases, typeOnly: false }];
  });
}

/** The exports of a module of re-exports. */
export function exportsOf(module: string): Exported[] {
  const text = readFileSync(module, "utf8");
  const found: Exported[] = [];
  for (const [, typeOnly, names, from] of text.matchAll(/^export (type )?(\*|\{[^}]*\}) from "([^"]+)";/gm)) {
    const file = join(dirname(module), from!);
    if (names === "*") {
      found.push(...exportsOf(file));
      continue;
    }
    const own = declarations(file);
    for (const name of names!.slice(1, -1).split(",").map((part) => part.trim()).filter((part) => part !== "")) {
      const one = own.find((exported) => exported.name === name);
      if (one === undefined) throw new Error(`${file} does not declare ${name}`);
      found.push({ ...one, typeOnly: typeOnly !== undefined });
    }
  }
  return found;
}

/** The properties of an interface and of those it extends, by the names that are declared anywhere in lib/ops. */
export function propertiesOf(one: Exported, others: readonly Exported[]): Member[] {
  const inherited = one.bases.flatMap((name) => {
    const base = others.find((other) => other.name === name);
    return base === undefined ? [] : propertiesOf(base, others);
  });
  return [...inherited, ...one.members];
}
