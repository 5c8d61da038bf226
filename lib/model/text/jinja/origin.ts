/**
 * Strings that record the origin of their characters: the template itself, or the messages. When messages are plain text,
 * only the template's characters can form a control token. A string of unknown origin counts as the messages'.
 */

/** Whether a string comes from the template; for a mixed string "1" or "0" for each UTF-16 unit. */
export type FromTemplate = boolean | string;

/** A string and its origin. */
export interface Text {
  readonly value: string;
  readonly fromTemplate: FromTemplate;
}

export const template = (value: string): Text => ({ value, fromTemplate: true });

export function slice(text: Text, start: number, end = text.value.length): Text {
  const { value, fromTemplate } = text;
  return { value: value.slice(start, end), fromTemplate: typeof fromTemplate === "string" ? fromTemplate.slice(start, end) : fromTemplate };
}

export function concat(first: Text, second: Text): Text {
  if (first.value === "") return second;
  if (second.value === "") return first;
  const value = first.value + second.value;
  if (typeof first.fromTemplate === "boolean" && first.fromTemplate === second.fromTemplate) return { value, fromTemplate: first.fromTemplate };
  return { value, fromTemplate: units(first) + units(second) };
}

export function join(texts: readonly Text[], separator: Text): Text {
  const value = texts.map((text) => text.value).join(separator.value);
  const all = separator.value === "" || texts.length < 2 ? texts : [...texts, separator];
  const [first] = all;
  if (first === undefined) return template("");
  if (typeof first.fromTemplate === "boolean" && all.every(({ fromTemplate }) => fromTemplate === first.fromTemplate)) return { value, fromTemplate: first.fromTemplate };
  return { value, fromTemplate: texts.map(units).join(units(separator)) };
}

/** The string in another form. A mixed string keeps its origin if its length is the same; otherwise it counts as the messages'. */
export function changed(text: Text, value: string): Text {
  return { value, fromTemplate: typeof text.fromTemplate === "string" && text.fromTemplate.length !== value.length ? false : text.fromTemplate };
}

function units({ value, fromTemplate }: Text): string {
  return typeof fromTemplate === "string" ? fromTemplate : (fromTemplate ? "1" : "0").repeat(value.length);
}

/** A piece of a text, in which the texts of added tokens become tokens (`special`) or stay text. */
export interface TextPiece {
  /** The piece's characters. */
  readonly text: string;
  /** Whether the text of a control token or of another added token becomes that token. */
  readonly special: boolean;
}

/** Splits a string into runs that come from the template and runs that do not. */
export function piecesOf({ value, fromTemplate }: Text): TextPiece[] {
  if (value === "") return [];
  if (typeof fromTemplate === "boolean") return [{ text: value, special: fromTemplate }];
  const pieces: TextPiece[] = [];
  for (let start = 0; start < value.length; ) {
    const next = fromTemplate.indexOf(fromTemplate[start] === "1" ? "0" : "1", start);
    const end = next < 0 ? value.length : next;
    pieces.push({ text: value.slice(start, end), special: fromTemplate[start] === "1" });
    start = end;
  }
  return pieces;
}
