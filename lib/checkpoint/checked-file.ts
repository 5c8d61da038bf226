/**
 * Files of this library's own formats: safetensors whose metadata hold the format's name (`format`), its `version`, and in
 * `sha256` a checksum over the other metadata and all tensors. Files that are damaged or of another format are refused.
 */
import { createHash } from "node:crypto";
import { FileError, describe } from "../errors.ts";
import { dtypes } from "../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../tensor/dtype.ts";
import { shapeText } from "../tensor/expect.ts";
import { turns } from "../turns.ts";
import { floatDType } from "./dtypes.ts";
import type { SafetensorsDType } from "./dtypes.ts";
import { openSafetensors } from "./safetensors-file.ts";
import type { SafetensorsFile } from "./safetensors-file.ts";
import { inChunks, piecesOf, writeSafetensors, writeSafetensorsAsync } from "./write.ts";
import type { TensorToWrite } from "./write.ts";

/** One format. */
export interface CheckedFormat {
  readonly name: string;
  /** The version that is written; files of other versions are refused. */
  readonly version: string;
  /** A file of the format, in messages: "a session". */
  readonly noun: string;
  /** Reason and advice in messages that refuse an earlier version. */
  readonly earlier?: string;
  /** The place of names, dtypes and shapes in the checksum: all before the first byte, or each before its tensor's bytes. */
  readonly entries: "first" | "interleaved";
}

type Metadata = Readonly<Record<string, string>>;

/** Tensors by name, in the order of the checksum. */
type Tensors = ReadonlyMap<string, Pick<TensorToWrite, "dtype" | "shape">>;

const checksumKey = "sha256";

/** A checksum of tensors, whose bytes are added tensor by tensor. */
export class Checksum {
  readonly #hash = createHash("sha256");
  readonly #tensors: Tensors;
  readonly #interleaved: boolean;

  constructor({ entries }: CheckedFormat, metadata: Metadata, tensors: Tensors) {
    this.#tensors = tensors;
    this.#interleaved = entries === "interleaved";
    const texts = Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1));
    this.#hash.update(JSON.stringify(this.#interleaved ? texts : [texts, [...tensors.keys()].map((name) => this.#entry(name))]));
  }

  /** The bytes of this tensor come next. */
  begin(name: string): void {
    if (this.#interleaved) this.#hash.update(JSON.stringify(this.#entry(name)));
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  digest(): string {
    return this.#hash.digest("hex");
  }

  #entry(name: string) {
    const { dtype, shape } = this.#tensors.get(name)!;
    return [name, dtype, shape];
  }
}

function completed({ name, version }: CheckedFormat, metadata: Metadata): Metadata {
  return { format: name, version, ...metadata };
}

/** Writes a file, as {@link writeSafetensors} does. */
export function writeChecked(op: string, path: string, format: CheckedFormat, metadata: Metadata, tensors: ReadonlyMap<string, TensorToWrite>): void {
  const texts = completed(format, metadata);
  const checksum = new Checksum(format, texts, tensors);
  for (const [name, tensor] of tensors) {
    checksum.begin(name);
    for (const piece of piecesOf(tensor)) checksum.update(piece);
  }
  writeSafetensors(path, tensors, { ...texts, [checksumKey]: checksum.digest() }, op);
}

/**
 * {@link writeChecked} in the background, as {@link writeSafetensorsAsync}.
 *
 * @param between called before each piece is read, and after the last; its errors end the writing.
 */
export async function writeCheckedAsync(
  op: string,
  path: string,
  format: CheckedFormat,
  metadata: Metadata,
  tensors: ReadonlyMap<string, TensorToWrite>,
  between: () => void,
): Promise<void> {
  const texts = completed(format, metadata);
  const checksum = new Checksum(format, texts, tensors);
  const turn = turns();
  for (const [name, tensor] of tensors) {
    between();
    checksum.begin(name);
    for (const chunk of inChunks(piecesOf(tensor), between)) {
      checksum.update(chunk);
      await turn();
    }
  }
  between();
  await writeSafetensorsAsync(path, tensors, { ...texts, [checksumKey]: checksum.digest() }, op, between);
}

/** Bytes that are read at a time. */
const readBytes = 2 ** 20;

/** An open file of a format, in its current version. */
export class CheckedFile implements Disposable {
  readonly source: SafetensorsFile;
  readonly #op: string;
  readonly #format: CheckedFormat;

