/**
 * A table of texts that lie in one buffer, such as the bytes of a file. A tokenizer has half a million texts, and a map with a string
 * for each takes several times as long to make and several times the memory.
 */

/** Separates the two parts of a text; not a byte of UTF-8. */
export const separator = 0xff;

const [blank, quote, backslash] = [0x20, 0x22, 0x5c];

/** Texts by place, and their places by text. */
export class TextTable {
  readonly #bytes: Uint8Array;
  #starts: Uint32Array;
  #ends: Uint32Array;
  #hashes: Int32Array;
  #length = 0;
  /** The most bytes of a text. */
  #longest = 0;
  /** Open addressing: a place plus 1, or 0. At most half are in use. */
  #slots = new Int32Array(2);
  // Random for each table, so that no file can hold texts made to share a hash.
  readonly #seed = random();
  readonly #factor = random() | 1;

  /** @param bytes texts in valid UTF-8, which the caller must not change from {@link add} on. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    const guess = 1 + (bytes.length >> 5); // a token or merge of a file has some thirty bytes; unused memory is never touched
    this.#starts = new Uint32Array(guess);
    this.#ends = new Uint32Array(guess);
    this.#hashes = new Int32Array(guess);
  }

  /** The number of texts. */
  get length(): number {
    return this.#length;
  }

