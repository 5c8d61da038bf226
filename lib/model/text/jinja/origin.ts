/**
 * Strings that know where their characters come from: the template itself, or the messages that it writes. Only what the
 * template wrote can be a control token where messages are to be plain text. A string whose origin is not known counts as
 * one of the messages'.
 */

/** Of a whole string whether it is the template's own; of a mixed one, "1" for each UTF-16 unit that is, "0" for the others. */
export type Own = boolean | string;

/** A string and its origin. */
export interface Text {
  readonly value: string;
  readonly own: Own;
}

export const template = (value: string): Text => ({ value, own: true });

export function slice(text: Text, start: number, end = text.value.length): Text {
  const { value, own } = text;
  return { value: value.slice(start, end), own: typeof own === "string" ? own.slice(start, end) : own };
}

export function concat(first: Text, second: Text): Text {
  if (first.value === "") return second;
  if (second.value === "") return first;
  const value = first.value + second.value;
  if (typeof first.own === "boolean" && first.own === second.own) return { value, own: first.own };
  return { value, own: units(first) + units(second) };
}

export function join(texts: readonly Text[], separator: Text): Text {
  const value = texts.map((text) => text.value).join(separator.value);
  const all = separator.value === "" || texts.length < 2 ? texts : [...texts, separator];
  const [first] = all;
  if (first === undefined) return template("");
  if (typeof first.own === "boolean" && all.every(({ own }) => own === first.own)) return { value, own: first.own };
  return { value, own: texts.map(units).join(units(separator)) };
}

/** The same characters in another form: a mixed string keeps its origin where its length stays, else it is the messages'. */
export function changed(text: Text, value: string): Text {
  return { value, own: typeof text.own === "string" && text.own.length !== value.length ? false : text.own };
}

function units({ value, own }: Text): string {
  return typeof own === "string" ? own : (own ? "1" : "0").repeat(value.length);
}

/** A part of a text: one whose token texts are tokens (`special`), or one that is plain text. */
export interface TextPiece {
  /** Its characters. */
  readonly text: string;
  /** Whether the text of a control token or of another added one is that token. */
  readonly special: boolean;
}

/** The runs of a string that are the template's own, and those that are not. */
export function piecesOf({ value, own }: Text): TextPiece[] {
  if (value === "") return [];
  if (typeof own === "boolean") return [{ text: value, special: own }];
  const pieces: TextPiece[] = [];
  for (let start = 0; start < value.length; ) {
    const next = own.indexOf(own[start] === "1" ? "0" : "1", start);
    const end = next < 0 ? value.length : next;
    pieces.push({ text: value.slice(start, end), special: own[start] === "1" });
    start = end;
  }
  return pieces;
}
