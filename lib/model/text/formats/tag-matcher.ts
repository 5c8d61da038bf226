/**
 * Finds tags in a text that comes character by character. Text that may be the beginning of a tag is held back. No tag is a
 * prefix of another, and the first character of each, such as `<`, occurs in it once: a tag can't begin within the
 * beginning of another one.
 */
export class TagMatcher {
  #tags: readonly string[];
  /** The first characters of the tags. */
  #first: string;
  #held = "";
  #released = "";

  constructor(tags: readonly string[]) {
    this.#tags = tags;
    this.#first = firstOf(tags);
  }

  /** Looks for other tags from now on. Text that is held back must also be the beginning of one of them. */
  use(tags: readonly string[]): void {
    this.#tags = tags;
    this.#first = firstOf(tags);
  }

  /** The text that, by the last character, proved not to be part of a tag: the text held back, and perhaps the character. */
  get released(): string {
    return this.#released;
  }

  /** The text that is held back. */
  get held(): string {
    return this.#held;
  }

  /** Takes the next character. Returns the tag that it completes. */
  next(character: string): string | undefined {
    if (this.#held === "" && !this.#first.includes(character)) {
      this.#released = character;
      return undefined;
    }
    this.#released = "";
    let text = this.#held + character;
    if (!this.#begins(text)) {
      this.#released = this.#held;
      text = character;
      if (!this.#begins(text)) {
        this.#released += character;
        text = "";
      }
    }
    const tag = this.#tags.includes(text) ? text : undefined;
    this.#held = tag === undefined ? text : "";
    return tag;
  }

  /** Gives the text that is held back, when no more characters come. */
  end(): string {
    const text = this.#held;
    this.#held = "";
    return text;
  }

  #begins(text: string): boolean {
    return this.#tags.some((tag) => tag.startsWith(text));
  }
}

const firstOf = (tags: readonly string[]): string => tags.map((tag) => tag[0]).join("");
