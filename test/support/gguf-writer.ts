/** Writes GGUF files, valid and invalid: ggml, `docs/gguf.md`. */

/** A metadata value; types are named as in that document. */
export type GgufValue =
  | { readonly type: "u32" | "i32" | "f32"; readonly value: number }
  | { readonly type: "u64" | "i64"; readonly value: number | bigint }
  | { readonly type: "bool"; readonly value: boolean }
  | { readonly type: "text"; readonly value: string }
  | { readonly type: "texts"; readonly value: readonly string[] }
  | { readonly type: "bools"; readonly value: readonly boolean[] }
  | { readonly type: "i32s"; readonly value: ArrayLike<number> };

/** A tensor: sizes outermost first. */
export interface GgufTensorToWrite {
  readonly name: string;
  /** ggml's number of the type. */
  readonly type: number;
  readonly sizes: readonly number[];
  readonly data: Uint8Array<ArrayBuffer>;
  /** Written instead of the true one. */
  readonly offset?: number;
}

/** The parts of a file. */
export interface GgufToWrite {
  readonly version?: number;
  readonly alignment?: number;
  readonly values: readonly (readonly [key: string, value: GgufValue])[];
  readonly tensors: readonly GgufTensorToWrite[];
}

const numbers = { u32: 4, i32: 5, f32: 6, u64: 10, i64: 11 } as const;

/** A growing sequence of bytes. */
class Writer {
  #bytes = new Uint8Array(1 << 16);
  #view = new DataView(this.#bytes.buffer);
  length = 0;

  #room(bytes: number): number {
    const at = this.length;
    this.length += bytes;
    if (this.length > this.#bytes.length) {
      const larger = new Uint8Array(Math.max(this.length, 2 * this.#bytes.length));
      larger.set(this.#bytes);
      this.#bytes = larger;
      this.#view = new DataView(larger.buffer);
    }
    return at;
  }

  u8(value: number): void {
    const at = this.#room(1);
    this.#view.setUint8(at, value);
  }

  u32(value: number): void {
    const at = this.#room(4);
    this.#view.setUint32(at, value, true);
  }

  i32(value: number): void {
    const at = this.#room(4);
    this.#view.setInt32(at, value, true);
  }

  f32(value: number): void {
    const at = this.#room(4);
    this.#view.setFloat32(at, value, true);
  }

  u64(value: number | bigint): void {
    const at = this.#room(8);
    this.#view.setBigUint64(at, BigInt(value), true);
  }

  i64(value: number | bigint): void {
    const at = this.#room(8);
    this.#view.setBigInt64(at, BigInt(value), true);
  }

  text(value: string): void {
    const bytes = new TextEncoder().encode(value);
    this.u64(bytes.length);
    this.bytes(bytes);
  }

  bytes(bytes: Uint8Array): void {
    const at = this.#room(bytes.length);
    this.#bytes.set(bytes, at);
  }

  align(alignment: number): void {
    this.#room((alignment - (this.length % alignment)) % alignment);
  }

  done(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.length);
  }
}

function writeValue(out: Writer, value: GgufValue): void {
  switch (value.type) {
    case "bool":
      out.u32(7);
      return out.u8(value.value ? 1 : 0);
    case "text":
      out.u32(8);
      return out.text(value.value);
    case "texts":
      out.u32(9);
      out.u32(8);
      out.u64(value.value.length);
      for (const text of value.value) out.text(text);
      return;
    case "bools":
      out.u32(9);
      out.u32(7);
      out.u64(value.value.length);
      for (const flag of value.value) out.u8(flag ? 1 : 0);
      return;
    case "i32s":
      out.u32(9);
      out.u32(5);
      out.u64(value.value.length);
      for (const number of Array.from(value.value)) out.i32(number);
      return;
    case "u64":
    case "i64":
      out.u32(numbers[value.type]);
      return out[value.type](value.value);
    default:
      out.u32(numbers[value.type]);
      return out[value.type](value.value);
  }
}

/** The bytes of a file. */
export function ggufBytes({ version = 3, alignment = 32, values, tensors }: GgufToWrite): Uint8Array<ArrayBuffer> {
  const out = new Writer();
  out.bytes(new TextEncoder().encode("GGUF"));
  out.u32(version);
  out.u64(tensors.length);
  out.u64(values.length);
  for (const [key, value] of values) {
    out.text(key);
    writeValue(out, value);
  }
  let at = 0;
  for (const { name, type, sizes, data, offset } of tensors) {
    out.text(name);
    out.u32(sizes.length);
    for (const size of sizes.toReversed()) out.u64(size);
    out.u32(type);
    out.u64(offset ?? at);
    at += Math.ceil(data.length / alignment) * alignment;
  }
  out.align(alignment);
  const start = out.length;
  for (const { data } of tensors) {
    out.bytes(data);
    out.bytes(new Uint8Array((alignment - ((out.length - start) % alignment)) % alignment));
  }
  return out.done();
}