  /** For each of these characters, all below U+0800, the most characters of a text that has it; 0 for none. */
  longestWith(characters: readonly number[]): number[] {
    const most = new Uint32Array(0x800);
    for (let place = 0; place < this.#length; place++) {
      const [start, end] = [this.#starts[place]!, this.#ends[place]!];
      let length = 0;
      for (let at = start; at < end; at++) if ((this.#bytes[at]! & 0xc0) !== 0x80) length++;
      for (let at = start; at < end; at++) {
        const byte = this.#bytes[at]!;
        const character = byte < 0x80 ? byte : byte >= 0xc0 && byte < 0xe0 ? ((byte & 0x1f) << 6) | (this.#bytes[at + 1]! & 0x3f) : undefined;
        if (character !== undefined && length > most[character]!) most[character] = length;
      }
    }
    return characters.map((character) => most[character]!);
  }

  /** Adds the text that has these bytes. */
  add(start: number, end: number): void {
    this.#put(start, end, this.#hash(this.#bytes, start, end));
  }

  /**
   * Adds the text up to the next quote, which is found in the same pass as the hash.
   *
   * @returns the place of the quote; −1, and nothing is added, if an escape or a control character comes first.
   */
  addQuoted(start: number): number {
    const bytes = this.#bytes;
    let hash = this.#seed;
    for (let at = start; at < bytes.length; at++) {
      const byte = bytes[at]!;
      if (byte === quote) {
        this.#put(start, at, hash);
        return at;
      }
      if (byte < blank || byte === backslash) break;
      hash = mixed(hash ^ byte, this.#factor);
    }
    return -1;
  }

  #put(start: number, end: number, hash: number): void {
    const place = this.#length++;
    if (place === this.#starts.length) {
      this.#starts = grown(this.#starts, new Uint32Array(2 * place));
      this.#ends = grown(this.#ends, new Uint32Array(2 * place));
      this.#hashes = grown(this.#hashes, new Int32Array(2 * place));
    }
    this.#starts[place] = start;
    this.#ends[place] = end;
    this.#hashes[place] = hash;
    if (end - start > this.#longest) this.#longest = end - start;
  }

  /**
   * Makes {@link find} possible, after all texts are added.
   *
   * @returns the place of the first text that equals an earlier one; undefined if there is none.
   */
  index(): number | undefined {
    const slots = new Int32Array(2 ** Math.ceil(Math.log2(2 * this.#length + 2)));
    const [bytes, starts, ends, hashes, last] = [this.#bytes, this.#starts, this.#ends, this.#hashes, slots.length - 1];
    let repeated: number | undefined;
    for (let place = 0; place < this.#length; place++) {
      const hash = hashes[place]!;
      let slot = firstSlot(hash, last);
      for (; slots[slot] !== 0; slot = (slot + 1) & last) {
        const other = slots[slot]! - 1;
        if (hashes[other] !== hash || !this.#equals(other, bytes, starts[place]!, ends[place]!)) continue;
        repeated ??= place;
        break;
      }
      slots[slot] = place + 1;
    }
    this.#slots = slots;
    return repeated;
  }

  /** The text at a place. */
  at(place: number): string {
    return utf8.decode(this.#bytes.subarray(this.#starts[place], this.#ends[place]));
  }

  /** The place of a text, the last of equal ones; undefined if absent. With a second part: of both with {@link separator} between them. */
  find(text: string, second?: string): number | undefined {
    const first = this.#write(text, 0);
    let end = first;
    if (second !== undefined && first >= 0) {
      buffer[first] = separator;
      end = this.#write(second, first + 1);
    }
    if (end < 0 || end > this.#longest) return undefined;
    const hash = this.#hash(buffer, 0, end);
    const last = this.#slots.length - 1;
    for (let slot = firstSlot(hash, last); this.#slots[slot] !== 0; slot = (slot + 1) & last) {
      const place = this.#slots[slot]! - 1;
      if (this.#hashes[place] === hash && this.#equals(place, buffer, 0, end)) return place;
    }
    return undefined;
  }

  /** The place of the first text whose two parts, joined, are neither in `known` nor in `others`; undefined if there is none. */
  firstJoinedOutside(known: TextTable, others: ReadonlySet<string>): number | undefined {
    // Training makes merges and tokens in one order, so the next token is tried before a search.
    let next = 0;
    for (let place = 0; place < this.#length; place++) {
      if (known.#isJoined(next, this.#bytes, this.#starts[place]!, this.#ends[place]!)) {
        next++;
        continue;
      }
      const parts = this.#bytes.subarray(this.#starts[place], this.#ends[place]);
      if (!parts.includes(separator)) continue;
      const joined = utf8.decode(parts.filter((byte) => byte !== separator));
      const found = known.find(joined);
      if (found !== undefined) next = found + 1;
      else if (!others.has(joined)) return place;
    }
    return undefined;
  }

  /** Whether the text at a place is this text of two parts without their {@link separator}. */
  #isJoined(place: number, bytes: Uint8Array, start: number, end: number): boolean {
    if (place >= this.#length) return false;
    const own = this.#bytes;
    let at = this.#starts[place]!;
    if (this.#ends[place]! - at !== end - start - 1) return false;
    for (let i = start; i < end; i++) {
      const byte = bytes[i]!;
      if (byte === separator) continue;
      if (own[at++] !== byte) return false;
    }
    return true;
  }

  /** Writes a text into the buffer. @returns the place after it; −1 if it has no UTF-8 form, or is longer than every text of the table. */
  #write(text: string, from: number): number {
    const { length } = text;
    if (length > this.#longest) return -1;
    if (buffer.length < from + 3 * length + 1) buffer = grown(buffer, new Uint8Array(2 * (from + 3 * length + 1)));
    let at = from;
    for (let i = 0; i < length; i++) {
      const unit = text.charCodeAt(i);
      if (unit < 0x80) buffer[at++] = unit;
      else if (unit < 0x800) {
        buffer[at++] = 0xc0 | (unit >> 6);
        buffer[at++] = 0x80 | (unit & 0x3f);
      } else return text.isWellFormed() ? from + new TextEncoder().encodeInto(text, buffer.subarray(from)).written : -1;
    }
    return at;
  }

  #hash(bytes: Uint8Array, start: number, end: number): number {
    let hash = this.#seed;
    for (let i = start; i < end; i++) hash = mixed(hash ^ bytes[i]!, this.#factor);
    return hash;
  }

  #equals(place: number, bytes: Uint8Array, start: number, end: number): boolean {
    let at = this.#starts[place]!;
    if (this.#ends[place]! - at !== end - start) return false;
    for (let i = start; i < end; i++) if (this.#bytes[at++] !== bytes[i]) return false;
    return true;
  }
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });

/** Where {@link TextTable.find} writes a text. */
let buffer = new Uint8Array(1 << 10);

/**
 * A step of a hash. With the product alone, each bit would depend only on lower ones, and texts could be made that collide for any factor.
 */
function mixed(hash: number, factor: number): number {
  const product = Math.imul(hash, factor);
  return product ^ (product >>> 15);
}

/** The upper bits of a product, which depend on all bits of the hash. */
function firstSlot(hash: number, last: number): number {
  return Math.imul(hash ^ (hash >>> 15), 0x9e3779b1) >>> Math.clz32(last);
}

function grown<Numbers extends Uint8Array | Uint32Array | Int32Array>(from: Numbers, to: Numbers): Numbers {
  to.set(from);
  return to;
}

function random(): number {
  return crypto.getRandomValues(new Int32Array(1))[0]!;
}
