/**
 * The header of a safetensors file: eight bytes of little-endian length, then JSON, then the tensors' bytes without
 * gaps: https://github.com/huggingface/safetensors (README, "Format").
 *
 * Everything that a header claims is checked here, once: sizes agree with shapes, and every byte after the header
 * belongs to exactly one tensor.
 */
import { describe } from "../errors.ts";
import { isSafetensorsDType, safetensorsDTypes, tensorBytes } from "./dtypes.ts";
import type { WeightFormat } from "../native/options.ts";
import type { SafetensorsDType } from "./dtypes.ts";
import { FormatError, isRecord, parseJsonObject } from "./json.ts";

/** One tensor of a file. */
export interface TensorInfo {
  readonly dtype: SafetensorsDType;
  /** The format of the blocks in a tensor of bytes, whose last dimension is a row's; undefined where the dtype is enough. */
  readonly weightFormat?: WeightFormat;
  /** Dimensions, outermost first; none for a single number. */
  readonly shape: readonly number[];
  /** The tensor's size. */
  readonly bytes: number;
  /** The tensor's start, in bytes from the end of the header. */
  readonly offset: number;
}

/** A checked header. */
export interface Header {
  /** `__metadata__`; empty if the header has none. */
  readonly metadata: ReadonlyMap<string, string>;
  /** In the header's order, except that names that are array indices ("0", "17") come first. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
}

/** The longest header the format allows, in bytes. */
export const longestHeader = 100_000_000;

/** The most dimensions of a tensor: more than any framework has. */
const mostDimensions = 64;

/**
 * Checks a header.
 *
 * @param json the header's bytes, without the length before them.
 * @param dataBytes number of bytes after the header.
 * @throws {FormatError} that names the entry at fault.
 */
export function parseHeader(json: Uint8Array, dataBytes: number): Header {
  const metadata = new Map<string, string>();
  const tensors = new Map<string, TensorInfo>();
  for (const [name, value] of Object.entries(parseJsonObject(json, "the header"))) {
    if (!name.isWellFormed()) throw new FormatError("names of well-formed Unicode", describe(name));
    if (name === "__metadata__") readMetadata(value, metadata);
    else tensors.set(name, tensorOf(name, value));
  }
  checkCover(tensors, dataBytes);
  return { metadata, tensors };
}

function readMetadata(value: unknown, metadata: Map<string, string>): void {
  if (!isRecord(value)) throw new FormatError("__metadata__ to be an object", describe(value));
  for (const [key, text] of Object.entries(value)) {
    if (typeof text !== "string") throw new FormatError(`__metadata__ ${describe(key)} to be a string`, describe(text));
    if (!key.isWellFormed() || !text.isWellFormed()) {
      throw new FormatError(`__metadata__ ${describe(key)} of well-formed Unicode`, describe(text));
    }
    metadata.set(key, text);
  }
}

function tensorOf(name: string, value: unknown): TensorInfo {
  const refuse = (what: string, expected: string, received: unknown): never => {
    throw new FormatError(`${what}tensor ${describe(name)} ${expected}`, received === undefined ? "none" : describe(received));
  };
  if (!isRecord(value)) return refuse("", "to be an object", value);
  const { dtype, shape, data_offsets: offsets } = value;
  if (typeof dtype !== "string" || !isSafetensorsDType(dtype)) {
    return refuse("dtype of ", `to be one of ${Object.keys(safetensorsDTypes).join(", ")}`, dtype);
  }
  if (!isSizes(shape)) return refuse("shape of ", "to be whole numbers below 2^53", shape);
  if (shape.length > mostDimensions) return refuse("shape of ", `to have at most ${mostDimensions} dimensions`, shape);
  if (!isSizes(offsets)) return refuse("data_offsets of ", "to be whole numbers below 2^53", offsets);
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || offsets.length > 2 || begin > end) {
    return refuse("data_offsets of ", "to be [begin, end], begin <= end", offsets);
  }
  const bytes = tensorBytes(dtype, shape);
  if (bytes === "overflow") return refuse("shape of ", "to have fewer than 2^53 bits", shape);
  if (bytes === "partial byte") return refuse("", `of ${dtype} to fill whole bytes`, shape);
  if (bytes !== end - begin) {
    const expected = `${bytes} bytes for tensor ${describe(name)}, ${dtype} ${describe(shape)}`;
    throw new FormatError(expected, `${end - begin} (data_offsets ${describe(offsets)})`);
  }
  return { dtype, shape, bytes, offset: begin };
}

/** Whether a value is an array of integers in 0..2^53 - 1. */
function isSizes(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0 && !Object.is(size, -0));
}

/** Every byte after the header belongs to exactly one tensor. */
function checkCover(tensors: ReadonlyMap<string, TensorInfo>, dataBytes: number): void {
  let covered = 0;
  for (const [name, { offset, bytes }] of inOrder(tensors)) {
    if (offset !== covered) {
      const kind = offset < covered ? "overlapping the tensor before it" : "leaving a hole before it";
      throw new FormatError(`tensor ${describe(name)} to start at byte ${covered}`, `${offset}, ${kind}`);
    }
    covered += bytes;
    if (covered > dataBytes) {
      throw new FormatError(`tensor ${describe(name)} to end within the file's ${dataBytes} bytes of data`, `its end at ${covered}`);
    }
  }
  if (covered !== dataBytes) throw new FormatError(`${covered} bytes of data, as the header says`, `${dataBytes}`);
}

/** Tensors in the order of their places, empty ones first among equal places, so that each starts where the previous one ends. */
function inOrder(tensors: ReadonlyMap<string, TensorInfo>): Iterable<[string, TensorInfo]> {
  let last: TensorInfo | undefined;
  for (const info of tensors.values()) {
    if (last !== undefined && order(last, info) > 0) return [...tensors].sort(([, a], [, b]) => order(a, b));
    last = info;
  }
  return tensors; // as most writers list them
}

function order(a: TensorInfo, b: TensorInfo): number {
  return a.offset - b.offset || a.bytes - b.bytes;
}
