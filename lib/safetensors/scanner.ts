/**
 * Reads JSON text from left to right, without recursion and without building values nobody asked for.
 *
 * JSON.parse is not enough for files from strangers: it drops duplicate keys in silence, reads 1e3 and 1.0 as the
 * integers they are not, and walks as deep as the text says.
 */
import { describe } from "../errors.ts";

/** What was wrong and where; the caller, who knows the file, turns it into its typed error. */
export class ScanError extends Error {
  readonly expected: string;
  readonly received: string;

  constructor(expected: string, received: string) {
    super(`expected ${expected}, got ${received}`);
    this.expected = expected;
    this.received = received;
  }
}

const deepest = 64;

export class JsonScanner {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** Refuses the text at the current place. */
  fail(expected: string): never {
    const rest = this.#text.slice(this.#at, this.#at + 24);
    throw new ScanError(expected, rest === "" ? "the end of the text" : `${describe(rest)} at character ${this.#at}`);
  }

  /** Nothing but white space may be left. */
  end(): void {
    this.#space();
    if (this.#at < this.#text.length) this.fail("the end of the text");
  }

  /**
   * Reads an object, calling `member` with each key while the scanner stands before its value.
   *
   * @throws {ScanError} on a key that comes twice.
   */
  object(what: string, member: (key: string) => void): void {
    if (!this.#take("{")) this.fail(`${what} (an object)`);
    if (this.#take("}")) return;
    const keys = new Set<string>();
    do {
      const key = this.string(`a key of ${what}`);
      if (keys.has(key)) throw new ScanError(`each key of ${what} once`, `${describe(key)} twice`);
      keys.add(key);
      if (!this.#take(":")) this.fail(`":" after ${describe(key)}`);
      member(key);
    } while (this.#take(","));
    if (!this.#take("}")) this.fail(`"," or "}" in ${what}`);
  }

  /** Reads an array of non-negative integers below 2^53, at most `limit` of them. */
  integers(what: string, limit: number): number[] {
    const values: number[] = [];
    if (!this.#take("[")) this.fail(`${what} (an array)`);
    if (this.#take("]")) return values;
    do {
      if (values.length === limit) this.fail(`at most ${limit} numbers in ${what}`);
      values.push(this.#integer(what));
    } while (this.#take(","));
    if (!this.#take("]")) this.fail(`"," or "]" in ${what}`);
    return values;
  }

  /** Reads a string of well-formed Unicode. */
  string(what: string): string {
    this.#space();
    const text = this.#text;
    if (text[this.#at] !== '"') this.fail(`${what} (a string)`);
    let end = this.#at + 1;
    let escaped = false;
    for (; end < text.length; end++) {
      const unit = text.charCodeAt(end);
      if (unit === 0x22) break;
      if (unit < 0x20) this.fail(`${what} without raw control characters`);
      if (unit === 0x5c) {
        escaped = true;
        end++;
      }
    }
    if (end >= text.length) this.fail(`the end of ${what}`);
    let value = text.slice(this.#at + 1, end);
    if (escaped) {
      try {
        value = String(JSON.parse(text.slice(this.#at, end + 1)));
      } catch {
        this.fail(`${what} with valid escapes`);
      }
      if (!value.isWellFormed()) this.fail(`${what} of well-formed Unicode`);
    }
    this.#at = end + 1;
    return value;
  }

  /** Passes over one value of any kind, checking only that it is one. */
  skip(what: string): void {
    const closers: ("}" | "]")[] = [];
    for (;;) {
      const open = this.#take("{") ? "}" : this.#take("[") ? "]" : undefined;
      if (open !== undefined) {
        if (closers.length === deepest) this.fail(`at most ${deepest} levels in ${what}`);
        if (!this.#take(open)) {
          closers.push(open);
          if (open === "}") this.#key(what);
          continue;
        }
      } else {
        this.#scalar(what);
      }
      // A value is over: close what ends here, then go on to the next one.
      for (let closer = closers.at(-1); ; closer = closers.at(-1)) {
        if (closer === undefined) return;
        if (this.#take(",")) {
          if (closer === "}") this.#key(what);
          break;
        }
        if (!this.#take(closer)) this.fail(`"," or "${closer}" in ${what}`);
        closers.pop();
      }
    }
  }

  #key(what: string): void {
    this.string(`a key in ${what}`);
    if (!this.#take(":")) this.fail(`":" in ${what}`);
  }

  #scalar(what: string): void {
    this.#space();
    if (this.#text[this.#at] === '"') {
      this.string(what);
      return;
    }
    const word = this.#word();
    if (!/^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(word)) this.fail(`a JSON value in ${what}`);
    this.#at += word.length;
  }

  #integer(what: string): number {
    this.#space();
    const word = this.#word();
    const value = Number(word);
    if (!/^(?:0|[1-9]\d*)$/.test(word) || !Number.isSafeInteger(value)) this.fail(`a whole number below 2^53 in ${what}`);
    this.#at += word.length;
    return value;
  }

  /** The letters, digits, signs and points from here on; a little more than any legal number or word. */
  #word(): string {
    const match = /^[-+.\w]*/.exec(this.#text.slice(this.#at, this.#at + 400));
    return match === null ? "" : match[0];
  }

  #take(mark: string): boolean {
    this.#space();
    if (this.#text[this.#at] !== mark) return false;
    this.#at++;
    return true;
  }

  #space(): void {
    for (;;) {
      const unit = this.#text.charCodeAt(this.#at);
      if (unit !== 0x20 && unit !== 0x0a && unit !== 0x0d && unit !== 0x09) return;
      this.#at++;
    }
  }
}
