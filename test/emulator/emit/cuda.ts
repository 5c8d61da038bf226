/**
 * CUDA C++ for NVRTC, from the same front end. Function constants are macros that the runner sets when it compiles a kernel,
 * so a kernel is specialised as Metal specialises it; one entry point is compiled at a time (EMU_ENTRY says which).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { SourceError } from "../frontend/tokens.ts";
import { structsOf, type Kernel, type KernelParameter, type Unit } from "../frontend/unit.ts";
import { addressSpaceTwins, commonEdits, threadgroupVariables } from "./common.ts";
import { Edits } from "./edits.ts";

const folder = join(import.meta.dirname, "..", "cuda", "shim");
const shim = (): string =>
  ["numbers.h", "entry.h", "vectors.h", "functions.h", "lanes.h", "builtins.h"]
    .map((f) => readFileSync(join(folder, f), "utf8"))
    .join("\n");

export type CudaUnit = {
  readonly code: string;
  /** The runner's input: a line for each kernel, followed by one for each of its parameters and constants. */
  readonly manifest: string;
};

export function emitCuda(unit: Unit): CudaUnit {
  const edits = new Edits(unit.tokens);
  commonEdits(unit, edits, true);
  constantEdits(unit, edits);
  swizzleEdits(unit, edits);
  for (const d of unit.declarations) {
    if (d.kind !== "function" || d.body === null || d.stage !== "kernel") continue;
    for (const v of threadgroupVariables(unit.tokens, d.body))
      edits.replace({ begin: v.index, end: v.index + 1 }, "__shared__");
  }
  for (const { twin, of, sameBody } of addressSpaceTwins(unit)) {
    if (!sameBody)
      throw new SourceError(
        twin.place,
        `${twin.name} differs from the one at ${of.place.file}:${of.place.line} by address space alone but has another body`,
      );
    edits.replace(twin.range, "");
  }
  const code = [
    "namespace msl {",
    shim(),
    "#define device",
    "#define thread",
    "#define threadgroup",
    "#define constant const",
    "#define coherent(space)",
    edits.apply(),
    "#undef constant",
    "#undef thread",
    "#undef device",
    "#undef threadgroup",
    ...unit.kernels.map(entry),
    "}",
    "",
  ].join("\n");
  return { code, manifest: unit.kernels.map((k, n) => describe(unit, k, n)).join("") };
}

function constantEdits(unit: Unit, edits: Edits): void {
  const { tokens } = unit;
  for (const c of unit.constants) {
    edits.replace(
      c.declaration.range,
      `\n#ifdef EMU_FC_${c.name}\nconstexpr ${c.type} ${c.name} = EMU_FC_${c.name}; constexpr bool emu_defined_${c.name} = true;\n#else\n` +
        `constexpr ${c.type} ${c.name} = {}; constexpr bool emu_defined_${c.name} = false;\n#endif\n# ${c.declaration.place.line} "${c.declaration.place.file}"\n`,
    );
  }
  for (let i = 0; i + 3 < tokens.list.length; i += 1) {
    if (tokens.text(i) === "is_function_constant_defined" && tokens.is(i + 1, "("))
      edits.replace({ begin: i, end: i + 4 }, `emu_defined_${tokens.text(i + 2)}`);
  }
}

/** v.xyz is v.swizzle<0, 1, 2>() here; single letters are members. */
function swizzleEdits(unit: Unit, edits: Edits): void {
  const { tokens } = unit;
  const members = new Set(structsOf(unit.declarations).flatMap((s) => s.members.map((m) => m.name)));
  for (let i = 1; i < tokens.list.length; i += 1) {
    const text = tokens.text(i);
    if (!tokens.is(i - 1, ".") || members.has(text)) continue;
    const letters = /^[xyzw]{2,4}$/.test(text) ? "xyzw" : /^[rgba]{2,4}$/.test(text) ? "rgba" : null;
    if (letters === null) continue;
    if (/^([+\-*/&|^]?=)$/.test(tokens.text(i + 1)))
      throw new SourceError(tokens.at(i), `assignment to the swizzle .${text} is not translated to CUDA`);
    edits.replace(
      { begin: i, end: i + 1 },
      `template swizzle<${[...text].map((c) => letters.indexOf(c)).join(", ")}>()`,
    );
  }
}

/** The position among a kernel's constant references, which are passed by value as with Metal's setBytes; -1 for all else. */
function constantSlot(k: Kernel, p: KernelParameter): number {
  const references = k.parameters.filter((q) => q.kind === "buffer" && q.parameter.reference && q.parameter.space === "constant");
  return references.indexOf(p);
}

function argument(k: Kernel, p: KernelParameter): string {
  if (p.kind === "builtin") return `emu_${p.attribute}`;
  const slot = constantSlot(k, p);
  if (slot >= 0) return `emu_constant{arguments.constants[${slot}]}`;
  if (p.kind === "threadgroup") return `emu_pointer{emu_shared + arguments.threadgroups[${p.index}]}`;
  return `${p.parameter.reference ? "emu_reference" : "emu_pointer"}{arguments.buffers[${p.index}]}`;
}

function entry(k: Kernel, n: number): string {
  const limit = k.maxTotalThreads === null ? "" : ` __launch_bounds__(${k.maxTotalThreads})`;
  return [
    `#if EMU_ENTRY == ${n}`,
    `extern "C" __global__ void${limit} emu_entry_${n}(const __grid_constant__ emu_arguments arguments) {`,
    "  extern __shared__ __align__(16) char emu_shared[];",
    `  (void)emu_shared; ${k.expression}(${k.parameters.map((p) => argument(k, p)).join(", ")});`,
    "}",
    "#endif",
  ].join("\n");
}

function describe(unit: Unit, k: Kernel, n: number): string {
  void unit;
  const lines = [`kernel ${k.hostName} emu_entry_${n} ${n}`];
  for (const p of k.parameters) if (p.kind !== "builtin") {
    const slot = constantSlot(k, p);
    lines.push(slot >= 0 ? `value ${p.index} ${p.parameter.name} ${slot}` : `${p.kind} ${p.index} ${p.parameter.name}`);
  }
  for (const c of k.constants) lines.push(`constant ${c.name} ${c.type}`);
  return `${lines.join("\n")}\n`;
}
