/** The metadata of a GGUF file: values with keys, of ggml's types. Long values are read when they are asked for. */
import { isUtf8 } from "node:buffer";
import { FileError, describe } from "../../errors.ts";
import { FormatError } from "../json.ts";
import { readFully } from "../regular-file.ts";
import { decodeUtf8 } from "./cursor.ts";
import type { Cursor } from "./cursor.ts";

/** A text or an array: where it is. */
interface Stored {
  readonly type: "text" | "array";
  /** The type of an array's elements. */
  readonly of?: number;
  readonly count: number;
  readonly at: number;
  readonly bytes: number;
}

/** A value. An integer that a number cannot hold is a bigint. */
export type Value = number | bigint | boolean | Stored;

/** Texts in valid UTF-8: where each is among the bytes. */
export interface StoredTexts {
  readonly length: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
  at(this: void, place: number): string;
}

/** The longest text that is read, in bytes: chat templates have some ten thousand. */
const longestText = 1 << 24;

const bytesOfType: Readonly<Record<number, 1 | 2 | 4 | 8>> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const isSigned = new Set([1, 3, 5, 11]);
const [floatType, boolType, textType, arrayType, doubleType] = [6, 7, 8, 9, 12] as const;

/** Reads one value, of a type that the file gives as a number. */
export function readValue(cursor: Cursor, key: string): Value {
  const what = `the value of ${describe(key)}`;
  const type = cursor.unsigned(4, `the type of ${describe(key)}`);
  if (type === textType) {
    const bytes = cursor.length(what);
    const at = cursor.at;
    cursor.skip(bytes, what);
    return { type: "text", count: 1, at, bytes };
  }
  if (type === arrayType) return readArray(cursor, key, what);
  const size = sizeOf(type, `the type of ${describe(key)}`);
  if (type === floatType || type === doubleType) return cursor.float(type === floatType ? 4 : 8, what);
  if (size === 8) {
    // A key that nothing reads, such as a seed, may have any value.
    const long = cursor.long(isSigned.has(type), what);
    const value = Number(long);
    return Number.isSafeInteger(value) ? value : long;
  }
  if (type !== boolType) return isSigned.has(type) ? cursor.signed(size, what) : cursor.unsigned(size, what);
  const bool = cursor.unsigned(1, what);
  if (bool > 1) throw new FormatError(`${what} to be 0 or 1, a boolean`, String(bool));
  return bool === 1;
}

function readArray(cursor: Cursor, key: string, what: string): Stored {
  const of = cursor.unsigned(4, `the type of the elements of ${describe(key)}`);
  const count = cursor.unsigned(8, `the length of ${describe(key)}`);
  const at = cursor.at;
  if (of === arrayType) throw new FormatError(`${what} to be an array of numbers or texts`, "an array of arrays");
  if (of === textType) {
    // Each text is preceded by its length, so the count can be checked before any text is skipped.
    if (count > cursor.left / 8) throw new FormatError(`${count} texts in ${what}`, `${cursor.left} bytes up to the end of the file`);
    cursor.skipTexts(count, what);
  } else {
    cursor.skip(count * sizeOf(of, `the type of the elements of ${describe(key)}`), what);
  }
  return { type: "array", of, count, at, bytes: cursor.at - at };
}

function sizeOf(type: number, what: string): 1 | 2 | 4 | 8 {
  const size = bytesOfType[type];
  if (size === undefined) throw new FormatError(`${what} to be one of 0..12`, String(type));
  return size;
}

/** The metadata of an open file. */
export class Metadata {
  readonly #values: ReadonlyMap<string, Value>;
  readonly #path: string;
  readonly #op: string;
  readonly #descriptor: number;

  constructor(values: ReadonlyMap<string, Value>, path: string, descriptor: number, op: string) {
    this.#values = values;
    this.#path = path;
    this.#descriptor = descriptor;
    this.#op = op;
  }

  /** All keys, in the file's order. */
  get keys(): readonly string[] {
    return [...this.#values.keys()];
  }

  has(key: string): boolean {
    return this.#values.has(key);
  }

  /** A number, a boolean or a text; `"array"` for an array; undefined if there is none. */
  scalar(key: string): number | bigint | boolean | string | undefined {
    const value = this.#values.get(key);
    if (typeof value !== "object") return value;
    return value.type === "text" ? this.text(key) : "array";
  }

  /** A text; undefined if there is none. */
  text(key: string): string | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    if (typeof value !== "object" || value.type !== "text") throw this.#bad(key, "a text", value);
    if (value.bytes > longestText) throw this.#error(`${key} to have at most ${longestText} bytes`, `${value.bytes}`);
    return this.#decode(this.#read(value), key);
  }

