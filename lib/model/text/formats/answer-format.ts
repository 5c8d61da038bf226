/** How models write reasoning and tool calls, as data. */

/** Tags around a part of an answer. */
export interface Tags {
  /** The text before the part. */
  readonly begin: string;
  /** The text after the part. */
  readonly end: string;
}

/**
 * How calls are written between their tags:
 *
 * - `json`: `{"name": …, "arguments": {…}}`
 * - `xml`: `<function=NAME>`, then for each argument `<parameter=KEY>`, its value on lines of its own and `</parameter>`, then `</function>`
 * - `python`: a line for each call, `NAME(KEY=VALUE, …)`, with Python literals
 */
export type CallSyntax = "json" | "xml" | "python";

/** How tool calls are written. */
export interface CallFormat extends Tags {
  /** The form of a call between the tags. */
  readonly syntax: CallSyntax;
}

/** The blank around an answer's parts, which the template strips or writes itself, so that it is not part of their texts. */
export interface Blank {
  /** The characters that count as blank. */
  readonly characters: "newlines" | "whitespace";
  /** How many blank characters before a call are not part of the text before it. */
  readonly beforeCall: "none" | "one" | "all";
  /** Whether blank at the beginning and end of an answer is not part of its text. Blank after a tag never is. */
  readonly atEnds: boolean;
}

/** How a model's answers are written. */
export interface AnswerFormat {
  /** The format's name, such as `qwen3`. */
  readonly name: string;
  /** The text after which an answer begins in a rendered conversation; absent where it is unknown. */
  readonly answer?: string;
  /** Tags around thoughts; absent for models without thoughts. */
  readonly reasoning?: Tags;
  /** Tool calls; absent for models without them. */
  readonly toolCall?: CallFormat;
  /** The blank that belongs to no part. */
  readonly blank: Blank;
}
