/**
 * Places the tensors of a case in device memory, between bytes that no op may touch, and checks afterwards whether one
 * did: inputs must be unchanged, outputs may change only where the op should write.
 */
import type { DType, Device, FloatDType, Tensor } from "../../lib/index.ts";
import { dtypes } from "../../lib/tensor/dtype.ts";
import { sizeOf } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import type { Random } from "./random.ts";

/** Elements before and after every tensor: 64 bytes or more, and a multiple of every alignment. */
const guard = 64;

/** Fillers between elements. In inputs NaN in every dtype, so that reading one shows; in outputs a pattern that is not NaN. */
const poison = { input: 0xff, output: 0xa5 } as const;

interface Placed {
  readonly name: string;
  readonly base: Tensor;
  readonly before: Uint8Array;
  /** Offset in the base, in elements. */
  readonly offset: number;
  readonly tensor: Tensor;
  /** Whether an index of the first dimension may be written. */
  readonly writable: (index: number) => boolean;
}

interface Layout {
  readonly offset: number;
  readonly strides: readonly number[];
}

const never = () => false;

/** The tensors of one case. */
export class Layouts implements Disposable {
  readonly #device: Device;
  readonly #random: Random | undefined;
  readonly #placed: Placed[] = [];

  /** @param random makes strided layouts of the tensors that may have them; without it, all tensors are contiguous. */
  constructor(device: Device, random?: Random) {
    this.#device = device;
    this.#random = random;
  }

  /** A tensor without gaps, such as weights, at any element. */
  packed<D extends FloatDType | "u32" | "u8">(name: string, format: D, numbers: Reference): Tensor<D> {
    const offset = guard + this.#below(9);
    return this.#input(name, format, numbers, { offset, strides: contiguous(numbers.shape) });
  }

  /**
   * An input of rows with free strides. Rows of the first dimension from `used` on hold poison.
   *
   * @param unit strides and offset are multiples of it: 8 if rows are vectors, 1 otherwise.
   */
  rows<D extends FloatDType>(
    name: string,
    format: D,
    numbers: Reference,
    used = numbers.shape[0]!,
    unit = unitOf(numbers.shape),
  ): Tensor<D> {
    const tensor = this.#input(name, format, numbers, this.#strided(numbers.shape, unit));
    for (let row = used; row < numbers.shape[0]!; row++) fillRow(tensor, row, poison.input);
    this.#refresh(tensor);
    return tensor;
  }

  /** A pool that is read and written in place; only the given slots may change. */
  pool<D extends FloatDType>(
    name: string,
    format: D,
    numbers: Reference,
    written: readonly number[],
    multiple = 8,
  ): Tensor<D> {
    const slots = new Set(written);
    const layout = { offset: guard + multiple * this.#below(4), strides: contiguous(numbers.shape) };
    const tensor = this.#place(name, format, numbers.shape, layout, poison.output, (slot) => slots.has(slot));
    tensor.copyFrom(numbers.data);
    this.#refresh(tensor);
    return tensor;
  }

  /** A tensor of rows with free strides that is read and written in place. */
  updated<D extends FloatDType>(name: string, format: D, numbers: Reference): Tensor<D> {
    const tensor = this.#place(name, format, numbers.shape, this.#strided(numbers.shape, unitOf(numbers.shape)), poison.output, () => true);
    tensor.copyFrom(numbers.data);
    this.#refresh(tensor);
    return tensor;
  }

  /** An output with free strides; only its rows before `used` may change. */
  out<D extends FloatDType>(
    name: string,
    format: D,
    shape: readonly number[],
    used = shape[0]!,
    unit = unitOf(shape),
  ): Tensor<D> {
    return this.#place(name, format, shape, this.#strided(shape, unit), poison.output, (row) => row < used);
  }

  /** A tensor with a layout of the caller's, over poisoned memory. */
  input<D extends FloatDType>(name: string, format: D, numbers: Reference, layout: Layout): Tensor<D> {
    return this.#input(name, format, numbers, layout);
  }

  /** The bytes that changed but should not have, one line each. */
  trespasses(): string[] {
    return this.#placed.flatMap((placed) => {
      const { name, base, before, offset, tensor, writable } = placed;
      const now = elementsOf(bytesOf(base), tensor.dtype);
      const allowed = elementsOf(before.slice(), tensor.dtype);
      if (writable !== never) {
        eachRow(tensor.shape, tensor.strides, (at, length, stride, index) => {
          if (!writable(index)) return;
          const from = offset + at;
          if (stride === 1) allowed.set(now.subarray(from, from + length), from);
          else for (let i = 0, to = from; i < length; i++, to += stride) allowed[to] = now[to]!;
        });
      }
      const i = firstDifferent(allowed, now);
      return i === undefined
        ? []
        : [`${name}: element ${i - offset} from its first, of shape [${tensor.shape}] with strides [${tensor.strides}]`];
    });
  }

  /** Every byte of every tensor and around it, for comparing before and after. */
  snapshot(): Uint8Array[] {
    return this.#placed.map(({ base }) => bytesOf(base).slice());
  }

  [Symbol.dispose](): void {
    for (const { base } of this.#placed) base[Symbol.dispose]();
  }

  #below(count: number): number {
    return this.#random === undefined ? 0 : this.#random.below(count);
  }

  /** Free strides for rows: tokens outside heads or heads outside tokens, with gaps of any size between. */
  #strided(shape: readonly number[], unit: number): Layout {
    const random = this.#random;
    if (random === undefined) return { offset: guard, strides: contiguous(shape) };
    const row = shape.at(-1)!;
    const gap = () => unit * random.pick([0, 0, 1, 2, 5]);
    const roundUp = (length: number) => Math.max(Math.ceil(length / unit) * unit, unit);
    const offset = guard + unit * random.below(4);
    if (shape.length === 2) return { offset, strides: [roundUp(row) + gap(), 1] };
    const inner = roundUp(row) + gap();
    if (random.uniform() < 0.7) return { offset, strides: [Math.max(shape[1]!, 1) * inner + gap(), inner, 1] };
    return { offset, strides: [inner, Math.max(shape[0]!, 1) * inner + gap(), 1] };
  }

  #input<D extends FloatDType | "u32" | "u8">(name: string, format: D, numbers: Reference, layout: Layout): Tensor<D> {
    const tensor = this.#place(name, format, numbers.shape, layout, poison.input, never);
    tensor.copyFrom(numbers.data);
    this.#refresh(tensor);
    return tensor;
  }

  #place<D extends FloatDType | "u32" | "u8">(
    name: string,
    format: D,
    shape: readonly number[],
    { offset, strides }: Layout,
    filling: number,
    writable: (index: number) => boolean,
  ): Tensor<D> {
    const extent =
      sizeOf(shape) === 0 ? 0 : shape.reduce((sum, length, axis) => sum + (length - 1) * strides[axis]!, 1);
    const base = this.#device.tensor(format, [offset + extent + guard]);
    bytesOf(base).fill(filling);
    const tensor = base.view({ offset, shape, strides });
    this.#placed.push({ name, base, before: bytesOf(base).slice(), offset, tensor, writable });
    return tensor;
  }

  /** Records a tensor's current memory as its contents before the op. */
  #refresh(tensor: Tensor): void {
    const placed = this.#placed.find((one) => one.tensor === tensor);
    placed?.before.set(bytesOf(placed.base));
  }
}

