/**
 * Unpacks the library inside a compiled program into a file that the system's loader can open.
 *
 * The file is named by the SHA-256 of its content and kept between runs. It is opened only if no other user (except
 * root) can have written it: the file and its folder belong to this user, no one else may write to them, and no other
 * user can swap a folder above. Its content is compared with the program's copy before each use. Several processes may
 * unpack at once: each writes its own temporary file, and the first to link it to the final name wins.
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
import { tmpdir } from "node:os";
import { dirname, extname, join } from "node:path";
import { cacheFolders, isOwnFolder, userId, writableByOthers } from "./cache-folders.ts";

/**
 * Puts the content of a file inside the program at a path that can be loaded, and returns that path.
 *
 * @param embedded the file's path inside the program.
 * @throws the file system's error when no folder can be written at all.
 */
export function unpackLibrary(embedded: string, env: Readonly<Record<string, string | undefined>> = process.env): string {
  const bytes = readFileSync(embedded);
  const hash = sha256(bytes);
  const name = `libGatedDelta-${hash.slice(0, 32)}${extname(embedded)}`;
  for (const folder of cacheFolders(env)) {
    const path = join(folder, "libraries", name);
    if (unpackInto(path, bytes, hash)) return realpathSync(path);
  }
  // No folder to keep it in: use a temporary folder of this process.
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
        linkSync(temporary, path); // fails if another process was first
      } catch (error) {
        // Another process was first, or the file there is damaged and is replaced, or the file system has no links.
        if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !isOwnFile(path, bytes.length, hash)) {
          renameSync(temporary, path);
        }
      }
    } finally {
      rmSync(temporary, { force: true });
    }
    return isOwnFile(path, bytes.length, hash);
  } catch {
    return false; // read-only, full or another user's: try the next folder
  }
}

/** Writes a new file for this user only, and syncs it before it is renamed. */
function writeWhole(path: string, bytes: Uint8Array): void {
  const file = openSync(path, "wx", 0o500);
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(file, bytes, at);
    fsyncSync(file);
  } finally {
    closeSync(file);
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
