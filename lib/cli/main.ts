#!/usr/bin/env bun
/**
 * The `gated-delta` command. Each subcommand is a module with a `run` function that takes the arguments and returns the exit
 * status. Subcommands load the native library, so that `--help` does not need it and `doctor` can examine one that does not
 * load.
 *
 * Exit status: 0 success; 1 a failed check; 2 no result (usage, a bad file, no device).
 */

import manifest from "../../package.json" with { type: "json" };
import type { Command } from "./command.ts";
import { runCommand, runProgram } from "./run-command.ts";

/** Subcommands by name, each imported when it is run. */
const commands: Readonly<Record<string, { readonly summary: string; readonly load: () => Promise<Command> }>> = {
  chat: {
    summary: "talk with a model in a terminal",
    load: async () => (await import("./chat.ts")).chat,
  },
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
  serve: {
    summary: "serve a model to clients of OpenAI's and Anthropic's APIs",
    load: async () => (await import("./serve.ts")).serve,
  },
  verify: {
    summary: "check models and mixers in every way that they can run",
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
 * @param args the arguments after the program's name.
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
  return await runCommand(command, { name: `gated-delta ${name}`, help: `gated-delta ${name} --help` }, rest);
}

if (import.meta.main) await runProgram(() => main(process.argv.slice(2)));
