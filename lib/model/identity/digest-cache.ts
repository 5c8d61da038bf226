/**
 * Digests of the tensors of files, in the user's cache folder: an entry a file, named by its stamp. Nothing depends on what
 * is there: an entry that is damaged, or can't be read or written, is as none. Only folders that no other user can write to
 * are used, since whoever can write an entry decides which model a file passes for.
 */
import { createHash } from "node:crypto";
import { mkdirSync } from "node:fs";
import { readFile, readdir, stat, unlink } from "node:fs/promises";
import { join } from "node:path";
import { cacheFolders, isOwnFolder } from "../../native/cache-folders.ts";
import { stampText } from "../../checkpoint/file-stamp.ts";
import type { FileStamp } from "../../checkpoint/file-stamp.ts";
import { replaceFileAsync } from "../../checkpoint/replace-file.ts";
import { algorithm } from "./algorithm.ts";
import { entrySchema } from "./identity-schemas.ts";

/** Entries have some ten thousand bytes. */
const mostEntries = 1000;

/**
 * A file that was written to just now may be written to again without another stamp, on file systems whose times are
 * coarse: two seconds are the coarsest. In milliseconds.
 */
const settledAfter = 2000;

/** Digests by the tensors' names. */
export type Digests = ReadonlyMap<string, string>;

/** Whether a file of this stamp has another one after its next change. */
export function isSettled({ modified, changed }: FileStamp, now: number = Date.now()): boolean {
  return Number((modified > changed ? modified : changed) / 1_000_000n) + settledAfter < now;
}

/** What is known of a file; nothing where that is nothing. */
export async function readDigests(stamp: FileStamp): Promise<Digests> {
  try {
    const folder = entriesFolder();
    if (folder === undefined) return new Map();
    const { checksum, tensors } = entrySchema().parse(JSON.parse(await readFile(join(folder, entryName(stamp)), "utf8")));
    return checksum === checksumOf(stamp, tensors) ? new Map(tensors) : new Map();
  } catch {
    return new Map();
  }
}

/** Keeps what is known of a file, where that is possible. */
export async function writeDigests(stamp: FileStamp, digests: Digests): Promise<void> {
  try {
    const folder = entriesFolder();
    if (folder === undefined) return;
    const tensors = [...digests];
    const text = JSON.stringify({ checksum: checksumOf(stamp, tensors), tensors });
    await replaceFileAsync(join(folder, entryName(stamp)), "model.identity", [new TextEncoder().encode(text)]);
    await removeOldest(folder);
  } catch {
    // It is computed again.
  }
}

/** The first of the user's cache folders that can be used. */
function entriesFolder(): string | undefined {
  return cacheFolders().map((folder) => join(folder, "identities")).find((folder) => {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      return isOwnFolder(folder);
    } catch {
      return false;
    }
  });
}

function entryName(stamp: FileStamp): string {
  return `${sha256(JSON.stringify([algorithm, stampText(stamp)]))}.json`;
}

function checksumOf(stamp: FileStamp, tensors: readonly (readonly [string, string])[]): string {
  return sha256(JSON.stringify([algorithm, stampText(stamp), tensors]));
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Drops the entries that were written first, where there are many: files come and go. */
async function removeOldest(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json"));
  if (names.length <= mostEntries) return;
  const entries = await Promise.all(names.map(async (name) => ({ path: join(folder, name), written: (await stat(join(folder, name))).mtimeMs })));
  entries.sort((a, b) => a.written - b.written);
  for (const { path } of entries.slice(0, -mostEntries)) await unlink(path);
}
