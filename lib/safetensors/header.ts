/**
 * The header of a safetensors file: eight bytes of little-endian length, then JSON, then the tensors' bytes without a
 * hole: https://github.com/huggingface/safetensors (README, "Format").
 *
 * Everything a header claims is checked here, once, so that what comes out can be trusted: sizes agree with shapes,
 * extents lie within the file, touch each other and leave nothing uncovered.
 */
import { describe } from "../errors.ts";
import { isSafetensorsDType, safetensorsDTypes, tensorBytes } from "./dtypes.ts";
import type { SafetensorsDType } from "./dtypes.ts";
import { JsonScanner, ScanError } from "./scanner.ts";

/** One tensor of a file. */
export interface TensorInfo {
  readonly dtype: SafetensorsDType;
  /** Dimensions, outermost first; none for a single number. */
  readonly shape: readonly number[];
  /** Its size. */
  readonly bytes: number;
  /** Where it starts, in bytes from the end of the header. */
  readonly offset: number;
}

/** A checked header. */
export interface Header {
  /** `__metadata__`, empty where there is none. */
  readonly metadata: ReadonlyMap<string, string>;
  /** In the order of the header's text. */
  readonly tensors: ReadonlyMap<string, TensorInfo>;
}

/** The longest header the format allows, in bytes. */
export const longestHeader = 100_000_000;

/** More dimensions than any framework has. */
const mostDimensions = 64;

/**
 * Checks a header.
 *
 * @param json the header's bytes, without the length before them.
 * @param dataBytes how many bytes follow the header in the file.
 * @throws {ScanError} naming what was wrong.
 */
export function parseHeader(json: Uint8Array, dataBytes: number): Header {
  const scanner = new JsonScanner(decodeText(json));
  const metadata = new Map<string, string>();
  const tensors = new Map<string, TensorInfo>();
  scanner.object("the header", (name) => {
    if (name === "__metadata__") {
      scanner.object("__metadata__", (key) => metadata.set(key, scanner.string(`__metadata__ ${describe(key)}`)));
    } else {
      tensors.set(name, parseTensor(scanner, name));
    }
  });
  scanner.end();
  checkCover(tensors, dataBytes);
  return { metadata, tensors };
}

/** Bytes as text. A byte order mark is not taken off: the format has none. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ScanError("UTF-8 text", "bytes that are not");
  }
}

function parseTensor(scanner: JsonScanner, name: string): TensorInfo {
  const tensor = `tensor ${describe(name)}`;
  let dtype: SafetensorsDType | undefined;
  let shape: number[] | undefined;
  let offsets: number[] | undefined;
  scanner.object(tensor, (key) => {
    if (key === "dtype") {
      const text = scanner.string(`dtype of ${tensor}`);
      if (!isSafetensorsDType(text)) {
        throw new ScanError(`dtype of ${tensor} to be one of ${Object.keys(safetensorsDTypes).join(", ")}`, describe(text));
      }
      dtype = text;
    } else if (key === "shape") {
      shape = scanner.integers(`shape of ${tensor}`, mostDimensions);
    } else if (key === "data_offsets") {
      offsets = scanner.integers(`data_offsets of ${tensor}`, 2);
    } else {
      scanner.skip(`${describe(key)} of ${tensor}`);
    }
  });
  if (dtype === undefined || shape === undefined || offsets === undefined) {
    const missing = dtype === undefined ? "dtype" : shape === undefined ? "shape" : "data_offsets";
    throw new ScanError(`${missing} of ${tensor}`, "none");
  }
  const [begin, end] = offsets;
  if (begin === undefined || end === undefined || begin > end) {
    throw new ScanError(`data_offsets of ${tensor} to be [begin, end], begin <= end`, describe(offsets));
  }
  const bytes = tensorBytes(dtype, shape);
  if (bytes === "overflow") throw new ScanError(`shape of ${tensor} to have fewer than 2^53 bits`, describe(shape));
  if (bytes === "partial byte") throw new ScanError(`${tensor} of ${dtype} to fill whole bytes`, describe(shape));
  if (bytes !== end - begin) {
    throw new ScanError(`${bytes} bytes for ${tensor}, ${dtype} ${describe(shape)}`, `${end - begin} (data_offsets ${describe(offsets)})`);
  }
  return { dtype, shape, bytes, offset: begin };
}

/** Every byte after the header belongs to exactly one tensor. */
function checkCover(tensors: ReadonlyMap<string, TensorInfo>, dataBytes: number): void {
  // Empty tensors first where several start at one place, so that each starts where the one before it ends.
  const inOrder = [...tensors].sort(([, a], [, b]) => a.offset - b.offset || a.bytes - b.bytes);
  let covered = 0;
  for (const [name, { offset, bytes }] of inOrder) {
    if (offset !== covered) {
      const kind = offset < covered ? "overlapping the tensor before it" : "leaving a hole before it";
      throw new ScanError(`tensor ${describe(name)} to start at byte ${covered}`, `${offset}, ${kind}`);
    }
    covered += bytes;
    if (covered > dataBytes) {
      throw new ScanError(`tensor ${describe(name)} to end within the file's ${dataBytes} bytes of data`, `its end at ${covered}`);
    }
  }
  if (covered !== dataBytes) throw new ScanError(`${covered} bytes of data, as the header says`, `${dataBytes}`);
}
