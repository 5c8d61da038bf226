/** Hashes tensors in their files, in Workers, without passing their bytes to the calling thread. */
import { createHash } from "node:crypto";
import { Worker } from "node:worker_threads";
import { FileError, GatedDeltaError } from "../../errors.ts";
import { hashChunks } from "./hash-chunks.ts";
import type { HashEnd, HashTask } from "./hash-chunks.ts";
import type { StoredFile, StoredTensor } from "./stored-tensors.ts";

/** Each tensor is cut into chunks of this many bytes; the last one may be shorter. */
const chunkBytes = 2 ** 20;

/** With SHA-256 instructions two Workers reach 3 GB/s, more than most disks. The other cores are left to the model. */
const mostWorkers = 2;

/** A Worker takes 12 ms to start; another Worker hashes this many bytes in that time. */
const bytesPerWorker = 2 ** 24;

/**
 * The digests of tensors: for each the SHA-256, in hexadecimal, of the SHA-256s of its chunks.
 *
 * @param signal ends the work, and the promise with its reason.
 * @throws {FileError} (as a rejection) for a file that has changed since it was loaded.
 */
export async function digestTensors(tensors: readonly StoredTensor[], signal: AbortSignal): Promise<Map<StoredTensor, string>> {
  const { task, counts } = taskOf(tensors);
  const bytes = tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
  const stop = (): void => void Atomics.store(task.next, 0, task.chunks.length / 3);
  signal.addEventListener("abort", stop);
  try {
    const workers = Math.min(mostWorkers, 1 + Math.floor(bytes / bytesPerWorker));
    const ends = await Promise.all(Array.from({ length: workers }, () => runWorker(task)));
    signal.throwIfAborted();
    for (const end of ends) if (end.file !== undefined) throw changedError(task.files[end.file]!.path, end.received);
  } finally {
    signal.removeEventListener("abort", stop);
  }
  let chunk = 0;
  return new Map(tensors.map((tensor, i) => {
    const from = chunk;
    chunk += counts[i]!;
    return [tensor, createHash("sha256").update(task.digests.slice(32 * from, 32 * chunk)).digest("hex")];
  }));
}

/** The error for a file that has changed. */
export function changedError(path: string, received: string): FileError {
  return new FileError(path, { expected: "the unchanged file from which the model was loaded", received });
}

/** The chunks of all tensors, one tensor after another, and the number of chunks of each. */
function taskOf(tensors: readonly StoredTensor[]): { task: HashTask; counts: number[] } {
  const counts = tensors.map(({ bytes }) => Math.ceil(bytes / chunkBytes));
  const count = counts.reduce((sum, one) => sum + one, 0);
  const chunks = new Float64Array(new SharedArrayBuffer(8 * 3 * count));
  const files: StoredFile[] = [];
  const indices = new Map<StoredFile, number>();
  let at = 0;
  for (const { bytes, file, position } of tensors) {
    let index = indices.get(file);
    if (index === undefined) indices.set(file, (index = files.push(file) - 1));
    for (let from = 0; from < bytes; from += chunkBytes, at += 3) {
      chunks.set([index, position + from, Math.min(chunkBytes, bytes - from)], at);
    }
  }
  const task: HashTask = {
    files: files.map(({ path, stamp }) => ({ path, stamp })),
    chunks,
    chunkBytes,
    next: new Int32Array(new SharedArrayBuffer(4)),
    digests: new Uint8Array(new SharedArrayBuffer(32 * count)),
  };
  return { task, counts };
}

function runWorker(task: HashTask): Promise<HashEnd> {
  return new Promise((resolve, reject) => {
    const fail = (cause?: unknown): void => {
      Atomics.store(task.next, 0, task.chunks.length / 3);
      reject(new GatedDeltaError("internal", { message: "a Worker that hashes the model's files ended before it was done", cause }));
    };
    const worker = new Worker(`(${hashChunks})()`, { eval: true, workerData: task, name: "gated-delta identity" });
    let end: HashEnd | undefined;
    worker.once("message", (message: HashEnd) => void (end = message));
    worker.once("error", fail);
    worker.once("exit", () => (end === undefined ? fail() : resolve(end)));
  });
}
