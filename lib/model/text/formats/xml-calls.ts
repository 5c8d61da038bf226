import type { Tags } from "./answer-format.ts";
import { noCall } from "./call-reader.ts";
import type { CallReader, CallSink } from "./call-reader.ts";
import { JsonCalls } from "./json-calls.ts";
import { JsonScanner } from "./json-scanner.ts";
import { isSpace, quoteJson } from "./json-text.ts";
import { TagMatcher } from "./tag-matcher.ts";
import type { ToolSchemas } from "./tool-schemas.ts";
import { XmlArgument } from "./xml-argument.ts";
import { functionEnd, functionTag, longestName, parameterTag, xmlTags } from "./xml-tags.ts";
import { XmlValue } from "./xml-value.ts";

/**
 * Reads calls of the form `<function=NAME>`, `<parameter=KEY>` VALUE `</parameter>` …, `</function>`. Instead of arguments there
 * may be one JSON object, and instead of functions calls in the form of {@link JsonCalls}. End tags may be missing: see
 * {@link XmlArgument}.
 */
export class XmlCalls implements CallReader {
  readonly #tags: Tags;
  readonly #sink: CallSink;
  readonly #tools: ToolSchemas;
  readonly #bare: boolean;
  readonly #tag: TagMatcher;
  #state: "functions" | "name" | "arguments" | "key" | "value" | "object" | "json";
  #calls = 0;
  #name = "";
  readonly #given = new Set<string>();
  /** Whether the arguments came as an object. */
  #whole = false;
  /** A name so far, or blank after a call. */
  #text = "";
  #value: XmlValue | undefined;
  #argument: XmlArgument | undefined;
  #object: JsonScanner | undefined;
  #json: JsonCalls | undefined;

  /** @param bare whether the calls begin with a function's tag, already read, instead of a call's tag; then the name must be a tool's. */
  constructor(tags: Tags, sink: CallSink, tools: ToolSchemas, bare: boolean) {
    this.#tags = tags;
    this.#sink = sink;
    this.#tools = tools;
    this.#bare = bare;
    this.#state = bare ? "name" : "functions";
    this.#tag = new TagMatcher(xmlTags(tags));
  }

  next(character: string): void {
    switch (this.#state) {
      case "functions":
      case "arguments":
        this.#outside(character);
        return;
      case "name":
      case "key":
        this.#inName(character);
        return;
      case "value": {
        const rest = this.#argument!.next(character);
        if (rest !== undefined) this.#endValue(rest);
        return;
      }
      case "object":
        this.#inObject(character);
        return;
      default:
        this.#json!.next(character);
    }
  }

