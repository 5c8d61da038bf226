/**
 * Op descriptors: one reusable piece of memory per op kind, written at the generated offsets and passed to its
 * `gd_encode_*` function. Nothing that a caller supplies may run between the first write and {@link Descriptor.encode};
 * whoever fills one has read and checked everything before.
 */
import { asPointer } from "./handle.ts";
import type { Handle } from "./handle.ts";
import { descriptorVersion } from "./device.ts";
import { constants, structs, symbols } from "./layout.ts";
import { library } from "./library.ts";
import { check } from "./status.ts";

type Structs = typeof structs;

/** The op structs of the header, by the function that encodes each. */
export type EncodeFunction = Extract<keyof typeof symbols, `gd_encode_${string}`>;
export type OpStruct = EncodeFunction extends `gd_encode_${infer Name}` ? Extract<`gd_${Name}`, keyof Structs> : never;

/** The fields of a struct whose type is `T`. */
export type FieldOf<S extends OpStruct, T> = {
  [F in keyof Structs[S]["types"]]: Structs[S]["types"][F] extends T ? F : never;
}[keyof Structs[S]["types"]];

/** The numbers of the dtypes. */
const dtypeCodes = {
  f32: constants.GD_F32,
  f16: constants.GD_F16,
  bf16: constants.GD_BF16,
  i32: constants.GD_I32,
} as const;

const tensorWords = structs.gd_tensor.size / 4;
const indexWords = structs.gd_index.size / 4;

/** The descriptor of one op kind. Absent tensors and index data are all zeros. */
export class Descriptor<S extends OpStruct> {
  readonly #words: Uint32Array;
  readonly #floats: Float32Array;
  readonly #offsets: Record<keyof Structs[S]["types"], number>;
  readonly #encode: `gd_encode_${string}` & EncodeFunction;

  constructor(name: S) {
    const { size, offsets } = structs[name];
    const memory = new ArrayBuffer(size);
    this.#words = new Uint32Array(memory);
    this.#floats = new Float32Array(memory);
    this.#offsets = offsets as Record<keyof Structs[S]["types"], number>;
    this.#encode = name.replace("gd_", "gd_encode_") as EncodeFunction;
    this.#words[0] = size;
    this.#words[1] = descriptorVersion;
  }

  u32(field: FieldOf<S, "u32">, value: number): void {
    this.#words[this.#offsets[field] >> 2] = value;
  }

  i32(field: FieldOf<S, "i32">, value: number): void {
    this.#words[this.#offsets[field] >> 2] = value; // modulo 2^32
  }

  u64(field: FieldOf<S, "u64">, value: number): void {
    this.#wide(this.#offsets[field] >> 2, value);
  }

  f32(field: FieldOf<S, "f32">, value: number): void {
    this.#floats[this.#offsets[field] >> 2] = value;
  }

  /** A tensor: its offset in bytes, its strides in elements, 0 for contiguous. */
  tensor(
    field: FieldOf<S, "gd_tensor">,
    handle: Handle,
    byteOffset: number,
    elements: keyof typeof dtypeCodes,
    tokenStride: number,
    headStride: number,
  ): void {
    const at = this.#offsets[field] >> 2;
    const { buffer, offset, token_stride, head_stride, dtype } = structs.gd_tensor.offsets;
    this.#wide(at + (buffer >> 2), handle);
    this.#wide(at + (offset >> 2), byteOffset);
    this.#wide(at + (token_stride >> 2), tokenStride);
    this.#wide(at + (head_stride >> 2), headStride);
    this.#words[at + (dtype >> 2)] = dtypeCodes[elements];
  }

  /** An optional tensor that is not there. */
  noTensor(field: FieldOf<S, "gd_tensor">): void {
    const at = this.#offsets[field] >> 2;
    this.#words.fill(0, at, at + tensorWords);
  }

  /** Index data in a native buffer, from a byte offset on. */
  indexBuffer(field: FieldOf<S, "gd_index">, handle: Handle, byteOffset: number, count: number): void {
    const at = this.#offsets[field] >> 2;
    const { offsets } = structs.gd_index;
    this.#words.fill(0, at, at + indexWords);
    this.#wide(at + (offsets.buffer >> 2), handle);
    this.#wide(at + (offsets.offset >> 2), byteOffset);
    this.#wide(at + (offsets.count >> 2), count);
  }

  /** Index data at an address that holds until {@link encode} returns. */
  indexAddress(field: FieldOf<S, "gd_index">, address: number, count: number): void {
    const at = this.#offsets[field] >> 2;
    const { offsets } = structs.gd_index;
    this.#words.fill(0, at, at + indexWords);
    this.#wide(at + (offsets.pointer >> 2), address);
    this.#wide(at + (offsets.count >> 2), count);
  }

  /** Optional index data that is not there. */
  noIndex(field: FieldOf<S, "gd_index">): void {
    const at = this.#offsets[field] >> 2;
    this.#words.fill(0, at, at + indexWords);
  }

  /** Hands the descriptor to a device or plan. */
  encode(target: Handle, op: string): void {
    check(library()[this.#encode](asPointer(target), this.#words), op);
  }

  #wide(word: number, value: number): void {
    this.#words[word] = value; // modulo 2^32
    this.#words[word + 1] = value / 2 ** 32;
  }
}
