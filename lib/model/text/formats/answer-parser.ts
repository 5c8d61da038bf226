import { pythonBlanks } from "../python-blanks.ts";
import type { AnswerFormat } from "./answer-format.ts";
import type { AnswerPiece } from "./answer-piece.ts";
import type { CallReader, CallSink } from "./call-reader.ts";
import { CallSection } from "./call-section.ts";
import type { SectionEnd } from "./call-section.ts";
import { Draft } from "./draft.ts";
import { PieceWriter } from "./piece-writer.ts";
import type { TextKind, Unread } from "./piece-writer.ts";
import { PythonCalls } from "./python-calls.ts";
import { TagMatcher } from "./tag-matcher.ts";
import { ToolSchemas } from "./tool-schemas.ts";
import { XmlCalls } from "./xml-calls.ts";
import { functionTag } from "./xml-tags.ts";

/** Options of {@link AnswerParser}. */
export interface AnswerParserOptions {
  /** The tools that the model was given, as for {@link ChatOptions.tools}: their schemas give values their types. */
  readonly tools?: readonly object[] | undefined;
  /** Whether the answer begins inside thoughts: see {@link opensReasoning}. */
  readonly reasoning: "open" | "closed";
}

const newline: ReadonlySet<string> = new Set("\n");

/**
 * Reads an answer as it is generated and gives its parts. It never throws for any text, loses no character, and takes time
 * proportional to the text, wherever the text is cut. Text that may be the beginning of a tag, or blank before one, is held
 * back, and so are calls within thoughts: they count only if nothing but such calls and the end of the thoughts follows.
 *
 * A tag of thoughts counts where a part or a line begins; elsewhere it is text.
 */
export class AnswerParser {
  readonly format: AnswerFormat;
  readonly #tools: ToolSchemas;
  readonly #blanks: ReadonlySet<string>;
  readonly #tags: readonly string[];
  readonly #tag: TagMatcher;
  readonly #writer = new PieceWriter();
  #state: "text" | "calls" | "unread" = "text";
  #kind: TextKind;
  /** Whether nothing but blank has come since the last tag. */
  #fresh = true;
  /** Blank that may not belong to the text. */
  #blank = "";
  /** Takes the blank that begins a part; undefined where it may be text. */
  #owner: ((blank: string) => void) | undefined;
  #lineBegins = false;
  /** The number of begin tags of thoughts in the text that have no end tag yet. */
  #mentioned = 0;
  #calls = 0;
  #section: CallSection | undefined;
  #draft: Draft | undefined;
  #unread: Unread | undefined;
  /** The number of characters that were taken and still have to be read again. */
  #coming = 0;

  /**
   * @throws {GatedDeltaError} of code `invalid-argument` for tools that JSON can't hold.
   */
  constructor(format: AnswerFormat, options: AnswerParserOptions) {
    const { reasoning, toolCall, blank } = format;
    this.format = format;
    this.#tools = new ToolSchemas("answer", options.tools ?? []);
    this.#blanks = blank.characters === "newlines" ? newline : pythonBlanks;
    this.#tags = [
      ...(reasoning === undefined ? [] : [reasoning.begin, reasoning.end]),
      ...(toolCall === undefined ? [] : [toolCall.begin]),
      ...(toolCall?.syntax === "xml" ? [functionTag] : []),
    ];
    this.#tag = new TagMatcher(this.#tags);
    this.#kind = reasoning !== undefined && options.reasoning === "open" ? "reasoning" : "text";
    if (this.#kind === "reasoning" || blank.atEnds) this.#owner = this.#ownerOf(this.#kind);
  }

