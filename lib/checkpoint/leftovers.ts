/**
 * The names of temporary files, and the removal of those whose writer was killed, by the next writer of the same file. A
 * name holds the writer's process number and a hash of the machine and namespace in which the number is valid.
 */
import { createHash, randomBytes } from "node:crypto";
import { readdirSync, readlinkSync, unlinkSync } from "node:fs";
import { hostname } from "node:os";
import { basename, dirname, join } from "node:path";

let space: string | undefined;

/** The machine and, on Linux, the process namespace: containers that share a folder have separate process numbers. */
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

/** A name in the folder of `path` that no other writer uses, not even another Worker of this process. */
export function temporaryName(path: string): string {
  const once = randomBytes(8).toString("hex");
  return join(dirname(path), `.${basename(path)}.${processSpace()}.${process.pid}.${once}.tmp`);
}

/** Removes the temporary files of killed writers of `path`. Errors are ignored: nothing reads these files. */
export function removeLeftovers(path: string): void {
  const prefix = `.${basename(path)}.${processSpace()}.`;
  try {
    for (const entry of readdirSync(dirname(path))) {
      if (!entry.startsWith(prefix)) continue;
      const [, process] = /^(\d+)\.[0-9a-z]+\.tmp$/.exec(entry.slice(prefix.length)) ?? [];
      if (process !== undefined && !isAlive(Number(process))) unlinkSync(join(dirname(path), entry));
    }
  } catch {
    // The folder cannot be listed, or another writer has removed the file.
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
