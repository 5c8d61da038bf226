// The files for C and the linker: assertions on the layouts, export lists, and the options under the kernels' own
// prefixes.
import { origin } from "./text.mjs";

/** Static assertions, so that the C compiler confirms sizes and offsets. */
export function assertions({ structs }) {
  const lines = [`/* ${origin} */`, "#include <stddef.h>", "", '#include "gated_delta.h"', ""];
  for (const [name, { size, align, fields }] of structs) {
    lines.push(`_Static_assert(sizeof(${name}) == ${size} && _Alignof(${name}) == ${align}, "${name}");`);
    for (const field of fields) {
      const path = `${name}, ${field.name}`;
      lines.push(`_Static_assert(offsetof(${path}) == ${field.offset}, "${name}.${field.name}");`);
    }
    lines.push("");
  }
  return lines.join("\n");
}

/** The functions of a published library: those for tests are only in a clone's build. */
export const isPublished = ({ name }) => !name.startsWith("gd_test_");

/** The linker's export list (GNU version script). */
export function versionScript(functions) {
  const names = functions.map(({ name }) => `    ${name};`);
  return [`/* ${origin} */`, "{", "  global:", ...names, "  local: *;", "};", ""].join("\n");
}

/** The same for Apple's linker. */
export function appleExports(functions) {
  return [`# ${origin}`, ...functions.map(({ name }) => `_${name}`), ""].join("\n");
}

/** The options as enums whose constants begin with `prefix` instead of GD_, and a list of the elementwise operations. */
function optionConstants({ options, operations }, prefix, guard, list) {
  const lines = [`/* ${origin} */`, `#ifndef ${guard}`, `#define ${guard}`, ""];
  for (const option of [...options, operations]) {
    if (option.of !== undefined) continue;
    lines.push("enum {");
    lines.push(option.values.map(({ constant, value }) => `  ${prefix}${constant.slice(3)} = ${value}`).join(",\n"));
    lines.push("};");
  }
  return [...lines, "", ...list, "", "#endif", ""].join("\n");
}

/** For the CPU kernels: `elementwise_add` and its like are functions of their own. */
export function cpuConstants(parsed) {
  const rows = parsed.operations.values.map(({ constant }) => `  OPERATION(GD_CPU_${constant.slice(3)}, elementwise_${constant.slice(15).toLowerCase()})`);
  return optionConstants(parsed, "GD_CPU_", "GATED_DELTA_CPU_OPTION_VALUES_H", [
    "/* OPERATION(value, function) for every elementwise operation. */",
    `#define GD_CPU_ELEMENTWISE(OPERATION) \\\n${rows.join(" \\\n")}`,
  ]);
}

/** For the shaders: `Add` and its like are types, whose kernels are `gd_add_f32` and so on. */
export function shaderConstants(parsed) {
  const rows = parsed.ops.filter(({ elementwise }) => elementwise).map(({ name, struct }) => `  INSTANTIATE("${struct}", ${name[0].toUpperCase()}${name.slice(1)})`);
  return optionConstants(parsed, "GDM_", "GATED_DELTA_SHADERS_OPTION_VALUES_H", [
    "/* INSTANTIATE(name, type) for every elementwise operation. */",
    `#define GDM_EACH_ELEMENTWISE(INSTANTIATE) \\\n${rows.join(" \\\n")}`,
  ]);
}
