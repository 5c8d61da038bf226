/** A folder as a store: a file for each object, and an empty file for each member of a set. Several servers may share it. */
import { mkdirSync } from "node:fs";
import { mkdir, open, readdir, rename, rm, rmdir, stat, utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { temporaryName } from "../../checkpoint/leftovers.ts";
import { FileError } from "../../errors.ts";
import type { SessionStore, StoredObject } from "./session-store.ts";

/** Only the owner may read conversations. */
const folderMode = 0o700;
const fileMode = 0o600;

/** The part of the byte limit that is used after files were removed. */
const leftOver = 0.9;
/** The part of the limit that this process writes before it examines the whole folder again, which others may also write to. */
const between = 0.05;
/** Milliseconds after which it examines the folder in any case. */
const oftenEnough = 600_000;
/** Milliseconds after which a temporary file has lost its writer. */
const abandoned = 600_000;

interface Kept {
  readonly path: string;
  readonly bytes: number;
  readonly used: number;
}

export class FolderStore implements SessionStore {
  readonly #folder: string;
  readonly #bytes: number;
  readonly #milliseconds: number;
  /** Bytes written since the folder was examined. */
  #written = Infinity;
  #looked = 0;
  #tidying: Promise<void> | undefined;

  /** @throws {FileError} if the folder can't be made. */
  constructor(op: string, folder: string, { bytes, seconds }: { readonly bytes: number; readonly seconds: number }) {
    this.#folder = folder;
    this.#bytes = bytes;
    this.#milliseconds = 1000 * seconds;
    try {
      mkdirSync(folder, { recursive: true, mode: folderMode });
    } catch (cause) {
      throw new FileError(folder, { op, message: `cannot be made: ${(cause as Error).message}`, cause });
    }
  }

  async members(sets: readonly string[]): Promise<readonly (readonly string[])[]> {
    return await Promise.all(sets.map((set) => unlessMissing(readdir(join(this.#folder, set)), [])));
  }

  async add(set: string, member: string): Promise<void> {
    const path = join(this.#folder, set, member);
    await inFolder(path, async () => {
      await (await open(path, "a", fileMode)).close();
      await touch(path);
    });
  }

  async has(objects: readonly StoredObject[]): Promise<readonly boolean[]> {
    return await Promise.all(
      objects.map(async ({ name, bytes }) => {
        const path = join(this.#folder, name);
        const found = await unlessMissing(stat(path), undefined);
        if (found === undefined || found.size !== bytes || this.#expired(found.mtimeMs)) return false;
        return await unlessMissing(touch(path).then(() => true), false);
      }),
    );
  }

  async read(name: string, into: Uint8Array<ArrayBuffer>): Promise<boolean> {
    const file = await unlessMissing(open(join(this.#folder, name)), undefined);
    if (file === undefined) return false;
    try {
      const { size, mtimeMs } = await file.stat();
      if (size !== into.length || this.#expired(mtimeMs)) return false;
      for (let at = 0; at < size; ) {
        const { bytesRead } = await file.read(into, at, size - at, at);
        if (bytesRead === 0) return false;
        at += bytesRead;
      }
      return true;
    } finally {
      await file.close();
    }
  }

  async write(name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const path = join(this.#folder, name);
    const temporary = temporaryName(path);
    await inFolder(path, async () => {
      const file = await open(temporary, "wx", fileMode);
      try {
        for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      } finally {
        await file.close();
      }
      await rename(temporary, path);
    });
    this.#written += bytes.length;
    if (this.#written > between * this.#bytes || Date.now() - this.#looked > oftenEnough) this.#tidying ??= this.#tidy().finally(() => (this.#tidying = undefined));
  }

  async remove({ name }: StoredObject): Promise<void> {
    await rm(join(this.#folder, name), { force: true });
  }

  async close(): Promise<void> {
    await this.#tidying;
  }

  #expired(used: number): boolean {
    return Date.now() - used > this.#milliseconds;
  }

  /** Removes expired files, and the oldest files while there are more bytes than allowed. */
  async #tidy(): Promise<void> {
    this.#written = 0;
    this.#looked = Date.now();
    const files: Kept[] = [];
    await this.#collect(this.#folder, files);
    let sum = files.reduce((bytes, file) => bytes + file.bytes, 0);
    const most = sum > this.#bytes ? leftOver * this.#bytes : Infinity;
    for (const { path, bytes, used } of files.sort((a, b) => a.used - b.used)) {
      const leftBehind = basename(path).endsWith(".tmp");
      if (leftBehind ? Date.now() - used < abandoned : !this.#expired(used) && (sum <= most || bytes === 0)) continue;
      await rm(path, { force: true }).catch(() => {});
      sum -= bytes;
    }
  }

  async #collect(folder: string, files: Kept[]): Promise<number> {
    let entries = 0;
    for (const entry of await readdir(folder, { withFileTypes: true }).catch(() => [])) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) {
        // An empty one goes; a writer that needs it makes it again.
        if ((await this.#collect(path, files)) === 0 && (await rmdir(path).then(() => true, () => false))) continue;
      } else if (entry.isFile()) {
        const found = await stat(path).catch(() => undefined);
        if (found !== undefined) files.push({ path, bytes: found.size, used: found.mtimeMs });
      }
      entries++;
    }
    return entries;
  }
}

/** Runs a function that makes a file, and makes the file's folder if it is missing. */
async function inFolder(path: string, make: () => Promise<void>): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      return await make();
    } catch (error) {
      // Another process may remove the folder again before it contains the file.
      if ((error as { code?: unknown }).code !== "ENOENT" || tries === 4) throw error;
      await mkdir(dirname(path), { recursive: true, mode: folderMode });
    }
  }
}

/** Gives a file the present time, as if it had just been written. */
async function touch(path: string): Promise<void> {
  const now = new Date();
  await utimes(path, now, now);
}

async function unlessMissing<T, Else>(work: Promise<T>, otherwise: Else): Promise<T | Else> {
  try {
    return await work;
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code === "ENOENT" || code === "ENOTDIR") return otherwise;
    throw error;
  }
}
