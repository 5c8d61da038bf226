/**
 * Runs the toolchain's preprocessor over a .metal file, so that what follows sees no macros, conditions or includes. The
 * standard headers are empty here (their contents are the shim's); any other header in <> is an error, as on Apple's side.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { clang } from "../toolchain.ts";

/** What Apple's compiler predefines for MSL 3.2 on macOS. */
const predefined = ["-D__METAL__=1", "-D__METAL_VERSION__=320", "-D__METAL_MACOS__=1", "-D__HAVE_BFLOAT__=1"];

export class PreprocessError extends Error {
  override readonly name = "PreprocessError";
}

export type PreprocessOptions = { readonly defines?: readonly string[]; readonly directory?: string };

const headers = join(import.meta.dirname, "..", "shim", "headers");

function run(input: string, text: string | null, options: PreprocessOptions, extra: readonly string[]): string {
  const flags = ["-E", "-x", "c++", "-std=c++17", "-nostdinc", "-nostdinc++", "-isystem", headers, ...predefined];
  const result = spawnSync(
    clang(),
    [...flags, "-Wno-everything", ...(options.defines ?? []).map((d) => `-D${d}`), ...extra, input],
    {
      cwd: options.directory ?? process.cwd(),
      encoding: "utf8",
      maxBuffer: 1 << 28,
      ...(text === null ? {} : { input: text }),
    },
  );
  if (result.status !== 0) throw new PreprocessError((result.stderr || String(result.error)).trim());
  return result.stdout;
}

/** One file. Paths in messages are as `file` is given. */
export function preprocess(file: string, options: PreprocessOptions = {}): string {
  return run(file, null, options, []);
}

/** Several files as the one unit that the host's flattened source is. */
export function preprocessTogether(files: readonly string[], options: PreprocessOptions = {}): string {
  return run("-", files.map((f) => `#include "${f}"\n`).join(""), options, ["-I", options.directory ?? process.cwd()]);
}