/** The unit of strides and offsets: 8 elements if a row's length is a multiple of 8. */
export function unitOf(shape: readonly number[]): number {
  return shape.at(-1)! % 8 === 0 ? 8 : 1;
}

/** The numbers of a tensor's first `rows` rows. */
export function download(tensor: Tensor, rows = tensor.shape[0]!): Float32Array<ArrayBuffer> {
  return tensor.slice(0, rows).toFloat32();
}

/** Every byte of a tensor without gaps. */
export function bytesOf(tensor: Tensor): Uint8Array {
  const { buffer, byteOffset, byteLength } = tensor.data;
  return new Uint8Array(buffer, byteOffset, byteLength);
}

type Elements = Uint8Array | Uint16Array | Uint32Array;

/** Bytes as the bit patterns of elements. */
function elementsOf({ buffer, byteOffset, byteLength }: Uint8Array, dtype: DType): Elements {
  if (dtypes[dtype].bytes === 1) return new Uint8Array(buffer, byteOffset, byteLength);
  if (dtypes[dtype].bytes === 2) return new Uint16Array(buffer, byteOffset, byteLength / 2);
  return new Uint32Array(buffer, byteOffset, byteLength / 4);
}

/** Row-major strides. */
function contiguous(shape: readonly number[]): number[] {
  return shape.map((_, axis) => Math.max(sizeOf(shape.slice(axis + 1)), 1));
}

/** Visits each row of the last dimension, or several at once if without gaps: offset, length, stride, and index in the first dimension. */
function eachRow(
  ofShape: readonly number[],
  ofStrides: readonly number[],
  visit: (at: number, length: number, stride: number, index: number) => void,
): void {
  const [shape, strides] = [[...ofShape], [...ofStrides]];
  while (shape.length > 2 && strides.at(-2) === shape.at(-1)! * strides.at(-1)!) {
    shape.push(shape.pop()! * shape.pop()!);
    strides.splice(-2, 1);
  }
  const last = shape.length - 1;
  const walk = (axis: number, at: number, index: number): void => {
    if (axis === last) return visit(at, shape[axis]!, strides[axis]!, index);
    for (let i = 0; i < shape[axis]!; i++) walk(axis + 1, at + i * strides[axis]!, axis === 0 ? i : index);
  };
  // In a single dimension each element is a row of its own, with its own index.
  if (last > 0) walk(0, 0, 0);
  else for (let i = 0; i < shape[0]!; i++) visit(i * strides[0]!, 1, 1, i);
}

/** The first place where two arrays of the same length differ. */
function firstDifferent(one: Elements, other: Elements): number | undefined {
  // Equal arrays, the usual case, are compared at once as bytes.
  if (Buffer.compare(rawOf(one), rawOf(other)) === 0) return undefined;
  return one.findIndex((value, i) => value !== other[i]);
}

function rawOf({ buffer, byteOffset, byteLength }: Elements): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Overwrites the elements of a row of the first dimension, byte by byte. */
function fillRow(tensor: Tensor, row: number, byte: number): void {
  const part = tensor.slice(row, row + 1);
  eachRow(part.shape, part.strides, (at, length) => bytesOf(part.view({ offset: at, shape: [length] })).fill(byte));
}
