/** The typed compile: clang's messages about sources whose pointers carry their address spaces, as they do in Apple's compiler. */
import { spawnSync } from "node:child_process";
import { mkdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder, folderText, hashOf, isKept, shimFolder } from "./compile.ts";
import { emitTyped } from "./emit/typed.ts";
import { displayPath, preprocessTogether } from "./frontend/preprocess.ts";
import { parseUnit, type Unit } from "./frontend/unit.ts";
import { clang } from "./toolchain.ts";

export type Problem = { readonly file: string; readonly line: number; readonly rule: string; readonly message: string };

export type CheckOptions = { readonly directory?: string; readonly defines?: readonly string[] };

/** All files as one unit, as the host compiles them on Apple's side. */
export function parseTogether(files: readonly string[], options: CheckOptions = {}): Unit {
  const directory = options.directory ?? process.cwd();
  return parseUnit(preprocessTogether(files, options), displayPath(files[0] ?? "(empty)", directory));
}

const flags = (
  "--no-default-config -x c++ -std=c++14 -nostdinc -nostdinc++ -fdeclspec -fsyntax-only -fno-exceptions " +
  "-fno-rtti -fsigned-char -ferror-limit=200 -fno-caret-diagnostics -fno-color-diagnostics " +
  "-fno-diagnostics-show-note-include-stack -fno-lax-vector-conversions -Wno-everything -Wconversion " +
  "-Wdouble-promotion -Wvla -Wreturn-type -Wshift-count-overflow -Wshadow-field-in-constructor " +
  "-Wuninitialized -Wc++17-attribute-extensions -Wno-c++17-extensions"
).split(" ");

/** The shim, compiled once: otherwise, most of a small check's time would go into reading it. */
function precompiledShim(): string {
  const file = join(cacheFolder, `typed-${hashOf([clang(), ...flags, folderText(shimFolder)])}.pch`);
  if (!isKept(file)) {
    mkdirSync(cacheFolder, { recursive: true });
    const partial = `${file}.${process.pid}.tmp`;
    const options = flags.filter((f, i) => f !== "-x" && flags[i - 1] !== "-x" && f !== "-fsyntax-only");
    const result = spawnSync(
      clang(),
      [...options, "-x", "c++-header", join(shimFolder, "emu_typed.h"), "-o", partial],
      { encoding: "utf8" },
    );
    if (result.status !== 0) throw new Error(result.stderr);
    renameSync(partial, file);
  }
  return file;
}

type Diagnostic = { file: string; line: number; severity: string; message: string; notes: string[] };

function parseDiagnostics(output: string): Diagnostic[] {
  const found: Diagnostic[] = [];
  for (const text of output.split("\n")) {
    const match = /^(.*?):(\d+):\d+: (fatal error|error|warning|note): (.*)$/.exec(text);
    if (match === null) continue;
    const [, file = "", line = "0", severity = "", message = ""] = match;
    if (severity === "note") found.at(-1)?.notes.push(`${file}:${line}: ${message}`);
    else found.push({ file, line: Number(line), severity, message, notes: [] });
  }
  return found;
}

/**
 * Metal makes the implicit members of a structure for every address space; here they are only for the default one. An error
 * about copying a structure from or to device, constant or threadgroup memory is therefore not the source's fault.
 */
function isStructureCopy(d: Diagnostic): boolean {
  // The shim's matrices and packed vectors are structures too.
  if (/no viable (overloaded operator\[\]|conversion)/.test(d.message) && /(matrix|packed_vec)</.test(d.message))
    return true;
  const implicit = d.notes.some((n) =>
    /candidate (constructor|function) \(the implicit (copy|move) (constructor|assignment operator)\)/.test(n),
  );
  if (!implicit || !/no (matching constructor|viable overloaded '=')/.test(d.message)) return false;
  return d.notes.some((n) => /address space|__attribute__\(\(address_space/.test(n));
}

/** bfloat converts implicitly to float and to nothing else, and nothing but an integer converts to it. */
function isBrainConversion(message: string): boolean {
  const types = /'([^']+)'(?: \(aka '[^']+'\))? to '([^']+)'/.exec(message);
  if (types === null) return false;
  const [from, to] = [types[1] ?? "", types[2] ?? ""];
  const brain = /bfloat|__bf16/;
  return brain.test(to)
    ? /float|half|_Float16|double/.test(from) && !brain.test(from)
    : brain.test(from) && !/^(const )?float/.test(to);
}

function readable(message: string): string {
  return message
    .replace(/__attribute__\(\(address_space\(1\)\)\)/g, "device")
    .replace(/(const )?__attribute__\(\(address_space\(2\)\)\)/g, "constant")
    .replace(/__attribute__\(\(address_space\(3\)\)\)/g, "threadgroup")
    .replace(/^call to deleted function '(.*)'$/, "an argument of $1 lies in other memory than the thread reference that it is for")
    .replace(/ \[-W[^\]]*\]$/, "");
}

function rule(d: Diagnostic): string | null {
  if (d.severity !== "warning") {
    if (isStructureCopy(d)) return null;
    if (/constant expression/.test(d.message)) return "constant-initializer";
    const text = `${d.message} ${d.notes.join(" ")}`;
    if (/^call to deleted function|static assertion failed.*address space/.test(d.message)) return "address-space";
    if (/address_space|address space|'[^']*\b(device|threadgroup|constant)\b[^']*'/.test(text)) return "address-space";
    return "type";
  }
  if (/variable length array/.test(d.message)) return "function-constant-bound";
  if (/non-void function does not return/.test(d.message)) return "missing-return";
  if (/'double'/.test(d.message)) return "double";
  if (/shift count/.test(d.message)) return "shift-count";
  if (/is uninitialized when used/.test(d.message)) return "uninitialized";
  return isBrainConversion(d.message) ? "bfloat-conversion" : null;
}

/** Problems of the typed compile, in order. */
export function checkTypes(unit: Unit): Problem[] {
  const source = `# 1 "${unit.file}"\n${emitTyped(unit)}`;
  const result = spawnSync(clang(), [...flags, "-include-pch", precompiledShim(), "-"], {
    encoding: "utf8",
    input: source,
    maxBuffer: 1 << 28,
  });
  if (result.error !== undefined) throw result.error;
  const problems: Problem[] = [];
  const seen = new Set<string>();
  for (const d of parseDiagnostics(result.stderr)) {
    const name = rule(d);
    const problem = { file: d.file, line: d.line, rule: name ?? "", message: readable(d.message) };
    // A template gives the same message for each of its instantiations.
    const key = JSON.stringify(problem);
    if (name === null || seen.has(key)) continue;
    seen.add(key);
    problems.push(problem);
  }
  if (
    problems.length === 0 &&
    result.status !== 0 &&
    parseDiagnostics(result.stderr).every((d) => d.severity === "warning")
  ) {
    throw new Error(result.stderr);
  }
  return problems;
}
