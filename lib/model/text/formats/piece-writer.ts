import type { AnswerPiece, ToolCall } from "./answer-piece.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** The kind of text outside calls. */
export type TextKind = "reasoning" | "text";

/** Why a text that looks like a call is not one, and the number of the call whose earlier pieces it replaces. */
export interface Unread {
  readonly reason: string;
  readonly index: number | undefined;
}

/** Collects pieces and joins those that belong together. */
export class PieceWriter {
  #pieces: AnswerPiece[] = [];
  #last: Mutable<AnswerPiece> | undefined;

  text(type: TextKind, text: string, raw: string, unread?: Unread): void {
    const last = this.#last;
    if (last !== undefined && last.type === type && last.reason === unread?.reason && last.index === unread?.index) {
      last.text += text;
      last.raw += raw;
      return;
    }
    if (text === "" && raw === "") return;
    this.#add({
      type,
      text,
      raw,
      ...(unread === undefined ? {} : { reason: unread.reason }),
      ...(unread?.index === undefined ? {} : { index: unread.index }),
    });
  }

  call(index: number, name: string, delta: string, raw: string, done?: ToolCall): void {
    const last = this.#last;
    if (last?.type !== "tool-call" || last.index !== index) {
      this.#add({ type: "tool-call", index, name, arguments: delta, raw, ...(done === undefined ? {} : { done }) });
      return;
    }
    last.arguments += delta;
    last.raw += raw;
    if (done !== undefined) last.done = done;
  }

  /** Takes pieces of another writer. */
  add(pieces: Iterable<AnswerPiece>): void {
    for (const piece of pieces) {
      if (piece.type === "tool-call") this.call(piece.index, piece.name, piece.arguments, piece.raw, piece.done);
      else this.text(piece.type, piece.text, piece.raw, piece.reason === undefined ? undefined : { reason: piece.reason, index: piece.index });
    }
  }

  /** Gives the pieces collected so far. */
  take(): AnswerPiece[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#last = undefined;
    return pieces;
  }

  #add(piece: AnswerPiece): void {
    this.#pieces.push(piece);
    this.#last = piece;
  }
}
