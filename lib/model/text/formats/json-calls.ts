import type { Tags } from "./answer-format.ts";
import type { CallReader, CallSink } from "./call-reader.ts";
import { JsonScanner } from "./json-scanner.ts";
import { isObject, isSpace, readJson } from "./json-text.ts";
import { TagMatcher } from "./tag-matcher.ts";

const broken = "the call is not JSON";

/**
 * Reads calls of the form `{"name": …, "arguments": {…}}`. Several may follow each other, or form an array. The arguments may
 * also be called `parameters`, be absent, or be JSON in a string; further members are skipped. The last bracket may be missing.
 */
export class JsonCalls implements CallReader {
  readonly #tags: Tags;
  readonly #sink: CallSink;
  readonly #tag: TagMatcher;
  #state: "between" | "member" | "key" | "colon" | "value" = "between";
  #scanner: JsonScanner;
  #text = "";
  #key = "";
  #name: string | undefined;
  /** The JSON of the arguments, once complete; until the name is known it waits here. */
  #arguments: string | undefined;
  /** Whether the value goes to the sink as it grows. */
  #streams = false;
  /** Blank after a call. */
  #blank = "";
  #calls = 0;

  constructor(tags: Tags, sink: CallSink) {
    this.#tags = tags;
    this.#sink = sink;
    this.#tag = new TagMatcher([tags.end, tags.begin]);
    this.#scanner = this.#scan();
  }

  next(character: string): void {
    if (this.#tag.held !== "") {
      this.#inTag(character);
      return;
    }
    switch (this.#state) {
      case "between":
        this.#nextBetween(character);
        return;
      case "member":
        if (isSpace(character) || character === ",") return;
        if (character === "}") this.#endObject();
        else if (character === '"') {
          this.#begin("key");
          this.#scanner.next(character);
        } else this.#inTag(character);
        return;
      case "colon":
        if (isSpace(character)) return;
        if (character === ":") this.#begin("value");
        else this.#inTag(character);
        return;
      default:
        this.#inValue(character);
    }
  }

  end(): void {
    if (this.#state === "between") {
      if (this.#calls > 0) this.#sink.leave();
      else this.#sink.mention();
    } else if (this.#state === "member" && this.#arguments !== undefined) {
      if (this.#endObject()) this.#sink.leave();
    } else this.#sink.fail("the text ends within the call");
  }

  #nextBetween(character: string): void {
    if (character === "{") {
      this.#state = "member";
      this.#blank = "";
      this.#name = this.#arguments = undefined;
    } else if (isSpace(character)) this.#blank += character;
    else if ("[],}".includes(character)) this.#blank = "";
    else this.#inTag(character);
  }

  /** A character that does not belong to JSON, but perhaps to a tag. */
  #inTag(character: string): void {
    const tag = this.#tag.next(character);
    if (tag === undefined) {
      if (this.#tag.released !== "") this.#stop(this.#tag.released.length + this.#tag.end().length);
      return;
    }
    this.#sink.ahead = tag.length;
    // The last bracket of a call may be missing.
    if (this.#state === "member" && this.#name !== undefined && !this.#endObject()) return;
    if (tag === this.#tags.end && this.#state === "between" && this.#calls > 0) {
      this.#sink.ahead = 0;
      this.#sink.leave();
    } else this.#stop(tag.length);
  }

  /** Ends where no call continues. @param ahead the characters that end it. */
  #stop(ahead: number): void {
    this.#sink.ahead = ahead;
    if (this.#state !== "between") this.#sink.fail(broken);
    else if (this.#calls === 0) this.#sink.mention();
    else {
      this.#sink.ahead += this.#blank.length;
      this.#sink.leave();
    }
  }

  #scan(): JsonScanner {
    return new JsonScanner(this.#tags.end, (json) => {
      if (this.#streams) this.#sink.write(json);
      else this.#text += json;
    });
  }

  #begin(state: "key" | "value"): void {
    this.#state = state;
    this.#text = "";
    this.#scanner = this.#scan();
    this.#streams = false;
  }

  #inValue(character: string): void {
    const isArguments = this.#state === "value" && (this.#key === "arguments" || this.#key === "parameters");
    if (isArguments && this.#arguments !== undefined) {
      this.#sink.fail("the call has arguments twice");
      return;
    }
    if (isArguments && character === "{" && this.#text === "" && this.#name !== undefined) this.#streams = true;
    const found = this.#scanner.next(character);
    if (found === "more") return;
    if (found === "cut") {
      this.#sink.ahead = this.#tags.end.length;
      this.#sink.fail("a string in the call has no end");
    } else if (found === "broken") {
      this.#sink.ahead = 1;
      this.#sink.fail(broken);
    } else {
      this.#sink.ahead = found === "after" ? 1 : 0;
      if (!this.#endValue(isArguments) || found === "end") return;
      this.#sink.ahead = 0;
      this.next(character);
    }
  }

  /** Takes the key or value. Returns whether the call continues. */
  #endValue(isArguments: boolean): boolean {
    const wasKey = this.#state === "key";
    this.#state = wasKey ? "colon" : "member";
    if (isArguments && this.#streams) {
      this.#arguments = "";
      return true;
    }
    const value = readJson(this.#text)?.value;
    if (wasKey && typeof value === "string") this.#key = value;
    else if (wasKey || value === undefined) return this.#refuse(broken);
    else if (isArguments) {
      this.#arguments = value === null ? "{}" : isObject(value) ? this.#text : typeof value === "string" ? value : undefined;
      if (this.#arguments === undefined) return this.#refuse("the arguments of the call are not an object");
      if (this.#name !== undefined) this.#sink.write(this.#arguments);
    } else if (this.#key === "name") {
      if (typeof value !== "string" || value === "" || this.#name !== undefined) return this.#refuse("the name of the call is not a string");
      this.#name = value;
      this.#sink.begin(value);
      if (this.#arguments !== undefined) this.#sink.write(this.#arguments);
    }
    return true;
  }

  #refuse(reason: string): false {
    this.#sink.fail(reason);
    return false;
  }

  /** Ends a call. Returns whether it could be read. */
  #endObject(): boolean {
    this.#state = "between";
    if (this.#name === undefined) return this.#refuse("the call has no name");
    if (this.#arguments === undefined) this.#sink.write("{}");
    this.#calls++;
    return this.#sink.complete();
  }
}
