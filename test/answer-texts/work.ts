/** Counts the work of the parser: the characters that its parts look at, each time they do. */
import { CallSection } from "../../lib/model/text/formats/call-section.ts";
import { JsonScanner } from "../../lib/model/text/formats/json-scanner.ts";
import { PythonLiteral } from "../../lib/model/text/formats/python-literal.ts";
import { TagMatcher } from "../../lib/model/text/formats/tag-matcher.ts";
import { XmlArgument } from "../../lib/model/text/formats/xml-argument.ts";
import { XmlValue } from "../../lib/model/text/formats/xml-value.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

type Call = (this: unknown, ...args: unknown[]) => unknown;

/** Runs a function and returns how many characters were looked at meanwhile. */
export function workOf(run: () => void): number {
  let characters = 0;
  const counted = (prototype: object, key: string, of: (self: unknown, args: readonly unknown[], given: unknown) => number): Disposable =>
    replace(prototype, key, (original) =>
      function (this: unknown, ...args: unknown[]): unknown {
        const given = (original as unknown as Call).apply(this, args);
        characters += of(this, args, given);
        return given;
      } as unknown as Method,
    );
  const length = (value: unknown): number => (typeof value === "string" ? value.length : 0);
  using stack = new DisposableStack();
  for (const { prototype } of [CallSection, JsonScanner, PythonLiteral, TagMatcher, XmlArgument]) stack.use(counted(prototype, "next", () => 1));
  stack.use(counted(XmlValue.prototype, "push", (_, [text]) => length(text)));
  stack.use(counted(JSON, "parse", (_, [text]) => length(text)));
  // Making a text from a part of another one looks at that part, and a search looks at the whole text.
  stack.use(counted(String.prototype, "slice", (_, __, given) => length(given)));
  for (const key of ["replace", "replaceAll", "trim", "indexOf"]) stack.use(counted(String.prototype, key, (self) => String(self).length));
  stack.use(counted(RegExp.prototype, "test", (_, [text]) => length(text)));
  run();
  return characters;
}
