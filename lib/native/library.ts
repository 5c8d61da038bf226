/**
 * Finds and loads the native library, once, on first use: importing the package must work without a library.
 *
 * The library is never closed, because unloading a Swift image crashes the process.
 */
import { dlopen } from "bun:ffi";
import { LibraryError } from "../errors.ts";
import {
  isClone,
  isCompiled,
  libraryCandidates,
  packageRoot,
  platformPackage,
  type LibraryCandidate,
} from "./candidates.ts";
import { emulateMetal } from "./emulation.ts";
import { constants, symbols } from "./layout.ts";
import type { LibraryInfo } from "./library-info.ts";
import { thisSystem, whyTooOld, whyUnsupported } from "./platform.ts";
import { unpackLibrary } from "./unpack.ts";

type Native = ReturnType<typeof dlopen<typeof symbols>>["symbols"];

interface Loaded {
  readonly info: LibraryInfo;
  readonly symbols: Native;
}

let loaded: Loaded | undefined;

/** The library's functions. Loads the library on first use. */
export function library(): Native {
  return (loaded ??= load()).symbols;
}

/** The result of `libraryInfo`. */
export function loadedInfo(): LibraryInfo {
  return (loaded ??= load()).info;
}

function load(): Loaded {
  const old = whyTooOld(Bun.version);
  if (old !== undefined) throw new LibraryError({ message: old });
  const tried: LibraryCandidate[] = [];
  for (const candidate of libraryCandidates()) {
    if (candidate.problem === undefined) {
      try {
        return open(candidate);
      } catch (error) {
        tried.push({ ...candidate, problem: error instanceof Error ? error.message : String(error) });
        continue;
      }
    }
    tried.push(candidate);
  }
  const list = tried.map(({ path, problem }) => `\n  ${path}: ${problem}`).join("");
  throw new LibraryError({ message: `the native library could not be loaded; tried${list}\n${advice(tried)}` });
}

/** Advice for the reader of the error. */
function advice(tried: readonly LibraryCandidate[]): string {
  if (tried.some(({ source }) => source === "environment")) {
    return "Name another library in GATED_DELTA_LIBRARY, or unset it to use the one that comes with the package";
  }
  const unsupported = whyUnsupported(thisSystem());
  if (unsupported !== undefined) return unsupported;
  if (isClone()) return `Build it with "npm run setup" in ${packageRoot}`;
  const missing = tried.some(({ problem }) => problem === "not installed");
  if (isCompiled()) {
    return missing
      ? `This program was compiled without ${platformPackage}: install that package with gated-delta and compile it again`
      : "Compile this program again with gated-delta and its platform package installed in the same version";
  }
  return missing
    ? `${platformPackage} is an optional dependency of gated-delta: install gated-delta again with optional packages allowed, ` +
        `on this system, or add that package in gated-delta's own version`
    : `Install gated-delta and ${platformPackage} again, both in the same version`;
}

function open({ path: found, source }: LibraryCandidate): Loaded {
  const path = source === "embedded" ? unpackLibrary(found) : found;
  let native: Native;
  try {
    native = dlopen(path, symbols).symbols;
  } catch (error) {
    // A library with another ABI usually lacks a symbol; report the ABI instead of the symbol.
    checkAbi(abiVersionOf(path, error));
    throw error;
  }
  const abiVersion = native.gd_abi_version();
  checkAbi(abiVersion);
  if (process.platform === "linux" && isClone()) emulateMetal(path);
  return { info: { path, source, version: String(native.gd_version() ?? ""), abiVersion }, symbols: native };
}

function abiVersionOf(path: string, loadError: unknown): number {
  try {
    return dlopen(path, { gd_abi_version: symbols.gd_abi_version }).symbols.gd_abi_version();
  } catch {
    throw loadError;
  }
}

function checkAbi(abiVersion: number): void {
  if (abiVersion === constants.GD_ABI_VERSION) return;
  throw new LibraryError({
    argument: "ABI version",
    expected: String(constants.GD_ABI_VERSION),
    received: `${abiVersion}; it was built from other sources`,
  });
}
