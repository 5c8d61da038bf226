/** The systems that have a library, and the error message for all others. */
import { CString, dlopen } from "bun:ffi";
import { release } from "node:os";
import manifest from "../../package.json" with { type: "json" };

/** The facts that decide whether a library can run here, as values, so that tests can cover every system. */
export interface System {
  /** `process.platform`. */
  readonly platform: string;
  /** `process.arch`. */
  readonly arch: string;
  /** The version of glibc, or null with another C library. */
  readonly glibc: readonly [major: number, minor: number] | null;
  /** The kernel's release: `os.release()`. */
  readonly release: string;
}

/** The oldest glibc that the Linux libraries load on. */
const oldestGlibc: readonly [number, number] = [2, 35];
/** The Darwin kernel of macOS 15. */
const oldestDarwin = 24;

const supported =
  "supported are Linux on x64 and arm64 with glibc 2.35 or later (Debian 12, Ubuntu 22.04 and newer), and macOS 15 or " +
  "later on Apple silicon";

/** This system. */
export function thisSystem(): System {
  const { platform, arch } = process;
  return { platform, arch, glibc: platform === "linux" ? glibcVersion() : null, release: release() };
}

/** A message if this Bun's version is below the one that the package needs; undefined otherwise. */
export function whyTooOld(version: string): string | undefined {
  const oldest = manifest.engines.bun.replace(/^\D*/, "");
  return Bun.semver.order(version.replace(/-.*/, ""), oldest) < 0 ? `Bun ${version} is too old: install Bun ${oldest} or later` : undefined;
}

/** A message that names an unsupported system and lists the supported ones; undefined if a library runs on it. */
export function whyUnsupported(system: System): string | undefined {
  const name = unsupportedName(system);
  return name === undefined ? undefined : `${name} is not supported: ${supported}`;
}

function unsupportedName({ platform, arch, glibc, release: kernel }: System): string | undefined {
  if (platform === "win32") return "Windows (other than Linux in WSL 2)";
  if (platform === "darwin") {
    if (arch !== "arm64") return "macOS on Intel processors";
    return Number.parseInt(kernel, 10) < oldestDarwin ? "macOS before 15" : undefined;
  }
  if (platform !== "linux") return platform;
  if (arch !== "x64" && arch !== "arm64") return `Linux on ${arch}`;
  if (glibc === null) return "Linux without glibc (musl, as on Alpine)";
  const [major, minor] = oldestGlibc;
  const isOld = glibc[0] < major || (glibc[0] === major && glibc[1] < minor);
  return isOld ? `glibc ${glibc.join(".")}` : undefined;
}

/** The version of glibc in this process, or null without glibc. */
function glibcVersion(): [number, number] | null {
  try {
    const { symbols } = dlopen("libc.so.6", { gnu_get_libc_version: { args: [], returns: "ptr" } });
    const pointer = symbols.gnu_get_libc_version();
    const match = pointer === null ? null : /^(\d+)\.(\d+)/.exec(new CString(pointer).toString());
    return match === null ? null : [Number(match[1]), Number(match[2])];
  } catch {
    return null; // musl's C library has another name and lacks this function
  }
}
