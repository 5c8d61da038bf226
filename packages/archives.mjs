// The packages as archives, for projects on this machine before there is a release.
//
// A release's `gated-delta` has the libraries of all platforms as optional dependencies. An installer looks for them in the
// registry, even if an archive of one is installed at the same time, and warns about every missing one. So in an archive of
// `gated-delta` the library is an optional peer: an installer uses the project's library and looks for no other.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, tail } from "../swift/scripts/exec.mjs";
import { Failure } from "../swift/scripts/report.mjs";
import { outputFolder } from "./platforms.mjs";

/** The manifest of an archive: that of `gated-delta` without packages from the registry. */
export function archivedManifest(packed) {
  const { optionalDependencies, ...manifest } = packed;
  if (optionalDependencies === undefined) return manifest;
  const peers = Object.fromEntries(Object.keys(optionalDependencies).map((name) => [name, { optional: true }]));
  const { peerDependencies, peerDependenciesMeta } = manifest;
  return { ...manifest, peerDependencies: { ...peerDependencies, ...optionalDependencies }, peerDependenciesMeta: { ...peerDependenciesMeta, ...peers } };
}

/** Makes an archive of each folder, in `target`; returns their paths. */
export async function packArchives(folders, target = outputFolder) {
  const work = mkdtempSync(join(tmpdir(), "gated-delta-pack-"));
  try {
    const archives = [];
    for (const [i, folder] of folders.entries()) {
      const [source, packed] = ["source", "packed"].map((name) => join(work, `${name}-${i}`));
      cpSync(folder, source, { recursive: true });
      const file = join(source, "package.json");
      writeFileSync(file, JSON.stringify(archivedManifest(JSON.parse(readFileSync(file, "utf8"))), null, 2));
      mkdirSync(packed);
      const { code, text } = await run("npm", ["pack", source, "--pack-destination", packed, "--ignore-scripts", "--loglevel=error"]);
      if (code !== 0) throw new Failure(`${folder} could not be packed:\n${tail(text)}`);
      const [name] = readdirSync(packed);
      cpSync(join(packed, name), join(target, name));
      archives.push(join(target, name));
    }
    return archives;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The command that installs archives in the current folder's project; words that a shell would split are quoted. */
export function installCommand(archives) {
  const quoted = archives.map((path) => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`));
  return `bun add ${quoted.join(" ")}`;
}
