/** Subcommands, and the parsing of their options. */

import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { checkOptions, type OptionsSchema } from "../arguments/options.ts";
import { deviceOptions as deviceSchema } from "../device/device-schemas.ts";
import { GatedDeltaError, describe } from "../errors.ts";

/** One subcommand of `gated-delta`. */
export interface Command {
  /** Text of `--help`, ending in a newline. */
  readonly help: string;
  /** Runs the subcommand with the arguments after its name and returns the exit status. */
  run(args: readonly string[]): number | Promise<number>;
}

/** A wrong command line: reported in one line that names the command's `--help`, with exit status 2. */
export class UsageError extends Error {}

/**
 * Parses the options of a command.
 *
 * @throws {UsageError} for an option that the command does not have, a missing value, or a value for an option that takes none.
 */
export function parseOptions<const T extends ParseArgsOptionsConfig>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message: string };
    const name = /'(-[^' ]*)/.exec(message)?.[1];
    if (code !== "ERR_PARSE_ARGS_UNKNOWN_OPTION" || name === undefined) {
      // The last of several lines says how to write a value that begins with a dash.
      const lines = message.split("\n").map((line) => line.charAt(0).toLowerCase() + line.slice(1).replace(/\.$/, ""));
      throw new UsageError([...new Set([lines[0], lines.at(-1)])].join(": "));
    }
    const known = Object.keys(options).map((option) => `--${option}`);
    throw new UsageError(`no option ${name}; there ${known.length === 0 ? "are none" : `is ${[...known, "--help"].join(", ")}`}; an argument that begins with a dash goes after --`);
  }
}

/** The options of every command that opens a device. */
export const deviceOptions = {
  backend: { type: "string", default: "auto" },
  threads: { type: "string" },
} as const satisfies ParseArgsOptionsConfig;

/** Checked values of {@link deviceOptions}, as `Device.open` takes them. */
export function parseDeviceOptions(values: { backend: string; threads?: string | undefined }): {
  backend: "auto" | "cpu" | "metal";
  threads?: number;
} {
  const { backend, threads } = values;
  if (backend !== "auto" && backend !== "cpu" && backend !== "metal") {
    throw new UsageError(`--backend: expected auto, cpu or metal, got ${describe(backend)}`);
  }
  if (threads === undefined) return { backend };
  const options = { backend, threads: numberOf("--threads", threads) } as const;
  checkLibraryOptions(deviceSchema, options);
  return options;
}

/** A number of the command line. */
export function numberOf(option: string, text: string): number {
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
  throw new UsageError(`${option}: expected a number, got ${describe(text)}`);
}

/**
 * Checks options for the library by its own schema. Their names are those of the command line in camel case.
 *
 * @throws {UsageError} that names the command line's option.
 */
export function checkLibraryOptions<Checked>(schema: OptionsSchema<Checked>, options: object): void {
  try {
    checkOptions(schema, "", options);
  } catch (error) {
    if (!(error instanceof GatedDeltaError) || error.argument === undefined) throw error;
    const [name = ""] = error.argument.split(".");
    const option = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    throw new UsageError(`--${option}: expected ${error.expected}, got ${error.received}`);
  }
}

/** Writes a line to standard output. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** A speed as text. It includes first calls, which allocate and compile, so it is not a measurement of the library. */
export function rate(tokens: number, seconds: number): string {
  return tokens === 0 ? "nothing to do" : `${Math.round(tokens / seconds)} tokens/s (first run, nothing warmed up)`;
}

/** An error as text: the message of a {@link GatedDeltaError}, the class and message of any other. */
export function errorText(error: unknown): string {
  if (error instanceof GatedDeltaError) return error.message;
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
}
