/** The C structs as plain bytes, for calls that the TypeScript of this package never makes. */
import { constants, structs } from "../../lib/native/layout.ts";

export type Fields = Readonly<Record<string, number>>;
interface Layout {
  readonly size: number;
  readonly offsets: Fields;
  readonly types: Readonly<Record<string, string>>;
}
const layoutOf = (name: string) => (structs as unknown as Record<string, Layout>)[name]!;

/** A struct's bytes, written by field paths such as `query.offset`. */
export class Descriptor {
  readonly name: string;
  readonly view: DataView<ArrayBuffer>;

  constructor(name: string) {
    this.name = name;
    this.view = new DataView(new ArrayBuffer(layoutOf(name).size));
    this.set("size", layoutOf(name).size);
    this.set("version", constants.GD_ABI_VERSION);
  }

  set(path: string, value: number): this {
    let layout = layoutOf(this.name);
    let at = 0;
    const keys = path.split(".");
    for (const key of keys.slice(0, -1)) {
      at += layout.offsets[key]!;
      layout = layoutOf(layout.types[key]!);
    }
    const field = keys.at(-1)!;
    at += layout.offsets[field]!;
    const type = layout.types[field]!;
    if (type === "f32") this.view.setFloat32(at, value, true);
    else if (type === "i32") this.view.setInt32(at, value | 0, true);
    else if (type === "u32") this.view.setUint32(at, value, true);
    else this.view.setBigUint64(at, BigInt(value), true);
    return this;
  }

  /** Bytes for a call. */
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
      Object.entries(layoutOf(name).types).flatMap(([field, type]) =>
        type in structs ? walk(type, `${prefix}${field}.`) : [[prefix + field, type] as [string, string]],
      );
    return walk(this.name, "");
  }
}
