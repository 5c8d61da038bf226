/**
 * Tensors of a checkpoint in place: each file is mapped in windows when its first tensor is used. A tensor that cannot be used
 * where it begins, or that fits no window, is left to the caller, who copies it.
 */
import type { Device } from "../device/device.ts";
import { FileError } from "../errors.ts";
import type { FileRange } from "../native/memory.ts";
import { dtypes, type DType } from "../tensor/dtype.ts";
import { fileMapping, windowAlignment } from "../tensor/mapped-storage.ts";
import type { FileMapping, FileWindow, WindowPiece } from "../tensor/mapped-storage.ts";
import { contiguousStrides } from "../tensor/strides.ts";
import { makeTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { placeOf } from "./open-checkpoint.ts";
import type { FileOrigin } from "./file-tensors.ts";
import type { TensorSource } from "./source.ts";

/** The least gap between tensors, in bytes, that windows leave out: a window that a GPU works with is resident as a whole. */
const leastGap = 2 ** 20;

/**
 * Windows over ranges of a file: as few as possible, each over whole ranges and at most `largest` bytes. Ranges that fit none are
 * left out.
 */
export function windowsOver(ranges: Iterable<FileRange>, largest: number): FileRange[] {
  const windows: { offset: number; bytes: number }[] = [];
  for (const { offset, bytes } of [...ranges].sort((a, b) => a.offset - b.offset)) {
    const last = windows.at(-1);
    const end = offset + bytes;
    if (last !== undefined && offset - (last.offset + last.bytes) < leastGap && end - last.offset <= largest) {
      last.bytes = Math.max(last.bytes, end - last.offset);
      continue;
    }
    const start = offset - (offset % windowAlignment);
    if (bytes > 0 && end - start <= largest) windows.push({ offset: start, bytes: end - start });
  }
  return windows;
}

/** The mapped files of one load. Disposal keeps the windows that its tensors use. */
export class MappedTensors implements Disposable {
  readonly #device: Device;
  readonly #source: TensorSource;
  readonly #op: string;
  readonly #wanted: (name: string) => boolean;
  readonly #mapping: FileMapping;
  readonly #windows = new Map<FileOrigin, FileWindow[]>();

  /** @param wanted whether windows need to hold the tensor of a name. */
  constructor(device: Device, source: TensorSource, op: string, wanted: (name: string) => boolean) {
    this.#device = device;
    this.#source = source;
    this.#op = op;
    this.#wanted = wanted;
    this.#mapping = device[fileMapping];
  }

  /**
   * A tensor in its file, or undefined if it has to be copied.
   *
   * @param anywhere whether the tensor may begin at any byte, as matrices may; otherwise only where an element can be addressed.
   *   Some writers, such as MLX, do not pad their headers.
   * @throws {FileError} if the file cannot be mapped, or has changed since it was opened.
   */
  tensor(name: string, dtype: DType, shape: readonly number[], anywhere: boolean): Tensor | undefined {
    const { bytes } = this.#source.info(name);
    const place = this.#placeOf(name);
    if (place === undefined || (!anywhere && place.offset % dtypes[dtype].bytes !== 0)) return undefined;
    const { window, offset } = place;
    return makeTensor(this.#device, window.storage({ offset, bytes }), dtype, offset - window.range.offset, shape, contiguousStrides(shape)) as Tensor;
  }

  /**
   * Tensors of one dtype and shape in their files, as one tensor with an additional outer dimension, for the weight of an
   * `expertLinear`; undefined if they have to be copied.
   *
   * @throws {FileError} as {@link tensor}.
   */
  joined(names: readonly string[], dtype: DType, shape: readonly number[]): Tensor | undefined {
    const places = names.map((name) => this.#placeOf(name)).filter((place) => place !== undefined);
    if (places.length !== names.length) return undefined;
    const { bytes } = this.#source.info(names[0]!);
    const storage = this.#mapping.join(this.#op, places, bytes);
    const whole = [names.length, ...shape];
    return storage && (makeTensor(this.#device, storage, dtype, 0, whole, contiguousStrides(whole)) as Tensor);
  }

  /** The place of a tensor's bytes in a window, if there are any. */
  #placeOf(name: string): WindowPiece | undefined {
    const { file, position: offset } = placeOf(this.#source, name);
    const { bytes } = this.#source.info(name);
    const window = bytes === 0 ? undefined : this.#windowsOf(file).find((one) => one.holds({ offset, bytes }));
    return window && { window, offset };
  }

  #windowsOf(file: FileOrigin): FileWindow[] {
    let windows = this.#windows.get(file);
    if (windows === undefined) {
      const ranges = [...file.ranges()].filter(([name]) => this.#wanted(name)).map(([, range]) => range);
      windows = this.#mapping.map(this.#op, file, windowsOver(ranges, this.#mapping.largest));
      this.#windows.set(file, windows);
      // From now on, the library compares the file with its present state.
      if (!file.unchanged()) {
        const expected = "the unchanged file whose header was read";
        throw new FileError(file.path, { op: this.#op, expected, received: "a file that was changed meanwhile" });
      }
    }
    return windows;
  }

  [Symbol.dispose](): void {
    for (const windows of this.#windows.values()) for (const window of windows) window[Symbol.dispose]();
    this.#windows.clear();
  }
}
