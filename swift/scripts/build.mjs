// Step 3: the release build of the library.
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { quick, run } from "./exec.mjs";
import { stepsOf, withProgress } from "./progress.mjs";
import { Failure, elapsed, say } from "./report.mjs";
import { readStamp, treeHash, writeStamp } from "./stamp.mjs";
import { commonFlags, productFlags, swiftEnvironment, withoutDebugInfo } from "./swift.mjs";

const sources = ["Package.swift", "Package.resolved", "swift/Sources", "swift/Plugins", "shaders"];

/** The path of the built library, at which lib/ looks for it in a clone. */
export function libraryFile(root) {
  return join(root, ".build/release", process.platform === "darwin" ? "libGatedDelta.dylib" : "libGatedDelta.so");
}

const stampFile = (root) => join(root, ".build", "gated-delta.json");

/** The flags of the release build, without those that select a product. */
export const buildFlags = (toolchain, root) => [...withoutDebugInfo, ...commonFlags(toolchain, root), ...productFlags(toolchain)];

function wantedStamp(root, toolchain) {
  return { root, toolchain: toolchain.id, flags: buildFlags(toolchain, root).join(" "), sources: treeHash(root, sources) };
}

/** The toolchain of the last build, as findSwift's hint. */
export function lastToolchain(root) {
  const stamp = readStamp(stampFile(root));
  return stamp?.toolchain === undefined ? undefined : { id: stamp.toolchain, version: stamp.version };
}

export function libraryIsCurrent(root, toolchain) {
  const stamp = readStamp(stampFile(root));
  if (stamp === null || !existsSync(libraryFile(root))) return false;
  return Object.entries(wantedStamp(root, toolchain)).every(([key, value]) => stamp[key] === value);
}

/** The entries of .build that Swift's builds write, which name files by their whole paths. */
const swiftBuilds = /^(?:\w+-\w+-(?:linux|macosx)[\w.-]*|linux-arm64|published|(?:debug|release)(?:\.yaml)?|(?:build|manifest)\.db.*|workspace-state\.json|artifacts|checkouts|repositories|plugins|caches)$/;

/** Removes builds made while this folder was at another path, as in a copied or moved clone. */
export function removeForeignBuilds(root) {
  const folder = join(root, ".build");
  if (!existsSync(folder) || readStamp(stampFile(root))?.root === root) return;
  const found = readdirSync(folder).filter((name) => swiftBuilds.test(name));
  if (found.length > 0) say("this folder was built at another path: building all of it again");
  for (const name of found) rmSync(join(folder, name), { recursive: true, force: true });
}

/** A warning of no consequence: a private Swift looks for a C library in jobs that need none. */
export function isNoise(line) {
  return line.includes("warning: libc not found for");
}

export async function buildLibrary(root, toolchain) {
  say(`building the library with Swift ${toolchain.version} (about a minute)`);
  const since = performance.now();
  // Before the build, so that an edit meanwhile causes another one next time.
  const stamp = wantedStamp(root, toolchain);
  removeForeignBuilds(root);
  writeStamp(stampFile(root), { root }); // an end in the middle counts as not built
  const steps = stepsOf();
  const lines = [];
  const take = (line) => {
    if (isNoise(line) || line === "") return;
    lines.push(line);
    steps.take(line);
  };
  const args = ["build", "-c", "release", "--product", "GatedDelta", ...buildFlags(toolchain, root)];
  const result = await withProgress("building", () => run(toolchain.swift, args, { cwd: root, env: swiftEnvironment(toolchain, root), output: take }), steps.progress);
  if (result.code !== 0) throw buildFailure(lines);
  if (!existsSync(libraryFile(root))) linkLibrary(root, toolchain);
  for (const line of lines.filter((text) => /warning:/.test(text))) process.stderr.write(`${line}\n`);
  writeStamp(stampFile(root), { ...stamp, version: toolchain.version });
  say(`the library is built (${elapsed(since)})`);
}

/** Another build system may put products elsewhere; a link is then made where lib/ looks. */
function linkLibrary(root, toolchain) {
  const place = quick(toolchain.swift, ["build", "-c", "release", "--show-bin-path", ...commonFlags(toolchain, root)], { cwd: root, env: swiftEnvironment(toolchain, root) });
  const built = join(place ?? "", basename(libraryFile(root)));
  if (place === null || !existsSync(built)) throw new Failure(`Swift ${toolchain.version} built no ${basename(libraryFile(root))}: use another Swift 6.0 or later, and run the same command again.`);
  mkdirSync(dirname(libraryFile(root)), { recursive: true });
  rmSync(libraryFile(root), { force: true });
  symlinkSync(built, libraryFile(root));
}

function buildFailure(lines) {
  if (lines.some((line) => /No space left/.test(line))) return new Failure("the disk is full: free 1 GB for the build and run the same command again.");
  process.stderr.write(`${lines.slice(-60).join("\n")}\n`);
  return new Failure("the library could not be built: see the compiler's messages above.");
}
