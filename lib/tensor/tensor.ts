import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { asInteger } from "../arguments/checks.ts";
import { DisposedError, GatedDeltaError, ShapeError, UnsupportedError, describe } from "../errors.ts";
import { dtypes, toFloat32 } from "./dtype.ts";
import type { ArrayOfDType, DType } from "./dtype.ts";
import type { Device } from "../device/device.ts";
import { asRange, asShape, asView, expectAxis } from "./shape.ts";
import type { TensorView } from "./shape.ts";
import { tensorWords } from "../native/descriptor.ts";
import type { Storage } from "./storage.ts";
import { contiguousStrides, copyStrided, extentOf, isContiguous, reshapedStrides, sizeOf } from "./strides.ts";
import { expectCopyable, readNumbers, writeNumbers } from "./copy.ts";
import type { Numbers } from "./copy.ts";

/** Whether a tensor owns its memory or is a view of one that does. */
interface Tenure {
  /** Whether disposing the tensor disposes the memory. */
  readonly owns: boolean;
  /** The tensor that this one is a view of: disposing it disposes this one. */
  readonly viewed: Tensor | undefined;
}

/** Whether a value is a {@link Tensor} of this package, and not a lookalike or an object with its prototype. */
export let isTensor: (value: unknown) => value is Tensor;

/** Marks a tensor's memory as a pool's, which ops may use only through a step or draft. */
export function guardTensor(tensor: Tensor): void {
  (storageOf(tensor) as { guarded: boolean }).guarded = true;
}

/** Disposal counter; unchanged means that no tensor was disposed. */
export let disposals = 0;

/** The memory of a tensor. */
export let storageOf: (tensor: Tensor) => Storage;

/** Byte offset of a tensor's first element in its buffer. */
export let byteOffsetOf: (tensor: Tensor) => number;

/** A tensor packed for the native side; made once. */
export let wordsOf: (tensor: Tensor) => Uint32Array;

/**
 * Makes a tensor over a storage.
 *
 * @param byteOffset from the start of the storage's buffer.
 * @param tenure by default the tensor owns the storage.
 */
export let makeTensor: <D extends DType>(
  device: Device,
  storage: Storage,
  dtype: D,
  byteOffset: number,
  shape: readonly number[],
  strides: readonly number[],
  tenure?: Tenure,
) => Tensor<D>;

/**
 * A tensor in memory that JavaScript and the device share: ops read and write the memory of the typed array. A method
 * copies only if its description says so.
 *
 * Tensors come from {@link Device.tensor} and similar methods; views of them come from {@link view}, {@link slice},
 * {@link narrow} and {@link reshape}. A view shares its base's memory: disposing the base disposes its views, but
 * disposing a view ends only that view.
 *
 * Memory is freed by `[Symbol.dispose]()` (so `using` works), or when the tensor and its typed arrays are garbage-collected. Ops
 * that were encoded or committed hold references to it, so a tensor may be disposed while work on it is pending. Its typed
 * array is then detached: it has length 0.
 *
 * @example
 * using device = Device.open();
 * using x = device.tensor("f32", [3, 4]); // zeros
 * x.data[0] = 1; // no copy: this is the memory that ops read
 * const lastRow = x.slice(2, 3); // [1, 4]
 */
export class Tensor<D extends DType = DType> implements Disposable {
  /** The device whose ops can use this tensor. */
  readonly device: Device;
  /** Element type. */
  readonly dtype: D;
  /** Lengths of the dimensions, outermost first. */
  readonly shape: readonly number[];
  /** Steps between neighbours in each dimension, in elements. */
  readonly strides: readonly number[];
  /** Number of elements: the product of `shape`. */
  readonly size: number;
  /** Whether the elements are in row-major order without gaps. */
  readonly contiguous: boolean;

  readonly #storage: Storage;
  readonly #byteOffset: number;
  readonly #tenure: Tenure;
  #data: ArrayOfDType[D] | undefined;
  #words: Uint32Array | undefined;
  #ended = false;

  private constructor(
    by: Maker,
    device: Device,
    storage: Storage,
    dtype: D,
    byteOffset: number,
    shape: readonly number[],
    strides: readonly number[],
    tenure: Tenure,
  ) {
    expectMaker(by, "Tensor", "device.tensor(…) instead of a constructor");
    this.device = device;
    this.dtype = dtype;
    this.shape = Object.freeze([...shape]);
    this.strides = Object.freeze([...strides]);
    this.size = sizeOf(shape);
    this.contiguous = isContiguous(shape, strides);
    this.#storage = storage;
    this.#byteOffset = byteOffset;
    this.#tenure = tenure;
    Object.freeze(this); // JavaScript callers cannot change what was checked
  }

