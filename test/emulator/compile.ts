/** Running the compiler: options of each kind of build, and object files kept by the hash of their inputs. */
import { createHash } from "node:crypto";
import { spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { clang } from "./toolchain.ts";

export type Sanitizer = "none" | "address" | "undefined";

const here = import.meta.dirname;
/** The folder in which objects, precompiled headers and runners are kept between runs. */
export const cacheFolder = join(here, "..", "..", ".build", "emulator", "cache");
export const shimFolder = join(here, "shim");
export const runtimeFolder = join(here, "runtime");

const processor = process.arch === "arm64" ? ["-march=armv8.2-a+fp16"] : ["-march=x86-64-v3"];

/** No contraction, and one rounding for every half and bfloat operation, as in a GPU's own units. */
const arithmetic = (
  "-ffp-contract=off -fno-math-errno -fsigned-char -Xclang -ffloat16-excess-precision=none -Xclang " +
  "-fbfloat16-excess-precision=none"
).split(" ");

const language = (
  "-x c++ -std=c++17 -nostdinc -nostdinc++ -fdeclspec -fno-exceptions -fno-rtti -fno-threadsafe-statics " +
  "-fPIC -fvisibility=hidden -fno-strict-aliasing -fno-delete-null-pointer-checks -fno-finite-loops " +
  "-Wno-everything -Werror=vla -ferror-limit=20"
).split(" ");

/**
 * Translated kernels: memory accesses call the runtime (which stands in for ThreadSanitizer's), as does every function that was
 * not inlined (to check the remaining stack), and locals start as poison.
 */
const checked = (
  "-O2 -fno-vectorize -fno-slp-vectorize -fsanitize=thread,bounds,integer-divide-by-zero,unreachable,return " +
  "-fno-sanitize-recover=all -finstrument-functions-after-inlining -mllvm " +
  "-tsan-instrument-func-entry-exit=0 -ftrivial-auto-var-init=pattern -gline-tables-only -gdwarf-4 " +
  "-fno-omit-frame-pointer"
).split(" ");

/** Instead of -O2, for a text instantiated so often that -O2 costs more time than the tests' runs gain: hardly anything is inlined. */
const quickly = "-O1 -mllvm -inline-threshold=60 -mllvm -inlinehint-threshold=60".split(" ");

const sanitized: Record<Exclude<Sanitizer, "none">, readonly string[]> = {
  address: (
    "-O1 -fno-vectorize -fno-slp-vectorize -fsanitize=address -gline-tables-only -gdwarf-4 " + "-fno-omit-frame-pointer"
  ).split(" "),
  undefined: (
    "-O1 -fno-vectorize -fno-slp-vectorize " +
    "-fsanitize=undefined,integer-divide-by-zero,shift,float-cast-overflow,implicit-integer-truncation " +
    "-fno-sanitize=vptr,function -fno-sanitize-recover=all -gline-tables-only -gdwarf-4"
  ).split(" "),
};

export function kernelFlags(sanitizer: Sanitizer, quick = false): string[] {
  if (quick && sanitizer === "none") return kernelFlags(sanitizer).flatMap((flag) => (flag === "-O2" ? quickly : [flag]));
  return [...language, ...processor, ...arithmetic, ...(sanitizer === "none" ? checked : sanitized[sanitizer])];
}

export function runtimeFlags(sanitizer: Sanitizer): string[] {
  const common =
    "-x c++ -std=c++17 -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -fno-exceptions " +
    "-ffp-contract=off -Wall -Wextra";
  const base = [...common.split(" "), ...processor];
  if (sanitizer === "none") return [...base, "-O3", "-flto"];
  // A sanitizer's runtime runs a few small kernels: compiling it takes longer than they do.
  return [...base, "-O0", "-g1", `-fsanitize=${sanitizer}`, "-fno-sanitize=vptr,function", "-fno-sanitize-recover=all"];
}

export function hashOf(parts: readonly (string | Uint8Array)[]): string {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part).update("\0");
  return hash.digest("hex").slice(0, 24);
}

/** The text of every file of a folder, for hashes. */
export function folderText(folder: string): string {
  return readdirSync(folder, { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((e) =>
      e.isDirectory() ? folderText(join(folder, e.name)) : `${e.name}\n${readFileSync(join(folder, e.name), "utf8")}`,
    )
    .join("\n");
}

export class CompileError extends Error {
  override readonly name = "CompileError";
}

/** Runs clang++; resolves to its output. */
export async function run(args: readonly string[], input?: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    const child = spawn(clang(), args, { stdio: ["pipe", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (data: Buffer) => (output += data.toString()));
    child.stderr.on("data", (data: Buffer) => (output += data.toString()));
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve(output) : reject(new CompileError(output.trim() || `clang++ ended with ${code}`)),
    );
    child.stdin.end(input ?? "");
  });
}

/** At most two compilers at a time: each occupies a core. */
export async function inParallel<T>(jobs: readonly (() => Promise<T>)[], width = 2): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let i = next++; i < jobs.length; i = next++) {
      const job = jobs[i];
      if (job !== undefined) results[i] = await job();
    }
  };
  await Promise.all(Array.from({ length: Math.min(width, jobs.length) }, worker));
  return results;
}

const kept = 600;

/** Deletes the oldest files of a cache that has grown: sources change, and each version leaves an object behind. */
export function prune(cache: string): void {
  const files = readdirSync(cache).map((name) => ({
    path: join(cache, name),
    // Another process may have renamed or removed it in the meantime.
    time: statSync(join(cache, name), { throwIfNoEntry: false })?.mtimeMs ?? 0,
  }));
  if (files.length <= kept) return;
  files.sort((a, b) => a.time - b.time);
  for (const file of files.slice(0, files.length - kept / 2)) rmSync(file.path, { force: true });
}

/** Whether a file is in the cache. If so, it is marked as new, so that another process that tidies up leaves it alone. */
export function isKept(file: string): boolean {
  try {
    const now = new Date();
    utimesSync(file, now, now);
    return true;
  } catch {
    return false;
  }
}

/** Compiles to `cache/HASH.o` unless that exists already; an interrupted build leaves nothing behind. */
export async function object(
  cache: string,
  flags: readonly string[],
  source: string | { path: string },
  extra: readonly string[],
): Promise<string> {
  const text = typeof source === "string" ? source : readFileSync(source.path, "utf8");
  const file = join(cache, `${hashOf([clang(), ...flags, text, ...extra])}.o`);
  if (isKept(file)) return file;
  mkdirSync(cache, { recursive: true });
  const partial = `${file}.${process.pid}.tmp`;
  await run(
    [...flags, "-c", typeof source === "string" ? "-" : source.path, "-o", partial],
    typeof source === "string" ? source : undefined,
  );
  renameSync(partial, file);
  return file;
}
