// Step 2: which Swift builds the library, and with which flags.
import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { ensureToolchain, isComplete, prefixFolder } from "../toolchain/install.mjs";
import { haveDebianTools } from "../toolchain/debian.mjs";
import { architectures, layout, oldestGlibc, version as privateVersion } from "../toolchain/recipe.mjs";
import { quick, which } from "./exec.mjs";
import { Failure } from "./report.mjs";

const wanted = [6, 0];

/** `6.0.3` of "Swift version 6.0.3 (swift-6.0.3-RELEASE)" or "Apple Swift version 6.0.3 (…)"; null for anything else called swift. */
export function parseSwiftVersion(text) {
  return /Swift version (\d+\.\d+(?:\.\d+)?)/.exec(text ?? "")?.[1] ?? null;
}

function isNewEnough(version) {
  const [major, minor] = version.split(".").map(Number);
  return major > wanted[0] || (major === wanted[0] && minor >= wanted[1]);
}

/** Changes when the toolchain does, without starting it. */
function identity(swift) {
  const real = realpathSync(swift);
  const { size, mtimeMs } = statSync(real);
  const xcode = process.platform === "darwin" ? quick("xcode-select", ["-p"]) : null;
  return [real, size, mtimeMs, xcode ?? ""].join(" ");
}

/** The prefix of a private Swift that was put on PATH. */
function prefixOf(swift) {
  const real = realpathSync(swift);
  const prefix = join(dirname(real), "../../../..");
  return real.includes(`/${layout.swift}/bin/`) && isComplete(prefix) ? prefix : null;
}

/** glibc's version as [major, minor], null on a system with another C library. The runtime's report is used last: it is slow. */
function glibc() {
  const text = quick("getconf", ["GNU_LIBC_VERSION"]) ?? `glibc ${process.report?.getReport().header.glibcVersionRuntime}`;
  const match = /glibc (\d+)\.(\d+)/i.exec(text);
  return match === null ? null : [Number(match[1]), Number(match[2])];
}

/**
 * Why no private toolchain can be made on this system, as a line that says what to do; null when one can.
 * `system` is passed as values, so that every result can be tested anywhere.
 */
export function whyNotPrivate({ platform, arch, libc, debianTools }) {
  const swift = "install Swift 6.0 or later from swift.org, put it on PATH";
  const again = "and run the same command again.";
  if (platform === "win32") return "Windows is not supported: use WSL 2 with Debian 12 or Ubuntu 22.04 or later.";
  if (platform === "darwin") return `no Swift 6.0 or later: install Xcode 16 or later, or its command line tools with \`xcode-select --install\`, ${again}`;
  if (platform !== "linux") return `${platform} is not supported: use Linux with glibc ${oldestGlibc} or later, or macOS 15 or later.`;
  if (libc === null) return `this Linux has no glibc (musl, as on Alpine, is not supported): use a system with glibc ${oldestGlibc} or later, such as Debian 12.`;
  const [major, minor] = oldestGlibc.split(".").map(Number);
  if (libc[0] < major || (libc[0] === major && libc[1] < minor)) {
    return `glibc ${libc.join(".")} is too old: use a system with glibc ${oldestGlibc} or later, such as Debian 12.`;
  }
  if (!Object.hasOwn(architectures, arch)) return `no Swift on PATH, and a private one can be made on x86-64 and arm64 only: ${swift} ${again}`;
  if (!debianTools) return `no Swift on PATH, and a private one can be made only where apt-get and dpkg-deb are: ${swift} ${again}`;
  return null;
}

/** A Swift on PATH that is new enough, or null. `known` is an earlier answer, used while the same program is there. */
function installedSwift(known) {
  const swift = which("swift");
  if (swift === null) return null;
  // Without Xcode's tools macOS has a swift that only opens a dialog.
  if (process.platform === "darwin" && quick("xcode-select", ["-p"]) === null) return null;
  const id = identity(swift);
  const version = known?.id === id ? known.version : parseSwiftVersion(quick(swift, ["--version"]));
  if (version === null || !isNewEnough(version)) return null;
  const prefix = prefixOf(swift);
  return prefix === null ? { swift, id, version, prefix: null } : privateSwift(prefix);
}

function privateSwift(prefix) {
  const swift = join(prefix, layout.swift, "bin/swift");
  const stamp = readFileSync(join(prefix, layout.stamp), "utf8");
  return { swift, id: `${identity(swift)} ${stamp}`, version: privateVersion, prefix };
}

/** The toolchain to use, made if there is none: `{swift, id, version, prefix}`, prefix null for an installed one. */
export async function findSwift(known) {
  const installed = installedSwift(known);
  if (installed !== null) return installed;
  if (isComplete(prefixFolder())) return privateSwift(prefixFolder());
  const { platform, arch } = process;
  const reason = whyNotPrivate({ platform, arch, libc: platform === "linux" ? glibc() : null, debianTools: platform === "linux" && haveDebianTools() });
  if (reason !== null) throw new Failure(reason);
  return privateSwift(await ensureToolchain());
}

/** The environment for a toolchain's programs. A private one keeps its caches out of the home folder and finds its sysroot by SDKROOT. */
export function swiftEnvironment(toolchain, root, env = process.env) {
  if (toolchain.prefix === null) return env;
  const caches = join(root, ".build", "caches");
  return { ...env, SDKROOT: join(toolchain.prefix, layout.sysroot), XDG_CACHE_HOME: caches, XDG_CONFIG_HOME: caches, XDG_DATA_HOME: caches, CLANG_MODULE_CACHE_PATH: join(caches, "clang") };
}

/** Without line numbers for debuggers: half the time that the kernels take to compile. Functions keep their names. */
export const withoutDebugInfo = ["-debug-info-format", "none"];

/** Flags of every `swift build` and `swift test`. SDKROOT alone reaches Swift's files and the links, not the C files. */
export function commonFlags(toolchain, root) {
  if (toolchain.prefix === null) return [];
  const caches = join(root, ".build", "caches");
  return ["-Xcc", `--sysroot=${join(toolchain.prefix, layout.sysroot)}`, "--cache-path", join(caches, "swiftpm"), "--config-path", join(caches, "configuration"), "--security-path", join(caches, "security")];
}

/**
 * Flags of the product's build. On Linux the Swift runtime goes into the library, which then needs nothing but libc and
 * libm (SwiftPM's own --static-swift-stdlib does nothing for dynamic products). With a private toolchain clang's
 * configuration files are not used for the link: they are for programs that run on the prefix's glibc, and the
 * library must load on the system's.
 */
export function productFlags(toolchain) {
  if (process.platform === "darwin") return [];
  const swiftc = (...flags) => flags.flatMap((flag) => ["-Xswiftc", flag]);
  const link = (...flags) => flags.flatMap((flag) => swiftc("-Xclang-linker", flag));
  const flags = [...swiftc("-static-stdlib"), ...link("-static-libgcc")];
  if (toolchain.prefix === null) return flags;
  const { prefix } = toolchain;
  return [...flags, ...swiftc("-use-ld=lld"), ...link("--no-default-config", `--sysroot=${join(prefix, layout.sysroot)}`, `-L${join(prefix, layout.product)}`)];
}

/** The C++ compiler of a toolchain, or null if it has none: the emulator of the Metal path is built with it. */
export function clangOf(toolchain) {
  if (process.platform === "darwin") return quick("xcrun", ["--find", "clang++"]);
  const clang = join(dirname(realpathSync(toolchain.swift)), "clang++");
  return existsSync(clang) ? clang : null;
}
