/** Rules about address spaces that clang's types cannot express: here an unqualified pointer is a thread pointer. */
import { threadgroupVariables } from "../emit/common.ts";
import type { Range, Tokens } from "../frontend/cursor.ts";
import { allDeclarations, type Unit } from "../frontend/unit.ts";
import { definitionsOf, eachToken, functionsOf, spaceWords, typeNames, type Rule } from "./rule.ts";

function hasSpace(tokens: Tokens, range: Range): boolean {
  for (let i = range.begin; i < range.end; i += 1) if (spaceWords.has(tokens.text(i)) && tokens.isWord(i)) return true;
  return false;
}

function hasPointer(tokens: Tokens, range: Range): boolean {
  let found = false;
  let skip = -1;
  eachToken(tokens, range, (i) => {
    if (i < skip) return;
    if (/^(decltype|alignas|sizeof)$/.test(tokens.text(i)) && tokens.is(i + 1, "(")) skip = tokens.close(i + 1);
    if (tokens.is(i, "*") || tokens.is(i, "&") || tokens.is(i, "&&")) found = true;
  });
  return found;
}

/** Pointer and reference types inside a function's body: declarations, and casts of each kind. */
function inBody(
  unit: Unit,
  body: Range,
  names: ReadonlySet<string>,
  visit: (begin: number, end: number, what: string) => void,
): void {
  const { tokens } = unit;
  const typeEnd = (begin: number): number => {
    // The index after qualifiers, a type's name and its template arguments; -1 if no type starts at `begin`.
    let i = begin;
    let named = false;
    for (;;) {
      const text = tokens.text(i);
      if (/^(const|volatile|constexpr|static|typename|struct)$/.test(text) || spaceWords.has(text)) i += 1;
      else if (!named && names.has(text)) {
        named = true;
        i += 1;
        while (
          /^(int|long|char|short)$/.test(tokens.text(i)) &&
          /^(unsigned|signed|long|short)$/.test(tokens.text(i - 1))
        )
          i += 1;
        if (tokens.is(i, "<")) {
          const after = tokens.closeAngle(i);
          if (after > 0) i = after;
        }
        while (tokens.is(i, "::") && tokens.isWord(i + 1)) i += 2;
      } else if (!named && /^(metal|emu)$/.test(text) && tokens.is(i + 1, "::")) i += 2;
      else break;
    }
    return named ? i : -1;
  };
  eachToken(tokens, body, (i) => {
    const previous = tokens.text(i - 1);
    const statement =
      /^[;{}:]$/.test(previous) ||
      (previous === "(" && /^(for|if|while)$/.test(tokens.text(i - 2))) ||
      i === body.begin;
    if (statement) {
      const end = typeEnd(i);
      if (end > 0 && /^(\*|&|&&)$/.test(tokens.text(end))) {
        let name = end;
        while (/^(\*|&|&&|const|thread|device|constant|threadgroup)$/.test(tokens.text(name))) name += 1;
        if (tokens.isWord(name) && /^[=;,([{:]$/.test(tokens.text(name + 1)))
          visit(i, name, `${tokens.text(name)} is declared`);
      }
    }
    if (/^(static|reinterpret|const)_cast$/.test(tokens.text(i)) && tokens.is(i + 1, "<")) {
      const after = tokens.closeAngle(i + 1);
      if (after > 0 && hasPointer(tokens, { begin: i + 2, end: after - 1 }))
        visit(i + 2, after - 1, `${tokens.text(i)} to`);
    }
    if (tokens.is(i, "(") && !(tokens.isWord(i - 1) && !/^(return|case|else|do|sizeof)$/.test(previous))) {
      const end = typeEnd(i + 1);
      if (end > 0 && tokens.is(end, "*")) {
        let close = end;
        while (/^(\*|const|thread|device|constant|threadgroup)$/.test(tokens.text(close))) close += 1;
        if (tokens.is(close, ")")) visit(i + 1, close, "a cast to");
      }
    }
  });
}

const missing: Rule = {
  name: "address-space-missing",
  source: "MSL 4",
  check(unit, report) {
    const { tokens } = unit;
    const names = typeNames(unit);
    const unqualified = (range: Range): boolean => hasPointer(tokens, range) && !hasSpace(tokens, range);
    for (const f of functionsOf(unit)) {
      for (const p of f.parameters) {
        const functionPointer = /\(\s*\*/.test(p.type);
        if ((p.pointer || p.reference) && p.space === null && !functionPointer) {
          report(
            p.place,
            `parameter ${p.name || p.type} of ${f.name} is a ${p.pointer ? "pointer" : "reference"} without an address space`,
          );
        }
      }
      if (unqualified(f.specifiers) && !/^operator/.test(f.name))
        report(f.place, `${f.name} returns a pointer or reference without an address space`);
    }
    for (const d of allDeclarations(unit.declarations)) {
      if (d.kind === "variable" && unqualified(d.type))
        report(d.place, `${d.name} is a pointer or reference without an address space`);
      if (d.kind === "alias" && unqualified(d.range) && !/\(\s*\*|\{/.test(tokens.slice(d.range))) {
        report(d.place, `${d.name} names a pointer or reference type without an address space`);
      }
    }
    for (const f of definitionsOf(unit)) {
      inBody(unit, f.body, names, (begin, end, what) => {
        if (!hasSpace(tokens, { begin, end }))
          report(
            tokens.at(begin),
            `${what} a pointer or reference without an address space: ${tokens.slice({ begin, end })}`,
          );
      });
    }
  },
};

const castSpace: Rule = {
  name: "address-space-cast",
  source: "MSL 4",
  check(unit, report) {
    const { tokens } = unit;
    const names = typeNames(unit);
    for (const f of definitionsOf(unit)) {
      // The address space of each pointer that the function names: parameters and declared locals.
      const homes = new Map<string, string>();
      for (const p of f.parameters) if (p.space !== null && p.pointer) homes.set(p.name, p.space);
      inBody(unit, f.body, names, (begin, end) => {
        const space = [...spaceWords].find((s) => tokens.slice({ begin, end }).split(/\W+/).includes(s));
        if (tokens.isWord(end) && space !== undefined) homes.set(tokens.text(end), space);
      });
      inBody(unit, f.body, names, (begin, end, what) => {
        if (what !== "a cast to" && !/_cast to$/.test(what)) return;
        const space = [...spaceWords].find((s) => tokens.slice({ begin, end }).split(/\W+/).includes(s));
        let operand = end + 1;
        while (tokens.is(operand, "(") || tokens.is(operand, "&")) operand += 1;
        const home = homes.get(tokens.text(operand));
        if (
          space !== undefined &&
          home !== undefined &&
          home !== space &&
          /^[)+;,[\]-]$/.test(tokens.text(operand + 1))
        ) {
          report(tokens.at(begin), `${tokens.text(operand)} points to ${home} memory and is cast to ${space}`);
        }
      });
    }
  },
};

const threadgroupPlace: Rule = {
  name: "threadgroup-variable",
  source: "MSL 4.4",
  check(unit, report) {
    const { tokens } = unit;
    for (const f of definitionsOf(unit)) {
      for (const v of threadgroupVariables(tokens, f.body)) {
        const place = tokens.at(v.index);
        if (f.stage !== "kernel") report(place, `threadgroup variable ${v.name} in ${f.name}, which is no kernel`);
        else if (v.depth > 0)
          report(place, `threadgroup variable ${v.name} in a block; it must be in the kernel's outermost scope`);
        if (v.initialized) report(place, `threadgroup variable ${v.name} has an initialiser`);
      }
    }
  },
};

const programScope: Rule = {
  name: "program-scope-variable",
  source: "MSL 4.2",
  check(unit, report) {
    for (const d of unit.declarations) {
      if (d.kind !== "variable") continue;
      const type = unit.tokens.slice(d.type);
      const constant = /\bconstant\b/.test(type);
      if (!constant) report(d.place, `${d.name} is a variable at program scope and not constant`);
      else if (
        d.initializer === null &&
        !d.attributes.some((a) => a.name === "function_constant") &&
        !/\bextern\b/.test(type)
      ) {
        report(d.place, `constant ${d.name} has no initialiser`);
      }
    }
  },
};

const staticLocal: Rule = {
  name: "static-local",
  source: "MSL 5.3",
  check(unit, report) {
    for (const f of definitionsOf(unit)) {
      eachToken(unit.tokens, f.body, (i) => {
        if (unit.tokens.text(i) === "static" && unit.tokens.isWord(i))
          report(unit.tokens.at(i), `a static variable in ${f.name}`);
      });
    }
  },
};

export const spaceRules: readonly Rule[] = [missing, castSpace, threadgroupPlace, programScope, staticLocal];
