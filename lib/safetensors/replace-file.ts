/**
 * Writes a file under another name in the same folder, flushes it to the disk and renames it. A process killed at any
 * moment leaves the old file or the new one, and perhaps the temporary one, whose name begins with a dot and ends in
 * `.tmp`: nothing reads it, and the next writer of the file removes it.
 */
import {
  closeSync, constants, fchmodSync, fchownSync, fstatSync, fsyncSync, lstatSync, openSync, readlinkSync, realpathSync,
  renameSync, statSync, unlinkSync, writeSync,
} from "node:fs";
import type { Stats } from "node:fs";
import { basename, dirname, join } from "node:path";
import { FileError, GatedDeltaError, describe } from "../errors.ts";
import { removeLeftovers, temporaryName } from "./leftovers.ts";
import { notRegular } from "./regular-file.ts";

/** Permissions of a file that was not there: its owner's alone. */
const privateMode = 0o600;

/** One write call's bytes: below the 2 GiB that a system call may take. */
const mostPerWrite = 2 ** 30;

/** As many symbolic links as Linux follows. */
const mostLinks = 40;

/**
 * Creates or replaces a regular file. Symbolic links are followed: what they name is replaced, and they stay. A file
 * that was there keeps its permissions and, where the process may set them, its owner and group; its other hard links
 * keep the old contents. A new file can be read and written by its owner alone.
 *
 * @param pieces its contents, one after the other.
 * @throws {GatedDeltaError} `invalid-argument` for what is no path; {@link FileError} if something that is no regular
 *   file is there, or writing fails: what was there is unchanged then.
 */
export function replaceFile(path: string, op: string, pieces: readonly Uint8Array[]): void {
  if (typeof path !== "string" || path === "" || path.endsWith("/")) {
    throw new GatedDeltaError("invalid-argument", { op, argument: "path", expected: "a file's path", received: describe(path) });
  }
  try {
    const before = statSync(path, { throwIfNoEntry: false });
    if (before !== undefined && !before.isFile()) throw notRegular(path, op, before);
    write(targetOf(path), before, pieces);
  } catch (cause) {
    if (cause instanceof FileError) throw cause;
    throw new FileError(path, { op, message: `cannot be written: ${(cause as Error).message}`, cause });
  }
}

/** The path without symbolic links. A link to a file that is not there is followed, too. */
function targetOf(path: string): string {
  let target = path;
  for (let links = 0; lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink(); links++) {
    if (links === mostLinks) throw new Error("too many symbolic links");
    const link = readlinkSync(target);
    // Joined as text: after a link to a folder, ".." is not the folder that the text before it names.
    target = link.startsWith("/") ? link : `${dirname(target)}/${link}`;
  }
  return join(realpathSync.native(dirname(target)), basename(target)); // realpathSync itself drops ".." from the text
}

function write(target: string, before: Stats | undefined, pieces: readonly Uint8Array[]): void {
  const temporary = temporaryName(target);
  let descriptor: number | undefined;
  let made = false;
  try {
    removeLeftovers(target);
    // `wx` refuses to write through anything that is already there.
    descriptor = openSync(temporary, "wx", privateMode);
    made = true;
    for (const piece of pieces) writeFully(descriptor, piece);
    if (before !== undefined) keepRights(descriptor, before);
    fsyncSync(descriptor);
    closeSync(descriptor);
    descriptor = undefined;
    renameSync(temporary, target);
    flushFolder(dirname(target));
  } catch (error) {
    if (descriptor !== undefined) closeSync(descriptor);
    try {
      if (made) unlinkSync(temporary); // else the file is another writer's
    } catch {
      // It was renamed already.
    }
    throw error;
  }
}

/** Gives a file the owner, group and permissions of the one that it replaces. */
function keepRights(descriptor: number, { uid, gid, mode }: Stats): void {
  const own = fstatSync(descriptor);
  let rights = mode & 0o7777;
  if (!chown(descriptor, own, uid, gid) && !chown(descriptor, own, own.uid, gid)) {
    rights &= ~0o070; // they were given to another group
  }
  fchmodSync(descriptor, rights);
}

function chown(descriptor: number, own: Stats, uid: number, gid: number): boolean {
  if (own.uid === uid && own.gid === gid) return true;
  try {
    fchownSync(descriptor, uid, gid);
    return true;
  } catch {
    return false;
  }
}

function writeFully(descriptor: number, piece: Uint8Array): void {
  let done = 0;
  while (done < piece.byteLength) done += writeSync(descriptor, piece, done, Math.min(piece.byteLength - done, mostPerWrite));
}

/** Makes the rename durable. Some file systems cannot flush a folder; the file's contents are flushed already. */
function flushFolder(folder: string): void {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(folder, constants.O_RDONLY);
    fsyncSync(descriptor);
  } catch {
    // See above.
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}