  /**
   * Takes the next characters of the answer. Never throws.
   *
   * @returns the pieces that are certain.
   */
  push(text: string): readonly AnswerPiece[] {
    for (let i = 0; i < text.length; i++) {
      if (this.#draft !== undefined) this.#draft.text += text[i]!;
      this.#next(text[i]!);
    }
    return this.#writer.take();
  }

  /**
   * Ends the answer.
   *
   * @returns the pieces that were held back.
   */
  end(): readonly AnswerPiece[] {
    if (this.#state === "calls") this.#endSection(this.#section!.finish());
    if (this.#state === "unread") this.#out.text(this.#kind, ...twice(this.#tag.end()), this.#unread);
    if (this.#draft !== undefined && this.#tag.held !== "") this.#reject(0);
    this.#plain(this.#tag.end());
    const isText = this.#kind === "text" && !this.format.blank.atEnds;
    this.#out.text(this.#kind, isText ? this.#blank : "", this.#blank);
    this.#blank = "";
    if (this.#draft !== undefined) this.#writer.add(this.#draft.writer.take());
    this.#draft = undefined;
    return this.#writer.take();
  }

  get #out(): PieceWriter {
    return this.#draft?.writer ?? this.#writer;
  }

  #next(character: string): void {
    if (this.#state === "calls") {
      const end = this.#section!.next(character);
      if (end !== undefined) this.#endSection(end);
    } else if (this.#state === "unread") this.#inUnread(character);
    else this.#inText(character);
  }

  #again(text: string): void {
    const after = this.#coming;
    for (let i = 0; i < text.length; i++) {
      this.#coming = after + text.length - i - 1;
      this.#next(text[i]!);
    }
    this.#coming = after;
  }

  #inText(character: string): void {
    const tag = this.#tag.next(character);
    const { released } = this.#tag;
    if (this.#draft !== undefined && (this.#isText(released) || this.#endsDraft(tag))) {
      this.#reject(0);
      return;
    }
    this.#plain(released);
    if (tag === undefined) return;
    if (tag === this.format.reasoning?.end) this.#endReasoning(tag);
    else if (tag === this.format.reasoning?.begin) this.#beginReasoning(tag);
    else this.#beginSection(tag);
  }

  /** Whether a tag can't follow calls in thoughts if these count. */
  #endsDraft(tag: string | undefined): boolean {
    return tag !== undefined && (tag === this.format.reasoning?.begin || (tag === this.format.reasoning?.end && this.#kind === "text"));
  }

  #isText(text: string): boolean {
    for (const character of text) if (!this.#blanks.has(character)) return true;
    return false;
  }

  /** Takes text without tags. */
  #plain(text: string): void {
    const { beforeCall, atEnds } = this.format.blank;
    const stripped = this.#kind === "reasoning" || atEnds ? "all" : beforeCall;
    for (let i = 0; i < text.length; i++) {
      const character = text[i]!;
      this.#lineBegins = character === "\n";
      if (!this.#blanks.has(character)) {
        this.#out.text(this.#kind, ...twice(this.#blank + character));
        this.#blank = "";
        this.#fresh = false;
      } else if (this.#fresh && this.#owner !== undefined) this.#owner(character);
      else if (this.#fresh || stripped === "all") this.#blank += character;
      else {
        const certain = stripped === "one" ? this.#blank : character;
        this.#out.text(this.#kind, ...twice(certain));
        this.#blank = stripped === "one" ? character : "";
      }
    }
  }

  #ownerOf(kind: TextKind): (blank: string) => void {
    return (raw) => this.#out.text(kind, "", raw);
  }

  /** Begins a part after a tag. @param owner takes the blank after it. */
  #beginPart(kind: TextKind, owner: (raw: string) => void): void {
    this.#kind = kind;
    this.#owner = owner;
    this.#fresh = true;
    this.#blank = "";
  }

  #beginReasoning(tag: string): void {
    if (this.#fresh) {
      this.#out.text("reasoning", "", this.#blank + tag);
      this.#beginPart("reasoning", this.#ownerOf("reasoning"));
      return;
    }
    if (this.#kind === "text") this.#mentioned++;
    this.#plain(tag);
  }

  #endReasoning(tag: string): void {
    if (this.#kind === "reasoning") {
      this.#out.text("reasoning", "", this.#blank + tag);
      this.#beginPart("text", this.#ownerOf("reasoning"));
    } else if (this.#mentioned > 0 || !(this.#fresh || this.#lineBegins)) {
      this.#mentioned = Math.max(0, this.#mentioned - 1);
      this.#plain(tag);
    } else {
      // The text before it was thoughts, and is given already.
      this.#out.text("text", this.#fresh ? "" : this.#blank, this.#blank + tag);
      this.#beginPart("text", this.#ownerOf("text"));
    }
  }

  #beginSection(tag: string): void {
    if (this.#draft !== undefined && this.#kind === "text") this.#reject(tag.length);
    const { atEnds, beforeCall } = this.format.blank;
    const kept = this.#kind === "reasoning" || atEnds || beforeCall === "all" ? 0 : Math.max(0, this.#blank.length - (beforeCall === "one" ? 1 : 0));
    this.#out.text(this.#kind, ...twice(this.#blank.slice(0, kept)));
    const blank = this.#blank.slice(kept);
    this.#blank = "";
    if (this.#kind === "reasoning") this.#draft ??= new Draft(blank + tag, this.#calls, this.#fresh);
    this.#section = new CallSection(this.#out, this.#kind, blank, tag, this.#calls, (sink) => this.#reader(sink, tag));
    this.#state = "calls";
  }

  #reader(sink: CallSink, tag: string): CallReader {
    const call = this.format.toolCall!;
    return call.syntax === "python" ? new PythonCalls(call, sink) : new XmlCalls(call, sink, this.#tools, tag === functionTag);
  }

  #endSection({ as, rest, reason, index }: SectionEnd): void {
    const section = this.#section!;
    this.#section = undefined;
    this.#calls = section.calls;
    this.#state = "text";
    if (as === "calls") {
      const [last, { name }] = [section.calls - 1, section];
      this.#beginPart(this.#kind, (raw) => this.#out.call(last, name, "", raw));
    } else if (this.#draft === undefined) this.#notFresh();
    else if (as === "text") {
      this.#reject(rest.length);
    } else {
      const { text, calls } = this.#draft;
      this.#draft = undefined;
      this.#calls = calls;
      const all = text.slice(0, text.length - rest.length - this.#coming);
      this.#writer.text(this.#kind, ...twice(all), { reason: reason!, index: undefined });
      this.#notFresh();
      index = undefined;
    }
    if (as === "unread") {
      this.#state = "unread";
      this.#unread = { reason: reason!, index };
      const { begin, end } = this.format.toolCall!;
      this.#tag.use([end, begin, ...(this.#kind === "reasoning" ? [this.format.reasoning!.end] : [])]);
    }
    this.#again(rest);
  }

  #notFresh(): void {
    this.#fresh = this.#lineBegins = false;
  }

  /** The rest of a call that can't be read, up to its end. */
  #inUnread(character: string): void {
    const tag = this.#tag.next(character);
    const isEnd = tag === this.format.toolCall!.end;
    this.#out.text(this.#kind, ...twice(this.#tag.released + (isEnd ? tag : "")), this.#unread);
    if (tag === undefined) return;
    this.#state = "text";
    this.#tag.use(this.#tags);
    if (tag === this.format.toolCall!.begin) this.#beginSection(tag);
    else if (!isEnd) this.#endReasoning(tag);
  }

  /** The draft is thoughts. @param ahead how many of the last characters do not belong to it, not counting those to be read again. */
  #reject(ahead: number): void {
    const { text, calls, fresh } = this.#draft!;
    const length = text.length - ahead - this.#coming;
    this.#draft = undefined;
    this.#calls = calls;
    this.#beginPart("reasoning", this.#ownerOf("reasoning"));
    this.#fresh = fresh;
    this.#tag.end();
    // Without the calls' tags it is all text.
    this.#tag.use([this.format.reasoning!.end]);
    for (let i = 0; i < length; i++) this.#inText(text[i]!);
    this.#tag.use(this.#tags);
  }
}

/** A text as both the text and the raw text of a piece. */
const twice = (text: string): [string, string] => [text, text];
