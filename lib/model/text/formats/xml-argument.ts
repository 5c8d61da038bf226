import type { Tags } from "./answer-format.ts";
import { isSpace } from "./json-text.ts";
import { TagMatcher } from "./tag-matcher.ts";
import { functionEnd, functionTag, longestName, parameterEnd, parameterTag, xmlTags } from "./xml-tags.ts";

/**
 * Finds the end of an argument's value. Values are not escaped, so they may contain tags themselves, and models leave out end
 * tags. So a tag ends the value only if the text continues as after its end:
 *
 * | tag | text that must follow, after blank |
 * |---|---|
 * | `</parameter>` | another argument, the end of the function or of the call, another call, or the end of the text |
 * | `</function>` | the end of the call, another call, or the end of the text |
 * | the end of the call | another call, or the end of the text |
 * | `<parameter=KEY>` at the beginning of a line | anything, if KEY may come next |
 *
 * A value may also quote whole calls: text between a function's tags, the first at the beginning of a line, does not end the value.
 */
export class XmlArgument {
  readonly #push: (text: string) => void;
  readonly #mayCome: (key: string) => boolean;
  readonly #followers: Readonly<Record<string, readonly string[]>>;
  readonly #tag: TagMatcher;
  /** A tag that may end the value. */
  #candidate: string | undefined;
  /** The text from {@link #candidate} on. */
  #text = "";
  #lineBegins = false;
  /** The number of functions that begin in the value, each on a separate line, and have not ended: calls quoted there. */
  #quoted = 0;

  /**
   * @param push takes the value's text.
   * @param mayCome whether an argument of this name may follow.
   */
  constructor(tags: Tags, push: (text: string) => void, mayCome: (key: string) => boolean) {
    this.#push = push;
    this.#mayCome = mayCome;
    this.#tag = new TagMatcher(xmlTags(tags));
    this.#followers = {
      [parameterEnd]: [parameterTag, functionEnd, tags.end, tags.begin],
      [functionEnd]: [tags.end, tags.begin, functionTag],
      [tags.end]: [tags.begin, functionTag],
    };
  }

  /**
   * Takes the next character.
   *
   * @returns undefined while the value continues, otherwise the text after it, which begins with a tag.
   */
  next(character: string): string | undefined {
    if (this.#candidate === undefined) {
      const tag = this.#tag.next(character);
      this.#add(this.#tag.released);
      if (tag !== undefined) this.#consider(tag);
      return undefined;
    }
    if (this.#candidate === parameterTag) return this.#inKey(character);
    if (this.#tag.held === "" && isSpace(character)) {
      this.#text += character;
      return undefined;
    }
    const tag = this.#tag.next(character);
    if (tag !== undefined && this.#followers[this.#candidate]!.includes(tag)) return this.#rest() + tag;
    if (tag !== undefined || this.#tag.released !== "") this.#goOn(tag ?? this.#tag.released + this.#tag.end());
    return undefined;
  }

  /** Ends the text. Returns undefined if the value has no end, otherwise the text after it. */
  end(): string | undefined {
    return this.#candidate === undefined || this.#candidate === parameterTag ? undefined : this.#rest();
  }

  #consider(tag: string): void {
    if (tag === functionTag && this.#lineBegins) this.#quoted++;
    const may = this.#quoted === 0 && (tag === parameterTag ? this.#lineBegins : this.#followers[tag] !== undefined);
    if (tag === functionEnd && this.#quoted > 0) this.#quoted--;
    if (!may) {
      this.#add(tag);
      return;
    }
    this.#candidate = tag;
    this.#text = tag;
  }

  #inKey(character: string): string | undefined {
    this.#text += character;
    const key = this.#text.slice(parameterTag.length, -1);
    if (character === ">" && this.#mayCome(key)) return this.#text;
    if (character === ">" || character === "<" || character === "\n" || key.length > longestName) this.#goOn(character === "<" ? this.#cutLast() : "");
    return undefined;
  }

  #cutLast(): string {
    const last = this.#text.slice(-1);
    this.#text = this.#text.slice(0, -1);
    return last;
  }

  /** The text after the value. */
  #rest(): string {
    return this.#candidate === parameterEnd ? this.#text.slice(parameterEnd.length) : this.#text;
  }

  /** The candidate is part of the value. @param back characters after it, at whose end another tag may be. */
  #goOn(back: string): void {
    const text = this.#text;
    this.#candidate = undefined;
    this.#text = "";
    this.#add(text);
    for (let i = 0; i < back.length; i++) this.next(back[i]!);
  }

  #add(text: string): void {
    if (text === "") return;
    this.#lineBegins = text[text.length - 1] === "\n";
    this.#push(text);
  }
}
