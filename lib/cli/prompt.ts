/** The prompt of `generate`, from the command line or standard input. */
import { UsageError, errorText } from "./command.ts";

/**
 * The prompt of a command line: `given` itself; or standard input without its last line end, if `given` is `-`, or if it is
 * missing and standard input is not a terminal.
 *
 * @throws {UsageError} for a missing prompt, and for an input that is empty or not UTF-8.
 */
export async function promptOf(given: string | undefined): Promise<string> {
  if (given !== undefined && given !== "-") return given;
  if (given === undefined && process.stdin.isTTY) throw new UsageError("name a model and one prompt, or - to read it from the standard input");
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await Bun.stdin.bytes());
  } catch (error) {
    throw inputError("a prompt", error);
  }
  const prompt = text.replace(/\r?\n$/, "");
  if (prompt === "") throw new UsageError("name a model and one prompt: the standard input is empty");
  return prompt;
}

/** The error for a standard input that can't be read, or that is not UTF-8 (a TypeError); `what` was expected. */
export function inputError(what: string, error: unknown): UsageError {
  return new UsageError(`the standard input: expected ${what} in UTF-8, got ${error instanceof TypeError ? "other bytes" : errorText(error)}`);
}
