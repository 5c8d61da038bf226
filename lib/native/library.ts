/**
 * Finds and loads the native library, once, on first use: importing the package must work where no library is.
 *
 * The library is never closed. Unloading a Swift image ends the process with a fault even when nothing calls into it
 * any more, so there is no `dlclose` here and no way to ask for one.
 */
import { dlopen } from "bun:ffi";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { LibraryError } from "../errors.ts";
import { constants, symbols } from "./layout.ts";

/** Where a candidate for the native library came from. */
export type LibrarySource = "environment" | "platform-package" | "build";

/** One place where the library was looked for, and what came of it. */
export interface LibraryCandidate {
  readonly source: LibrarySource;
  /** The file, or the name of the package that was asked for it. */
  readonly path: string;
  /** Why it was not used; undefined for the one that was. */
  readonly problem?: string | undefined;
}

/** The library in use. */
export interface LibraryInfo {
  readonly path: string;
  readonly source: LibrarySource;
  /** Its own version text. */
  readonly version: string;
  readonly abiVersion: number;
}

type Native = ReturnType<typeof dlopen<typeof symbols>>["symbols"];

interface Loaded {
  readonly info: LibraryInfo;
  readonly symbols: Native;
}

let loaded: Loaded | undefined;

/** The library's functions, loading it if need be. */
export function library(): Native {
  return (loaded ??= load()).symbols;
}

/**
 * Loads the library if need be and says which one it is.
 *
 * @throws {LibraryError} when none can be found or used; its message lists everything that was tried.
 */
export function libraryInfo(): LibraryInfo {
  return (loaded ??= load()).info;
}

/** The folder that holds this package. */
export const packageRoot: string = fileURLToPath(new URL("../../", import.meta.url));

const suffix = process.platform === "darwin" ? "dylib" : "so";
const platformPackage = `@gated-delta/${process.platform}-${process.arch}`;

/**
 * Every place where the library is looked for, in order, without loading anything. A path in `GATED_DELTA_LIBRARY`
 * is the only candidate where it is set: falling back from an explicit choice would hide a mistake.
 */
export function libraryCandidates(): LibraryCandidate[] {
  const explicit = process.env["GATED_DELTA_LIBRARY"];
  if (explicit !== undefined && explicit !== "") {
    return [{ source: "environment", path: explicit, problem: existsSync(explicit) ? undefined : "no such file" }];
  }
  const build = `${packageRoot}.build/release/libGatedDelta.${suffix}`;
  return [
    fromPlatformPackage(),
    { source: "build", path: build, problem: existsSync(build) ? undefined : "no such file" },
  ];
}

/** A platform package exports one path as its default. */
function fromPlatformPackage(): LibraryCandidate {
  const exported = platformExport() as { default?: unknown } | string | undefined;
  const path = typeof exported === "object" ? exported.default : exported;
  if (typeof path !== "string") return { source: "platform-package", path: platformPackage, problem: "not installed" };
  return { source: "platform-package", path, problem: existsSync(path) ? undefined : "no such file" };
}

/**
 * The names are literals so that a bundler can follow them, and right inside the `try`: there it lets missing ones be.
 */
function platformExport(): unknown {
  try {
    switch (`${process.platform}-${process.arch}`) {
      case "linux-x64":
        return require("@gated-delta/linux-x64");
      case "linux-arm64":
        return require("@gated-delta/linux-arm64");
      case "darwin-arm64":
        return require("@gated-delta/darwin-arm64");
      default:
        return undefined;
    }
  } catch {
    return undefined; // not installed, as for everybody who builds from source
  }
}

function load(): Loaded {
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
  throw new LibraryError({
    message:
      `the native library could not be loaded; tried${list}\n` +
      `Build it with "npm run build" in ${packageRoot}, or name one in GATED_DELTA_LIBRARY`,
  });
}

function open({ path, source }: LibraryCandidate): Loaded {
  let native: Native;
  try {
    native = dlopen(path, symbols).symbols;
  } catch (error) {
    // A library of another ABI usually lacks a symbol; say that it is stale rather than which symbol it lacks.
    checkAbi(abiVersionOf(path, error));
    throw error;
  }
  const abiVersion = native.gd_abi_version();
  checkAbi(abiVersion);
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
