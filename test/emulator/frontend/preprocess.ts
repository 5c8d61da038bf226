/**
 * Runs the toolchain's preprocessor over a .metal file, so that later stages see no macros, conditions or includes. The
 * standard headers are empty here (their contents are the shim's); any other header in <> is an error, as on Apple's side.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { flatten } from "./flatten.ts";
import { clang } from "../toolchain.ts";

/** The predefined macros of Apple's compiler for MSL 3.2 on macOS. */
const predefined = ["-D__METAL__=1", "-D__METAL_VERSION__=320", "-D__METAL_MACOS__=1", "-D__HAVE_BFLOAT__=1"];

export class PreprocessError extends Error {
  override readonly name = "PreprocessError";
}

export type PreprocessOptions = { readonly defines?: readonly string[]; readonly directory?: string };

const headers = join(import.meta.dirname, "..", "shim", "headers");

function run(text: string, options: PreprocessOptions): string {
  const flags = ["-E", "-x", "c++", "-std=c++17", "-nostdinc", "-nostdinc++", "-isystem", headers, ...predefined];
  const result = spawnSync(
    clang(),
    [...flags, "-Wno-everything", ...(options.defines ?? []).map((d) => `-D${d}`), "-"],
    {
      cwd: options.directory ?? process.cwd(),
      encoding: "utf8",
      maxBuffer: 1 << 28,
      input: text,
    },
  );
  if (result.status !== 0) throw new PreprocessError((result.stderr || String(result.error)).trim());
  return result.stdout;
}

/** The files as one text, as the host passes it to Apple's compiler: each header once, with `#line`. Paths are as given. */
export function flattened(files: readonly string[], directory = process.cwd()): string {
  const seen = new Set<string>();
  const name = (path: string): string => displayPath(path, directory);
  return files.map((file) => flatten(existing(file, directory), name, seen)).join("");
}

/** A path as messages should show it: relative to `directory` if it is inside it. */
export function displayPath(file: string, directory: string): string {
  const path = relative(directory, resolve(directory, file));
  return path.startsWith("..") ? resolve(directory, file) : path;
}

function existing(file: string, directory: string): string {
  const path = resolve(directory, file);
  if (!existsSync(path)) throw new PreprocessError(`${file}: no such file`);
  return path;
}

/**
 * The files' parts of their flattened text, each with those of the headers that it includes: together, the parts are
 * exactly the text that the host's compiler gets, each with the macros that are defined at its place in that text.
 */
export function preprocessParts(files: readonly string[], options: PreprocessOptions = {}): string[] {
  const directory = options.directory ?? process.cwd();
  const pieces: { readonly file: string; text: string }[] = [];
  for (const line of run(flattened(files, directory), options).split("\n")) {
    const marker = /^(# \d+ "(.*?)")/.exec(line);
    if (marker !== null) pieces.push({ file: marker[2] ?? "", text: "" });
    const piece = pieces.at(-1);
    // A marker may mark the end of a header, which belongs to another part.
    if (piece !== undefined) piece.text += `${marker?.[1] ?? line}\n`;
  }
  return files.map((file) => {
    const included = new Set<string>();
    flatten(existing(file, directory), (path: string) => displayPath(path, directory), included);
    const names = new Set([...included].map((path) => displayPath(path, directory)));
    return pieces.filter((piece) => names.has(piece.file)).map((piece) => piece.text).join("");
  });
}

/** The host's flattened source as one unit. */
export function preprocessTogether(files: readonly string[], options: PreprocessOptions = {}): string {
  return run(flattened(files, options.directory), options);
}
