/** Opening and reading regular files: a caller's path may name a pipe or a device. */
import { closeSync, constants, fstatSync, openSync, read, readSync, statSync } from "node:fs";
import type { Stats } from "node:fs";
import { FileError, describe } from "../errors.ts";

/** Bytes of one read call: below the 2 GiB that a system call may take. */
const mostPerRead = 2 ** 30;

/** The file or folder at a path; undefined if there is none, or links lead in a circle. Opening it then reports the reason. */
export function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

/**
 * Opens a regular file for reading. O_NONBLOCK keeps a named pipe from blocking the process before it can be refused.
 *
 * @throws {FileError} for anything but a regular file.
 */
export function openRegularFile(path: string, op: string): { descriptor: number; size: number } {
  // In file names a lone surrogate becomes U+FFFD, so several paths would name one file.
  if (!path.isWellFormed()) throw new FileError(path, { op, expected: "a path of well-formed Unicode", received: "one with a lone surrogate" });
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
    const stat = fstatSync(descriptor);
    if (stat.isFile()) return { descriptor, size: stat.size };
    throw notRegular(path, op, stat);
  } catch (cause) {
    if (descriptor !== undefined) closeSync(descriptor);
    if (cause instanceof FileError) throw cause;
    throw new FileError(path, { op, expected: "a readable file", received: reasonOf(cause), cause });
  }
}

/** The error for a path that is not a regular file. */
export function notRegular(path: string, op: string, stat: Stats): FileError {
  const received = stat.isDirectory() ? "a directory" : "a device, pipe or socket";
  return new FileError(path, { op, expected: "a regular file", received });
}

/**
 * Reads a whole file.
 *
 * @param what the file, for messages.
 * @throws {FileError} for anything but a readable regular file of at most `most` bytes.
 */
export function readWhole(path: string, op: string, what: string, most: number): Uint8Array {
  const { descriptor, size } = openRegularFile(path, op);
  try {
    if (size > most) throw new FileError(path, { op, expected: `${what} of at most ${most} bytes`, received: `${size}` });
    const bytes = new Uint8Array(size);
    readFully(path, descriptor, 0, bytes, op);
    return bytes;
  } finally {
    closeSync(descriptor);
  }
}

/** Fills `target` from the file's byte `position` on; errors name `op`. */
export function readFully(path: string, descriptor: number, position: number, target: Uint8Array, op = "read"): void {
  let done = 0;
  while (done < target.byteLength) {
    let count: number;
    try {
      count = readSync(descriptor, target, done, Math.min(target.byteLength - done, mostPerRead), position + done);
    } catch (cause) {
      throw unreadable(path, op, cause);
    }
    if (count === 0) throw endedEarly(path, op, position, target, done);
    done += count;
  }
}

/** {@link readFully} in the background: only the caller waits. */
export async function readFullyAsync(path: string, descriptor: number, position: number, target: Uint8Array, op = "read"): Promise<void> {
  let done = 0;
  while (done < target.byteLength) {
    const length = Math.min(target.byteLength - done, mostPerRead);
    const count = await new Promise<number>((resolve, reject) => {
      read(descriptor, target, done, length, position + done, (cause, bytes) => {
        if (cause) reject(unreadable(path, op, cause));
        else resolve(bytes);
      });
    });
    if (count === 0) throw endedEarly(path, op, position, target, done);
    done += count;
  }
}

function unreadable(path: string, op: string, cause: unknown): FileError {
  return new FileError(path, { op, expected: "readable bytes", received: reasonOf(cause), cause });
}

function endedEarly(path: string, op: string, position: number, target: Uint8Array, done: number): FileError {
  const expected = `${target.byteLength} bytes at byte ${position}`;
  return new FileError(path, { op, expected, received: `the end of the file after ${done}` });
}

/** The short reason of a failed system call. */
export function reasonOf(cause: unknown): string {
  const code = (cause as { code?: unknown } | null)?.code;
  if (code === "ENOENT") return "no such file";
  if (code === "EACCES" || code === "EPERM") return "no permission to read it";
  if (code === "EISDIR") return "a directory";
  return typeof code === "string" ? code : describe(String(cause));
}

