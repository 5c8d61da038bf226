/** A plan's copies of its index arrays, in native memory that replays read. */
import type { Device } from "./device.ts";
import { ShapeError } from "../errors.ts";
import { native } from "./device-handle.ts";
import type { Handle } from "../native/handle.ts";
import { readIndices } from "../ops/indices.ts";
import type { IndexArgument } from "../ops/recorder.ts";
import { allocateStorage } from "../tensor/storage.ts";
import type { Storage } from "../tensor/storage.ts";

/** Native memory comes in pages of 16 KiB, so less would save nothing. */
const chunkElements = 4096;

interface Entry {
  readonly index: IndexArgument;
  /** The plan's copy. */
  readonly copy: Int32Array;
}

/** Copies of a plan's index arrays. */
export class PlanIndices {
  readonly #device: Device;
  readonly #entries: Entry[] = [];
  /** Places by source array: ops that share an array share its place. */
  readonly #places = new Map<unknown, { readonly handle: Handle; readonly byteOffset: number; readonly count: number }>();
  readonly #chunks: Storage[] = [];
  #used = 0;

  constructor(device: Device) {
    this.#device = device;
  }

  /** Allocates a place for index data and copies the data there. */
  add(index: IndexArgument, data: Int32Array): { readonly handle: Handle; readonly byteOffset: number } {
    const known = this.#places.get(index.source);
    if (known?.count === index.count) return known;
    const chunk = this.#chunkFor(index.count, index.op);
    const byteOffset = this.#used * 4;
    const copy = new Int32Array(chunk.memory, byteOffset, index.count);
    this.#used += index.count;
    copyInto(copy, data);
    this.#entries.push({ index, copy });
    const place = { handle: chunk.handle, byteOffset, count: index.count };
    this.#places.set(index.source, place);
    return place;
  }

  /**
   * Reads every array again.
   *
   * @throws {GatedDeltaError} for elements that are not indices, or a length that differs from the recorded one.
   */
  refresh(): void {
    for (const { index, copy } of this.#entries) {
      const { op, argument, source, count } = index;
      const data = readIndices(op, argument, source)!;
      if (data.count !== count) {
        throw new ShapeError({
          op,
          argument,
          expected: `${count} elements, as when recorded`,
          received: `${data.count}`,
        });
      }
      copyInto(copy, data.elements as Int32Array);
    }
  }

  dispose(): void {
    for (const chunk of this.#chunks) chunk.dispose();
    this.#entries.length = 0;
  }

  #chunkFor(count: number, op: string): Storage {
    const last = this.#chunks.at(-1);
    if (last !== undefined && this.#used + count <= last.bytes / 4) return last;
    const chunk = allocateStorage(this.#device[native], Math.max(count, chunkElements) * 4, op);
    this.#chunks.push(chunk);
    this.#used = 0;
    return chunk;
  }
}

/** Copies as many elements as the target has: a source over growable memory may have another length now. */
function copyInto(target: Int32Array, source: Int32Array): void {
  for (let i = 0; i < target.length; i++) target[i] = source[i]!;
}
