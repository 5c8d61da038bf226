/** The lines that a user writes on a terminal or through a pipe. */
import { createInterface } from "node:readline";
import type { Interface } from "node:readline";
import { inputError } from "./prompt.ts";

/** Lines, one after another. */
export interface Lines {
  /**
   * The next line; undefined at the end of the input, and after Ctrl-C on a terminal.
   *
   * @param prompt is written before the line, on a terminal.
   * @throws {UsageError} for an input that is not UTF-8, or can't be read.
   */
  next(prompt: string): Promise<string | undefined>;
  close(): void;
}

const lineEnd = 10;

/** Lines of the standard input. On a terminal they can be edited, and earlier ones called back. */
export function linesOfInput(): Lines {
  return process.stdin.isTTY ? new Terminal() : new Pipe();
}

class Pipe implements Lines {
  readonly #lines = linesOf(process.stdin);

  async next(): Promise<string | undefined> {
    try {
      const { done, value } = await this.#lines.next();
      return done ? undefined : value;
    } catch (error) {
      throw inputError("messages", error);
    }
  }

  close(): void {
    void this.#lines.return();
  }
}

/** The lines of a UTF-8 text. Lines before a line with other bytes are given first. */
async function* linesOf(input: AsyncIterable<Uint8Array>): AsyncGenerator<string, void, void> {
  const text = (pieces: readonly Uint8Array[]): string => new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(pieces)).replace(/\r$/, "");
  let begun: Uint8Array[] = [];
  for await (const piece of input) {
    let start = 0;
    for (let end = piece.indexOf(lineEnd); end >= 0; end = piece.indexOf(lineEnd, start)) {
      yield text([...begun, piece.subarray(start, end)]);
      begun = [];
      start = end + 1;
    }
    if (start < piece.length) begun.push(piece.subarray(start));
  }
  if (begun.length > 0) yield text(begun);
}

/** Makes an interface for each line: between two lines the terminal is in its normal state, so that Ctrl-C is a signal. */
class Terminal implements Lines {
  #history: string[] = [];
  #input: Interface | undefined;
  /** Lines that came together with another, such as pasted ones, and the beginning of one. */
  readonly #more: string[] = [];
  #begun = "";
  /** Where prompts and what is typed go: the standard output may be a file or a pipe. */
  readonly #screen = process.stdout.isTTY ? process.stdout : process.stderr;

  next(prompt: string): Promise<string | undefined> {
    const known = this.#more.shift();
    if (known !== undefined) {
      this.#screen.write(`${prompt}${known}\n`);
      return Promise.resolve(known);
    }
    const input = createInterface({ input: process.stdin, output: this.#screen, terminal: true, history: this.#history, removeHistoryDuplicates: true });
    this.#input = input;
    return new Promise((resolve) => {
      let line: string | undefined;
      input.on("history", (history) => (this.#history = [...history]));
      input.on("line", (text) => {
        if (line !== undefined) return void this.#more.push(text);
        line = text;
        // Lines of the same piece of input come before this turn ends.
        setImmediate(() => {
          this.#begun = input.line;
          input.close();
        });
      });
      // If the terminal has gone away, the interface can't leave its mode, and does not close.
      input.on("error", () => resolve(undefined));
      input.on("SIGINT", () => input.close());
      input.on("close", () => {
        this.#input = undefined;
        if (line === undefined) this.#screen.write("\n");
        resolve(line);
      });
      input.setPrompt(prompt);
      input.prompt();
      if (this.#begun !== "") input.write(this.#begun);
      this.#begun = "";
    });
  }

  close(): void {
    this.#input?.close();
  }
}
