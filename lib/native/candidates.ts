/** The places to look for the native library. Nothing is loaded here. */
import { existsSync } from "node:fs";
import { isAbsolute } from "node:path";
import { fileURLToPath } from "node:url";

/**
 * Where a candidate for the native library came from: `GATED_DELTA_LIBRARY`, the package of this platform, that package
 * inside a program that `bun build --compile` made, or the build of a clone.
 */
export type LibrarySource = "environment" | "platform-package" | "embedded" | "build";

/** One place to look for the library, and the result. */
export interface LibraryCandidate {
  readonly source: LibrarySource;
  /** The file, or the name of the package that should contain it. */
  readonly path: string;
  /** Why it was not used; undefined for the library in use. */
  readonly problem?: string | undefined;
}

/** This package's folder; meaningless if a bundler has moved this code. */
export const packageRoot: string = fileURLToPath(new URL("../../", import.meta.url));

/** The name of this platform's library package, which may not exist. */
export const platformPackage = `@gated-delta/${process.platform}-${process.arch}`;

const suffix = process.platform === "darwin" ? "dylib" : "so";

/** The virtual folder of the files inside a program that Bun compiled. */
const embeddedRoot = "/$bunfs/";

/** Whether this code runs from a clone, which builds its own library. */
export function isClone(): boolean {
  return !packageRoot.startsWith(embeddedRoot) && existsSync(`${packageRoot}swift/Sources/CGatedDelta/exports.txt`);
}

/** Whether this code runs inside a program that `bun build --compile` made. */
export function isCompiled(): boolean {
  return import.meta.url.includes(embeddedRoot);
}

/**
 * Every place to look for the library, in order, without loading anything. If `GATED_DELTA_LIBRARY` is set, it is the
 * only candidate: falling back from an explicit choice would hide a mistake.
 */
export function libraryCandidates(): LibraryCandidate[] {
  const explicit = process.env["GATED_DELTA_LIBRARY"];
  if (explicit !== undefined && explicit !== "") {
    return [{ source: "environment", path: explicit, problem: existsSync(explicit) ? undefined : "no such file" }];
  }
  if (!isClone()) return [fromPlatformPackage()];
  const build = `${packageRoot}.build/release/libGatedDelta.${suffix}`;
  return [
    fromPlatformPackage(),
    { source: "build", path: build, problem: existsSync(build) ? undefined : "no such file" },
  ];
}

/** A platform package exports one path as its default. */
function fromPlatformPackage(): LibraryCandidate {
  const exported = platformExport() as { default?: unknown } | string | undefined;
  const name = typeof exported === "object" ? exported.default : exported;
  if (typeof name !== "string") return { source: "platform-package", path: platformPackage, problem: "not installed" };
  // A bundler that copies the library next to its output leaves a path relative to the output.
  const path = isAbsolute(name) ? name : fileURLToPath(new URL(name, import.meta.url));
  const source = path.startsWith(embeddedRoot) ? "embedded" : "platform-package";
  return { source, path, problem: existsSync(path) ? undefined : "no such file" };
}

/**
 * Never called. `bun build --compile` substitutes the target's platform and architecture here, so a compilation for a platform whose
 * library is not installed ends with an error instead of making a program that cannot run. Any other bundler, and Bun without
 * `--compile`, sees a dynamic name and ignores it. It is not in a `try`, because Bun tolerates missing packages there. The error shows
 * the line with the comment on it.
 */
export function wantedByCompilation(): unknown {
  if ((process.platform === "linux" && (process.arch === "x64" || process.arch === "arm64")) || (process.platform === "darwin" && process.arch === "arm64")) {
    /* not installed? bun install --os='*' --cpu='*' */ return require(`@gated-delta/${process.platform}-${process.arch}`);
  }
  return undefined;
}

/**
 * The names are literals so that a bundler can follow them, and inside the `try` so that it tolerates missing packages.
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
    return undefined; // not installed, as in a build from source
  }
}
