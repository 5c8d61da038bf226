/**
 * Writes a file under another name in the same folder, flushes it to the disk and renames it. A process killed at any
 * moment leaves the old file or the new one, and perhaps the temporary one, whose name begins with a dot and ends in
 * `.tmp`: nothing reads it, and the next writer of the file removes it.
 */
import {
  closeSync, constants, fchmodSync, fchownSync, fstatSync, fsync, fsyncSync, lstatSync, openSync, readlinkSync, realpathSync,
  rename, renameSync, statSync, unlinkSync, write, writeSync,
} from "node:fs";
import type { Stats } from "node:fs";
import { basename, dirname, join } from "node:path";
import { FileError, GatedDeltaError, describe } from "../errors.ts";
import { removeLeftovers, temporaryName } from "./leftovers.ts";
import { notRegular } from "./regular-file.ts";

/** Permissions of a new file: only its owner's. */
const privateMode = 0o600;

/** Bytes of one write call: below the 2 GiB that a system call may take. */
const mostPerWrite = 2 ** 30;

/** The number of symbolic links that Linux follows. */
const mostLinks = 40;

/**
 * Creates or replaces a regular file. Symbolic links are followed and stay; their target is replaced. An existing file
 * keeps its permissions and, if the process may set them, its owner and group; its other hard links keep the old contents.
 * Only its owner can read and write a new file.
 *
 * @param pieces the file's contents, one after the other.
 * @throws {GatedDeltaError} `invalid-argument` for a value that is not a path; {@link FileError} if the path exists and is not a
 *   regular file, or if writing fails. An existing file is unchanged then.
 */
export function replaceFile(path: string, op: string, pieces: readonly Uint8Array[]): void {
  const file = Replacement.begin(path, op);
  try {
    for (const piece of pieces) writeFully(file.descriptor, piece);
    file.complete();
    fsyncSync(file.descriptor);
    file.rename();
  } catch (cause) {
    throw file.abandon(cause);
  }
  using folder = new Folder(file.target);
  folder.flush();
}

/**
 * {@link replaceFile} in the background: only the caller waits.
 *
 * @param pieces each is written before the next one is taken.
 */
export async function replaceFileAsync(path: string, op: string, pieces: Iterable<Uint8Array>): Promise<void> {
  const file = Replacement.begin(path, op);
  try {
    for (const piece of pieces) await writeFullyAsync(file.descriptor, piece);
    file.complete();
    await flushAsync(file.descriptor);
    await file.renameAsync();
  } catch (cause) {
    throw file.abandon(cause);
  }
  using folder = new Folder(file.target);
  await folder.flushAsync();
}

/** The path without symbolic links. A link to a missing file is followed, too. */
function targetOf(path: string): string {
  let target = path;
  for (let links = 0; lstatSync(target, { throwIfNoEntry: false })?.isSymbolicLink(); links++) {
    if (links === mostLinks) throw new Error("too many symbolic links");
    const link = readlinkSync(target);
    // Joined as text: after a link to a folder, ".." is not the folder named by the text before it.
    target = link.startsWith("/") ? link : `${dirname(target)}/${link}`;
  }
  return join(realpathSync.native(dirname(target)), basename(target)); // realpathSync itself drops ".." from the text
}

/** A temporary file that will be renamed to its final name. */
class Replacement {
  /** The final path. */
  readonly target: string;
  readonly #path: string;
  readonly #op: string;
  readonly #before: Stats | undefined;
  readonly #temporary: string;
  #descriptor: number | undefined;

  private constructor(path: string, op: string) {
    this.#path = path;
    this.#op = op;
    this.#before = statSync(path, { throwIfNoEntry: false });
    if (this.#before !== undefined && !this.#before.isFile()) throw notRegular(path, op, this.#before);
    this.target = targetOf(path);
    this.#temporary = temporaryName(this.target);
    removeLeftovers(this.target);
    // `wx` refuses to write to an existing file or link.
    this.#descriptor = openSync(this.#temporary, "wx", privateMode);
  }

  /** Creates the temporary file. */
  static begin(path: string, op: string): Replacement {
    if (typeof path !== "string" || path === "" || path.endsWith("/") || !path.isWellFormed()) {
      throw new GatedDeltaError("invalid-argument", { op, argument: "path", expected: "a file's path", received: describe(path) });
    }
    try {
      return new Replacement(path, op);
    } catch (cause) {
      throw asFileError(path, op, cause);
    }
  }

  get descriptor(): number {
    return this.#descriptor!;
  }

  /** Called when all pieces are written. */
  complete(): void {
    if (this.#before !== undefined) keepRights(this.descriptor, this.#before);
  }

  /** Called when the file is flushed. */
  rename(): void {
    const { descriptor } = this;
    this.#descriptor = undefined;
    closeSync(descriptor);
    renameSync(this.#temporary, this.target);
  }

  /** {@link rename} in the background, because deleting a large old file takes long. */
  async renameAsync(): Promise<void> {
    const { descriptor } = this;
    this.#descriptor = undefined;
    closeSync(descriptor);
    await new Promise<void>((resolve, reject) => rename(this.#temporary, this.target, (error) => (error ? reject(error) : resolve())));
  }

  /** Removes the temporary file unless it was renamed, and returns the error to throw. */
  abandon(cause: unknown): GatedDeltaError {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
    try {
      unlinkSync(this.#temporary);
    } catch {
      // The file was already renamed.
    }
    return asFileError(this.#path, this.#op, cause);
  }
}

/** The error of a failed write. */
function asFileError(path: string, op: string, cause: unknown): GatedDeltaError {
  if (cause instanceof GatedDeltaError) return cause;
  return new FileError(path, { op, message: `cannot be written: ${(cause as Error).message}`, cause });
}

/** Gives a file the owner, group and permissions of the file that it replaces. */
function keepRights(descriptor: number, { uid, gid, mode }: Stats): void {
  const own = fstatSync(descriptor);
  let rights = mode & 0o7777;
  if (!chown(descriptor, own, uid, gid) && !chown(descriptor, own, own.uid, gid)) {
    rights &= ~0o070; // they were granted to another group
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

async function writeFullyAsync(descriptor: number, piece: Uint8Array): Promise<void> {
  let done = 0;
  while (done < piece.byteLength) {
    const length = Math.min(piece.byteLength - done, mostPerWrite);
    done += await new Promise<number>((resolve, reject) => {
      write(descriptor, piece, done, length, null, (error, written) => (error ? reject(error) : resolve(written)));
    });
  }
}

/** Flushes a descriptor in the background. */
function flushAsync(descriptor: number): Promise<void> {
  return new Promise((resolve, reject) => fsync(descriptor, (error) => (error ? reject(error) : resolve())));
}

/**
 * Opens a file's folder to flush it, which makes a rename durable. Some file systems can't do that, but the file's contents
 * are already flushed.
 */
class Folder implements Disposable {
  readonly #descriptor: number | undefined;

  constructor(target: string) {
    try {
      this.#descriptor = openSync(dirname(target), constants.O_RDONLY);
    } catch {
      // See above.
    }
  }

  flush(): void {
    try {
      if (this.#descriptor !== undefined) fsyncSync(this.#descriptor);
    } catch {
      // See above.
    }
  }

  async flushAsync(): Promise<void> {
    if (this.#descriptor !== undefined) await flushAsync(this.#descriptor).catch(() => {});
  }

  [Symbol.dispose](): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
  }
}
