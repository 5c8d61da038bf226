/**
 * The names of files that are being written, and what becomes of those whose writer was killed: the next writer of the
 * same file removes them. A name says which process wrote it and among which processes that number counts.
 */
import { createHash, randomBytes } from "node:crypto";
import { readdirSync, readlinkSync, unlinkSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";

let space: string | undefined;

/** The machine and, on Linux, the process namespace: containers that share a folder have process numbers of their own. */
function processSpace(): string {
  if (space !== undefined) return space;
  let namespace = "";
  try {
    namespace = readlinkSync("/proc/self/ns/pid");
  } catch {
    // Other systems have no such namespaces.
  }
  return (space = createHash("sha256").update(`${hostname()} ${namespace}`).digest("hex").slice(0, 12));
}

/** A name beside `path` that no other writer has, another Worker of this process included. */
export function temporaryName(path: string): string {
  const once = randomBytes(8).toString("hex");
  return join(dirname(path), `.${basename(path)}.${processSpace()}.${process.pid}.${once}.tmp`);
}

/** Removes what killed writers of `path` left. Failing to is no failure: nothing reads these files. */
export function removeLeftovers(path: string): void {
  const prefix = `.${basename(path)}.${processSpace()}.`;
  try {
    for (const entry of readdirSync(dirname(path))) {
      if (!entry.startsWith(prefix)) continue;
      const [, process] = /^(\d+)\.[0-9a-z]+\.tmp$/.exec(entry.slice(prefix.length)) ?? [];
      if (process !== undefined && !isAlive(Number(process))) unlinkSync(join(dirname(path), entry));
    }
  } catch {
    // The folder cannot be listed, or another writer was faster.
  }
}

function isAlive(id: number): boolean {
  try {
    process.kill(id, 0);
    return true;
  } catch (error) {
    return (error as { code?: unknown }).code !== "ESRCH";
  }
}
