/** The certain parts of an answer, from the parts of its pieces. */
import type { AnswerPiece } from "../model/text/formats/answer-piece.ts";
import type { AnswerPart } from "./answer-event.ts";

export class PartReader {
  /** The arguments so far of calls that have not ended, by the number of the call in the model's answer. */
  readonly #open = new Map<number, string>();
  /** How many calls were complete. */
  calls = 0;

  read(pieces: readonly AnswerPiece[]): AnswerPart[] {
    const parts: AnswerPart[] = [];
    for (const piece of pieces) {
      if (piece.type !== "tool-call") {
        if (piece.index !== undefined) this.#open.delete(piece.index); // it was no call
        if (piece.text !== "") parts.push({ type: piece.type, text: piece.text });
        continue;
      }
      const { index, name, done } = piece;
      const text = (this.#open.get(index) ?? "") + piece.arguments;
      this.#open.set(index, text);
      if (done === undefined) continue;
      this.#open.delete(index);
      parts.push({ type: "call", index: this.calls++, name, arguments: text });
    }
    return parts;
  }
}
