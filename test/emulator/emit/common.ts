/** Edits that both C++ outputs need: attributes, entry point keywords, instantiations, literals, threadgroup variables. */
import type { Range, Tokens } from "../frontend/cursor.ts";
import type { FunctionDeclaration } from "../frontend/syntax.ts";
import { statementEnd } from "../frontend/declarators.ts";
import { allDeclarations, type Unit } from "../frontend/unit.ts";
import type { Edits } from "./edits.ts";

/** A literal as written in C++, or null if it stays unchanged: 1.0 is a float in Metal, 1.0h a half, 1.0bf a bfloat. */
export function literal(text: string): string | null {
  const clean = text.replace(/'/g, "");
  if (/^0[xX]/.test(clean) && !/[pP]/.test(clean)) return null;
  const floating = /[.eEpP]/.test(clean);
  const half = /^(.*?)[hH]$/.exec(clean);
  if (half !== null) return `((half)${half[1] ?? "0"})`;
  const brain = /^(.*?)(bf|BF)$/.exec(clean);
  if (brain !== null) return `((bfloat)${brain[1] ?? "0"}f)`;
  if (floating && !/[fFlL]$/.test(clean)) return `${clean}f`;
  return null;
}

/** `unrolls`: whether the compiler of the output supports `#pragma unroll`. */
export function commonEdits(unit: Unit, edits: Edits, unrolls = false): void {
  const { tokens } = unit;
  for (let i = 0; i < tokens.list.length; i += 1) {
    const token = tokens.at(i);
    if (tokens.isAttribute(i)) {
      const end = tokens.close(i);
      edits.replace({ begin: i, end }, "");
      i = end - 1;
    } else if (token.kind === "number") {
      const value = literal(token.text);
      if (value !== null) edits.replace({ begin: i, end: i + 1 }, value);
    } else if (token.kind === "pragma" && /^#\s*pragma\s+(METAL|mark|unroll|clang\s+loop)\b/.test(token.text)) {
      if (unrolls && /^#\s*pragma\s+unroll\b/.test(token.text)) continue;
      edits.replace({ begin: i, end: i + 1 }, "");
    }
  }
  for (const d of unit.declarations) {
    if (d.kind === "instantiation") {
      const template = unit.kernels.some((k) => k.place === d.place);
      if (template || d.kernel) edits.replace(d.range, "");
    } else if (d.kind === "function" && d.stage !== null) {
      for (let i = d.specifiers.begin; i < d.specifiers.end; i += 1) {
        if (tokens.text(i) === d.stage && !insideAttribute(tokens, d.specifiers, i))
          edits.replace({ begin: i, end: i + 1 }, "");
      }
    }
  }
}

function insideAttribute(tokens: Tokens, range: Range, index: number): boolean {
  for (let i = range.begin; i < index; i += 1) if (tokens.isAttribute(i) && tokens.close(i) > index) return true;
  return false;
}

export type ThreadgroupVariable = {
  readonly name: string;
  readonly type: string;
  /** Array bounds as written, or "". */
  readonly suffix: string;
  readonly initialized: boolean;
  readonly statement: Range;
  readonly index: number;
  /** How many braces of the body enclose it. */
  readonly depth: number;
};

/** The variables (not pointers or references) that a body declares in threadgroup memory, in order. */
export function threadgroupVariables(tokens: Tokens, body: Range): ThreadgroupVariable[] {
  const found: ThreadgroupVariable[] = [];
  let depth = 0;
  for (let i = body.begin; i < body.end; i += 1) {
    if (tokens.is(i, "{")) depth += 1;
    if (tokens.is(i, "}")) depth -= 1;
    if (tokens.text(i) !== "threadgroup" || !tokens.isWord(i) || !startsStatement(tokens, body, i)) continue;
    const begin = statementBegin(tokens, body, i);
    const end = statementEnd(tokens, i, body.end);
    const inner = { begin: i + 1, end: end - 1 };
    let typeEnd = -1;
    for (const part of tokens.split(inner)) {
      let name = part.begin;
      let plain = true;
      for (; name < part.end && !/^[=[({]$/.test(tokens.text(name)); name += 1) {
        if (/^[*&]+$/.test(tokens.text(name))) plain = false;
        if (tokens.is(name, "<") && tokens.isWord(name - 1)) {
          const after = tokens.closeAngle(name, part.end);
          if (after > 0) name = after - 1;
        } else if (tokens.text(name) === "alignas" || tokens.text(name) === "decltype")
          name = tokens.close(name + 1) - 1;
      }
      if (!plain || tokens.is(name, "(")) break;
      const bound = name;
      let suffixEnd = bound;
      while (tokens.is(suffixEnd, "[") && !tokens.isAttribute(suffixEnd)) suffixEnd = tokens.close(suffixEnd);
      if (typeEnd < 0) typeEnd = bound - 1;
      found.push({
        name: tokens.text(bound - 1),
        type: tokens.slice({ begin: i + 1, end: typeEnd }),
        suffix: tokens.slice({ begin: bound, end: suffixEnd }),
        initialized: tokens.skipAttributes(suffixEnd) < part.end,
        statement: { begin, end },
        index: i,
        depth,
      });
    }
    i = end - 1;
  }
  return found;
}

const before = /^(static|const|volatile|constexpr|alignas)$/;

function startsStatement(tokens: Tokens, body: Range, index: number): boolean {
  const begin = statementBegin(tokens, body, index);
  return begin === body.begin || /^[;{}:)]$/.test(tokens.text(begin - 1)) || tokens.at(begin - 1).kind === "pragma";
}

function statementBegin(tokens: Tokens, body: Range, index: number): number {
  let i = index;
  while (i > body.begin && before.test(tokens.text(i - 1))) i -= 1;
  return i;
}

/** Functions that differ from an earlier one only in address spaces; without address spaces, C++ sees them as the same. */
export function addressSpaceTwins(
  unit: Unit,
): { twin: FunctionDeclaration; of: FunctionDeclaration; sameBody: boolean }[] {
  const { tokens } = unit;
  const spaces = /\b(device|constant|threadgroup|thread)\b/g;
  const erased = (range: Range): string =>
    tokens
      .slice(range)
      .replace(spaces, "")
      .replace(/\bconst\b/g, "")
      .replace(/\s+/g, "");
  const seen = new Map<string, FunctionDeclaration>();
  const twins: { twin: FunctionDeclaration; of: FunctionDeclaration; sameBody: boolean }[] = [];
  for (const d of allDeclarations(unit.declarations)) {
    if (d.kind !== "function" || d.body === null) continue;
    const spaced =
      d.parameters.some((p) => p.space !== null) ||
      /\b(device|constant|threadgroup|thread)\b/.test(tokens.slice(d.trailing));
    if (!spaced) continue;
    const types = d.parameters.map((p) => withoutSpaces(p.type)).join(",");
    const template = d.template === null ? "" : d.template.map((p) => p.type).join(",") + d.template.length;
    const constant = /\bconst(ant)?\b/.test(tokens.slice(d.trailing)) ? "const" : "";
    const key = `${d.scope.path.join("::")}::${d.name}<${template}>(${types})${constant}`;
    const first = seen.get(key);
    if (first === undefined) seen.set(key, d);
    else if (first.body !== null) twins.push({ twin: d, of: first, sameBody: erased(d.body) === erased(first.body) });
  }
  return twins;
}

/** A parameter's type as C++ sees it without address spaces: "constant" is "const", which comes first. */
function withoutSpaces(type: string): string {
  const plain = type.replace(/\bconstant\b/g, "const").replace(/\b(device|threadgroup|thread)\b/g, "");
  const star = plain.search(/[*&]/);
  const pointee = star < 0 ? plain : plain.slice(0, star);
  const rest = star < 0 ? "" : plain.slice(star);
  const constant = /\bconst\b/.test(pointee) ? "const " : "";
  return (constant + pointee.replace(/\bconst\b/g, "") + rest)
    .replace(/\s+/g, " ")
    .replace(/ ([*&])/g, "$1")
    .trim();
}
