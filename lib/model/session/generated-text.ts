import type { Detokenizer } from "../text/detokenizer.ts";
import { StopStrings } from "../text/stop-strings.ts";
import { tokenBytes } from "../text/tokenizer.ts";
import type { Tokenizer } from "../text/tokenizer.ts";

/** How the text that consumers have ends, compared with the text of the generated tokens. */
export interface TextEnd {
  /** Text that was held back, since a stop string may begin with it. */
  readonly held: string;
  /** Whether U+FFFD was given for an incomplete character, which later tokens may complete. */
  readonly replaced: boolean;
}

/** Consumers have the text of all tokens, except for an incomplete character. */
export const plainEnd: TextEnd = Object.freeze({ held: "", replaced: false });

/** A piece of text, and the stop string if one ends the text. */
interface Piece {
  readonly text: string;
  readonly found: string | undefined;
}

/** The text of one generation's tokens up to a stop string. It goes on where the text of earlier tokens ended. */
export class GeneratedText {
  readonly #detokenizer: Detokenizer | undefined;
  readonly #stops: StopStrings;
  /** Text of earlier tokens, with which the next piece begins. */
  #before: Piece;
  #replaced: boolean;

  /** @param begin the number of tokens before the text. */
  constructor(tokenizer: Tokenizer | undefined, stops: readonly string[], { tokens, begin, end }: { tokens: readonly number[]; begin: number; end: TextEnd }) {
    this.#detokenizer = tokenizer?.detokenizer();
    // The last three bytes hold all of an incomplete character.
    let [start, bytes] = [tokens.length, 0];
    if (tokenizer !== undefined) {
      const { bytesOf } = tokenBytes(tokenizer);
      while (start > begin && bytes < 3) {
        const token = tokens[--start]!;
        if (!tokenizer.isSpecial(token)) bytes += bytesOf(token)?.length ?? 0;
      }
    }
    for (const token of tokens.slice(start)) this.#detokenizer?.push(token);
    this.#stops = new StopStrings(stops);
    this.#before = this.#stops.push(end.held);
    this.#replaced = end.replaced;
  }

  /** Earlier text, with which the first piece begins. */
  get before(): Piece {
    return this.#before;
  }

  get textEnd(): TextEnd {
    return { held: this.#stops.held, replaced: this.#replaced };
  }

  /** The text that a token makes certain. */
  push(token: number): Piece {
    return this.#add(this.#notReplaced(this.#detokenizer?.push(token) ?? ""));
  }

  /** The rest of the text: U+FFFD for an incomplete character, unless it was given before, and text that was held back. */
  end(): Piece {
    const rest = this.#detokenizer?.end() ?? "";
    const { text, found } = this.#add(this.#notReplaced(rest));
    this.#replaced = rest !== "";
    return found === undefined ? { text: text + this.#stops.end(), found } : { text, found };
  }

  #add(piece: string): Piece {
    const { text, found } = this.#stops.push(piece);
    const whole = this.#before.text + text;
    this.#before = { text: "", found: undefined };
    return { text: whole, found };
  }

  /** The text without U+FFFD for a character for which it was given before and that stays incomplete. */
  #notReplaced(text: string): string {
    if (!this.#replaced || text === "") return text;
    this.#replaced = false;
    return text.startsWith("\u{FFFD}") ? text.slice(1) : text;
  }
}
