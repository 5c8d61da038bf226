// The private toolchain in the cache: complete (its stamp says so) or absent. Everything is made in a folder next to the final
// one and renamed at the end, so that a killed run leaves nothing that could be taken for a toolchain; its downloads
// stay until the next run has used them.
import { accessSync, constants, existsSync, mkdirSync, readdirSync, realpathSync, renameSync, rmSync, statSync, statfsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { withLock } from "../scripts/lock.mjs";
import { withProgress } from "../scripts/progress.mjs";
import { Failure, elapsed, megabytes, say } from "../scripts/report.mjs";
import { readStamp, writeStamp } from "../scripts/stamp.mjs";
import { aptRoot, fetchPackages, fetchedBytes, plan, unpack } from "./debian.mjs";
import { mirror } from "./mirror.mjs";
import { compiler, layout, peakBytes, revision, sysroot, version } from "./recipe.mjs";
import { relocate } from "./relocate.mjs";

const here = dirname(fileURLToPath(import.meta.url));

/** The folder of toolchains, outside of the project. */
export function cacheFolder(env = process.env) {
  const set = (name) => (env[name] === undefined || env[name] === "" ? null : env[name]);
  return resolve(set("GATED_DELTA_CACHE") ?? join(set("XDG_CACHE_HOME") ?? join(homedir(), ".cache"), "gated-delta"));
}

/** The prefix for this version of the project. */
export function prefixFolder(env = process.env) {
  return join(cacheFolder(env), `swift-${version}`);
}

/** Whether there is a complete toolchain of this recipe in `prefix`: its stamp names the recipe and the place. */
export function isComplete(prefix) {
  const stamp = readStamp(join(prefix, layout.stamp));
  if (stamp === null) return false;
  if (stamp.swift !== version || stamp.revision !== revision) return false;
  try {
    // A moved or copied one would still run programs of its old place.
    return realpathSync(stamp.prefix) === realpathSync(prefix);
  } catch {
    return false;
  }
}

/** Removes folders left by earlier runs. Under the lock, none of them belongs to a running one. */
function clearLeftovers(cache, name) {
  for (const entry of readdirSync(cache)) {
    if (entry.startsWith(`${name}.staged-`) || entry.startsWith(`${name}.old-`)) rmSync(join(cache, entry), { recursive: true, force: true, maxRetries: 3 });
  }
}

function checkDisk(cache, missing) {
  const { bavail, bsize } = statfsSync(cache);
  const free = bavail * bsize;
  if (free >= missing) return;
  throw new Failure(`too little disk: the Swift toolchain needs ${megabytes(missing)} in ${cache}, ${megabytes(free)} are free. Free some, or set GATED_DELTA_CACHE to a folder on a larger disk, and run the same command again.`);
}

async function make(cache, prefix) {
  const uri = mirror();
  if (uri === null) {
    throw new Failure("no Swift 6.0 or later on PATH, and no Debian mirror among this system's package sources: install Swift from swift.org, or set GATED_DELTA_DEBIAN_MIRROR to the address of a Debian mirror, and run the same command again.");
  }
  const name = `swift-${version}`;
  clearLeftovers(cache, name);
  const downloads = join(cache, `${name}.downloads`);
  const staged = join(cache, `${name}.staged-${process.pid}`);
  checkDisk(cache, peakBytes - (existsSync(downloads) ? 0.5e9 : 0));
  say(`no Swift 6.0 or later on PATH: making a private one in ${prefix} from Debian packages, once (0.6 GB to fetch, 2.5 GB to keep; nothing is installed on the system)`);
  const parts = [
    { ...sysroot, folder: join(staged, layout.sysroot), what: "headers and libraries" },
    { ...compiler, folder: staged, what: "the Swift toolchain" },
  ];
  for (const part of parts) {
    part.apt = aptRoot(join(downloads, part.suite), part.suite, uri);
    part.files = await plan(part.apt, part.packages);
  }
  const still = parts.reduce((sum, { apt, files }) => sum + files.reduce((bytes, file) => bytes + file.bytes, 0) - fetchedBytes(apt, files), 0);
  checkDisk(cache, peakBytes - 0.56e9 + still);
  for (const { apt, packages, files, what } of parts) await fetchPackages(apt, packages, files, what);
  try {
    for (const { apt, files, folder, what } of parts) await unpack(apt, files, folder, what);
    await relocate(staged, prefix, join(here, "glibc.c"));
    writeStamp(join(staged, layout.stamp), { swift: version, revision, prefix });
  } catch (error) {
    // Gigabytes of no further use; the downloads stay.
    rmSync(staged, { recursive: true, force: true, maxRetries: 3 });
    throw error;
  }
  if (existsSync(prefix)) {
    const old = join(cache, `${name}.old-${process.pid}`);
    renameSync(prefix, old);
  }
  renameSync(staged, prefix);
  await withProgress("clearing the downloads", async () => {
    rmSync(downloads, { recursive: true, force: true });
    clearLeftovers(cache, name);
  });
  say(`the Swift toolchain is ready (${elapsed()})`);
}

/** mkdir -p. Node's own never returns if a parent exists but can't have such a child, as in /proc. */
function makeFolders(path) {
  if (existsSync(path)) return;
  if (!existsSync(dirname(path))) makeFolders(dirname(path));
  try {
    mkdirSync(path);
  } catch (error) {
    if (error.code !== "EEXIST") throw error;
  }
}

function makeCache(cache) {
  try {
    makeFolders(cache);
    // Also if it exists: a folder that can't be written, or a file.
    accessSync(cache, constants.W_OK | constants.X_OK);
    if (!statSync(cache).isDirectory()) throw new Error("not a folder");
  } catch (error) {
    throw new Failure(`no Swift 6.0 or later on PATH, and a private one can't be kept in ${cache} (${error.code ?? error.message}): set GATED_DELTA_CACHE to a folder that you can write, and run the same command again.`);
  }
}

/** Makes the prefix unless it exists. Returns it. */
export async function ensureToolchain(env = process.env) {
  const prefix = prefixFolder(env);
  if (isComplete(prefix)) return prefix;
  const cache = cacheFolder(env);
  makeCache(cache);
  await withLock(join(cache, ".lock"), "set-up of the Swift toolchain", async () => {
    if (!isComplete(prefix)) await make(cache, prefix);
  });
  return prefix;
}
