/** The tables at the end of a run unit: how to call each kernel and what it is, in the runtime's structs (shim/entry.h). */
import type { Kernel, KernelParameter, Unit } from "../frontend/unit.ts";

const quote = (text: string): string => JSON.stringify(text);

export function entries(unit: Unit, kernels: readonly Kernel[], prefix: string): string {
  const lines: string[] = ["namespace {", `namespace emu_unit_${prefix} {`];
  kernels.forEach((k, n) => lines.push(...kernelEntry(unit, k, n)));
  lines.push(...constantTable(unit));
  lines.push(
    `const emu_unit_info emu_unit = {${quote(unit.file)}, emu_constants, ${unit.constants.length}, emu_derive_all};`,
  );
  lines.push("const emu_kernel_info emu_kernels[] = {");
  kernels.forEach((k, n) => lines.push(`  ${kernelRow(unit, k, n)},`));
  lines.push("  {}", "};");
  lines.push("__attribute__((constructor)) void emu_register() {");
  lines.push(`  emu_register_kernels(&emu_unit, emu_kernels, ${kernels.length});`, "}", "}", "}");
  lines.push(storage(unit, prefix));
  return lines.join("\n");
}

function kernelEntry(unit: Unit, kernel: Kernel, n: number): string[] {
  const call = kernel.parameters.map((p, i) => argument(p, `emu_at_${n}<${i}>`));
  const rows = kernel.parameters.map((p, i) => `  ${parameterRow(p, `emu_at_${n}<${i}>`)},`);
  const optional = kernel.parameters.flatMap((p) => (p.kind === "buffer" && p.optional !== null ? [p.optional] : []));
  const scope = kernel.function.scope.path.map((s) => `${s}::`).join("");
  const known = (name: string): string =>
    (unit.constants.some((c) => c.name === name) || unit.derived.some((c) => c.name === name) ? scope : "") + name;
  return [
    `template <unsigned I> using emu_at_${n} = emu::parameter_type<decltype(&${kernel.expression}), I>;`,
    ...optional.map((name) => `bool emu_has_${n}_${name}() { return ${known(name)}; }`),
    `__attribute__((no_sanitize("thread"), noinline)) void emu_entry_${n}(const emu_lane& lane) {`,
    `  (void)lane; ${kernel.expression}(${call.join(", ")});`,
    "}",
    `const emu_parameter_info emu_parameters_${n}[] = {`,
    ...rows.map((row) => row.replace(/HAS_(\w+)/g, `emu_has_${n}_$1`)),
    "  {}",
    "};",
    `const unsigned emu_uses_${n}[] = {${kernel.constants.map((c) => constantFlags(unit, kernel, c.name)).join(", ") || "0"}};`,
  ];
}

/** A constant's position in the unit's table, times two, plus one if it is required. */
function constantFlags(unit: Unit, kernel: Kernel, name: string): number {
  return unit.constants.findIndex((c) => c.name === name) * 2 + (kernel.required.has(name) ? 1 : 0);
}

function argument(p: KernelParameter, type: string): string {
  if (p.kind === "builtin") return `emu::builtin<${type}>(lane.${p.attribute})`;
  if (p.kind === "threadgroup") return `emu::argument<${type}>::from(lane.group->threadgroups[${p.index}])`;
  return `emu::argument<${type}>::from(lane.group->buffers[${p.index}])`;
}

function parameterRow(p: KernelParameter, type: string): string {
  const { parameter } = p;
  const name = quote(parameter.name);
  if (p.kind === "builtin") {
    return `{EMU_BUILTIN, 0, ${name}, ${quote(p.attribute)}, 0, 0, sizeof(${type}), alignof(${type}), emu::pretty_type<${type}>, nullptr, nullptr}`;
  }
  const target = `emu::target_type<${type}>`;
  const kind = p.kind === "threadgroup" ? "EMU_THREADGROUP" : "EMU_BUFFER";
  const optional = p.kind === "buffer" ? p.optional : null;
  return (
    `{${kind}, ${p.index}, ${name}, ${quote(parameter.space ?? "")}, emu::is_const<${target}>, ${parameter.reference ? 1 : 0}, ` +
    `emu::size_of<${target}>, emu::align_of<${target}>, emu::pretty_type<${target}>, ` +
    `${optional === null ? "nullptr, nullptr" : `${quote(optional)}, HAS_${optional}`}}`
  );
}

function kernelRow(unit: Unit, k: Kernel, n: number): string {
  void unit;
  return (
    `{${quote(k.hostName)}, ${quote(k.place.file)}, ${k.place.line}, emu_entry_${n}, reinterpret_cast<const void*>(&${k.expression}), ` +
    `emu_parameters_${n}, ${k.parameters.length}, emu_uses_${n}, ${k.constants.length}, ${k.maxTotalThreads ?? "0"}}`
  );
}

function constantTable(unit: Unit): string[] {
  const qualified = (name: string, path: readonly string[]): string => [...path, name].join("::");
  return [
    "const emu_constant_info emu_constants[] = {",
    ...unit.constants.map((c) => {
      const name = qualified(c.name, c.declaration.scope.path);
      const write = qualified(`emu_write_${c.name}`, c.declaration.scope.path);
      return `  {${quote(c.name)}, ${c.index}, sizeof(${c.type}), emu::pretty_type<decltype(${name})>, ${write}},`;
    }),
    "  {}",
    "};",
    "void emu_derive_all() {",
    ...unit.derived.map((c) => `  ${qualified(`emu_derive_${c.name}`, c.declaration.scope.path)}();`),
    "}",
  ];
}

/** One block of 48 bytes per constant: its value (under two names, one read-only to the compiler), then whether it is defined. */
function storage(unit: Unit, prefix: string): string {
  const lines = [...unit.constants, ...unit.derived].map(
    (c) =>
      `".balign 32\\nemu_fc_${prefix}_${c.name}:\\nemu_fw_${prefix}_${c.name}:\\n.zero 32\\nemu_fd_${prefix}_${c.name}:\\n.zero 16\\n"`,
  );
  if (lines.length === 0) return "";
  return `__asm__(".pushsection .data.emu_constants,\\"aw\\"\\n"\n  ${lines.join("\n  ")}\n  ".popsection\\n");`;
}
