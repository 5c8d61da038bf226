/**
 * The function of a Worker that hashes parts of files. The Worker gets it as text, because a separate file would have to be
 * found in a clone, a package, a bundler's output and a compiled program. So it uses nothing from outside.
 */
import type { FileStamp } from "../../checkpoint/file-stamp.ts";

/** Work that several Workers share. */
export interface HashTask {
  readonly files: readonly { readonly path: string; readonly stamp: FileStamp }[];
  /** Three numbers for each chunk: the index of its file, its position there, and its bytes. Shared memory. */
  readonly chunks: Float64Array;
  /** The most bytes of a chunk. */
  readonly chunkBytes: number;
  /** One number: the next chunk to take. Shared memory; storing the number of chunks ends the work. */
  readonly next: Int32Array;
  /** The SHA-256 of each chunk, 32 bytes. Shared memory. */
  readonly digests: Uint8Array;
}

/** How a Worker ended: with its share done, or with a file that has changed. */
export type HashEnd = { readonly file?: undefined } | { readonly file: number; readonly received: string };

/** Hashes chunks until none is left. Runs in a Worker. */
export function hashChunks(): void {
  const { closeSync, constants, fstatSync, openSync, readSync } = process.getBuiltinModule("node:fs");
  const { createHash } = process.getBuiltinModule("node:crypto");
  const { parentPort, workerData } = process.getBuiltinModule("node:worker_threads");
  const { files, chunks, chunkBytes, next, digests } = workerData as HashTask;
  const count = chunks.length / 3;
  const opened = new Map<number, number>();
  const buffer = new Uint8Array(chunkBytes);
  let file = 0;

  function isAsBefore(descriptor: number): boolean {
    const { device, inode, size, modified, changed } = files[file]!.stamp;
    const now = fstatSync(descriptor, { bigint: true });
    return now.dev === device && now.ino === inode && now.size === size && now.mtimeNs === modified && now.ctimeNs === changed;
  }

  function run(): HashEnd {
    const other = () => ({ file, received: "a file that was changed or replaced since" });
    for (let chunk = Atomics.add(next, 0, 1); chunk < count; chunk = Atomics.add(next, 0, 1)) {
      file = chunks[3 * chunk]!;
      let descriptor = opened.get(file);
      if (descriptor === undefined) {
        descriptor = openSync(files[file]!.path, constants.O_RDONLY | constants.O_NONBLOCK);
        opened.set(file, descriptor);
        if (!isAsBefore(descriptor)) return other();
      }
      const from = chunks[3 * chunk + 1]!;
      const bytes = buffer.subarray(0, chunks[3 * chunk + 2]!);
      for (let done = 0; done < bytes.length; ) {
        const got = readSync(descriptor, bytes, done, bytes.length - done, from + done);
        if (got === 0) return other();
        done += got;
      }
      digests.set(createHash("sha256").update(bytes).digest(), 32 * chunk);
    }
    for (const [index, descriptor] of opened) {
      file = index;
      if (!isAsBefore(descriptor)) return other();
    }
    return {};
  }

  let end: HashEnd;
  try {
    end = run();
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    end = { file, received: code === "ENOENT" ? "no such file" : code === "EACCES" ? "no permission to read it" : (code ?? message) };
  } finally {
    for (const descriptor of opened.values()) closeSync(descriptor);
  }
  if (end.file !== undefined) Atomics.store(next, 0, count); // stop the other Workers
  parentPort!.postMessage(end);
}
