/** The lines that a user writes, on a terminal or through a pipe. */
import { createInterface } from "node:readline";
import type { Interface } from "node:readline";

/** Lines, one after another. */
export interface Lines {
  /**
   * The next line; undefined at the end of the input, and after Ctrl-C on a terminal.
   *
   * @param prompt is written before it, on a terminal.
   */
  next(prompt: string): Promise<string | undefined>;
  close(): void;
}

/** Lines of the standard input. On a terminal they can be edited, and earlier ones called back. */
export function linesOfInput(): Lines {
  return process.stdin.isTTY ? new Terminal() : new Pipe();
}

class Pipe implements Lines {
  readonly #input = createInterface({ input: process.stdin, terminal: false });
  readonly #lines = this.#input[Symbol.asyncIterator]();

  async next(): Promise<string | undefined> {
    const { done, value } = await this.#lines.next();
    return done ? undefined : (value as string);
  }

  close(): void {
    this.#input.close();
  }
}

/** An interface for each line: between two of them the terminal is as it was, so that Ctrl-C is a signal. */
class Terminal implements Lines {
  #history: string[] = [];
  #input: Interface | undefined;
  /** Lines that came at once with another, such as pasted ones, and the beginning of one. */
  readonly #more: string[] = [];
  #begun = "";

  next(prompt: string): Promise<string | undefined> {
    const known = this.#more.shift();
    if (known !== undefined) {
      process.stdout.write(`${prompt}${known}\n`);
      return Promise.resolve(known);
    }
    const input = createInterface({ input: process.stdin, output: process.stdout, terminal: true, history: this.#history, removeHistoryDuplicates: true });
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
      input.on("SIGINT", () => input.close());
      input.on("close", () => {
        this.#input = undefined;
        if (line === undefined) process.stdout.write("\n");
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
