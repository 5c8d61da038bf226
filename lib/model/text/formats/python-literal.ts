import { escapeJson, isSpace, quoteJson } from "./json-text.ts";

const closers: Readonly<Record<string, string>> = { "[": "]", "(": ")", "{": "}" };
const words: Readonly<Record<string, string>> = { True: "true", true: "true", False: "false", false: "false", None: "null", null: "null" };
const escapes: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", v: "\v", a: "\x07", "0": "\0", "\\": "\\", "'": "'", '"': '"', "/": "/", "\n": "" };
const digitsOf: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/**
 * Turns a Python or JSON literal into JSON, character by character. A word that is not a literal counts as a string. A quote
 * ends a string only if the text continues as after a string, because models and templates also write `'it's'`.
 *
 * It checks the order of values, commas and brackets as far as mistakes would not show in the resulting JSON.
 */
export class PythonLiteral {
  readonly #write: (json: string) => void;
  readonly #open: string[] = [];
  #quote: string | undefined;
  /** The blank after a quote that may be the end of a string; undefined elsewhere. */
  #afterQuote: string | undefined;
  /** An escape that is not complete, from its backslash on; empty elsewhere. */
  #escape = "";
  #word = "";
  /** Whether a value has ended and no comma or colon has followed. */
  #complete = false;
  #comma = false;

  /** @param write takes the JSON as it grows. */
  constructor(write: (json: string) => void) {
    this.#write = write;
  }

  /**
   * Takes the next character.
   *
   * @returns whether it belongs to the literal; `end` for a comma or a closing bracket after it.
   */
  next(character: string): "more" | "end" | "broken" {
    if (this.#quote !== undefined && !this.#endsString(character)) {
      this.#inString(character);
      return "more";
    }
    if (/[\w.+-]/.test(character)) {
      if (this.#word === "" && !this.#begin()) return "broken";
      this.#word += character;
      return "more";
    }
    this.#endWord();
    if (isSpace(character)) return "more";
    if (this.#open.length === 0 && (character === "," || character === ")")) return this.#complete ? "end" : "broken";
    switch (character) {
      case "'":
      case '"':
        if (!this.#begin()) return "broken";
        this.#quote = character;
        this.#write('"');
        return "more";
      case "[":
      case "(":
      case "{":
        if (!this.#begin()) return "broken";
        this.#open.push(closers[character]!);
        this.#write(character === "{" ? "{" : "[");
        return "more";
      case "]":
      case ")":
      case "}":
        if (this.#open.pop() !== character) return "broken";
        this.#comma = false; // Python allows one before the bracket
        this.#complete = true;
        this.#write(character === "}" ? "}" : "]");
        return "more";
      case ",":
      case ":":
        if (!this.#complete) return "broken";
        this.#complete = false;
        if (character === ",") this.#comma = true;
        else this.#write(":");
        return "more";
      default:
        return "broken";
    }
  }

  /** Begins a value. Returns whether one is allowed here. */
  #begin(): boolean {
    if (this.#complete) return false;
    if (this.#comma) this.#write(",");
    this.#comma = false;
    return true;
  }

  #endWord(): void {
    if (this.#word === "") return;
    this.#write(wordJson(this.#word));
    this.#word = "";
    this.#complete = true;
  }

  /** Whether the last quote was the end of the string, as the next character shows. */
  #endsString(character: string): boolean {
    if (this.#afterQuote === undefined || !",)]}:".includes(character)) return false;
    this.#write('"');
    this.#quote = this.#afterQuote = undefined;
    this.#complete = true;
    return true;
  }

  #inString(character: string): void {
    if (this.#afterQuote !== undefined) {
      if (isSpace(character)) {
        this.#afterQuote += character;
        return;
      }
      this.#write(escapeJson(this.#quote! + this.#afterQuote));
      this.#afterQuote = undefined;
    }
    if (this.#escape !== "") this.#inEscape(character);
    else if (character === "\\") this.#escape = character;
    else if (character === this.#quote) this.#afterQuote = "";
    else this.#write(escapeJson(character));
  }

  #inEscape(character: string): void {
    const kind = this.#escape[1];
    if (kind === undefined) {
      if (digitsOf[character] !== undefined) this.#escape += character;
      else this.#endEscape(escapes[character] ?? `\\${character}`);
      return;
    }
    if (!/[0-9a-fA-F]/.test(character)) {
      this.#endEscape(this.#escape);
      this.#inString(character);
      return;
    }
    this.#escape += character;
    if (this.#escape.length < 2 + digitsOf[kind]!) return;
    const point = parseInt(this.#escape.slice(2), 16);
    this.#endEscape(point > 0x10ffff ? this.#escape : String.fromCodePoint(point));
  }

  #endEscape(text: string): void {
    this.#escape = "";
    this.#write(escapeJson(text));
  }
}

/** The JSON of a whole literal; undefined if the text is not one. */
export function pythonJson(text: string): string | undefined {
  let json = "";
  const literal = new PythonLiteral((part) => {
    json += part;
  });
  for (let i = 0; i < text.length; i++) if (literal.next(text[i]!) !== "more") return undefined;
  return literal.next(",") === "end" ? json : undefined;
}

function wordJson(word: string): string {
  return (Object.hasOwn(words, word) ? words[word] : undefined) ?? numberJson(word) ?? quoteJson(word);
}

/** A Python or JSON number as a JSON number; undefined for other texts. */
export function numberJson(text: string): string | undefined {
  if (/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) return text;
  if (/^[+-]?\d+(?:_\d+)*$/.test(text)) return text.replaceAll("_", "").replace(/^\+?(-?)0*(?=\d)/, "$1");
  if (!/^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/.test(text)) return undefined;
  return Number.isFinite(Number(text)) ? String(Number(text)) : undefined;
}
