#!/usr/bin/env bun
/**
 * The `gated-delta` command. Each subcommand is one module that exports a `run` function: arguments in, exit status
 * out. The native library is loaded by the subcommand, so that `--help` does not need it and `doctor` can examine one that
 * does not load.
 *
 * Exit status: 0 success; 1 the check that was asked for failed; 2 it could not be made (usage, a bad file, no device).
 */

import { constants } from "node:os";
import manifest from "../../package.json" with { type: "json" };
import { GatedDeltaError } from "../errors.ts";
import { UsageError, type Command } from "./command.ts";

/** Subcommands by name, loaded when asked for. */
const commands: Readonly<Record<string, { readonly summary: string; readonly load: () => Promise<Command> }>> = {
  demo: {
    summary: "run a Gated DeltaNet layer: prefill, decode, compare with the reference",
    load: async () => (await import("./demo.ts")).demo,
  },
  doctor: {
    summary: "show what was found: Bun, native library, backends, instruction set, Metal",
    load: async () => (await import("./doctor.ts")).doctor,
  },
  generate: {
    summary: "answer a prompt with a model, token by token",
    load: async () => (await import("./generate.ts")).generate,
  },
  verify: {
    summary: "check golden files, every way that each case can be run",
    load: async () => (await import("./verify.ts")).verify,
  },
};

function help(): string {
  const width = Math.max(...Object.keys(commands).map((name) => name.length));
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return `Usage: gated-delta COMMAND [options]

Commands:
${lines.join("\n")}

gated-delta COMMAND --help describes one of them; gated-delta --version, or -v, prints the version.
`;
}

/**
 * Runs one command line.
 *
 * @param args what follows the program's name.
 * @returns the exit status.
 */
export async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === "--help" || name === "-h" || name === "help") {
    process.stdout.write(help());
    return 0;
  }
  if (name === "--version" || name === "-v") {
    process.stdout.write(`gated-delta ${manifest.version}\n`);
    return 0;
  }
  const entry = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (!entry) {
    const mistake = name === undefined ? "a command is missing" : `no command ${JSON.stringify(name)}`;
    const names = Object.keys(commands).join(", ");
    process.stderr.write(`gated-delta: ${mistake}; there is ${names} (gated-delta --help describes them)\n`);
    return 2;
  }
  const command = await entry.load();
  if (rest.includes("--help") || rest.includes("-h")) {
    process.stdout.write(command.help);
    return 0;
  }
  try {
    return await command.run(rest);
  } catch (error) {
    if (error instanceof UsageError) {
      process.stderr.write(`gated-delta ${name}: ${error.message} (gated-delta ${name} --help describes it)\n`);
      return 2;
    }
    if (error instanceof GatedDeltaError) {
      process.stderr.write(`gated-delta ${name}: ${error.message}\n`);
      return 2;
    }
    // A mistake in this library, and no failed check, which status 1 says.
    process.stderr.write(`gated-delta ${name}: ${error instanceof Error ? error.stack : String(error)}\n`);
    return 2;
  }
}

if (import.meta.main) {
  // Where the reader of a pipe has ended (`… | head -1`), the command ends with the status of SIGPIPE.
  process.stdout.on("error", (error: { readonly code?: unknown }) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(128 + constants.signals.SIGPIPE);
  });
  // exitCode, not exit(): output that is still buffered is written first.
  process.exitCode = await main(process.argv.slice(2));
}
