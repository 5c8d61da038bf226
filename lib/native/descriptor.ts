/**
 * Op descriptors: one reusable block of memory per op, written at the generated offsets and passed to its
 * `gd_encode_*` function. No code of the caller may run between the first write and {@link Descriptor.encode}, so all
 * arguments are read and checked beforehand. Places are in words of 4 bytes.
 */
import { asPointer } from "./handle.ts";
import type { Handle } from "./handle.ts";
import { descriptorVersion } from "./device.ts";
import { structs } from "./layout.ts";
import { library } from "./library.ts";
import { ops } from "./ops.ts";
import { dTypes } from "./options.ts";
import { check } from "./status.ts";

/** The public names of the ops. */
export type OpName = keyof typeof ops;

const words = (bytes: number): number => bytes >> 2;
const tensorAt = structs.gd_tensor.offsets;
const [rankAt, shapeAt, stridesAt] = [words(tensorAt.rank), words(tensorAt.shape), words(tensorAt.strides)];
const indexAt = structs.gd_index.offsets;

/** A tensor packed as `gd_tensor`. */
export function tensorWords(
  handle: Handle,
  byteOffset: number,
  dtype: keyof typeof dTypes,
  shape: readonly number[],
  strides: readonly number[],
): Uint32Array {
  const packed = new Uint32Array(words(structs.gd_tensor.size));
  setWide(packed, words(tensorAt.buffer), handle);
  setWide(packed, words(tensorAt.offset), byteOffset);
  packed[words(tensorAt.dtype)] = dTypes[dtype];
  packed[rankAt] = shape.length;
  for (let axis = 0; axis < shape.length; axis++) {
    packed[shapeAt + axis] = shape[axis]!;
    // The stride of a dimension of length 1 is never used, and may not fit into 32 bits.
    packed[stridesAt + axis] = shape[axis]! <= 1 ? 1 : strides[axis]!;
  }
  return packed;
}

function setWide(target: Uint32Array, word: number, value: number): void {
  target[word] = value; // modulo 2^32
  target[word + 1] = value / 2 ** 32;
}

/** The descriptor of one op. Absent tensors and index data are all zeros. */
export class Descriptor {
  readonly #words: Uint32Array;
  readonly #encode: (typeof ops)[OpName]["encode"];

  constructor(op: OpName) {
    const { bytes, encode } = ops[op];
    this.#words = new Uint32Array(new ArrayBuffer(bytes));
    this.#encode = encode;
    this.#words[0] = bytes;
    this.#words[1] = descriptorVersion;
  }

  /** A 32-bit number: an integer, or the bits of a float. */
  number(at: number, bits: number): void {
    this.#words[at] = bits;
  }

  /** A tensor packed by {@link tensorWords}. */
  tensor(at: number, packed: Uint32Array): void {
    const target = this.#words;
    const rank = packed[rankAt]!;
    for (let i = 0; i <= rankAt; i++) target[at + i] = packed[i]!;
    for (let i = shapeAt; i < shapeAt + rank; i++) target[at + i] = packed[i]!;
    for (let i = stridesAt; i < stridesAt + rank; i++) target[at + i] = packed[i]!;
  }

  /** An absent optional tensor. */
  noTensor(at: number): void {
    this.#words[at] = 0;
    this.#words[at + 1] = 0;
  }

  /** Index data in a native buffer, starting at a byte offset. */
  indexBuffer(at: number, handle: Handle, byteOffset: number, count: number): void {
    this.#index(at, handle, byteOffset, 0, count);
  }

  /** Index data at an address that is valid until {@link encode} returns. */
  indexAddress(at: number, address: number, count: number): void {
    this.#index(at, 0, 0, address, count);
  }

  /** Absent optional index data. */
  noIndex(at: number): void {
    this.#index(at, 0, 0, 0, 0);
  }

  /** Encodes the op into a device or plan. */
  encode(target: Handle, op: OpName): void {
    check(library()[this.#encode](asPointer(target), this.#words), op);
  }

  #index(at: number, buffer: number, offset: number, pointer: number, count: number): void {
    setWide(this.#words, at + words(indexAt.buffer), buffer);
    setWide(this.#words, at + words(indexAt.offset), offset);
    setWide(this.#words, at + words(indexAt.pointer), pointer);
    setWide(this.#words, at + words(indexAt.count), count);
  }
}
