// The packages `@gated-delta/…`, with one library each: a manifest, the library, and a module that exports its path.
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { join } from "node:path";
import { Failure } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { oldestGlibc } from "../swift/toolchain/recipe.mjs";
import { demandsOf, newestGlibc } from "./elf.mjs";
import { bytesByOrigin, linkLibrary } from "./link.mjs";
import { cloneManifest, outputFolder, packageName, sharedFields } from "./platforms.mjs";

/** The maximum size in bytes of a published library without the compiled Metal kernels. */
const mostWithoutMetallib = 9.95e6;

/** The largest library that is published; that of macOS holds the compiled Metal kernels. */
export const mostBytes = { linux: mostWithoutMetallib, darwin: mostWithoutMetallib + 8e6 };

/** With a file import, a bundler includes the library, and without a bundler Bun gives its path. */
const entry = (file) => `import path from "./${file}" with { type: "file" };\nexport default path;\n`;
const declaration = "/** Where the library lies. */\ndeclare const path: string;\nexport default path;\n";

export function platformManifest(platform, clone, env = process.env) {
  const { name, os, cpu, libc, file, system } = platform;
  return {
    name: packageName(platform),
    description: `The native library of gated-delta for ${system}`,
    ...sharedFields(clone, undefined, env),
    type: "module",
    exports: { ".": { types: "./index.d.ts", default: "./index.js" }, "./package.json": "./package.json" },
    types: "./index.d.ts",
    files: ["index.js", "index.d.ts", file],
    os: [os],
    cpu: [cpu],
    ...(libc === undefined ? {} : { libc: [libc] }),
    preferUnplugged: true,
    publishConfig: { access: "public" },
    // For those who build it: the name of the folder in which it is made.
    keywords: ["gated-delta", name],
  };
}

/**
 * Makes the package of a platform. `state` is that of set-up, with `cross` for another platform than the host's. Returns its
 * folder, sizes and, on Linux, the origins of the library's bytes. `forRelease` refuses a library that loads on fewer systems
 * than documented, such as one built by a system's own Swift.
 */
export async function buildPlatformPackage(platform, state, { forRelease = true } = {}) {
  const target = join(outputFolder, platform.name);
  rmSync(target, { recursive: true, force: true });
  mkdirSync(target, { recursive: true });
  const library = join(target, platform.file);
  const map = await linkLibrary(state, join(outputFolder, `link-${platform.name}`), library);
  writeFileSync(join(target, "index.js"), entry(platform.file));
  writeFileSync(join(target, "index.d.ts"), declaration);
  writeFileSync(join(target, "README.md"), `# ${packageName(platform)}\n\nThe native library of gated-delta for ${platform.system}. Install gated-delta, not this package.\n`);
  copyFileSync(join(rootFolder, "LICENSE"), join(target, "LICENSE"));
  writeFileSync(join(target, "package.json"), `${JSON.stringify(platformManifest(platform, cloneManifest()), null, 2)}\n`);
  const bytes = readFileSync(library);
  if (platform.os === "linux" && forRelease) checkDemands(bytes);
  if (platform.os === "darwin" && forRelease && !holdsMetallib(bytes)) {
    throw new Failure(`${platform.file} has no compiled Metal kernels: install Xcode with its Metal toolchain.`);
  }
  const traces = tracesOfTests(bytes);
  if (traces.length > 0) throw new Failure(`${platform.file} holds ${traces.join(", ")}, which only tests need.`);
  const { size } = statSync(library);
  const most = mostBytes[platform.os];
  if (size > most) {
    const parts = map === null ? [] : bytesByOrigin(map).slice(0, 8).map(({ name, bytes: part }) => `${name} ${part}`);
    throw new Failure(`${platform.file} has ${size} bytes, more than ${most}: ${parts.join(", ")}.`);
  }
  return { folder: target, bytes: size, gzipped: gzipSync(bytes).length, origins: map === null ? [] : bytesByOrigin(map) };
}

/**
 * The names in a library that only tests need: functions that make it fail or load translated kernels for Metal, and the
 * files and settings that these read. A published library has none, so it loads no foreign code.
 */
export function tracesOfTests(bytes) {
  const names = ["gd_test_", "emu_interface_version", "libGatedDeltaShaders", "GATED_DELTA_METAL_EMULATOR", "GATED_DELTA_EMULATOR_"];
  return names.filter((name) => bytes.includes(name));
}

/** Whether a library contains a metallib, recognised by its first word. */
export const holdsMetallib = (bytes) => bytes.includes("MTLB");

/** A published library needs only the C library, in no newer version than documented. */
function checkDemands(bytes) {
  const { needed, versions } = demandsOf(bytes);
  const other = needed.filter((name) => !/^lib(?:c|m)\.so\.6$|^ld-linux-/.test(name));
  if (other.length > 0) throw new Failure(`the library needs ${other.join(", ")}: it must need libc and libm only.`);
  const [major, minor] = newestGlibc(versions);
  const [wantedMajor, wantedMinor] = oldestGlibc.split(".").map(Number);
  if (major > wantedMajor || minor > wantedMinor) {
    throw new Failure(`the library needs glibc ${major}.${minor}, more than ${oldestGlibc}: build it with the private toolchain (no swift on PATH).`);
  }
}
