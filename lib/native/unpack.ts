/**
 * The library inside a compiled program, put into a file that the system's loader can open.
 *
 * The file is named by its content's SHA-256 and kept from one run to the next. It is opened only where nobody but this
 * user (and root) can have written it: the file and its folder are this user's, no one else may write to them, and no
 * folder above can be swapped by another user. Its content is compared with what the program holds before each use.
 * Several processes may unpack at once: each writes a file of its own, and the first to give it its name wins.
 */
import { createHash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { dirname, extname, join } from "node:path";

/** Writable by the group or by everybody. */
const writableByOthers = 0o022;
/** In a folder with this bit, as /tmp, only its owner renames or removes an entry. */
const sticky = 0o1000;

/** The folders to try, the best one first. */
function places(env: Readonly<Record<string, string | undefined>>): string[] {
  const set = (name: string): string | undefined => (env[name] === "" ? undefined : env[name]);
  const found: string[] = [];
  const own = set("GATED_DELTA_CACHE");
  if (own !== undefined) found.push(own);
  const cache = set("XDG_CACHE_HOME");
  if (cache !== undefined) found.push(join(cache, "gated-delta"));
  try {
    const home = homedir();
    if (home !== "" && home !== "/") found.push(join(home, ".cache", "gated-delta"));
  } catch {
    // no home folder
  }
  found.push(join(tmpdir(), `gated-delta-${userId()}`));
  return found;
}

function userId(): number {
  return process.getuid?.() ?? 0;
}

/**
 * Puts the content of a file inside the program at a path that can be loaded, and returns that path.
 *
 * @param embedded the file's path inside the program.
 * @throws what the file system says when no folder can be written at all.
 */
export function unpackLibrary(embedded: string, env: Readonly<Record<string, string | undefined>> = process.env): string {
  const bytes = readFileSync(embedded);
  const hash = sha256(bytes);
  const name = `libGatedDelta-${hash.slice(0, 32)}${extname(embedded)}`;
  for (const folder of places(env)) {
    const path = join(folder, "libraries", name);
    if (unpackInto(path, bytes, hash)) return realpathSync(path);
  }
  // Nowhere to keep it: a new folder that is this process's own.
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, name);
  writeWhole(path, bytes);
  return path;
}

/** Whether the file is there now and can be trusted. */
function unpackInto(path: string, bytes: Uint8Array, hash: string): boolean {
  try {
    const folder = dirname(path);
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (!isOwnFolder(folder)) return false;
    if (isOwnFile(path, bytes.length, hash)) return true;
    const temporary = `${path}.${process.pid}-${crypto.randomUUID()}.tmp`;
    try {
      writeWhole(temporary, bytes);
      try {
        linkSync(temporary, path); // the first one to come stays
      } catch (error) {
        // Another process was first; or there is a damaged file, which this replaces; or the file system has no links.
        if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !isOwnFile(path, bytes.length, hash)) {
          renameSync(temporary, path);
        }
      }
    } finally {
      rmSync(temporary, { force: true });
    }
    return isOwnFile(path, bytes.length, hash);
  } catch {
    return false; // read-only, full, not ours: another place may do
  }
}

/** Writes a new file, for this user alone, and has the disk keep it before it gets its name. */
function writeWhole(path: string, bytes: Uint8Array): void {
  const file = openSync(path, "wx", 0o500);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Whether only this user (and root) can change what a folder's path leads to and what is in it. */
export function isOwnFolder(folder: string): boolean {
  const real = realpathSync(folder);
  const user = userId();
  const own = lstatSync(real);
  if (!own.isDirectory() || own.uid !== user || (own.mode & writableByOthers) !== 0) return false;
  for (let above = dirname(real); ; above = dirname(above)) {
    const { uid, mode } = lstatSync(above);
    if (uid !== user && uid !== 0) return false;
    if ((mode & writableByOthers) !== 0 && (mode & sticky) === 0) return false;
    if (above === dirname(above)) return true;
  }
}

/** Whether a file is this user's, writable by no one else, and has exactly this content. */
function isOwnFile(path: string, size: number, hash: string): boolean {
  try {
    const info = lstatSync(path);
    if (!info.isFile() || info.uid !== userId() || (info.mode & writableByOthers) !== 0 || info.size !== size) return false;
    return sha256(readFileSync(path)) === hash;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
