#!/usr/bin/env node
// The `gated-delta` command of an installed package: runs its command line in Bun, whatever program runs this file.
import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants as files, readFileSync, statSync } from "node:fs";
import { constants } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const main = join(root, "dist", "cli", "main.js");
/** The version that the package needs, from a range such as ">=1.4.1". */
const needed = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).engines.bun.replace(/^\D*/, "");

/** Whether a Bun is as new as the package needs. */
function isNew(file) {
  const version = spawnSync(file, ["--version"], { encoding: "utf8" }).stdout ?? "";
  const [have, want] = [version, needed].map((text) => text.split(".").map((part) => parseInt(part, 10)));
  const differs = want.findIndex((part, i) => part !== have[i]);
  return differs < 0 || have[differs] > want[differs];
}

/** The Bun that runs this file, one that the project has installed (npm and similar tools put it on PATH for a command), or PATH's. */
function findBun() {
  if (process.versions.bun !== undefined) return process.execPath;
  for (const folder of (process.env.PATH ?? "").split(delimiter)) {
    const file = join(folder, "bun");
    try {
      accessSync(file, files.X_OK);
      if (folder !== "" && statSync(file).isFile() && isNew(file)) return file;
    } catch {
      // Missing, or no permission to run it: the next folder may have it.
    }
  }
  return null;
}

const bun = findBun();
if (bun === null) {
  process.stderr.write(`gated-delta: no Bun ${needed} or later on PATH: install one and run the same command again.\n`);
  process.exitCode = 1;
} else {
  // Ignores the settings in the current folder, which may be a model's: a bunfig.toml, a .env and a tsconfig.json can name code to run.
  const child = spawn(bun, ["--no-env-file", "--config=/dev/null", "--tsconfig-override=/dev/null", main, ...process.argv.slice(2)], { stdio: "inherit" });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    process.stderr.write(`gated-delta: ${bun} could not be started: ${error.message}\n`);
    process.exitCode = 1;
  });
  child.on("close", (code, signal) => (process.exitCode = code ?? 128 + (constants.signals[signal] ?? 0)));
}
