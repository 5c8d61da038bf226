// The packages as archives, for projects on this machine before there is a release.
//
// A release's `gated-delta` names the libraries of all platforms as optional packages, each in its own version. An installer looks
// for those in the registry, also where an archive of one of them is installed along with it, and warns of every one that is
// not there. So an archive of `gated-delta` takes the library as an optional peer: an installer takes the one that the
// project has, and looks for nothing.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run, tail } from "../swift/scripts/exec.mjs";
import { Failure } from "../swift/scripts/report.mjs";
import { outputFolder } from "./platforms.mjs";

/** The manifest of an archive: of `gated-delta` without packages that the registry would be asked for. */
export function archivedManifest(packed) {
  const { optionalDependencies, ...manifest } = packed;
  if (optionalDependencies === undefined) return manifest;
  const peers = Object.fromEntries(Object.keys(optionalDependencies).map((name) => [name, { optional: true }]));
  return { ...manifest, peerDependencies: optionalDependencies, peerDependenciesMeta: peers };
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

/** What installs archives in the project of the folder that it is entered in: a word is quoted where a shell would take it apart. */
export function installCommand(archives) {
  const quoted = archives.map((path) => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`));
  return `bun add ${quoted.join(" ")}`;
}
