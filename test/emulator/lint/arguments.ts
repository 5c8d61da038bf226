/** Rules about the types of kernels' arguments. */
import type { StructDeclaration } from "../frontend/syntax.ts";
import { structsOf, type Unit } from "../frontend/unit.ts";
import { functionsOf, type Rule } from "./rule.ts";

/** Structures to which a kernel's arguments point, including nested ones. */
function argumentStructures(unit: Unit): Map<StructDeclaration, string> {
  const structs = new Map(structsOf(unit.declarations).map((s) => [s.name, s]));
  const found = new Map<StructDeclaration, string>();
  const visit = (type: string, kernel: string): void => {
    for (const word of type.split(/\W+/)) {
      const s = structs.get(word);
      if (s === undefined || found.has(s)) continue;
      found.set(s, kernel);
      for (const m of s.members) if (m.kind === "variable") visit(unit.tokens.slice(m.type), kernel);
    }
  };
  for (const k of unit.kernels)
    for (const p of k.parameters) if (p.kind === "buffer") visit(p.parameter.type, k.function.name);
  // A typedef gives its structure the alias as a name.
  for (const d of unit.declarations) {
    if (d.kind !== "alias") continue;
    const text = unit.tokens.slice(d.range);
    const tag = /^typedef struct (\w+)/.exec(text)?.[1];
    const s = tag === undefined ? undefined : structs.get(tag);
    if (s !== undefined && !found.has(s))
      for (const k of unit.kernels)
        for (const p of k.parameters)
          if (p.kind === "buffer" && p.parameter.type.split(/\W+/).includes(d.name)) found.set(s, k.function.name);
  }
  return found;
}

const argumentTypes: Rule = {
  name: "argument-type",
  source: "MSL 5.2, 5.11",
  check(unit, report) {
    const bad = /\b(size_t|ptrdiff_t)\b/;
    for (const f of functionsOf(unit)) {
      if (f.stage !== "kernel") continue;
      for (const p of f.parameters)
        if (bad.test(p.type))
          report(
            p.place,
            `argument ${p.name} of kernel ${f.name} is ${p.type}; size_t and ptrdiff_t cannot be arguments`,
          );
    }
    for (const [s, kernel] of argumentStructures(unit)) {
      if (s.bases !== null) report(s.place, `${s.name}, an argument of kernel ${kernel}, is a derived class`);
      for (const m of s.members) {
        if (m.kind === "variable" && bad.test(unit.tokens.slice(m.type)))
          report(m.place, `${s.name}.${m.name}: size_t and ptrdiff_t cannot be in an argument of kernel ${kernel}`);
      }
    }
  },
};

const sharedLayout: Rule = {
  name: "shared-layout",
  source: "MSL 2.2: sizes that C and Swift do not share",
  check(unit, report) {
    for (const [s, kernel] of argumentStructures(unit)) {
      for (const m of s.members) {
        if (m.kind !== "variable") continue;
        const type = unit.tokens.slice(m.type);
        if (/^(const )?(metal::)?\w*[a-z]3$/.test(type) && !/^packed_/.test(type))
          report(
            m.place,
            `${s.name}.${m.name} is a ${type}, which has the size of four components: use packed_${type} or scalars in what kernel ${kernel} shares with the host`,
          );
        if (/\bbool\b/.test(type))
          report(m.place, `${s.name}.${m.name} is a bool in what kernel ${kernel} shares with the host: use uint`);
      }
    }
  },
};

export const argumentRules: readonly Rule[] = [argumentTypes, sharedLayout];
