/** Faults planted into the answer parser, each of which random texts must find. */
import { AnswerParser } from "../../lib/model/text/formats/answer-parser.ts";
import { CallSection } from "../../lib/model/text/formats/call-section.ts";
import { PieceWriter } from "../../lib/model/text/formats/piece-writer.ts";
import { PythonLiteral } from "../../lib/model/text/formats/python-literal.ts";
import { TagMatcher } from "../../lib/model/text/formats/tag-matcher.ts";
import { XmlArgument } from "../../lib/model/text/formats/xml-argument.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

type Call = (this: unknown, ...args: unknown[]) => unknown;

/** Replaces a method by one that may call the original. */
const wrapped = (prototype: object, key: string, run: (original: (...args: unknown[]) => unknown, args: unknown[], self: unknown) => unknown) => (): Disposable =>
  replace(prototype, key, (original) =>
    function (this: unknown, ...args: unknown[]): unknown {
      return run((...given) => (original as unknown as Call).apply(this, given), args, this);
    } as unknown as Method,
  );

/** Each fault by its description, and a function that plants it. */
export const planted: Readonly<Record<string, () => Disposable>> = {
  "the beginning of a tag at the end of the text is lost": wrapped(TagMatcher.prototype, "end", (original) => (original(), "")),
  "the beginning of a tag is given out at the end of a push": wrapped(AnswerParser.prototype, "push", (original, [text], self) =>
    String(text).endsWith("<") ? [...(original(text) as object[]), ...(self as AnswerParser).end()] : original(text),
  ),
  "blank around text is lost": wrapped(PieceWriter.prototype, "text", (original, [type, text, raw, ...more]) => original(type, text, text === "" ? "" : raw, ...more)),
  "a broken call is left open": wrapped(CallSection.prototype, "fail", (_, __, self) => (self as CallSection).leave()),
  "calls within thoughts that count are lost": wrapped(PieceWriter.prototype, "add", () => undefined),
  "a call's number comes twice": () => {
    const original = Object.getOwnPropertyDescriptor(CallSection.prototype, "calls")!;
    Object.defineProperty(CallSection.prototype, "calls", { ...original, get: () => 0 });
    return { [Symbol.dispose]: () => void Object.defineProperty(CallSection.prototype, "calls", original) };
  },
  "a call has other arguments than its text says": wrapped(PieceWriter.prototype, "call", (original, [index, name, json, raw, done]) => original(index, name, json, raw, done && { name, arguments: {} })),
  "a broken call loses its beginning": wrapped(PieceWriter.prototype, "text", (original, [type, text, raw, unread]) => original(type, unread === undefined ? text : raw, raw, unread)),
  "a character of a line separator throws": wrapped(PythonLiteral.prototype, "next", (original, [character]) => {
    if (character === "\u2028") throw new Error("planted");
    return original(character);
  }),
  "each character looks at the whole text": () => {
    const texts = new WeakMap<object, string>();
    return wrapped(XmlArgument.prototype, "next", (original, [character], self) => {
      const text = (texts.get(self as object) ?? "") + String(character);
      texts.set(self as object, text);
      void text.slice(0, -1);
      return original(character);
    })();
  },
};
