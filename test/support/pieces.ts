/** Experts' weights whose matrices are pieces of mapped files, in any order. */
import { closeSync, openSync, writeFileSync } from "node:fs";
import type { Device, Tensor } from "../../lib/index.ts";
import { fileMapping } from "../../lib/tensor/mapped-storage.ts";
import type { FileWindow, WindowPiece } from "../../lib/tensor/mapped-storage.ts";
import { contiguousStrides } from "../../lib/tensor/strides.ts";
import { makeTensor } from "../../lib/tensor/tensor.ts";
import { bytesOf } from "./layouts.ts";
import type { Random } from "./random.ts";

/** Where the pieces are. */
export interface PiecesLayout {
  /** The paths of the files, each of which has a window. */
  readonly paths: readonly string[];
  /** The remainder modulo four of the position at which every piece begins. */
  readonly remainder: number;
}

/** Maps files that hold the matrices of a tensor `[experts, ...]`, shuffled, with gaps between them. The caller disposes of the windows. */
export function mapPieces(device: Device, tensor: Tensor, random: Random, { paths, remainder }: PiecesLayout): { windows: FileWindow[]; pieces: WindowPiece[]; bytes: number } {
  const experts = tensor.shape[0]!;
  const all = bytesOf(tensor);
  const bytes = all.length / experts;
  const ends = paths.map(() => 0);
  const places = new Map<number, { file: number; offset: number }>();
  for (const expert of random.distinct(experts, experts)) {
    const file = random.below(paths.length);
    const offset = 4 * (Math.ceil(ends[file]! / 4) + random.below(7)) + remainder;
    places.set(expert, { file, offset });
    ends[file] = offset + bytes;
  }
  const windows = paths.map((path, file) => {
    const data = new Uint8Array(Math.max(1, ends[file]!)).fill(0xa5);
    for (const [expert, place] of places) if (place.file === file) data.set(all.subarray(expert * bytes, (expert + 1) * bytes), place.offset);
    writeFileSync(path, data);
    const descriptor = openSync(path, "r");
    const [window] = device[fileMapping].map("test", { path, descriptor }, [{ offset: 0, bytes: data.length }]);
    closeSync(descriptor);
    return window!;
  });
  const pieces = Array.from({ length: experts }, (_, expert) => ({ window: windows[places.get(expert)!.file]!, offset: places.get(expert)!.offset }));
  return { windows, pieces, bytes };
}

/** A tensor whose matrices are pieces of mapped files. */
export function inPieces(device: Device, tensor: Tensor, random: Random, layout: PiecesLayout): Tensor {
  const { windows, pieces, bytes } = mapPieces(device, tensor, random, layout);
  const storage = device[fileMapping].join("test", pieces, bytes)!;
  for (const window of windows) window[Symbol.dispose]();
  return makeTensor(device, storage, tensor.dtype, 0, tensor.shape, contiguousStrides(tensor.shape)) as Tensor;
}
