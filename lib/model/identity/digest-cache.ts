/**
 * Digests of files' tensors in the user's cache folder, with one entry per file, named by the file's stamp. An entry that
 * is damaged or can't be read is ignored. Only folders that no other user can write to are used, because a forged entry
 * could pass a file off as another model.
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

/** Entries take about ten thousand bytes each. */
const mostEntries = 1000;

/**
 * Milliseconds. On file systems with coarse times, of up to two seconds, a file that was just written may change again without
 * a new stamp.
 */
const settledAfter = 2000;

/** Digests by the tensors' names. */
export type Digests = ReadonlyMap<string, string>;

/** Whether the next change of a file with this stamp will give it a new one. */
export function isSettled({ modified, changed }: FileStamp, now: number = Date.now()): boolean {
  return Number((modified > changed ? modified : changed) / 1_000_000n) + settledAfter < now;
}

/** The stored digests of a file; empty if there are none. */
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

/** Stores the digests of a file, if possible. */
export async function writeDigests(stamp: FileStamp, digests: Digests): Promise<void> {
  try {
    const folder = entriesFolder();
    if (folder === undefined) return;
    const tensors = [...digests];
    const text = JSON.stringify({ checksum: checksumOf(stamp, tensors), tensors });
    await replaceFileAsync(join(folder, entryName(stamp)), "model.identity", [new TextEncoder().encode(text)]);
    await removeOldest(folder);
  } catch {
    // The digests will be computed again.
  }
}

/** The first usable cache folder of the user. */
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

/** Drops the oldest entries if there are many. */
async function removeOldest(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name.endsWith(".json"));
  if (names.length <= mostEntries) return;
  const entries = await Promise.all(names.map(async (name) => ({ path: join(folder, name), written: (await stat(join(folder, name))).mtimeMs })));
  entries.sort((a, b) => a.written - b.written);
  for (const { path } of entries.slice(0, -mostEntries)) await unlink(path);
}
