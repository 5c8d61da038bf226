import type { AnswerPiece, ToolCall } from "./answer-piece.ts";

/** A finished answer as a message of a conversation. */
export interface AnswerMessage {
  /** The speaker: the model. */
  readonly role: "assistant";
  /** The text of the answer. */
  readonly content: string;
  /** The thoughts; empty if none, so that a template does not look for tags in {@link content}. Absent for models without thoughts. */
  readonly reasoning_content?: string;
  /** The complete calls, in order; absent if there are none. */
  readonly tool_calls?: readonly {
    /** The kind, always this one. */
    readonly type: "function";
    /** The call. */
    readonly function: ToolCall;
  }[];
  /** Other members that a template may read. */
  readonly [key: string]: unknown;
}

/**
 * The message made of an answer's pieces.
 *
 * @param thinks whether the model's format has thoughts.
 */
export function messageOf(pieces: Iterable<AnswerPiece>, thinks: boolean): AnswerMessage {
  let [content, thoughts] = ["", ""];
  const calls: ToolCall[] = [];
  for (const piece of pieces) {
    if (piece.type === "text") content += piece.text;
    else if (piece.type === "reasoning") thoughts += piece.text;
    else if (piece.done !== undefined) calls.push(piece.done);
  }
  return {
    role: "assistant",
    content,
    ...(thinks ? { reasoning_content: thoughts } : {}),
    ...(calls.length > 0 ? { tool_calls: calls.map((call) => ({ type: "function" as const, function: call })) } : {}),
  };
}
