import { isString, valueJson } from "./argument-types.ts";
import type { ArgumentType } from "./argument-types.ts";
import { escapeJson } from "./json-text.ts";

/**
 * The JSON of an argument between tags, without one line end after the first tag and one before the last. A string is given as it
 * grows, any other value when it is complete.
 */
export class XmlValue {
  readonly #type: ArgumentType;
  readonly #write: (json: string) => void;
  readonly #grows: boolean;
  #begun = false;
  /** A line end that may be the last one. */
  #lineEnd = "";
  #text = "";

  constructor(type: ArgumentType, write: (json: string) => void) {
    this.#type = type;
    this.#write = write;
    this.#grows = isString(type);
    if (this.#grows) write('"');
  }

  push(text: string): void {
    for (let i = 0; i < text.length; i++) {
      const character = text[i]!;
      if (!this.#begun && character === "\n") this.#begun = true;
      else {
        this.#begun = true;
        this.#add(this.#lineEnd);
        this.#lineEnd = character === "\n" ? character : "";
        if (this.#lineEnd === "") this.#add(character);
      }
    }
  }

  end(): void {
    this.#write(this.#grows ? '"' : valueJson(this.#type, this.#text));
  }

  #add(text: string): void {
    if (this.#grows) this.#write(escapeJson(text));
    else this.#text += text;
  }
}