  /** @throws {FileError} for a file that is missing, not a safetensors file, or of another format or version. */
  constructor(op: string, path: string, format: CheckedFormat) {
    this.source = openSafetensors(path, op);
    this.#op = op;
    this.#format = format;
    try {
      this.text("format", [format.name]);
      this.#expectVersion();
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** An error about this file. */
  bad(expected: string, received: string): FileError {
    return new FileError(this.source.path, { op: this.#op, expected, received });
  }

  /** A text of the metadata: one of `allowed`. */
  text<Text extends string>(key: string, allowed: readonly Text[]): Text {
    const found = this.source.metadata.get(key);
    const text = allowed.find((one) => one === found);
    if (text !== undefined) return text;
    throw this.bad(`metadata ${key} ${allowed.map((one) => describe(one)).join(" or ")}`, found === undefined ? "none" : describe(found));
  }

  /** A number of the metadata, in 0..`most`. */
  count(key: string, most: number): number {
    const text = this.source.metadata.get(key) ?? "";
    if (/^(?:0|[1-9]\d{0,9})$/.test(text) && Number(text) <= most) return Number(text);
    throw this.bad(`metadata ${key} to be a whole number in 0..${most}`, describe(text));
  }

  /** Expects a tensor of this dtype and shape. */
  expectTensor(name: string, dtype: SafetensorsDType, shape: readonly number[]): void {
    const found = this.source.info(name);
    if (found.dtype === dtype && found.shape.length === shape.length && shape.every((n, i) => n === found.shape[i])) return;
    throw this.bad(`tensor ${describe(name)} to be ${dtype} ${shapeText(shape)}`, `${found.dtype} ${shapeText(found.shape)}`);
  }

  /** A new checksum of the file. The caller adds the tensors' bytes in the order of `names`. */
  checksum(names: readonly string[]): Checksum {
    const { [checksumKey]: _, ...metadata } = Object.fromEntries(this.source.metadata);
    return new Checksum(this.#format, metadata, new Map(names.map((name) => [name, this.source.info(name)])));
  }

  /** @throws {FileError} if the checksum is not the file's. */
  expectChecksum(checksum: Checksum): void {
    const stored = this.source.metadata.get(checksumKey);
    const found = checksum.digest();
    if (stored !== found) throw this.bad(`contents of checksum ${describe(stored)}, as in the file's metadata`, found);
  }

  /**
   * Reads all tensors in the background, in the order of their names, and verifies the checksum.
   *
   * @throws {FileError} for a file that is damaged.
   */
  async readAll(): Promise<CheckedTensors> {
    const names = [...this.source.names].sort();
    const checksum = this.checksum(names);
    const turn = turns();
    const tensors = new Map<string, Uint8Array<ArrayBuffer>>();
    for (const name of names) {
      const data = new Uint8Array(this.source.info(name).bytes);
      checksum.begin(name);
      for (let at = 0; at < data.length; at += readBytes) {
        const chunk = data.subarray(at, at + readBytes);
        await this.source.readSliceAsync(name, at, chunk);
        checksum.update(chunk);
        await turn();
      }
      tensors.set(name, data);
    }
    this.expectChecksum(checksum);
    return new CheckedTensors(this, tensors);
  }

  [Symbol.dispose](): void {
    this.source[Symbol.dispose]();
  }

  #expectVersion(): void {
    const { version, noun, earlier } = this.#format;
    const found = this.source.metadata.get("version");
    if (found === version) return;
    const expected = `${noun} of version ${version} of the format`;
    if (found === undefined || !/^[1-9]\d{0,5}$/.test(found)) throw this.bad(expected, `version ${describe(found)}`);
    const origin = Number(found) > Number(version) ? "a later gated-delta wrote" : `an earlier gated-delta wrote${earlier === undefined ? "" : ` ${earlier}`}`;
    throw this.bad(expected, `one of version ${found}, which ${origin}`);
  }
}

/** The tensors of a file whose checksum was verified. */
export class CheckedTensors {
  readonly #file: CheckedFile;
  readonly #tensors: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;

  constructor(file: CheckedFile, tensors: ReadonlyMap<string, Uint8Array<ArrayBuffer>>) {
    this.#file = file;
    this.#tensors = tensors;
  }

  /** A tensor of i32, all in `least..most`. */
  integers(name: string, least: number, most: number): Int32Array {
    const { dtype } = this.#file.source.info(name);
    if (dtype !== "I32") throw this.#file.bad(`${name} of dtype I32`, dtype);
    const numbers = new Int32Array(this.#tensors.get(name)!.buffer);
    const wrong = numbers.find((number) => number < least || number > most);
    if (wrong !== undefined) throw this.#file.bad(`${name} of numbers in ${least}..${most}`, `${wrong}`);
    return numbers;
  }

  /**
   * A tensor of u8 that is UTF-8 text.
   *
   * @param read turns the text into a value, and throws for any other text.
   */
  text<Value>(name: string, read: (text: string) => Value): Value {
    const { dtype } = this.#file.source.info(name);
    if (dtype !== "U8") throw this.#file.bad(`${name} of dtype U8`, dtype);
    try {
      return read(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.#tensors.get(name)!));
    } catch (cause) {
      throw this.#file.bad(`${name} that can be read`, cause instanceof Error ? cause.message : describe(cause));
    }
  }

  /** A tensor of one of the allowed dtypes, as stored. */
  floats<D extends FloatDType>(name: string, allowed: readonly D[]): { readonly dtype: D; readonly data: ArrayOfDType[D] } {
    const info = this.#file.source.info(name);
    const dtype = allowed.find((one) => one === floatDType(info.dtype));
    if (dtype === undefined) throw this.#file.bad(`${name} of dtype ${allowed.join(" or ")}`, info.dtype);
    const { buffer, length } = this.#tensors.get(name)!;
    return { dtype, data: dtypes[dtype].view(buffer, 0, length / dtypes[dtype].bytes) as ArrayOfDType[D] };
  }
}
