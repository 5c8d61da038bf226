/** The parts of a translation unit that matter to a host: kernels, function constants, and which kernels use which. */
import { stringValue, Tokens, type Range } from "./cursor.ts";
import { parseDeclarations } from "./declarations.ts";
import type { Parameter } from "./parameters.ts";
import type {
  Declaration,
  FunctionDeclaration,
  Instantiation,
  StructDeclaration,
  VariableDeclaration,
} from "./syntax.ts";
import { SourceError, tokenize, type Place } from "./tokens.ts";

export type FunctionConstant = {
  readonly name: string;
  readonly type: string;
  readonly index: number;
  readonly declaration: VariableDeclaration;
};

/** A program-scope constant whose value depends on function constants: known when a pipeline is made. */
export type DerivedConstant = {
  readonly name: string;
  readonly type: string;
  readonly declaration: VariableDeclaration;
};

export type Kernel = {
  /** Its name for the host. */
  readonly hostName: string;
  /** Its name in C++: "ns::f<float, 4>". */
  readonly expression: string;
  readonly function: FunctionDeclaration;
  readonly place: Place;
  readonly parameters: readonly KernelParameter[];
  readonly constants: readonly FunctionConstant[];
  /** The names in `constants` that are never passed to is_function_constant_defined. */
  readonly required: ReadonlySet<string>;
  /** [[max_total_threads_per_threadgroup(n)]] as written, or null. */
  readonly maxTotalThreads: string | null;
};

export type KernelParameter =
  | { readonly kind: "buffer"; readonly parameter: Parameter; readonly index: number; readonly optional: string | null }
  | { readonly kind: "threadgroup"; readonly parameter: Parameter; readonly index: number }
  | { readonly kind: "builtin"; readonly parameter: Parameter; readonly attribute: string };

export type Unit = {
  readonly file: string;
  readonly source: string;
  readonly tokens: Tokens;
  readonly declarations: readonly Declaration[];
  readonly constants: readonly FunctionConstant[];
  readonly derived: readonly DerivedConstant[];
  readonly kernels: readonly Kernel[];
};

export const builtins: ReadonlySet<string> = new Set([
  "dispatch_quadgroups_per_threadgroup",
  "dispatch_simdgroups_per_threadgroup",
  "dispatch_threads_per_threadgroup",
  "grid_origin",
  "grid_size",
  "quadgroup_index_in_threadgroup",
  "quadgroups_per_threadgroup",
  "simdgroup_index_in_threadgroup",
  "simdgroups_per_threadgroup",
  "thread_execution_width",
  "thread_index_in_quadgroup",
  "thread_index_in_simdgroup",
  "thread_index_in_threadgroup",
  "thread_position_in_grid",
  "thread_position_in_threadgroup",
  "threadgroup_position_in_grid",
  "threadgroups_per_grid",
  "threads_per_grid",
  "threads_per_simdgroup",
  "threads_per_threadgroup",
]);

/** All declarations, including those inside classes. */
export function allDeclarations(list: readonly Declaration[]): Declaration[] {
  return list.flatMap((d) => (d.kind === "struct" ? [d, ...allDeclarations(d.members)] : [d]));
}

export function structsOf(list: readonly Declaration[]): StructDeclaration[] {
  return allDeclarations(list).filter((d) => d.kind === "struct");
}

/** The value of an integer constant expression of literals, or null. */
export function integerValue(text: string): number | null {
  const clean = text.replace(/\b(0[xX][\da-fA-F]+|\d+)[uUlL]*\b/g, "$1").trim();
  if (!/^[\d\sxXa-fA-F()+*/%<>&|~^-]+$/.test(clean) || clean === "") return null;
  try {
    const value: unknown = new Function(`"use strict"; return (${clean});`)();
    return typeof value === "number" && Number.isFinite(value) ? Math.trunc(value) : null;
  } catch {
    return null;
  }
}

export function parseUnit(source: string, file: string): Unit {
  const list = tokenize(source, file);
  const tokens = new Tokens(list, source);
  const declarations = parseDeclarations(tokens, { begin: 0, end: list.length }, { path: [], inClass: false });
  const constants: FunctionConstant[] = [];
  const derived: DerivedConstant[] = [];
  const special = new Set<string>();
  for (const d of declarations) {
    if (d.kind !== "variable" || d.template) continue;
    const attribute = d.attributes.find((a) => a.name === "function_constant");
    const type = tokens
      .slice(d.type)
      .replace(/\b(constant|static|const|constexpr|extern|inline)\b/g, "")
      .replace(/\s+/g, " ")
      .trim();
    if (attribute !== undefined) {
      const index = integerValue(attribute.argument);
      if (index === null)
        throw new SourceError(d.place, `function_constant(${attribute.argument}): not an integer constant`);
      constants.push({ name: d.name, type, index, declaration: d });
      special.add(d.name);
    } else if (d.initializer !== null && uses(tokens, d.initializer, special)) {
      derived.push({ name: d.name, type, declaration: d });
      special.add(d.name);
    }
  }
  const partial = { file, source, tokens, declarations, constants, derived };
  return { ...partial, kernels: findKernels(partial) };
}

function uses(tokens: Tokens, range: Range, names: ReadonlySet<string>): boolean {
  for (let i = range.begin; i < range.end; i += 1) if (tokens.isWord(i) && names.has(tokens.text(i))) return true;
  return false;
}

