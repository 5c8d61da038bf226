/** Rules about kernels' signatures: names, arguments, attributes. */
import type { Parameter } from "../frontend/parameters.ts";
import { builtins, integerValue } from "../frontend/unit.ts";
import { definitionsOf, eachToken, functionsOf, type Report, type Rule } from "./rule.ts";

const naming: Rule = {
  name: "kernel-name",
  source: "MSL 5.1",
  check(unit, report) {
    const { tokens } = unit;
    const seen = new Map<string, string>();
    for (const k of unit.kernels) {
      const first = seen.get(k.hostName);
      if (first !== undefined) report(k.place, `kernel ${k.hostName} is declared at ${first} too`);
      else seen.set(k.hostName, `${k.place.file}:${k.place.line}`);
    }
    for (const d of unit.declarations) {
      if (d.kind === "instantiation" && d.kernel && d.hostName === null)
        report(d.place, `${d.name}${d.arguments} has no [[host_name("...")]]: all instantiations would share one name`);
    }
    const kernels = functionsOf(unit).filter((f) => f.stage === "kernel" && f.body !== null);
    const names = new Map<string, number>();
    for (const f of kernels) {
      const key = [...f.scope.path, f.name].join("::");
      names.set(key, (names.get(key) ?? 0) + 1);
      if ((names.get(key) ?? 0) > 1) report(f.place, `kernel ${key} is overloaded`);
      if (f.name === "main") report(f.place, "a kernel cannot be called main");
      const type = tokens
        .slice(f.specifiers)
        .replace(/\[\[.*?\]\]|\b(kernel|inline|static|METAL_FUNC)\b/g, "")
        .trim();
      if (type !== "void") report(f.place, `kernel ${f.name} returns ${type}, not void`);
      if (f.template !== null && !unit.kernels.some((k) => k.function === f))
        report(f.place, `kernel template ${f.name} is never instantiated`);
    }
    const kernelNames = new Set(kernels.map((f) => f.name));
    for (const f of definitionsOf(unit)) {
      eachToken(tokens, f.body, (i) => {
        if (!kernelNames.has(tokens.text(i)) || !tokens.isWord(i)) return;
        if (/^(\.|->)$/.test(tokens.text(i - 1))) return;
        const after = tokens.is(i + 1, "<") ? tokens.closeAngle(i + 1) : i + 1;
        if (after > 0 && tokens.is(after, "(")) report(tokens.at(i), `${f.name} calls kernel ${tokens.text(i)}`);
      });
    }
  },
};

const indices: Rule = {
  name: "argument-index",
  source: "MSL 5.2.1",
  check(unit, report) {
    for (const f of functionsOf(unit)) {
      if (f.stage !== "kernel" || f.body === null) continue;
      const taken = new Map<string, string>();
      for (const p of f.parameters) {
        if (!p.pointer && !p.reference) continue;
        const kind = p.space === "threadgroup" ? "threadgroup" : "buffer";
        const attribute = p.attributes.find((a) => a.name === kind);
        if (attribute === undefined) {
          report(p.place, `argument ${p.name} of kernel ${f.name} has no [[${kind}(n)]]: the compiler would choose`);
          continue;
        }
        const index = integerValue(attribute.argument);
        if (index === null || index < 0 || index > 30) {
          report(p.place, `argument ${p.name} of kernel ${f.name}: ${kind} index ${attribute.argument} is not 0 to 30`);
          continue;
        }
        const key = `${kind} ${index}`;
        const optional = p.attributes.some((a) => a.name === "function_constant");
        if (taken.has(key) && !optional)
          report(
            p.place,
            `arguments ${taken.get(key) ?? ""} and ${p.name} of kernel ${f.name} have the same ${kind} index ${index}`,
          );
        taken.set(key, p.name);
      }
    }
  },
};

const vector = /^(ushort|uint)([23])?$/;
const positions = [
  "thread_position_in_grid",
  "threads_per_grid",
  "thread_position_in_threadgroup",
  "threads_per_threadgroup",
  "threadgroup_position_in_grid",
  "dispatch_threads_per_threadgroup",
  "threadgroups_per_grid",
];
const lanes = [
  "thread_index_in_simdgroup",
  "threads_per_simdgroup",
  "thread_execution_width",
  "simdgroup_index_in_threadgroup",
  "simdgroups_per_threadgroup",
  "dispatch_simdgroups_per_threadgroup",
  "quadgroup_index_in_threadgroup",
  "quadgroups_per_threadgroup",
  "dispatch_quadgroups_per_threadgroup",
  "thread_index_in_quadgroup",
];

