#!/usr/bin/env node
// The `gated-delta` command: runs lib/cli/main.ts in Bun, whatever runs this file, after the same set-up as the scripts.
// In an installed package nothing is set up: the library comes with it or is named by GATED_DELTA_LIBRARY.
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { findBun, isClone } from "./dependencies.mjs";
import { Failure, runMain } from "./report.mjs";
import { rootFolder } from "./root.mjs";
import { setUp } from "./steps.mjs";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Runs the command line with this process's input and output; its exit code, or 128 + n for an end by signal n. */
function runCommandLine(bun, args) {
  return new Promise((resolve, reject) => {
    const child = spawn(bun, [join(rootFolder, "lib/cli/main.ts"), ...args], { stdio: "inherit" });
    for (const signal of signals) process.on(signal, () => child.kill(signal));
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? 128 + (constants.signals[signal] ?? 0)));
  });
}

await runMain(async () => {
  const bun = isClone(rootFolder) ? (await setUp(rootFolder)).bun : findBun(rootFolder);
  if (bun === null || bun === undefined) throw new Failure("no Bun 1.4.1 or later: install it, put it on PATH and run the same command again.");
  return runCommandLine(bun, process.argv.slice(2));
});
