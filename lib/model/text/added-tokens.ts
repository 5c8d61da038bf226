/** Added tokens, which match their text literally and are found before a text is split into pieces. */

/** An added token. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Whether the token is found only if no word character touches it. */
  readonly singleWord: boolean;
  /** Whether blanks before the token belong to it. */
  readonly leftBlanks: boolean;
  /** Whether blanks after the token belong to it. */
  readonly rightBlanks: boolean;
  /** Whether the token is looked for in the normalized text. */
  readonly normalized: boolean;
}

/** A part of a text: an added token, or the text between added tokens. */
export type Section = { readonly token: AddedToken } | { readonly text: string };

/** A range of a text in which tokens are looked for, from `start` up to but not including `end`. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

interface Branch {
  readonly next: Map<number, Branch>;
  token?: AddedToken;
}

/** Word characters, as in the reference's regular expressions (UTS 18, \w). */
const wordBefore = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]$/u;
const wordAfter = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]/u;

/** Finds added tokens in a text: the leftmost first, and at one place the longest. */
export class AddedTokens {
  readonly #root: Branch = { next: new Map() };
  readonly #any: boolean;

  /** @param form changes a token's text before the search, such as by normalization. */
  constructor(tokens: readonly AddedToken[], form: (content: string) => string = (content) => content) {
    this.#any = tokens.length > 0;
    for (const token of tokens) {
      let branch = this.#root;
      const content = form(token.content);
      for (let i = 0; i < content.length; i++) {
        const unit = content.charCodeAt(i);
        let next = branch.next.get(unit);
        if (next === undefined) branch.next.set(unit, (next = { next: new Map() }));
        branch = next;
      }
      if (branch !== this.#root) branch.token = token;
    }
  }

  /** The tokens that lie completely within one of the ranges, and the texts between them. */
  split(text: string, ranges: readonly Range[]): Section[] {
    if (!this.#any) return text === "" ? [] : [{ text }];
    const sections: Section[] = [];
    let done = 0;
    for (const { start, end } of ranges) {
      for (let at = start; at < end; ) {
        const found = this.#longest(text, at, end);
        if (found === undefined) {
          at++;
          continue;
        }
        const { token, stop } = found;
        // The search continues after a match that is skipped, not inside it.
        if (!token.singleWord || standsAlone(text, at, stop)) {
          const first = token.leftBlanks ? Math.max(done, text.slice(0, at).trimEnd().length) : at;
          const last = token.rightBlanks ? text.length - text.slice(stop).trimStart().length : stop;
          if (done < first) sections.push({ text: text.slice(done, first) });
          sections.push({ token });
          done = last;
        }
        at = Math.max(stop, done);
      }
    }
    if (done < text.length) sections.push({ text: text.slice(done) });
    return sections;
  }

  #longest(text: string, at: number, end: number): { readonly token: AddedToken; readonly stop: number } | undefined {
    let found;
    let branch: Branch | undefined = this.#root;
    for (let i = at; i < end; i++) {
      branch = branch.next.get(text.charCodeAt(i));
      if (branch === undefined) break;
      if (branch.token !== undefined) found = { token: branch.token, stop: i + 1 };
    }
    return found;
  }
}

function standsAlone(text: string, start: number, stop: number): boolean {
  return !wordBefore.test(text.slice(Math.max(0, start - 2), start)) && !wordAfter.test(text.slice(stop, stop + 2));
}