function findKernels(unit: Omit<Unit, "kernels">): Kernel[] {
  const functions = unit.declarations.filter((d) => d.kind === "function");
  const instantiations = unit.declarations.filter((d) => d.kind === "instantiation");
  const reach = reachability(unit);
  const kernels: Kernel[] = [];
  const make = (fn: FunctionDeclaration, hostName: string, expression: string, place: Place): void => {
    const used = reach(fn);
    const constants = unit.constants.filter((c) => used.names.has(c.name));
    const required = new Set(constants.filter((c) => used.required.has(c.name)).map((c) => c.name));
    const limit = fn.attributes.find((a) => a.name === "max_total_threads_per_threadgroup");
    kernels.push({
      hostName,
      expression,
      function: fn,
      place,
      constants,
      required,
      parameters: kernelParameters(fn),
      maxTotalThreads: limit?.argument ?? null,
    });
  };
  for (const fn of functions) {
    if (fn.stage !== "kernel" || fn.template !== null || fn.body === null) continue;
    const path = [...fn.scope.path, fn.name].join("::");
    const given = fn.attributes.find((a) => a.name === "host_name");
    make(fn, given === undefined ? path : stringValue(given.argument), path, fn.place);
  }
  for (const inst of instantiations) {
    const fn = lookup(functions, inst);
    if (fn === undefined) {
      if (inst.kernel)
        throw new SourceError(inst.place, `instantiates ${inst.name}, which is no function template seen before`);
      continue;
    }
    if (fn.stage !== "kernel" && !inst.kernel) continue;
    const expression = [...fn.scope.path, fn.name].join("::") + inst.arguments;
    make(fn, inst.hostName ?? expression, expression, inst.place);
  }
  return kernels;
}

/** The template to which an instantiation refers: the last one of that name before it (a later #if may declare another). */
function lookup(functions: readonly FunctionDeclaration[], inst: Instantiation): FunctionDeclaration | undefined {
  const short = inst.name.split("::").at(-1);
  const before = functions.filter(
    (f) => f.name === short && f.template !== null && f.body !== null && f.range.begin < inst.range.begin,
  );
  return before.findLast((f) => f.stage === "kernel") ?? before.at(-1);
}

function kernelParameters(fn: FunctionDeclaration): KernelParameter[] {
  const taken = { buffer: new Set<number>(), threadgroup: new Set<number>() };
  const explicit = (p: Parameter, kind: "buffer" | "threadgroup"): number | null => {
    const attribute = p.attributes.find((a) => a.name === kind);
    if (attribute === undefined) return null;
    const index = integerValue(attribute.argument);
    if (index === null)
      throw new SourceError(p.place, `[[${kind}(${attribute.argument})]]: only a literal index is supported`);
    return index;
  };
  for (const p of fn.parameters) {
    for (const kind of ["buffer", "threadgroup"] as const) {
      const index = explicit(p, kind);
      if (index !== null) taken[kind].add(index);
    }
  }
  return fn.parameters.map((p): KernelParameter => {
    const builtin = p.attributes.find((a) => builtins.has(a.name));
    if (builtin !== undefined) return { kind: "builtin", parameter: p, attribute: builtin.name };
    if (!p.pointer && !p.reference) {
      const what = p.attributes.map((a) => a.name).join(", ");
      throw new SourceError(
        p.place,
        `kernel ${fn.name}: parameter ${p.name || p.type} is neither a buffer nor a known attribute (${what || "it has none"})`,
      );
    }
    const kind = p.space === "threadgroup" ? "threadgroup" : "buffer";
    let index = explicit(p, kind);
    if (index === null) {
      index = 0;
      while (taken[kind].has(index)) index += 1;
      taken[kind].add(index);
    }
    if (kind === "threadgroup") return { kind, parameter: p, index };
    const optional = p.attributes.find((a) => a.name === "function_constant");
    return { kind, parameter: p, index, optional: optional?.argument ?? null };
  });
}

type Reach = { readonly names: ReadonlySet<string>; readonly required: ReadonlySet<string> };

/** The program-scope names that a function's code can reach, determined by name: every declaration that is mentioned counts. */
function reachability(unit: Omit<Unit, "kernels">): (fn: FunctionDeclaration) => Reach {
  const { tokens } = unit;
  const bodies = new Map<string, Range[]>();
  for (const d of unit.declarations) {
    if (d.kind !== "function" && d.kind !== "variable" && d.kind !== "struct" && d.kind !== "alias") continue;
    if (d.kind === "variable" && d.attributes.some((a) => a.name === "function_constant")) continue;
    bodies.set(d.name, [...(bodies.get(d.name) ?? []), d.range]);
  }
  const constants = new Set(unit.constants.map((c) => c.name));
  return (fn) => {
    const names = new Set<string>();
    const required = new Set<string>();
    const asked = new Set<string>();
    const seen = new Set<string>();
    const queue: Range[] = [fn.range];
    for (let range = queue.pop(); range !== undefined; range = queue.pop()) {
      for (let i = range.begin; i < range.end; i += 1) {
        if (!tokens.isWord(i)) continue;
        const word = tokens.text(i);
        if (constants.has(word)) {
          names.add(word);
          if (tokens.is(i - 1, "(") && tokens.text(i - 2) === "is_function_constant_defined") asked.add(word);
          else required.add(word);
        } else if (bodies.has(word) && !seen.has(word)) {
          seen.add(word);
          names.add(word);
          queue.push(...(bodies.get(word) ?? []));
        }
      }
    }
    for (const name of asked) required.delete(name);
    return { names, required };
  };
}
