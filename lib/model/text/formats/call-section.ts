import type { ToolCall } from "./answer-piece.ts";
import type { CallReader, CallSink } from "./call-reader.ts";
import { isObject, readJson } from "./json-text.ts";
import type { PieceWriter, TextKind } from "./piece-writer.ts";

/** The object of the arguments nests deeper than their values. */
const deepestArguments = 101;

/** How a section of calls ends. */
export interface SectionEnd {
  /** `calls` after calls, `text` if there is no call after all, `unread` if the text up to the end tag can't be read. */
  readonly as: "calls" | "text" | "unread";
  /** The characters after the section. */
  readonly rest: string;
  /** Why the last text is not a call. */
  readonly reason?: string;
  /** The number of the call whose pieces the last text replaces. */
  readonly index?: number | undefined;
}

/** A section of calls that follows a begin tag: gives the pieces of the calls that a reader finds. */
export class CallSection implements CallSink {
  ahead = 0;
  readonly #writer: PieceWriter;
  readonly #kind: TextKind;
  readonly #reader: CallReader;
  /** Blank before the section, which counts as text if there is no call. */
  #blank: string;
  /** The characters since the beginning, or the last complete call. */
  #text: string;
  /** The last of these characters, which are in no piece yet. */
  #raw: string;
  #calls: number;
  #name = "";
  #arguments = "";
  /** Whether a call has a name and is not complete. */
  #open = false;
  #end: SectionEnd | undefined;

  /**
   * @param kind the kind of text that contains the section.
   * @param tag the tag that began the section.
   * @param calls the number of calls before the section.
   */
  constructor(writer: PieceWriter, kind: TextKind, blank: string, tag: string, calls: number, reader: (sink: CallSink) => CallReader) {
    this.#writer = writer;
    this.#kind = kind;
    this.#blank = blank;
    this.#text = this.#raw = tag;
    this.#calls = calls;
    this.#reader = reader(this);
  }

  /** The number of calls so far in the answer. */
  get calls(): number {
    return this.#calls;
  }

  /** The last call's name. */
  get name(): string {
    return this.#name;
  }

  /** Takes the next character. Returns how the section ended, if it has. */
  next(character: string): SectionEnd | undefined {
    this.ahead = 0;
    this.#text += character;
    this.#raw += character;
    this.#reader.next(character);
    return this.#end;
  }

  /** Ends the text. */
  finish(): SectionEnd {
    this.ahead = 0;
    this.#reader.end();
    return this.#end!;
  }

  begin(name: string): void {
    if (this.#end !== undefined) return;
    this.#writer.text(this.#kind, "", this.#blank);
    this.#name = name;
    this.#arguments = "";
    this.#open = true;
    this.#calls++;
    this.#give("");
  }

  write(json: string): void {
    if (this.#end !== undefined || json === "") return;
    this.#arguments += json;
    this.#give(json);
  }

  complete(): boolean {
    if (this.#end !== undefined) return false;
    const read = readJson(this.#arguments, deepestArguments);
    if (read === undefined || !isObject(read.value)) {
      this.fail("the arguments of the call are not JSON");
      return false;
    }
    this.#give("", { name: this.#name, arguments: read.value });
    this.#open = false;
    this.#blank = "";
    this.#text = this.#text.slice(this.#text.length - this.ahead);
    return true;
  }

  leave(): void {
    if (this.#end !== undefined) return;
    this.#end = { as: "calls", rest: this.#rest() };
    this.#give("");
  }

  fail(reason: string): void {
    this.#refuse("unread", reason);
  }

  mention(): void {
    this.#refuse("text", "a tag without a call");
  }

  #refuse(as: "text" | "unread", reason: string): void {
    if (this.#end !== undefined) return;
    const [index, rest] = [this.#open ? this.#calls - 1 : undefined, this.#rest()];
    if (!this.#open) this.#writer.text(this.#kind, this.#blank, this.#blank);
    const [text, raw] = [this.#open ? this.#blank + this.#text : this.#text, this.#raw];
    this.#writer.text(this.#kind, text.slice(0, text.length - this.ahead), raw.slice(0, raw.length - this.ahead), { reason, index });
    this.#end = { as, rest, reason, index };
  }

  /** The characters that the reader took ahead. */
  #rest(): string {
    return this.#raw.slice(this.#raw.length - this.ahead);
  }

  /** Gives the characters that the reader has read, with the next part of the arguments. */
  #give(json: string, done?: ToolCall): void {
    let read = this.#raw.length - this.ahead;
    // A pair of surrogates stays together.
    if (this.ahead > 0 && /[\ud800-\udbff]/.test(this.#raw[read - 1] ?? "")) read--;
    if (json === "" && read === 0 && done === undefined) return;
    this.#writer.call(this.#calls - 1, this.#name, json, this.#raw.slice(0, read), done);
    this.#raw = this.#raw.slice(read);
  }
}
