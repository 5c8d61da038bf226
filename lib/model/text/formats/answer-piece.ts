/** The typed parts of an answer. */

/** A JSON value. An integer beyond ±2⁵³, which a number would round, is a bigint, as in {@link ChatMessage}. */
export type JsonValue = null | boolean | number | bigint | string | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A tool call that was read to its end. */
export interface ToolCall {
  /** The tool's name. It need not be one of the tools that the model was given. */
  readonly name: string;
  /** The call's arguments by name. */
  readonly arguments: Readonly<Record<string, JsonValue>>;
}

/** A part of the thoughts before an answer. */
export interface ReasoningPiece {
  /** Thoughts. */
  readonly type: "reasoning";
  /** The next characters of the thoughts, without tags and without line ends next to them. */
  readonly text: string;
  /** The generated characters that this piece stands for. */
  readonly raw: string;
  /** Why something that looks like a call could not be read; its text is then in {@link text}. */
  readonly reason?: string;
  /** The number of the call whose earlier pieces this text replaces, because they are not a call. */
  readonly index?: number;
}

/** A part of the answer itself. */
export interface AnswerTextPiece {
  /** The answer itself. */
  readonly type: "text";
  /** The next characters of the answer, without tags and without the blank that the chat template writes around it. */
  readonly text: string;
  /** The generated characters that this piece stands for. */
  readonly raw: string;
  /** Why something that looks like a call could not be read; its whole text, including tags, is then in {@link text}. */
  readonly reason?: string;
  /** The number of the call whose earlier pieces this text replaces, because they are not a call. */
  readonly index?: number;
}

/** A part of a tool call. */
export interface ToolCallPiece {
  /** A call. */
  readonly type: "tool-call";
  /** The number of the call in the answer, from 0. */
  readonly index: number;
  /** The tool's name. */
  readonly name: string;
  /** The next characters of the arguments as JSON. All pieces of a call together give one object. */
  readonly arguments: string;
  /** The generated characters that this piece stands for. */
  readonly raw: string;
  /** The whole call, in the piece that completes its arguments. A call without this member did not end. */
  readonly done?: ToolCall;
}

/**
 * A part of an answer. The `raw` texts of all pieces together are the generated text. Wherever the text was cut, adjacent pieces of
 * the same kind (and call, and reason) together give the same result.
 */
export type AnswerPiece = ReasoningPiece | AnswerTextPiece | ToolCallPiece;

/** Joins adjacent pieces that belong together. */
export function mergePieces(pieces: Iterable<AnswerPiece>): AnswerPiece[] {
  const merged: AnswerPiece[] = [];
  for (const piece of pieces) {
    const last = merged.at(-1);
    const both = last && joined(last, piece);
    if (both === undefined) merged.push(piece);
    else merged[merged.length - 1] = both;
  }
  return merged;
}

/** Two adjacent pieces as one; undefined if they belong to different parts. */
function joined(one: AnswerPiece, next: AnswerPiece): AnswerPiece | undefined {
  const raw = one.raw + next.raw;
  if (one.type === "tool-call") {
    if (next.type !== "tool-call" || next.index !== one.index) return undefined;
    return { ...one, ...next, arguments: one.arguments + next.arguments, raw };
  }
  if (next.type === "tool-call" || next.type !== one.type || next.reason !== one.reason || next.index !== one.index) return undefined;
  return { ...one, text: one.text + next.text, raw };
}
