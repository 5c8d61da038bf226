import { isSpace, escapeJson } from "./json-text.ts";
import { TagMatcher } from "./tag-matcher.ts";

const closers: Readonly<Record<string, string>> = { "[": "]", "{": "}" };

/**
 * Finds the end of one JSON value, character by character, and gives its text. A line end or another control character in a
 * string, which models sometimes write, is escaped. Mistakes that parsing the text reveals are not looked for.
 */
export class JsonScanner {
  readonly #write: (json: string) => void;
  readonly #open: string[] = [];
  readonly #tag: TagMatcher;
  #begun = false;
  #inString = false;
  #escaped = false;
  /** Whether the characters since a line end in a string may be the end tag: no JSON string has a line end. */
  #lineBegins = false;

  /** @param endTag if a line in a string is this tag, the string lacks its end. */
  constructor(endTag: string, write: (json: string) => void) {
    this.#tag = new TagMatcher([endTag]);
    this.#write = write;
  }

  /**
   * Takes the next character.
   *
   * @returns `end` if it is the last one of the value, `after` if the value ended before it, `broken` if there can be no value,
   *   and `cut` if the end tag is complete within a string.
   */
  next(character: string): "more" | "end" | "after" | "broken" | "cut" {
    if (this.#inString) return this.#string(character);
    if (!this.#begun && isSpace(character)) return "more";
    const outside = this.#open.length === 0;
    if (character === '"' || closers[character] !== undefined) {
      if (outside && this.#begun) return "after";
      if (character === '"') this.#inString = true;
      else this.#open.push(closers[character]!);
    } else if (character === "]" || character === "}") {
      if (outside) return this.#begun ? "after" : "broken";
      if (this.#open.pop() !== character) return "broken";
      return this.#given(character);
    } else if (outside && this.#begun && (character === "," || isSpace(character))) {
      return "after";
    } else if (!/[-+.\w]/.test(character) && (outside || !(isSpace(character) || character === "," || character === ":"))) {
      return "broken";
    }
    this.#begun = true;
    this.#write(character);
    return "more";
  }

  #given(character: string): "more" | "end" {
    this.#write(character);
    return this.#open.length === 0 ? "end" : "more";
  }

  #string(character: string): "more" | "end" | "cut" {
    if (this.#lineBegins) {
      if (this.#tag.next(character) !== undefined) return "cut";
      const { held, released } = this.#tag;
      if (released === "") return "more";
      this.#lineBegins = false;
      // The last of these characters is the current one, which begins another tag or is not part of one.
      this.#write(escapeJson((released + held).slice(0, -1)));
      this.#tag.end();
    }
    if (this.#escaped) {
      this.#escaped = false;
      // A backslash at the end of a line continues the string.
      this.#write(character < " " ? escapeJson(character).slice(1) : character);
      return "more";
    }
    if (character === '"') {
      this.#inString = false;
      return this.#given(character);
    }
    this.#escaped = character === "\\";
    this.#lineBegins = character === "\n";
    this.#write(this.#escaped ? character : escapeJson(character));
    return "more";
  }
}
