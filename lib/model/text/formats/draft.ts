import { PieceWriter } from "./piece-writer.ts";

/**
 * Calls within thoughts. Models draft calls there and then make them after the thoughts, and other models forget to end their
 * thoughts before a call. So such calls count only if nothing else follows them in the answer; otherwise they are thoughts.
 */
export class Draft {
  /** The pieces, if the calls count. */
  readonly writer = new PieceWriter();
  /** All characters since the beginning of the calls. */
  text: string;
  /** The number of calls before the draft. */
  readonly calls: number;
  /** Whether the thoughts begin with the calls. */
  readonly fresh: boolean;

  constructor(text: string, calls: number, fresh: boolean) {
    this.text = text;
    this.calls = calls;
    this.fresh = fresh;
  }
}
