/** The C structs as plain bytes, for calls that this package's TypeScript never makes. */
import { constants, structs } from "../../lib/native/layout.ts";

export type Fields = Readonly<Record<string, number>>;
interface Layout {
  readonly size: number;
  readonly offsets: Fields;
  readonly types: Readonly<Record<string, string>>;
}
const layoutOf = (name: string) => (structs as unknown as Record<string, Layout>)[name]!;

/** A struct's bytes, written by field paths such as `query.offset` or `query.shape[0]`. */
export class Descriptor {
  readonly name: string;
  readonly view: DataView<ArrayBuffer>;

  constructor(name: string) {
    this.name = name;
    this.view = new DataView(new ArrayBuffer(layoutOf(name).size));
    this.set("size", layoutOf(name).size);
    this.set("version", constants.GD_ABI_VERSION);
  }

  /** A 32-bit field. */
  get(path: string): number {
    return this.view.getUint32(this.#at(path).at, true);
  }

  set(path: string, value: number): this {
    const { at, type } = this.#at(path);
    if (type === "f32") this.view.setFloat32(at, value, true);
    else if (type === "i32") this.view.setInt32(at, value | 0, true);
    else if (type === "u32") this.view.setUint32(at, value, true);
    else this.view.setBigUint64(at, BigInt(value), true);
    return this;
  }

  #at(path: string): { at: number; type: string } {
    let layout = layoutOf(this.name);
    let at = 0;
    const keys = path.split(".");
    for (const key of keys.slice(0, -1)) {
      at += layout.offsets[key]!;
      layout = layoutOf(layout.types[key]!);
    }
    const [field, index = "0"] = keys.at(-1)!.split("[");
    at += layout.offsets[field!]! + 4 * Number.parseInt(index);
    return { at, type: layout.types[field!]!.replace(/\[\d+\]$/, "") };
  }

  /** A contiguous tensor of f32. */
  tensor(argument: string, buffer: number, shape: readonly number[]): this {
    this.set(`${argument}.buffer`, buffer).set(`${argument}.dtype`, constants.GD_F32).set(`${argument}.rank`, shape.length);
    let stride = 1;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      this.set(`${argument}.shape[${axis}]`, shape[axis]!).set(`${argument}.strides[${axis}]`, stride);
      stride *= Math.max(1, shape[axis]!);
    }
    return this;
  }

  /** The bytes for a call. */
  get bytes(): Uint8Array {
    return new Uint8Array(this.view.buffer);
  }

  copy(): Descriptor {
    const other = new Descriptor(this.name);
    new Uint8Array(other.view.buffer).set(this.bytes);
    return other;
  }

  /** Whether the struct has a field of this name. */
  has(field: string): boolean {
    return Object.hasOwn(layoutOf(this.name).offsets, field);
  }

  /** Every field's path, with its type. */
  paths(): [path: string, type: string][] {
    const walk = (name: string, prefix: string): [string, string][] =>
      Object.entries(layoutOf(name).types).flatMap(([field, type]) => {
        if (type in structs) return walk(type, `${prefix}${field}.`);
        const [, element, count] = /^(\w+)\[(\d+)\]$/.exec(type) ?? [];
        if (element === undefined) return [[prefix + field, type] as [string, string]];
        return Array.from({ length: Number(count) }, (_, i) => [`${prefix}${field}[${i}]`, element] as [string, string]);
      });
    return walk(this.name, "");
  }
}
