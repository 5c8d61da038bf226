/**
 * The header of a GGUF file: magic, version and counts, metadata, and for each tensor its name, sizes, type and place; then the
 * tensors' bytes (ggml, `docs/gguf.md` and `src/gguf.cpp`).
 *
 * Everything that a header claims is checked here, once, against the file: before memory is taken, and so that every tensor lies
 * within the file and no two share a byte.
 */
import { UnsupportedError, describe } from "../../errors.ts";
import { FormatError } from "../json.ts";
import type { Cursor } from "./cursor.ts";
import { readValue } from "./metadata.ts";
import type { Value } from "./metadata.ts";
import { ggmlTypes, readableTypes, typeName } from "./types.ts";
import type { GgmlType } from "./types.ts";

/** One tensor of a file. */
export interface GgufTensor {
  readonly type: GgmlType;
  /** Elements in each dimension, outermost first: the file has them innermost first. */
  readonly sizes: readonly number[];
  readonly bytes: number;
  /** The tensor's start, in bytes from the end of the header. */
  readonly offset: number;
  /** The tensor's first byte in the file. */
  readonly position: number;
}

/** A checked header. */
export interface GgufHeader {
  readonly values: ReadonlyMap<string, Value>;
  readonly tensors: ReadonlyMap<string, GgufTensor>;
}

/** Far above the numbers of any model. */
const mostTensors = 1 << 16;
const mostKeys = 1 << 16;

/** In bytes; ggml has names of at most 63. */
const longestKey = 65535;
const longestName = 1024;

/** ggml's limit. */
const mostDimensions = 4;

const versions = [2, 3];
const magic = 0x46554747; // "GGUF"

/** The least bytes of a key with its value, and of a tensor's entry. */
const leastKey = 8 + 4 + 1;
const leastTensor = 8 + 4 + 8 + 4 + 8;

/**
 * Reads and checks a header.
 *
 * @param where the file and the call, for errors about types.
 * @param accept called with the metadata before the tensors are read: an error about the whole model says more than one about a type.
 * @throws {FormatError} that names the value at fault; {@link UnsupportedError} for tensors of other types.
 */
export function readGgufHeader(
  cursor: Cursor,
  where: { readonly path: string; readonly op: string },
  accept: (values: ReadonlyMap<string, Value>) => void,
): GgufHeader {
  expectStart(cursor);
  const tensorCount = countOf(cursor, "tensors", mostTensors, leastTensor);
  const keyCount = countOf(cursor, "metadata keys", mostKeys, leastKey);
  const values = new Map<string, Value>();
  for (let i = 0; i < keyCount; i++) {
    const key = cursor.text(longestKey, `metadata key ${i}`);
    if (values.has(key)) throw new FormatError("each metadata key once", `${describe(key)} twice`);
    values.set(key, readValue(cursor, key));
  }
  accept(values);
  const found: Found[] = [];
  const names = new Set<string>();
  for (let i = 0; i < tensorCount; i++) {
    const name = cursor.text(longestName, `the name of tensor ${i}`);
    if (names.has(name)) throw new FormatError("each tensor once", `${describe(name)} twice`);
    names.add(name);
    found.push(tensorOf(cursor, name, where));
  }
  const alignment = alignmentOf(values.get("general.alignment"));
  return { values, tensors: placed(found, roundUp(cursor.at, alignment), alignment, cursor.at + cursor.left) };
}

function expectStart(cursor: Cursor): void {
  if (cursor.left < 24) throw new FormatError("a GGUF file of at least 24 bytes", `${cursor.left}`);
  const start = cursor.unsigned(4, "the file's first bytes");
  if (start !== magic) throw new FormatError('a file that begins with "GGUF"', `first bytes ${start.toString(16).padStart(8, "0").match(/../g)?.reverse().join(" ")}`);
  const version = cursor.unsigned(4, "the version");
  // ggml, too, treats a version whose lower half is 0 as one in the other byte order.
  if (version !== 0 && version % 65536 === 0) throw new FormatError("a little-endian GGUF file", "a big-endian one");
  if (!versions.includes(version)) throw new FormatError(`version ${versions.join(" or ")} of the GGUF format`, String(version));
}

function countOf(cursor: Cursor, what: string, most: number, least: number): number {
  const count = cursor.unsigned(8, `the number of ${what}`);
  if (count > most) throw new FormatError(`at most ${most} ${what}`, `${count}`);
  if (count * least > cursor.left) throw new FormatError(`${count} ${what}, as the file says`, `${cursor.left} bytes for them`);
  return count;
}

type Found = Omit<GgufTensor, "position"> & { readonly name: string };

function tensorOf(cursor: Cursor, name: string, { path, op }: { readonly path: string; readonly op: string }): Found {
  const tensor = `tensor ${describe(name)}`;
  const dimensions = cursor.unsigned(4, `the number of dimensions of ${tensor}`);
  if (dimensions > mostDimensions) throw new FormatError(`${tensor} to have at most ${mostDimensions} dimensions`, `${dimensions}`);
  const sizes = Array.from({ length: dimensions }, () => cursor.unsigned(8, `a size of ${tensor}`)).reverse();
  const number = cursor.unsigned(4, `the type of ${tensor}`);
  const offset = cursor.unsigned(8, `the offset of ${tensor}`);
  const type = ggmlTypes.get(number);
  if (type === undefined) throw new UnsupportedError({ op, argument: `${path}: ${name}`, expected: `a tensor of type ${readableTypes}`, received: typeName(number) });
  const shape = `[${sizes.join(", ")}]`;
  if (sizes.includes(0)) throw new FormatError(`${tensor} to have sizes from 1 on`, shape);
  const row = sizes.at(-1) ?? 1;
  if (row % type.elements !== 0) throw new FormatError(`${tensor} of ${type.name} to have rows of whole blocks of ${type.elements}`, shape);
  const bytes = sizes.slice(0, -1).reduce((product, size) => product * size, (row / type.elements) * type.bytes);
  if (!Number.isSafeInteger(bytes)) throw new FormatError(`${tensor} to have fewer than 2^53 bytes`, shape);
  return { name, type, sizes, bytes, offset };
}

function alignmentOf(value: Value | undefined): number {
  if (value === undefined) return 32;
  if (typeof value === "number" && value > 0 && value <= 2 ** 30 && Number.isInteger(Math.log2(value))) return value;
  throw new FormatError("general.alignment to be a power of two up to 2^30", typeof value === "object" ? `a ${value.type}` : String(value));
}

function roundUp(at: number, alignment: number): number {
  return Math.ceil(at / alignment) * alignment;
}

/** The tensors by name, each in its place: one after another, as ggml expects them, with no larger gaps than the alignment needs. */
function placed(found: readonly Found[], dataStart: number, alignment: number, size: number): Map<string, GgufTensor> {
  let expected = 0;
  for (const { name, offset, bytes } of found.toSorted((a, b) => a.offset - b.offset)) {
    if (offset !== expected) {
      const kind = offset % alignment !== 0 ? `not a multiple of the alignment, ${alignment}` : offset < expected ? "overlapping the tensor before it" : "leaving a hole before it";
      throw new FormatError(`tensor ${describe(name)} to start at byte ${expected} of the data`, `${offset}, ${kind}`);
    }
    const end = dataStart + offset + bytes;
    if (end > size) throw new FormatError(`a file of at least ${end} bytes, the end of tensor ${describe(name)}`, `${size} bytes`);
    expected = roundUp(offset + bytes, alignment);
  }
  return new Map(found.map(({ name, type, sizes, bytes, offset }) => [name, { type, sizes, bytes, offset, position: dataStart + offset }]));
}
