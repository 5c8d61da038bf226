/** Reflection of kernels from their sources alone; a built library adds sizes (emu_reflection in runtime/emulator.h). */
import { integerValue, type Kernel } from "./frontend/unit.ts";
import { threadgroupVariables } from "./emit/common.ts";
import { translateAll } from "./build.ts";

export function reflectUnits(files: readonly string[]): { kernels: unknown[] } {
  return {
    kernels: translateAll(files, {}).flatMap(({ unit }) =>
      unit.kernels.map((k) => ({
        ...describe(k),
        threadgroupVariables:
          k.function.body === null
            ? []
            : threadgroupVariables(unit.tokens, k.function.body).map((v) => ({
                name: v.name,
                type: v.type + v.suffix,
              })),
      })),
    ),
  };
}

function describe(k: Kernel): object {
  const of = <K extends "buffer" | "threadgroup" | "builtin">(
    kind: K,
  ): Extract<Kernel["parameters"][number], { kind: K }>[] =>
    k.parameters.filter((p): p is Extract<Kernel["parameters"][number], { kind: K }> => p.kind === kind);
  return {
    name: k.hostName,
    file: k.place.file,
    line: k.place.line,
    function: k.expression,
    buffers: of("buffer").map((p) => ({
      index: p.index,
      name: p.parameter.name,
      space: p.parameter.space,
      const: p.parameter.constant,
      reference: p.parameter.reference,
      type: p.parameter.type,
      optional: p.optional,
    })),
    threadgroups: of("threadgroup").map((p) => ({ index: p.index, name: p.parameter.name, type: p.parameter.type })),
    builtins: of("builtin").map((p) => ({ name: p.parameter.name, attribute: p.attribute, type: p.parameter.type })),
    constants: k.constants.map((c) => ({
      index: c.index,
      name: c.name,
      type: c.type,
      required: k.required.has(c.name),
    })),
    maxTotalThreads: k.maxTotalThreads === null ? 1024 : (integerValue(k.maxTotalThreads) ?? k.maxTotalThreads),
  };
}