  /** A whole number in `least..most`; undefined if there is none. */
  integer(key: string, least: number, most: number): number | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) return value;
    throw this.#bad(key, `a whole number in ${least}..${most}`, value);
  }

  /** A finite number; undefined if there is none. */
  number(key: string): number | undefined {
    const value = this.#values.get(key);
    if (value === undefined || (typeof value === "number" && Number.isFinite(value))) return value;
    throw this.#bad(key, "a number", value);
  }

  /** A boolean; undefined if there is none. */
  flag(key: string): boolean | undefined {
    const value = this.#values.get(key);
    if (value === undefined || typeof value === "boolean") return value;
    throw this.#bad(key, "a boolean", value);
  }

  /**
   * A whole number in `least..most`, or a list that has it for each of `count` layers; undefined if there is none.
   *
   * @throws {FileError} also for lists of different numbers.
   */
  uniform(key: string, least: number, most: number, count: number): number | undefined {
    const value = this.#values.get(key);
    if (typeof value !== "object" || value.type !== "array") return this.integer(key, least, most);
    const [first, ...others] = this.integers(key, count) ?? [];
    const known = others.length + 1 === count && first !== undefined && first >= least && first <= most && others.every((other) => other === first);
    if (known) return first;
    throw this.#error(`${key} to be a whole number in ${least}..${most}, or ${count} times the same one`, "another list");
  }

  /** The id of a token; undefined if there is none, which llama.cpp may also write as 2^32 - 1. */
  id(key: string, most: number): number | undefined {
    return this.#values.get(key) === 2 ** 32 - 1 ? undefined : this.integer(key, 0, most);
  }

  /** An array of at most `most` texts; undefined if there is none. */
  texts(key: string, most: number): StoredTexts | undefined {
    const value = this.#array(key, "an array of texts", (of) => of === textType, most);
    if (value === undefined) return undefined;
    const bytes = this.#read(value);
    const view = new DataView(bytes.buffer);
    const starts = new Uint32Array(value.count);
    const ends = new Uint32Array(value.count);
    let at = 0;
    for (let i = 0; i < value.count; i++) {
      const length = view.getUint32(at, true); // the upper half is 0, since the text is within the file's header
      // Zeros are valid UTF-8, but lengths may not be: overwriting them lets one call check all texts.
      view.setUint32(at, 0);
      view.setUint32(at + 4, 0);
      starts[i] = at + 8;
      ends[i] = at += 8 + length;
    }
    const text = (i: number) => bytes.subarray(starts[i], ends[i]);
    if (!isUtf8(bytes)) for (let i = 0; i < value.count; i++) this.#decode(text(i), key);
    return { length: value.count, bytes, starts, ends, at: (i) => this.#decode(text(i), key) };
  }

  /** An array of at most `most` 32-bit integers; undefined if there is none. */
  integers(key: string, most: number): Int32Array | undefined {
    const value = this.#array(key, "an array of integers of 32 bits", (of) => of === 4 || of === 5, most);
    return value && new Int32Array(this.#read(value).buffer);
  }

  /** An array of at most `most` booleans; undefined if there is none. */
  flags(key: string, most: number): boolean[] | undefined {
    const value = this.#array(key, "an array of booleans", (of) => of === boolType, most);
    return value && Array.from(this.#read(value), (flag) => flag !== 0);
  }

  #array(key: string, expected: string, accepts: (type: number) => boolean, most: number): Stored | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    if (typeof value !== "object" || value.of === undefined || !accepts(value.of)) throw this.#bad(key, expected, value);
    if (value.count > most) throw this.#error(`${key} to have at most ${most} elements`, `${value.count}`);
    return value;
  }

  #read({ at, bytes }: Stored): Uint8Array<ArrayBuffer> {
    const target = new Uint8Array(bytes);
    readFully(this.#path, this.#descriptor, at, target, this.#op);
    return target;
  }

  #decode(bytes: Uint8Array, key: string): string {
    try {
      return decodeUtf8(bytes, key);
    } catch (cause) {
      if (cause instanceof FormatError) throw this.#error(cause.expected, cause.received);
      throw cause;
    }
  }

  #bad(key: string, expected: string, value: Value): FileError {
    const received = typeof value === "object" ? (value.type === "text" ? "a text" : "an array") : typeof value === "bigint" ? String(value) : describe(value);
    return this.#error(`${key} to be ${expected}`, received);
  }

  #error(expected: string, received: string): FileError {
    return new FileError(this.#path, { op: this.#op, expected, received });
  }
}
