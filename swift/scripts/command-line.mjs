// Runs a command line of this repository in Bun, also from Node, after the same set-up as the scripts. In an installed package
// nothing is set up: the library comes with it or is named by GATED_DELTA_LIBRARY.
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { currentBun, isClone } from "./dependencies.mjs";
import { Failure, say } from "./report.mjs";
import { rootFolder } from "./root.mjs";
import { setUp } from "./steps.mjs";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"];

/** The steps that a command line needs: help needs no library, and a named library need not be built. */
function neededSteps(args) {
  const help = args.length === 0 || args.some((arg) => ["--help", "-h", "help", "--version"].includes(arg));
  const named = (process.env.GATED_DELTA_LIBRARY ?? "") !== "";
  return help || named ? ["dependencies"] : ["dependencies", "library"];
}

/**
 * Runs `main`, a file of this repository, with this process's input and output; returns its exit code, or 128 + n if signal n ended it.
 * `reportsSetUp`: whether it runs after a set-up that failed, too.
 */
export async function runCommandLine(main, args, { reportsSetUp = false } = {}) {
  try {
    if (isClone(rootFolder)) await setUp(rootFolder, neededSteps(args));
  } catch (error) {
    if (!(error instanceof Failure) || !reportsSetUp) throw error;
    say(error.message);
  }
  const bun = currentBun(rootFolder);
  if (bun === null) throw new Failure("no Bun 1.4.1 or later: install it, put it on PATH and run the same command again.");
  return new Promise((resolve, reject) => {
    // Not by the settings of the folder that it is called in, such as a model's: a bunfig.toml, a .env and a tsconfig.json name code to run.
    const child = spawn(bun, ["--no-env-file", "--config=/dev/null", "--tsconfig-override=/dev/null", join(rootFolder, main), ...args], { stdio: "inherit" });
    for (const signal of signals) process.on(signal, () => child.kill(signal));
    child.on("error", reject);
    child.on("close", (code, signal) => resolve(code ?? 128 + (constants.signals[signal] ?? 0)));
  });
}
