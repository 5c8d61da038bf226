/** The interface of a lint rule, and walks over functions that several rules share. */
import type { Range, Tokens } from "../frontend/cursor.ts";
import type { FunctionDeclaration } from "../frontend/syntax.ts";
import type { Place } from "../frontend/tokens.ts";
import { allDeclarations, type Unit } from "../frontend/unit.ts";

export type LintOptions = {
  /** How the host compiles: MTLCompileOptions.mathMode. */
  readonly mathMode: "safe" | "relaxed" | "fast";
  /** The oldest GPU family: 7 is M1, 8 M2, 9 M3. */
  readonly appleFamily: number;
};

export type Report = (place: Place, message: string) => void;

export type Rule = {
  readonly name: string;
  /** Where the rule comes from: a section of the Metal Shading Language Specification, or this project's design. */
  readonly source: string;
  readonly check: (unit: Unit, report: Report, options: LintOptions) => void;
};

export function functionsOf(unit: Unit): FunctionDeclaration[] {
  return allDeclarations(unit.declarations).filter((d) => d.kind === "function");
}

/** Functions with bodies. */
export function definitionsOf(unit: Unit): (FunctionDeclaration & { readonly body: Range })[] {
  return functionsOf(unit).filter((d): d is FunctionDeclaration & { readonly body: Range } => d.body !== null);
}

/** Calls visit(i) for every token of a range except those inside attributes. */
export function eachToken(tokens: Tokens, range: Range, visit: (index: number) => void): void {
  for (let i = range.begin; i < range.end; i += 1) {
    if (tokens.isAttribute(i)) {
      i = tokens.close(i) - 1;
      continue;
    }
    visit(i);
  }
}

export const spaceWords: ReadonlySet<string> = new Set([
  "device",
  "constant",
  "threadgroup",
  "thread",
  "threadgroup_imageblock",
  "ray_data",
  "object_data",
]);

const typeWords = new Set([
  "void",
  "bool",
  "char",
  "uchar",
  "short",
  "ushort",
  "int",
  "uint",
  "long",
  "ulong",
  "half",
  "bfloat",
  "float",
  "size_t",
  "ptrdiff_t",
  "unsigned",
  "signed",
  "auto",
  "int8_t",
  "uint8_t",
  "int16_t",
  "uint16_t",
  "int32_t",
  "uint32_t",
  "int64_t",
  "uint64_t",
]);

/** Names of types that the unit declares or Metal provides: enough to tell a declaration from an expression. */
export function typeNames(unit: Unit): Set<string> {
  const names = new Set(typeWords);
  const { tokens } = unit;
  for (const d of allDeclarations(unit.declarations))
    if (d.kind === "struct" || d.kind === "alias" || d.kind === "enum") names.add(d.name);
  for (let i = 0; i + 1 < tokens.list.length; i += 1) {
    const text = tokens.text(i);
    if (/^(packed_)?(bool|char|uchar|short|ushort|int|uint|long|ulong|half|bfloat|float)[234](x[234])?$/.test(text))
      names.add(text);
    if ((text === "typename" || text === "class") && /^[,<]$/.test(tokens.text(i - 1))) names.add(tokens.text(i + 1));
    if (/^(atomic_\w+|simdgroup_\w+8x8|simdgroup_matrix|vec|array)$/.test(text) && !/_explicit$/.test(text))
      names.add(text);
  }
  return names;
}
