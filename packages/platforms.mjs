// The packages of a release. lib/native/platform.ts has the same names for finding the library; a test compares them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { rootFolder } from "../swift/scripts/root.mjs";

/** A library's package holds one file and a module that gives its path. `libc` is as npm and Bun compare it; macOS has only one. */
export const platforms = [
  { name: "linux-x64", os: "linux", cpu: "x64", libc: "glibc", file: "libGatedDelta.so", system: "Linux on x86-64, glibc 2.35 or later" },
  { name: "linux-arm64", os: "linux", cpu: "arm64", libc: "glibc", file: "libGatedDelta.so", system: "Linux on arm64, glibc 2.35 or later" },
  { name: "darwin-arm64", os: "darwin", cpu: "arm64", file: "libGatedDelta.dylib", system: "macOS 15 or later on Apple silicon" },
];

/** The package of the system on which this runs. */
export function hostPlatform() {
  return platforms.find(({ os, cpu }) => os === process.platform && cpu === process.arch) ?? null;
}

export const packageName = (platform) => `@gated-delta/${platform.name}`;

/** The clone's manifest. */
export const cloneManifest = () => JSON.parse(readFileSync(join(rootFolder, "package.json"), "utf8"));

/** The folder of the built packages. */
export const outputFolder = join(rootFolder, ".build", "packages");

/**
 * Fields that all packages share. The repository's address is that of the workflow that publishes (provenance is refused
 * where the two differ), else the clone's `repository` or that of its remote.
 */
export function sharedFields(manifest, directory, env = process.env) {
  const { version, license, author, engines } = manifest;
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name } = env;
  const url = server && name ? `git+${server}/${name}.git` : manifest.repository?.url;
  const repository = url === undefined ? {} : { repository: { type: "git", url, ...(directory === undefined ? {} : { directory }) } };
  return { version, license, author, engines, ...repository };
}