/** The declared type of a builtin argument, such as "uint3"; the namespace and const do not matter. */
function builtinType(p: Parameter): string {
  return p.type
    .replace(/\b(const|metal::)\s*/g, "")
    .replace(/^unsigned int$|^uint32_t$/, "uint")
    .replace(/^unsigned short$|^uint16_t$/, "ushort")
    .trim();
}

const builtinTypes: Rule = {
  name: "builtin-type",
  source: "MSL 5.2.3.6",
  check(unit, report) {
    for (const f of functionsOf(unit)) {
      if (f.stage !== "kernel" || f.body === null) continue;
      const types = new Map<string, { type: string; p: Parameter }>();
      for (const p of f.parameters) {
        const attribute = p.attributes.find((a) => builtins.has(a.name));
        if (attribute === undefined) {
          if (!p.pointer && !p.reference)
            report(p.place, `argument ${p.name} of kernel ${f.name} is neither a pointer, a reference nor a built-in`);
          continue;
        }
        const type = builtinType(p);
        types.set(attribute.name, { type, p });
        const scalarOnly = lanes.includes(attribute.name) || attribute.name === "thread_index_in_threadgroup";
        if (!vector.test(type))
          report(
            p.place,
            `${attribute.name} is declared ${type}; ushort and uint${scalarOnly ? "" : ", and their vectors of 2 and 3,"} are possible`,
          );
        else if (scalarOnly && /\d$/.test(type))
          report(p.place, `${attribute.name} is declared ${type}; it is a scalar`);
      }
      agree(
        types,
        positions,
        (t) => (/\d$/.test(t) ? `${t.slice(-1)} components` : "scalar"),
        "have the same number of components",
        report,
        true,
      );
      agree(types, ["thread_position_in_grid", "threads_per_grid"], (t) => t, "have the same type", report);
      agree(
        types,
        ["thread_position_in_threadgroup", "threads_per_threadgroup", "dispatch_threads_per_threadgroup"],
        (t) => t,
        "have the same type",
        report,
      );
      agree(types, lanes, (t) => t, "have the same type", report);
      const local = types.get("thread_position_in_threadgroup")?.type ?? "";
      const index = types.get("thread_index_in_threadgroup");
      if (local.startsWith("uint") && index !== undefined && index.type !== "uint") {
        report(
          index.p.place,
          `thread_index_in_threadgroup is ${index.type}; with a ${local} thread_position_in_threadgroup it must be uint`,
        );
      }
    }
  },
};

function agree(
  types: ReadonlyMap<string, { type: string; p: Parameter }>,
  names: readonly string[],
  key: (type: string) => string,
  must: string,
  report: Report,
  vectorsOnly = false,
): void {
  let first: { name: string; type: string } | null = null;
  for (const name of names) {
    const found = types.get(name);
    if (found === undefined || (vectorsOnly && !/\d$/.test(found.type))) continue;
    if (first === null) first = { name, type: found.type };
    else if (key(first.type) !== key(found.type))
      report(found.p.place, `${name} is ${found.type} and ${first.name} is ${first.type}; they must ${must}`);
  }
}

const maxThreads: Rule = {
  name: "max-threads",
  source: "MSL 5.1.3",
  check(unit, report) {
    for (const f of functionsOf(unit)) {
      for (const a of f.attributes) {
        if (a.name !== "max_total_threads_per_threadgroup") continue;
        const value = integerValue(a.argument);
        if (value !== null && (value < 1 || value > 1024))
          report(f.place, `max_total_threads_per_threadgroup(${value}): 1 to 1024 are possible`);
      }
    }
  },
};

const functionConstants: Rule = {
  name: "function-constant",
  source: "MSL 5.8",
  check(unit, report) {
    const byIndex = new Map<number, string>();
    for (const c of unit.constants) {
      const { place, initializer, suffix } = c.declaration;
      if (initializer !== null) report(place, `function constant ${c.name} has an initialiser`);
      if (suffix.end > suffix.begin) report(place, `function constant ${c.name} is an array`);
      if (
        !/^(metal::)?(bool|char|uchar|short|ushort|int|uint|half|float|bfloat|(u?int(8|16|32)_t))([234])?$/.test(c.type)
      )
        report(place, `function constant ${c.name} is a ${c.type}; scalars and vectors are possible`);
      if (c.index < 0 || c.index > 65535)
        report(place, `function constant ${c.name}: index ${c.index} is not 0 to 65535`);
      const first = byIndex.get(c.index);
      if (first !== undefined)
        report(place, `function constants ${first} and ${c.name} have the same index ${c.index}`);
      else byIndex.set(c.index, c.name);
    }
  },
};

export const kernelRules: readonly Rule[] = [naming, indices, builtinTypes, maxThreads, functionConstants];
