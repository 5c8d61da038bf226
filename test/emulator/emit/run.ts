/**
 * The C++ that runs: address spaces are gone, function constants are storage that a pipeline fills before a dispatch,
 * threadgroup variables live in the group's arena, and a table at the end describes the kernels to the runtime.
 */
import { SourceError } from "../frontend/tokens.ts";
import type { Kernel, Unit } from "../frontend/unit.ts";
import { addressSpaceTwins, commonEdits, threadgroupVariables } from "./common.ts";
import { Edits } from "./edits.ts";
import { entries } from "./entries.ts";

export type RunOptions = {
  /** Distinguishes this unit's symbols from those of the library's other units. */
  readonly prefix: string;
  /** Kernels by host name; all if absent. */
  readonly only?: ReadonlySet<string>;
};

export function emitRun(unit: Unit, options: RunOptions): string {
  const edits = new Edits(unit.tokens);
  commonEdits(unit, edits);
  constantEdits(unit, edits, options.prefix);
  threadgroupEdits(unit, edits);
  for (const { twin, of, sameBody } of addressSpaceTwins(unit)) {
    if (!sameBody) {
      throw new SourceError(
        twin.place,
        `${twin.name} differs from the one at ${of.place.file}:${of.place.line} by address space alone but has another body: the emulator cannot tell their calls apart`,
      );
    }
    edits.replace(twin.range, "");
  }
  const kernels = unit.kernels.filter((k) => options.only === undefined || options.only.has(k.hostName));
  return [
    "#define device",
    "#define thread",
    "#define threadgroup",
    "#define constant const",
    "#define coherent(space)",
    "#pragma clang attribute push(__attribute__((internal_linkage)), apply_to = function)",
    edits.apply(),
    "",
    "#pragma clang attribute pop",
    "#undef constant",
    "#undef thread",
    entries(unit, kernels, options.prefix),
  ].join("\n");
}

/** Function constants become constants defined elsewhere, so that the compiler may keep them in registers but not fold them. */
function constantEdits(unit: Unit, edits: Edits, prefix: string): void {
  const { tokens } = unit;
  const place = (kind: string, name: string): string =>
    `__asm__("emu_${kind}_${prefix}_${name}") __attribute__((visibility("hidden")))`;
  // One statement may declare several constants: all of it is replaced at once.
  const statements = new Map<number, { range: { begin: number; end: number }; text: string }>();
  const add = (range: { begin: number; end: number }, text: string): void => {
    statements.set(range.begin, { range, text: `${statements.get(range.begin)?.text ?? ""}${text} ` });
  };
  for (const c of unit.constants) {
    add(
      c.declaration.range,
      `extern const ${c.type} ${c.name} ${place("fc", c.name)}; extern const bool emu_defined_${c.name} ${place("fd", c.name)}; ` +
        `extern unsigned char emu_write_${c.name}[] ${place("fw", c.name)};`,
    );
  }
  for (const c of unit.derived) {
    const value = c.declaration.initializer === null ? "{}" : initializerText(unit, c.declaration.initializer);
    add(
      c.declaration.range,
      `extern const ${c.type} ${c.name} ${place("fc", c.name)}; extern unsigned char emu_write_${c.name}[] ${place("fw", c.name)}; ` +
        `__attribute__((no_sanitize("thread"))) static void emu_derive_${c.name}() { ` +
        `const ${c.type} value = ${value}; __builtin_memcpy(emu_write_${c.name}, &value, sizeof value); }`,
    );
  }
  const special = new Set([...unit.constants, ...unit.derived].map((c) => c.declaration));
  for (const d of unit.declarations) {
    if (d.kind !== "variable" || special.has(d) || !statements.has(d.range.begin)) continue;
    const value = d.initializer === null ? "" : ` = ${initializerText(unit, d.initializer)}`;
    add(d.range, `${tokens.slice(d.type)} ${d.name}${tokens.slice(d.suffix)}${value};`);
  }
  for (const { range, text } of statements.values()) edits.replace(range, text);
  for (let i = 0; i + 3 < tokens.list.length; i += 1) {
    if (tokens.text(i) === "is_function_constant_defined" && tokens.is(i + 1, "(")) {
      edits.replace({ begin: i, end: i + 4 }, `emu_defined_${tokens.text(i + 2)}`);
    }
  }
}

function initializerText(unit: Unit, range: { begin: number; end: number }): string {
  return unit.tokens.slice(range).replace(/\bis_function_constant_defined\s*\(\s*(\w+)\s*\)/g, "emu_defined_$1");
}

/** threadgroup T x[n];  becomes a reference into the group's arena, at an offset the compiler works out. */
function threadgroupEdits(unit: Unit, edits: Edits): void {
  for (const d of unit.declarations) {
    if (d.kind !== "function" || d.body === null || d.stage !== "kernel") continue;
    const template = d.template === null ? "" : `<${d.template.map((p) => p.name + (p.pack ? "..." : "")).join(", ")}>`;
    const self = `&${[...d.scope.path, d.name].join("::")}${template}`;
    const statements = new Map<number, string>();
    let previous = "emu::arena_start";
    threadgroupVariables(unit.tokens, d.body).forEach((v, n) => {
      const text =
        `using emu_type_${n} = ${v.type}${v.suffix}; using emu_slot_${n} = emu::arena_slot<${previous}, emu_type_${n}>; ` +
        `struct emu_name_${n} { static constexpr const char* text() { return "${v.name}"; } }; ` +
        `emu_type_${n}& ${v.name} = emu::threadgroup_at<${self}, ${n}, emu_slot_${n}, emu_name_${n}, emu_type_${n}>();`;
      previous = `emu_slot_${n}`;
      statements.set(v.statement.begin, `${statements.get(v.statement.begin) ?? ""}${text} `);
      edits.replace(v.statement, "");
    });
    for (const [begin, text] of statements) edits.insertBefore(begin, text);
  }
}

/** Kernels that declare threadgroup variables or take threadgroup arguments. */
export function usesThreadgroupMemory(unit: Unit, kernel: Kernel): boolean {
  if (kernel.parameters.some((p) => p.kind === "threadgroup")) return true;
  const { body } = kernel.function;
  return body !== null && threadgroupVariables(unit.tokens, body).length > 0;
}
