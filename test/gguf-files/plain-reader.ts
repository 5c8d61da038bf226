/** Reads a correct GGUF file in the plainest way: if the library's reader accepts a file, it is compared with this one. */

/** A tensor as the file describes it: sizes innermost first. */
export interface PlainTensor {
  readonly sizes: readonly number[];
  readonly type: number;
  readonly position: number;
}

/** A file's contents. */
export interface PlainFile {
  readonly values: ReadonlyMap<string, unknown>;
  readonly tensors: ReadonlyMap<string, PlainTensor>;
  /** Places of counts, lengths, types, sizes and offsets, with their bytes. */
  readonly fields: readonly (readonly [at: number, bytes: 4 | 8])[];
  /** Where the tensors' bytes begin. */
  readonly dataStart: number;
}

const scalars: Readonly<Record<number, readonly [keyof DataView, number]>> = {
  0: ["getUint8", 1], 1: ["getInt8", 1], 2: ["getUint16", 2], 3: ["getInt16", 2], 4: ["getUint32", 4], 5: ["getInt32", 4],
  6: ["getFloat32", 4], 7: ["getUint8", 1], 10: ["getBigUint64", 8], 11: ["getBigInt64", 8], 12: ["getFloat64", 8],
};

/** Reads a file. */
export function readPlain(bytes: Uint8Array): PlainFile {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fields: [number, 4 | 8][] = [];
  let at = 4;
  const u32 = () => {
    fields.push([at, 4]);
    return view.getUint32((at += 4) - 4, true);
  };
  const u64 = () => {
    fields.push([at, 8]);
    return Number(view.getBigUint64((at += 8) - 8, true));
  };
  const text = () => {
    const length = u64();
    return new TextDecoder().decode(bytes.subarray(at, (at += length)));
  };
  const value = (type: number): unknown => {
    if (type === 8) return text();
    if (type === 9) {
      const of = u32();
      return Array.from({ length: u64() }, () => value(of));
    }
    const [method, size] = scalars[type]!;
    return Number((view[method] as (at: number, little: boolean) => number | bigint)((at += size) - size, true));
  };
  u32(); // the version
  const tensorCount = u64();
  const valueCount = u64();
  const values = new Map(Array.from({ length: valueCount }, () => [text(), value(u32())] as const));
  const found = Array.from({ length: tensorCount }, () => {
    const name = text();
    const sizes = Array.from({ length: u32() }, u64);
    return [name, { sizes, type: u32(), position: u64() }] as const;
  });
  const alignment = (values.get("general.alignment") as number | undefined) ?? 32;
  const dataStart = Math.ceil(at / alignment) * alignment;
  const tensors = new Map(found.map(([name, tensor]) => [name, { ...tensor, position: dataStart + tensor.position }]));
  return { values, tensors, fields, dataStart };
}
