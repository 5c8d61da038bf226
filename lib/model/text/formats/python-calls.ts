import type { Tags } from "./answer-format.ts";
import { noCall } from "./call-reader.ts";
import type { CallReader, CallSink } from "./call-reader.ts";
import { isSpace, quoteJson } from "./json-text.ts";
import { PythonLiteral } from "./python-literal.ts";
import { TagMatcher } from "./tag-matcher.ts";

/**
 * Reads calls of the form `NAME(KEY=VALUE, …)`, one on each line or in a list. Values are Python or JSON literals.
 */
export class PythonCalls implements CallReader {
  readonly #tags: Tags;
  readonly #sink: CallSink;
  readonly #tag: TagMatcher;
  #state: "calls" | "name" | "arguments" | "key" | "value" = "calls";
  #calls = 0;
  /** Whether the current call has arguments so far. */
  #begun = false;
  /** A name so far, or blank after a call. */
  #text = "";
  #value: PythonLiteral | undefined;

  constructor(tags: Tags, sink: CallSink) {
    this.#tags = tags;
    this.#sink = sink;
    this.#tag = new TagMatcher([tags.end, tags.begin]);
  }

  next(character: string): void {
    switch (this.#state) {
      case "calls":
        this.#between(character);
        return;
      case "name":
        if (/[\w.-]/.test(character)) this.#text += character;
        else if (character === "(") this.#beginCall();
        else this.#stop(1);
        return;
      case "arguments":
        if (isSpace(character) || character === ",") return;
        if (character === ")") this.#endCall();
        else if (/\w/.test(character)) {
          this.#state = "key";
          this.#text = character;
        } else this.#fail("an argument of the call has no name");
        return;
      case "key":
        if (/\w/.test(character)) this.#text += character;
        else if (character === "=") this.#beginValue();
        else if (!isSpace(character)) this.#fail("an argument of the call has no name");
        return;
      default:
        this.#inValue(character);
    }
  }

  end(): void {
    if (this.#state === "calls" && this.#calls > 0) this.#sink.leave();
    else if (this.#state === "calls" || (this.#state === "name" && this.#calls === 0)) this.#sink.mention();
    else this.#sink.fail("the text ends within the call");
  }

  #between(character: string): void {
    if (this.#tag.held === "") {
      if (isSpace(character)) {
        this.#text += character;
        return;
      }
      if (character === "[" || character === "]" || character === ",") {
        this.#text = "";
        return;
      }
      if (/[A-Za-z_]/.test(character)) {
        this.#state = "name";
        this.#text += character;
        return;
      }
    }
    const tag = this.#tag.next(character);
    if (tag === undefined && this.#tag.released === "") return;
    if (tag === this.#tags.end && this.#calls > 0) this.#sink.leave();
    else if (tag === this.#tags.end) {
      this.#sink.ahead = tag.length;
      this.#sink.fail(noCall);
    } else this.#stop(tag?.length ?? this.#tag.released.length + this.#tag.end().length);
  }

  /** Ends where no call continues. @param taken the number of characters that end it. */
  #stop(taken: number): void {
    if (this.#calls === 0) {
      this.#sink.ahead = taken;
      this.#sink.mention();
    } else {
      this.#sink.ahead = this.#text.length + taken;
      this.#sink.leave();
    }
  }

  #fail(reason: string): void {
    this.#sink.ahead = 1;
    this.#sink.fail(reason);
  }

  #beginCall(): void {
    this.#sink.begin(this.#text.trim());
    this.#state = "arguments";
    this.#begun = false;
  }

  #beginValue(): void {
    this.#sink.write(`${this.#begun ? "," : "{"}${quoteJson(this.#text)}:`);
    this.#begun = true;
    this.#state = "value";
    this.#value = new PythonLiteral((json) => this.#sink.write(json));
  }

  #inValue(character: string): void {
    this.#sink.ahead = 1;
    const found = this.#value!.next(character);
    if (found === "broken") this.#fail("an argument of the call is not a literal");
    else this.#sink.ahead = 0;
    if (found !== "end") return;
    this.#state = "arguments";
    if (character === ")") this.#endCall();
  }

  #endCall(): void {
    this.#sink.write(this.#begun ? "}" : "{}");
    this.#calls++;
    this.#state = "calls";
    this.#text = "";
    this.#sink.complete();
  }
}
