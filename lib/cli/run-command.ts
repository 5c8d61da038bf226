/** Runs commands as programs: errors as one line on standard error, and exit statuses. */

import { constants } from "node:os";
import { GatedDeltaError } from "../errors.ts";
import { UsageError, type Command } from "./command.ts";

/** The names of a command in messages. */
export interface CommandNames {
  /** The start of every error. */
  readonly name: string;
  /** The command line that prints the help. */
  readonly help: string;
}

/** Runs a command and returns its exit status: 2 for one that threw. */
export async function runCommand(command: Command, { name, help }: CommandNames, args: readonly string[]): Promise<number> {
  const end = args.indexOf("--");
  const options = end < 0 ? args : args.slice(0, end);
  if (options.includes("--help") || options.includes("-h")) {
    process.stdout.write(command.help);
    return 0;
  }
  try {
    return await command.run(args);
  } catch (error) {
    if (error instanceof UsageError) process.stderr.write(`${name}: ${error.message} (${help} describes it)\n`);
    else if (error instanceof GatedDeltaError) process.stderr.write(`${name}: ${withoutOwnName(error.message, name)}\n`);
    // A mistake in this library. Its status is also 2, since 1 means that a check failed.
    else process.stderr.write(`${name}: ${error instanceof Error ? error.stack : String(error)}\n`);
    return 2;
  }
}

/** A message of an error, which may begin with the command as its op. */
function withoutOwnName(message: string, name: string): string {
  const own = `${name.slice(name.lastIndexOf(" ") + 1)}: `;
  return message.startsWith(own) ? message.slice(own.length) : message;
}

/** Ends this process with the status that a function returns. */
export async function runProgram(main: () => Promise<number>): Promise<void> {
  let failed = false;
  process.stdout.on("error", ({ code, message }: Error & { readonly code?: unknown }) => {
    // If the reader of a pipe has ended (`… | head -1`), the command ends with the status of SIGPIPE.
    if (code === "EPIPE") process.exit(128 + constants.signals.SIGPIPE);
    if (failed) return; // every write of a full disk fails
    failed = true;
    process.stderr.write(`gated-delta: the standard output: ${message}\n`, () => process.exit(2));
  });
  // A message that is not read does not change the status.
  process.stderr.on("error", () => {});
  // exitCode, not exit(), so that buffered output is written first.
  process.exitCode = await main();
}
