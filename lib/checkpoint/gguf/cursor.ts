/** Reads the header of a file from front to back, in pieces, so that its length need not be known. */
import { longestHeader } from "../header.ts";
import { FormatError } from "../json.ts";
import { readFully } from "../regular-file.ts";

/** Bytes that are read at a time. */
const windowBytes = 1 << 20;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Bytes as UTF-8 text. */
export function decodeUtf8(bytes: Uint8Array, what: string): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new FormatError(`${what} to be UTF-8 text`, "bytes that are not");
  }
}

/** A place in a file, and little-endian values from there on. Every read is checked against the file's size first. */
export class Cursor {
  /** The next byte of the file. */
  at = 0;
  readonly #path: string;
  readonly #descriptor: number;
  readonly #size: number;
  readonly #op: string;
  #window = new DataView(new ArrayBuffer(0));
  #start = 0;

  constructor(path: string, descriptor: number, size: number, op: string) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#size = size;
    this.#op = op;
  }

  /** Bytes up to the end of the file. */
  get left(): number {
    return this.#size - this.at;
  }

  /** An unsigned integer of 1, 2, 4 or 8 bytes, below 2^53. */
  unsigned(bytes: 1 | 2 | 4 | 8, what: string): number {
    const [view, from] = this.#take(bytes, what);
    if (bytes < 8) return bytes === 1 ? view.getUint8(from) : bytes === 2 ? view.getUint16(from, true) : view.getUint32(from, true);
    const upper = view.getUint32(from + 4, true);
    if (upper >= 2 ** 21) throw new FormatError(`${what} to be below 2^53`, String(view.getBigUint64(from, true)));
    return upper * 2 ** 32 + view.getUint32(from, true);
  }

  /** A signed integer of 1, 2 or 4 bytes. */
  signed(bytes: 1 | 2 | 4, what: string): number {
    const [view, from] = this.#take(bytes, what);
    return bytes === 1 ? view.getInt8(from) : bytes === 2 ? view.getInt16(from, true) : view.getInt32(from, true);
  }

  /** Any integer of 8 bytes. */
  long(signed: boolean, what: string): bigint {
    const [view, from] = this.#take(8, what);
    return signed ? view.getBigInt64(from, true) : view.getBigUint64(from, true);
  }

  /** A float of 4 or 8 bytes. */
  float(bytes: 4 | 8, what: string): number {
    const [view, from] = this.#take(bytes, what);
    return bytes === 4 ? view.getFloat32(from, true) : view.getFloat64(from, true);
  }

  /** A text of at most `most` bytes, preceded by its length. */
  text(most: number, what: string): string {
    const length = this.length(what);
    if (length > most) throw new FormatError(`${what} to have at most ${most} bytes`, `${length}`);
    const [view, from] = this.#take(length, what);
    return decodeUtf8(new Uint8Array(view.buffer, from, length), what);
  }

  /** The length of a text, which is within the file. */
  length(what: string): number {
    const length = this.unsigned(8, `the length of ${what}`);
    this.#expect(length, what);
    return length;
  }

  /** Skips bytes. */
  skip(bytes: number, what: string): void {
    this.#expect(bytes, what);
    this.at += bytes;
  }

  /** Skips `count` texts. */
  skipTexts(count: number, what: string): void {
    for (let i = 0; i < count; i++) {
      // A vocabulary has hundreds of thousands: texts within the window are skipped without a call for each.
      const view = this.#window;
      let from = this.at - this.#start;
      for (; i < count && from <= view.byteLength - 8 && view.getUint32(from + 4, true) === 0; i++) from += 8 + view.getUint32(from, true);
      this.at = this.#start + from;
      this.#expect(0, what);
      if (i < count) this.skip(this.unsigned(8, `the length of ${what}`), what);
    }
  }

  #expect(bytes: number, what: string): void {
    if (bytes > this.left) throw new FormatError(`${bytes} bytes of ${what} at byte ${this.at}`, `the end of the file at byte ${this.#size}`);
    if (this.at + bytes > longestHeader) throw new FormatError(`a header of at most ${longestHeader} bytes`, `${what} beyond them`);
  }

  /** The next bytes, at most a window of them, and their place in it. */
  #take(bytes: number, what: string): readonly [DataView, number] {
    let from = this.at - this.#start;
    if (from < 0 || from + bytes > this.#window.byteLength) {
      this.#expect(bytes, what);
      const next = new Uint8Array(Math.min(windowBytes, this.left));
      readFully(this.#path, this.#descriptor, this.at, next, this.#op);
      this.#window = new DataView(next.buffer);
      this.#start = this.at;
      from = 0;
    }
    this.at += bytes;
    return [this.#window, from];
  }
}
