// The programs that build and test the packages, from packages/tools, which has its own lock file: installing them is
// not part of a clone's set-up.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { run, tail } from "../swift/scripts/exec.mjs";
import { withLock } from "../swift/scripts/lock.mjs";
import { withProgress } from "../swift/scripts/progress.mjs";
import { Failure, say } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { contentHash, readStamp, writeStamp } from "../swift/scripts/stamp.mjs";

const folder = join(rootFolder, "packages", "tools");
const stampFile = join(folder, "node_modules", ".gated-delta.json");

/** A file of an installed tool. */
export function tool(name, path) {
  return join(folder, "node_modules", name, path);
}

/** Installs the tools, unless the versions in the lock file are installed. */
export async function installTools() {
  const lock = contentHash(join(folder, "package-lock.json"));
  if (readStamp(stampFile)?.lock === lock && existsSync(tool("typescript", "package.json"))) return;
  await withLock(join(rootFolder, ".build", "lock-tools"), "installation of the packaging tools", async () => {
    if (readStamp(stampFile)?.lock === lock) return;
    say("installing the packaging tools (npm ci in packages/tools)");
    const { code, text } = await withProgress("npm ci", () => run("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"], { cwd: folder }));
    if (code !== 0) throw new Failure(`npm ci failed in packages/tools:\n${tail(text)}`);
    writeStamp(stampFile, { lock });
  });
}
