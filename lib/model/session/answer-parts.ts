import type { AnswerParser } from "../text/formats/answer-parser.ts";
import type { AnswerPiece } from "../text/formats/answer-piece.ts";
import type { Conversation } from "./conversation.ts";
import { answerEnded, answerParser, answerText, openText } from "./dialogue.ts";
import type { AnswerPlace } from "./dialogue.ts";
import type { GeneratedPiece } from "./session-options.ts";

const noParts: readonly AnswerPiece[] = Object.freeze([]);

/** Gives the pieces of one generation their parts. Outside answers to messages, all text is plain. */
export class AnswerParts {
  readonly #of: Conversation;
  readonly #ends: ReadonlySet<number>;
  /** The answer whose text is parsed, as long as it has not ended. */
  #open: { readonly place: AnswerPlace; readonly parser: AnswerParser } | undefined;
  /** The text of the answer as consumers have it. */
  #text = "";
  /** Whether the answer has already ended, by an end token of the model. */
  readonly ended: boolean;

  constructor(of: Conversation) {
    const { dialogue, model } = of;
    this.#of = of;
    this.#ends = new Set(model.config.eosTokens);
    const place = dialogue?.answer;
    this.ended = place !== undefined && answerEnded(of, place);
    if (place === undefined || this.ended) return;
    this.#open = { place, parser: answerParser(of, dialogue!, place) };
    // Earlier generations gave the parts of this text, except for the text that they held back.
    this.#text = openText(of, place).slice(0, -of.textEnd.held.length || undefined);
    this.#open.parser.push(this.#text);
  }

  /** The parts that a piece completes. Called after its token was added to the session. */
  of({ token, text, end }: GeneratedPiece): readonly AnswerPiece[] {
    if (this.#open === undefined) return text === "" ? noParts : [{ type: "text", text, raw: text }];
    const { place, parser } = this.#open;
    this.#text += text;
    const parts = parser.push(text);
    const ended = end !== undefined;
    if (!ended && !this.#ends.has(token)) return parts;
    this.#open = undefined;
    // At "length" consumers have all of the text.
    if (ended && end !== "length" && this.#text !== answerText(this.#of, place)) this.#of.cutAnswer = this.#text;
    return [...parts, ...parser.end()];
  }
}
