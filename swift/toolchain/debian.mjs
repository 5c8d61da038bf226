// Debian packages, fetched and unpacked by apt-get and dpkg-deb into folders of our own: nothing is installed, no root is
// needed, and apt checks signatures and sizes and continues an interrupted download.
import { existsSync, mkdirSync, readdirSync, statSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { quick, run, tail } from "../scripts/exec.mjs";
import { withProgress } from "../scripts/progress.mjs";
import { Failure, megabytes, say } from "../scripts/report.mjs";
import { debianArchitecture } from "./recipe.mjs";

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** An apt of its own in `folder`: one suite of one mirror, for one architecture by Debian's name, an empty list of installed packages, and its own downloads. */
export function aptRoot(folder, suite, uri, architecture = debianArchitecture) {
  for (const part of ["lists/partial", "archives/partial", "unseen/partial", "empty"]) mkdirSync(join(folder, part), { recursive: true });
  const file = (name) => join(folder, name);
  writeFileSync(file("status"), "");
  const signed = existsSync(keyring) ? `Signed-By: ${keyring}\n` : "";
  writeFileSync(file("debian.sources"), `Types: deb\nURIs: ${uri}\nSuites: ${suite}\nComponents: main\nArchitectures: ${architecture}\n${signed}`);
  // The hooks of the system's own apt (cache cleaners, notifiers) and its pins do not apply here; its proxies do.
  const cleared = ["APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success", "APT::Architectures",
    "DPkg::Pre-Invoke", "DPkg::Post-Invoke", "DPkg::Pre-Install-Pkgs"];
  const settings = {
    "Dir::State": folder,
    "Dir::State::lists": file("lists"),
    "Dir::State::status": file("status"),
    "Dir::State::extended_states": file("extended_states"),
    "Dir::Cache": folder,
    "Dir::Cache::archives": file("archives"),
    "Dir::Cache::pkgcache": "",
    "Dir::Cache::srcpkgcache": "",
    "Dir::Etc::sourcelist": file("debian.sources"),
    "Dir::Etc::sourceparts": file("empty"),
    "Dir::Etc::preferences": file("no-preferences"),
    "Dir::Etc::preferencesparts": file("empty"),
    "Dir::Log": folder,
    "APT::Architecture": architecture,
    "APT::Install-Recommends": "false",
    "APT::Install-Suggests": "false",
    "APT::Sandbox::User": "root",
    "APT::Update::Error-Mode": "any",
    "APT::Keep-Downloaded-Packages": "true",
    "Acquire::Languages": "none",
    "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled": "false",
    "Acquire::Retries": "3",
    "Dpkg::Use-Pty": "false",
  };
  const lines = cleared.map((name) => `#clear ${name};`);
  for (const [name, value] of Object.entries(settings)) lines.push(`${name} "${value}";`);
  writeFileSync(file("apt.conf"), `${lines.join("\n")}\n`);
  return { folder, suite, options: ["-c", file("apt.conf")] };
}

const diskFull = "the disk is full: free 3.5 GB for the Swift toolchain (or set GATED_DELTA_CACHE to a folder on a larger disk) and run the same command again.";

/** Known causes are one line; apt's own words are shown for the others only. */
function fetchFailure(doing, result) {
  if (/No space left|(not|n't have) enough (free )?space/i.test(result.text)) return new Failure(diskFull);
  if (/NO_PUBKEY|not signed|signatures? couldn't be verified/i.test(result.text)) {
    return new Failure("apt can't check Debian's signatures: run `apt-get install debian-archive-keyring` as root and then the same command again.");
  }
  if (/resolv|connect|Network is unreachable|Timeout|timed out|Connection|Clearsigned file isn't valid/i.test(result.text)) {
    return new Failure(`no network: ${doing} failed. Connect and run the same command again (what was fetched is kept), or install Swift 6.0 or later from swift.org.`);
  }
  process.stderr.write(`${tail(result.text)}\n`);
  return new Failure(`${doing} failed: see apt's message above, then run the same command again, or install Swift 6.0 or later from swift.org.`);
}

const env = { ...process.env, LC_ALL: "C", DEBIAN_FRONTEND: "noninteractive" };

/** Finds the file names and sizes of `packages` and their dependencies, in apt's order. */
export async function plan(apt, packages) {
  const update = await withProgress(`reading Debian's package list (${apt.suite})`, () => run("apt-get", [...apt.options, "update"], { env }));
  if (update.code !== 0) throw fetchFailure("reading Debian's package list", update);
  // With the downloads out of sight: packages that are here already would not be listed.
  const unseen = ["-o", `Dir::Cache::archives=${join(apt.folder, "unseen")}`];
  const uris = await run("apt-get", [...apt.options, ...unseen, "install", "--print-uris", "--yes", ...packages], { env });
  const files = parseUris(uris.text);
  if (uris.code !== 0 || files.length === 0) throw fetchFailure(`finding ${packages.join(", ")} among Debian's packages`, uris);
  return files;
}

/** `'uri' name size hash` lines of apt-get --print-uris. */
export function parseUris(text) {
  const files = [];
  for (const line of text.split("\n")) {
    const match = /^'[^']+' (\S+) (\d+)/.exec(line);
    if (match !== null) files.push({ name: match[1], bytes: Number(match[2]) });
  }
  return files;
}

function sizeOf(file) {
  try {
    return statSync(file).size;
  } catch {
    return 0;
  }
}

/** How many of the planned bytes are here, partly fetched files included. */
export function fetchedBytes(apt, files) {
  let total = 0;
  for (const { name } of files) {
    total += sizeOf(join(apt.folder, "archives", name)) || sizeOf(join(apt.folder, "archives", "partial", name));
  }
  return total;
}

/** Fetches the planned packages; those already here are kept, and a half-fetched one is continued. */
export async function fetchPackages(apt, packages, files, what) {
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  const here = fetchedBytes(apt, files);
  say(`fetching ${what}: ${files.length} Debian packages, ${megabytes(total)}${here === 0 ? "" : `, ${megabytes(here)} of it already here`}`);
  const result = await withProgress(`fetching ${what}`,
    () => run("apt-get", [...apt.options, "install", "--download-only", "--yes", ...packages], { env }),
    () => {
      const done = fetchedBytes(apt, files);
      return { done, total, text: `${megabytes(done)} of ${megabytes(total)}` };
    });
  if (result.code !== 0) throw fetchFailure(`fetching ${what}`, result);
}

/** Unpacks the planned packages into `target`. */
export async function unpack(apt, files, target, what) {
  say(`unpacking ${what}`);
  mkdirSync(target, { recursive: true });
  const { bavail: before, bsize } = statfsSync(target);
  // From the disk's free space: counting tens of thousands of files would slow the unpacking down.
  const size = () => megabytes(Math.max(0, (before - statfsSync(target).bavail) * bsize));
  let done = 0;
  await withProgress(`unpacking ${what}`, async () => {
    for (const { name } of files) {
      const result = await run("dpkg-deb", ["--extract", join(apt.folder, "archives", name), target], { env });
      if (result.code !== 0) throw unpackFailure(name, result);
      done++;
    }
  }, () => ({ done, total: files.length, text: `${done} of ${files.length} packages, about ${size()}` }));
}

function unpackFailure(name, result) {
  if (/No space left/.test(result.text)) return new Failure(diskFull);
  process.stderr.write(`${tail(result.text)}\n`);
  return new Failure(`unpacking ${name} failed: see the message above, then run the same command again.`);
}

/** Whether this system has the programs that this file runs. */
export function haveDebianTools() {
  return ["apt-get", "dpkg-deb"].every((name) => quick(name, ["--version"]) !== null);
}

/** Names of regular files in a folder, none when it is missing. */
export function filesIn(folder) {
  try {
    return readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => entry.name);
  } catch {
    return [];
  }
}
