// Step 1: the packages of the lock file, and a Bun that runs.
import { existsSync, readFileSync, rmSync } from "node:fs";
import { isAbsolute, join, relative, resolve } from "node:path";
import { quick, run, tail, which } from "./exec.mjs";
import { withProgress } from "./progress.mjs";
import { Failure, say } from "./report.mjs";
import { contentHash, dropStamp, readStamp, writeStamp } from "./stamp.mjs";

/** The oldest Bun that the library runs on, from package.json. */
function wanted(root) {
  return JSON.parse(readFileSync(join(root, "package.json"), "utf8")).engines.bun.replace(/^[^\d]*/, "");
}

function atLeast(version, minimum) {
  const [a, b] = [version, minimum].map((text) => text.split(/[.-]/).slice(0, 3).map(Number));
  for (let i = 0; i < 3; i++) {
    if (a[i] !== b[i]) return a[i] > b[i];
  }
  return true;
}

const stampFile = (root) => join(root, "node_modules", ".gated-delta.json");
const packagedBun = (root) => join(root, "node_modules", ".bin", "bun");

/** A recent enough Bun: that of the lock file, of this process, or of PATH; null if there is none. */
export function findBun(root) {
  const minimum = wanted(root);
  const candidates = [packagedBun(root), process.versions.bun === undefined ? null : process.execPath, which("bun")];
  for (const file of candidates) {
    if (file === null || !existsSync(file)) continue;
    const version = quick(file, ["--version"]);
    if (version !== null && /^\d+\.\d+\.\d+/.test(version) && atLeast(version, minimum)) return file;
  }
  return null;
}

/** Whether this folder is a clone, whose dependencies set-up installs; those of an installed package come from the package manager. */
export function isClone(root) {
  return existsSync(join(root, "package-lock.json"));
}

/** A file of this folder by its path in the folder, so that a copy of the folder has its own; any other file as it is. */
function withinRoot(root, file) {
  const path = relative(root, file);
  return path.startsWith("..") || isAbsolute(path) ? file : path;
}

export function dependenciesAreCurrent(root) {
  const stamp = readStamp(stampFile(root));
  return stamp !== null && stamp.lock === contentHash(join(root, "package-lock.json")) && existsSync(resolve(root, stamp.bun));
}

/** The Bun that the finished step found, without running it again. */
export function currentBun(root) {
  const stamp = isClone(root) ? readStamp(stampFile(root)) : null;
  return stamp === null ? findBun(root) : resolve(root, stamp.bun);
}

const network = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|network|ConnectionRefused|FailedToOpenSocket/;

/** Known causes are one line; for others the tool's output is shown. */
function installFailure(command, text) {
  if (/ENOSPC|No space left/.test(text)) return new Failure("the disk is full: free 400 MB for the dependencies and run the same command again.");
  if (/EACCES|EPERM|EROFS/.test(text)) return new Failure("the dependencies can't be written: make the project's folder writable for this user and run the same command again.");
  if (network.test(text)) return new Failure(`no network: ${command} could not fetch the dependencies. Connect (or set npm's proxy or registry) and run the same command again.`);
  process.stderr.write(`${tail(text)}\n`);
  return new Failure(`${command} failed: see its message above, then run the same command again.`);
}

/** By npm, which wrote the lock file, or by Bun, which reads it. */
function installer() {
  const npm = which("npm");
  if (npm !== null && which("node") !== null) {
    const flags = ["--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"];
    const patience = ["--fetch-retries=3", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"];
    return { name: "npm ci", command: npm, args: ["ci", ...flags, ...patience] };
  }
  const bun = process.versions.bun === undefined ? which("bun") : process.execPath;
  if (bun === null) throw new Failure("neither npm nor bun is on PATH: install Node 20 or later (with npm), or Bun, and run the same command again.");
  return { name: "bun install", command: bun, args: ["install", "--frozen-lockfile", "--no-progress", "--no-summary"] };
}

/**
 * Bun's npm package fetches nothing: its binary is an optional package of the platform, moved into place by an install
 * script. If scripts are switched off (`ignore-scripts`), run that one script ourselves.
 */
async function completeBun(root) {
  if (quick(packagedBun(root), ["--version"]) !== null) return;
  const script = join(root, "node_modules", "bun", "install.js");
  if (existsSync(script)) await run(process.execPath, [script], { cwd: join(root, "node_modules", "bun") });
}

export async function installDependencies(root) {
  const { name, command, args } = installer();
  say(`installing the dependencies (${name})`);
  dropStamp(stampFile(root));
  // The inner npm would read the variables of the outer `npm run` as settings.
  const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^npm_(lifecycle|package|command|execpath)/.test(key)));
  const before = existsSync(join(root, "bun.lock"));
  const result = await withProgress(name, () => run(command, args, { cwd: root, env }));
  if (result.code !== 0) throw installFailure(name, result.text);
  // Bun writes its own lock file next to npm's; this project has only npm's.
  if (!before) rmSync(join(root, "bun.lock"), { force: true });
  await completeBun(root);
  const bun = findBun(root);
  if (bun === null) {
    throw new Failure(`no Bun ${wanted(root)} or later runs here (npm's bun package has none for this system): install Bun, put it on PATH and run the same command again.`);
  }
  writeStamp(stampFile(root), { lock: contentHash(join(root, "package-lock.json")), bun: withinRoot(root, bun) });
}
