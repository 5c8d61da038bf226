/** Writes safetensors files. */
import { GatedDeltaError, ShapeError, describe } from "../errors.ts";
import { isSafetensorsDType, safetensorsDTypes, tensorBytes } from "./dtypes.ts";
import type { SafetensorsDType } from "./dtypes.ts";
import { longestHeader } from "./header.ts";
import { replaceFile, replaceFileAsync } from "./replace-file.ts";

/** One tensor to write. */
export interface TensorToWrite {
  readonly dtype: SafetensorsDType;
  readonly shape: readonly number[];
  /** The tensor's bytes, row-major, in one piece or in several consecutive ones; never copied. */
  readonly data: ArrayBufferView | readonly ArrayBufferView[];
}

/** Tensors by name; none may be named `__metadata__`. */
type Tensors = Readonly<Record<string, TensorToWrite>> | ReadonlyMap<string, TensorToWrite>;

/** Text under each key of `__metadata__`. */
type Metadata = Readonly<Record<string, string>> | ReadonlyMap<string, string>;

/**
 * Writes or replaces a safetensors file. A process killed meanwhile leaves the old file.
 *
 * Tensors are laid out by descending element size, then by name, behind a header padded to 8 bytes: each starts at a
 * multiple of its element size, and equal contents give equal files.
 *
 * @param path a regular file, which keeps its permissions, or a link to one; or a new file, which only its owner can read. The
 *   folder must exist.
 * @param tensors by name. No tensor may be named `__metadata__`.
 * @param metadata `__metadata__`: text under each key; left out if it is empty.
 * @param op the call named in errors.
 * @throws {GatedDeltaError} `invalid-argument` or {@link ShapeError} if a tensor's data do not fit its dtype and shape,
 *   before anything is written.
 * @throws {FileError} if the path is a directory, device, pipe or socket, or writing fails; an existing file is unchanged.
 */
export function writeSafetensors(
  path: string,
  tensors: Tensors,
  metadata: Metadata = {},
  op = "writeSafetensors",
): void {
  replaceFile(path, op, contentsOf(op, tensors, metadata));
}

/** A file's header and the pieces of its tensors. */
function contentsOf(op: string, tensors: Tensors, metadata: Metadata): Uint8Array[] {
  const ordered = inFileOrder(op, entriesOf(tensors));
  return [encodeHeader(op, ordered, entriesOf(metadata)), ...ordered.flatMap(([, tensor]) => piecesOf(tensor))];
}

/** Bytes that {@link writeSafetensorsAsync} writes at a time. */
const chunkBytes = 2 ** 20;

/**
 * {@link writeSafetensors} in the background: only the caller waits. The tensors' bytes are read piece by piece until the
 * promise settles.
 *
 * @param between called before each piece is read, and after the last; its errors end the writing.
 */
export async function writeSafetensorsAsync(
  path: string,
  tensors: ReadonlyMap<string, TensorToWrite>,
  metadata: Readonly<Record<string, string>>,
  op: string,
  between: () => void,
): Promise<void> {
  await replaceFileAsync(path, op, inChunks(contentsOf(op, tensors, metadata), between));
}

/** The bytes of some pieces, copied to chunks of equal size. A chunk is valid until the next one is taken. */
export function* inChunks(pieces: Iterable<Uint8Array>, between: () => void): Generator<Uint8Array> {
  const chunk = new Uint8Array(chunkBytes);
  let filled = 0;
  for (const piece of pieces) {
    for (let from = 0; from < piece.byteLength; ) {
      between();
      const length = Math.min(piece.byteLength - from, chunkBytes - filled);
      chunk.set(piece.subarray(from, from + length), filled);
      from += length;
      filled += length;
      if (filled < chunkBytes) continue;
      yield chunk;
      filled = 0;
    }
  }
  if (filled > 0) yield chunk.subarray(0, filled);
  between(); // disposed memory has no bytes
}

function entriesOf<T>(items: Readonly<Record<string, T>> | ReadonlyMap<string, T>): [string, T][] {
  return items instanceof Map ? [...items] : Object.entries(items as Readonly<Record<string, T>>);
}

function inFileOrder(op: string, tensors: [string, TensorToWrite][]): [string, TensorToWrite][] {
  for (const [name, tensor] of tensors) check(op, name, tensor);
  const bits = (tensor: TensorToWrite) => safetensorsDTypes[tensor.dtype].bits;
  return tensors.sort(([a, one], [b, other]) => bits(other) - bits(one) || (a < b ? -1 : a > b ? 1 : 0));
}

function check(op: string, name: string, { dtype, shape, data }: TensorToWrite): void {
  const argument = `tensor ${describe(name)}`;
  const refuse = (expected: string, received: string) =>
    new GatedDeltaError("invalid-argument", { op, argument, expected, received });
  if (name === "__metadata__" || !name.isWellFormed()) throw refuse("a name of well-formed Unicode, not __metadata__", describe(name));
  if (!isSafetensorsDType(dtype)) throw refuse("a safetensors dtype", describe(dtype));
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0)) throw refuse("a shape of whole numbers", describe(shape));
  const bytes = tensorBytes(dtype, shape);
  const given = (Array.isArray(data) ? data : [data]).reduce((sum: number, piece: ArrayBufferView) => sum + piece.byteLength, 0);
  if (bytes === given) return;
  const expected = typeof bytes === "number" ? `${bytes} bytes for ${dtype} ${describe(shape)}` : `a shape without ${bytes}`;
  throw new ShapeError({ op, argument, expected, received: `${given} bytes` });
}

/** A tensor's bytes. */
export function piecesOf({ data }: TensorToWrite): Uint8Array[] {
  const views: readonly ArrayBufferView[] = Array.isArray(data) ? data : [data as ArrayBufferView];
  return views.map((view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
}

function encodeHeader(op: string, ordered: [string, TensorToWrite][], metadata: [string, string][]): Uint8Array {
  const members: string[] = [];
  if (metadata.length > 0) {
    for (const [key, value] of metadata) {
      if (typeof value === "string" && value.isWellFormed() && key.isWellFormed()) continue;
      const argument = `metadata ${describe(key)}`;
      throw new GatedDeltaError("invalid-argument", { op, argument, expected: "well-formed text", received: describe(value) });
    }
    // JSON.stringify of an object would put numeric keys first and drop __proto__.
    const texts = metadata.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`);
    members.push(`"__metadata__":{${texts.join(",")}}`);
  }
  let offset = 0;
  for (const [name, { dtype, shape }] of ordered) {
    const end = offset + (tensorBytes(dtype, shape) as number);
    members.push(`${JSON.stringify(name)}:${JSON.stringify({ dtype, shape, data_offsets: [offset, end] })}`);
    offset = end;
  }
  const json = new TextEncoder().encode(`{${members.join(",")}}`);
  const length = Math.ceil(json.length / 8) * 8;
  if (length > longestHeader) {
    const expected = `a header of at most ${longestHeader} bytes`;
    throw new GatedDeltaError("invalid-argument", { op, argument: "tensors", expected, received: `${length}` });
  }
  const header = new Uint8Array(8 + length).fill(0x20, 8);
  header.set(json, 8);
  new DataView(header.buffer).setBigUint64(0, BigInt(length), true);
  return header;
}