  end(): void {
    if (this.#state === "value") {
      const rest = this.#argument!.end();
      if (rest === undefined) {
        this.#sink.fail(`the text ends within the argument ${[...this.#given].at(-1)}`);
        return;
      }
      this.#endValue(rest);
    }
    if (this.#state === "arguments" && !this.#endCut()) return;
    if (this.#state === "json") this.#json!.end();
    else if (this.#state !== "functions") this.#sink.fail("the text ends within the call");
    else if (this.#calls === 0) this.#sink.mention();
    else this.#sink.leave();
  }

  /** Ends a call without an end tag. Returns whether it could be read: all required arguments must be there. */
  #endCut(): boolean {
    const [missing] = this.#whole ? [] : this.#tools.missing(this.#name, this.#given);
    if (missing === undefined && (this.#whole || this.#given.size > 0)) return this.#endFunction();
    this.#sink.fail(missing === undefined ? "the text ends within the call" : `the text ends before the argument ${missing}`);
    return false;
  }

  /** Outside names and values: blank, tags, or the bracket of an object. */
  #outside(character: string): void {
    if (this.#tag.held === "") {
      if (isSpace(character)) {
        this.#text += character;
        return;
      }
      if ((character === "{" || character === "[") && this.#state === "functions" && this.#calls === 0) {
        this.#state = "json";
        this.#json = new JsonCalls(this.#tags, this.#sink);
        this.#json.next(character);
        return;
      }
      if (character === "{" && this.#state === "arguments" && !this.#whole && this.#given.size === 0) {
        this.#state = "object";
        this.#object = new JsonScanner(this.#tags.end, (json) => this.#sink.write(json));
        this.#object.next(character);
        return;
      }
    }
    const tag = this.#tag.next(character);
    if (tag === undefined && this.#tag.released === "") return;
    const taken = tag?.length ?? this.#tag.released.length + this.#tag.end().length;
    if (this.#state === "functions") this.#afterFunctions(tag, taken);
    else this.#afterArguments(tag, taken);
  }

  /** @param taken the number of characters of the tag, or of other text. */
  #afterFunctions(tag: string | undefined, taken: number): void {
    if (tag === functionTag) {
      this.#beginName("name");
      return;
    }
    if (this.#calls === 0) {
      this.#sink.ahead += taken;
      if (tag === this.#tags.end) this.#sink.fail(noCall);
      else this.#sink.mention();
      return;
    }
    if (tag !== this.#tags.end) this.#sink.ahead += this.#text.length + taken;
    this.#sink.leave();
  }

  #afterArguments(tag: string | undefined, taken: number): void {
    if (tag === parameterTag && !this.#whole) this.#beginName("key");
    else if (tag === functionEnd) this.#endFunction();
    else if (tag === this.#tags.end || tag === this.#tags.begin) {
      this.#sink.ahead += taken;
      if (!this.#endFunction()) return;
      if (tag === this.#tags.end) this.#sink.ahead -= taken;
      this.#sink.leave();
    } else {
      this.#sink.ahead += taken;
      this.#sink.fail("neither an argument nor the end of the call follows");
    }
  }

  #beginName(state: "name" | "key"): void {
    this.#state = state;
    this.#text = "";
  }

  /** A name up to its bracket, which may be missing at the end of a line. */
  #inName(character: string): void {
    if (character === "<" || this.#text.length > longestName) {
      this.#sink.ahead = 1;
      this.#sink.fail("a name in the call has no end");
      return;
    }
    if (character !== ">" && character !== "\n") {
      this.#text += character;
      return;
    }
    const name = this.#text.trim().replace(/^(["'])(.*)\1$/s, "$2");
    if (name === "") this.#sink.fail("a name in the call is empty");
    else if (this.#state === "key") this.#beginValue(name);
    else if (this.#bare && this.#calls === 0 && !this.#tools.has(name)) this.#sink.mention();
    else {
      this.#name = name;
      this.#given.clear();
      this.#whole = false;
      this.#text = "";
      this.#state = "arguments";
      this.#sink.begin(name);
    }
  }

  #beginValue(key: string): void {
    this.#sink.write(`${this.#given.size === 0 ? "{" : ","}${quoteJson(key)}:`);
    this.#given.delete(key);
    this.#given.add(key);
    const value = new XmlValue(this.#tools.typeOf(this.#name, key), (json) => this.#sink.write(json));
    this.#value = value;
    this.#argument = new XmlArgument(
      this.#tags,
      (text) => value.push(text),
      (next) => !this.#given.has(next) && this.#tools.mayHave(this.#name, next),
    );
    this.#state = "value";
  }

  /** @param rest the text after the value. */
  #endValue(rest: string): void {
    this.#sink.ahead = rest.length;
    this.#value!.end();
    this.#text = "";
    this.#state = "arguments";
    for (let i = 0; i < rest.length; i++) {
      this.#sink.ahead = rest.length - i - 1;
      this.next(rest[i]!);
    }
  }

  #inObject(character: string): void {
    const found = this.#object!.next(character);
    if (found === "more") return;
    this.#state = "arguments";
    this.#text = "";
    this.#whole = true;
    if (found === "end") return;
    this.#sink.ahead = found === "cut" ? this.#tags.end.length : 1;
    this.#sink.fail("the arguments of the call are not JSON");
  }

  /** Ends a call. Returns whether it could be read. */
  #endFunction(): boolean {
    if (!this.#whole) this.#sink.write(this.#given.size === 0 ? "{}" : "}");
    this.#calls++;
    this.#state = "functions";
    this.#text = "";
    return this.#sink.complete();
  }
}
