// Stamps record the inputs of a finished step. A step whose stamp matches is skipped.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The stamp's value, or null when there is none (or it was cut off by a full disk). */
export function readStamp(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return null;
  }
}

/** Writes a stamp and renames it into place. */
export function writeStamp(file, value) {
  mkdirSync(dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}.new`;
  writeFileSync(temporary, `${JSON.stringify(value, null, 2)}\n`);
  renameSync(temporary, file);
}

/** Removes a stamp before its step begins, so that a killed run counts as not done. */
export function dropStamp(file) {
  rmSync(file, { force: true });
}

/** The hash of a file's content. */
export function contentHash(file) {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

/** Paths, sizes and times of all files under the given files and folders (missing ones count as absent), as one hash. */
export function treeHash(root, entries) {
  const hash = createHash("sha256");
  const visit = (path) => {
    let info;
    try {
      info = statSync(join(root, path));
    } catch {
      hash.update(`${path}\0absent\0`);
      return;
    }
    if (!info.isDirectory()) {
      hash.update(`${path}\0${info.size}\0${info.mtimeMs}\0`);
      return;
    }
    for (const name of readdirSync(join(root, path)).sort()) {
      if (name !== ".DS_Store") visit(`${path}/${name}`);
    }
  };
  for (const entry of entries) visit(entry);
  return hash.digest("hex");
}