  static {
    isTensor = (value): value is Tensor => typeof value === "object" && value !== null && #storage in value;
    storageOf = (tensor) => tensor.#storage;
    byteOffsetOf = (tensor) => tensor.#byteOffset;
    wordsOf = (tensor) => {
      const { dtype, shape, strides } = tensor;
      return (tensor.#words ??= tensorWords(tensor.#storage.handle, tensor.#byteOffset, dtype, shape, strides));
    };
    makeTensor = (device, storage, dtype, byteOffset, shape, strides, tenure = { owns: true, viewed: undefined }) =>
      new Tensor(maker, device, storage, dtype, byteOffset, shape, strides, tenure);
  }

  /** Length of the elements in bytes, gaps not counted. */
  get bytes(): number {
    return this.size * dtypes[this.dtype].bytes;
  }

  /** Whether the memory, or this view of it, is gone. */
  get disposed(): boolean {
    return this.#ended || this.#storage.disposed || (this.#tenure.viewed?.disposed ?? false);
  }

  /**
   * The elements, in place: Float32Array, Float16Array, Uint16Array (bf16's bits), Int32Array, Uint32Array or Uint8Array.
   *
   * While work on the tensor is pending, the elements may be old, new or a mixture; wait first.
   *
   * @throws {ShapeError} for a strided view, whose elements are not contiguous; {@link toFloat32} copies those out.
   * @throws {UnsupportedError} for weights in a mapped file, which are read-only; {@link toFloat32} copies those out, too.
   * @throws {DisposedError} after disposal.
   */
  get data(): ArrayOfDType[D] {
    this.#writable("data");
    if (!this.contiguous) {
      throw new ShapeError({
        op: "tensor.data",
        expected: "a contiguous tensor (toFloat32() copies any tensor)",
        received: `shape ${describe(this.shape)} with strides ${describe(this.strides)}`,
      });
    }
    return (this.#data ??= this.#elements(this.size));
  }

  /**
   * A strided view inside this tensor's memory.
   *
   * @param layout `offset` of the first element, in elements from this tensor's (default 0); `shape`; `strides` in
   *   elements (default contiguous), at least 1 each. Every element must lie between this tensor's first and last.
   * @throws {BoundsError} for a negative offset, {@link ShapeError} for a layout that reaches outside.
   */
  view(layout: TensorView): Tensor<D> {
    this.#alive("view");
    const { offset, shape, strides } = asView("tensor.view", layout);
    return this.#part("tensor.view", offset, shape, strides);
  }

  /**
   * The rows `start` to `end` (not included) of the first dimension; `end` defaults to its length.
   *
   * @throws {BoundsError} for rows that do not exist.
   */
  slice(start: number, end: number = this.shape[0]!): Tensor<D> {
    this.#alive("slice");
    const [from, to] = asRange("tensor.slice", start, end, this.shape[0]!);
    return this.#narrowed(0, from, to - from);
  }

  /**
   * The `length` indices of dimension `axis` from `start` on.
   *
   * @throws {BoundsError} for a dimension or indices that do not exist.
   */
  narrow(axis: number, start: number, length: number): Tensor<D> {
    this.#alive("narrow");
    const op = "tensor.narrow";
    expectAxis(op, axis, this.shape.length);
    const first = asInteger(op, "start", start, 0, this.shape[axis]!);
    return this.#narrowed(axis, first, asInteger(op, "length", length, 0, this.shape[axis]! - first));
  }

  /**
   * The same elements under another shape of equal size, such as `[tokens, heads · dim]` as `[tokens, heads, dim]`.
   *
   * @throws {ShapeError} if the size differs, or if a strided view would need a copy.
   */
  reshape(shape: readonly number[]): Tensor<D> {
    this.#alive("reshape");
    const op = "tensor.reshape";
    const target = asShape(op, "shape", shape);
    const refuse = (expected: string) => new ShapeError({ op, argument: "shape", expected, received: describe(target) });
    if (sizeOf(target) !== this.size) throw refuse(`${this.size} elements`);
    const strides = reshapedStrides(this.shape, this.strides, target);
    if (strides !== undefined) return this.#part(op, 0, target, strides);
    throw refuse(`one that shape ${describe(this.shape)} with strides ${describe(this.strides)} has without a copy`);
  }

  /**
   * Copies elements in, in row-major order, each rounded once to this dtype (to nearest, ties to even).
   *
   * @param source as many numbers as the tensor has elements, or a tensor of the same shape. For a bf16 tensor, a
   *   Uint16Array is taken as bf16 bits. For other dtypes than floats, numbers must be integers within the dtype's range.
   * @returns this tensor.
   * @throws {ShapeError} for another shape or number of elements; {@link DTypeError} for a tensor of another kind of element;
   *   {@link GatedDeltaError} for a value that is not a number, or not one of the dtype; {@link UnsupportedError} if this tensor
   *   is in a mapped file.
   */
  copyFrom(source: ArrayLike<number> | Tensor): this {
    this.#writable("copyFrom");
    let numbers: Numbers;
    if (isTensor(source)) {
      expectCopyable(source, this);
      // Overlapping contiguous tensors are safe: `set` copies as if through a temporary.
      if (source.dtype !== this.dtype) numbers = source.toFloat32();
      else numbers = source.#stored();
    } else {
      numbers = readNumbers(this.dtype, source, this.size);
      this.#alive("copyFrom");
    }
    if (this.contiguous) {
      writeNumbers(this.dtype, numbers, this.data);
    } else {
      const packed = dtypes[this.dtype].create(this.size);
      writeNumbers(this.dtype, numbers, packed);
      const target = this.#elements(extentOf(this.shape, this.strides));
      copyStrided(this.shape, target, 0, this.strides, packed, 0, contiguousStrides(this.shape));
    }
    return this;
  }

  /** A copy of the elements in row-major order as float32: exact for f32, f16 and bf16. */
  toFloat32(): Float32Array<ArrayBuffer> {
    this.#alive("toFloat32");
    return toFloat32(this.dtype, this.#stored());
  }

  /**
   * Ends this tensor. If it owns its memory, the memory is freed as soon as no pending work needs it, its typed arrays are
   * detached, and its views end too. Disposing again does nothing.
   */
  [Symbol.dispose](): void {
    disposals++;
    this.#ended = true;
    this.#data = undefined;
    if (this.#tenure.owns) this.#storage.dispose();
  }

  /** The elements without gaps: where they lie, or a copy. */
  #stored(): ArrayOfDType[D] {
    if (!this.contiguous) return this.#packed();
    return this.#storage.readOnly ? this.#elements(this.size) : this.data;
  }

  /** A contiguous copy of the elements. */
  #packed(): ArrayOfDType[D] {
    this.#alive("copyFrom");
    const packed = dtypes[this.dtype].create(this.size);
    const source = this.#elements(extentOf(this.shape, this.strides));
    copyStrided(this.shape, packed, 0, contiguousStrides(this.shape), source, 0, this.strides);
    return packed;
  }

  #elements(count: number): ArrayOfDType[D] {
    const { memory, byteOffset } = this.#storage;
    return dtypes[this.dtype].view(memory, byteOffset + this.#byteOffset, count);
  }

  #narrowed(axis: number, start: number, length: number): Tensor<D> {
    const shape = this.shape.with(axis, length);
    return this.#part("tensor.narrow", start * this.strides[axis]!, shape, this.strides);
  }

  #part(op: string, offset: number, shape: readonly number[], strides: readonly number[]): Tensor<D> {
    const extent = extentOf(shape, strides);
    if (extent === 0) offset = 0; // no element has an address
    const available = extentOf(this.shape, this.strides);
    if (offset + extent > available) {
      throw new ShapeError({
        op,
        expected: `at most ${available} elements from first to last`,
        received: `offset ${offset}, shape ${describe(shape)}, strides ${describe(strides)}`,
      });
    }
    const byteOffset = this.#byteOffset + offset * dtypes[this.dtype].bytes;
    return makeTensor(this.device, this.#storage, this.dtype, byteOffset, shape, strides, { viewed: this, owns: false });
  }

  #writable(method: string): void {
    this.#alive(method);
    if (!this.#storage.readOnly) return;
    const expected = "memory that can be written to (toFloat32() copies any tensor)";
    throw new UnsupportedError({ op: `tensor.${method}`, expected, received: "a mapped file's, which is only read" });
  }

  #alive(method: string): void {
    if (this.disposed) throw new DisposedError({ op: `tensor.${method}`, expected: "a tensor that is not disposed" });
  }
}
