// `npm run docs`: the reference out of the sources, then the site, in .build/site. Its tools come from this folder's own lock file.
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { run, tail } from "../swift/scripts/exec.mjs";
import { withLock } from "../swift/scripts/lock.mjs";
import { withProgress } from "../swift/scripts/progress.mjs";
import { Failure, runMain, say } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { contentHash, readStamp, treeHash, writeStamp } from "../swift/scripts/stamp.mjs";

const docs = join(rootFolder, "docs");
const folder = join(docs, ".vitepress");
const stampFile = join(folder, "node_modules", ".gated-delta.json");

async function installTools() {
  const lock = contentHash(join(folder, "package-lock.json"));
  if (readStamp(stampFile)?.lock === lock && existsSync(join(folder, "node_modules", "vitepress"))) return;
  say("installing the tools of the site (npm ci in docs/.vitepress)");
  await step("npm ci", "npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefer-offline"]);
  writeStamp(stampFile, { lock });
}

/** The reference, out of the sources; again only where they, or TypeDoc's version or settings, have changed. */
async function writeReference() {
  const reference = join(docs, "reference");
  const stamp = join(reference, ".gated-delta.json");
  const sources = treeHash(rootFolder, ["lib", "tsconfig.json", "docs/.vitepress/typedoc.json", "docs/.vitepress/throws.mjs", "docs/.vitepress/package-lock.json"]);
  if (readStamp(stamp)?.sources === sources) return;
  rmSync(reference, { recursive: true, force: true });
  // Every warning is an error: an export without documentation, a link to nothing.
  await step("reference", process.execPath, [...program("typedoc", "bin/typedoc"), "--treatWarningsAsErrors", "--logLevel", "Warn"]);
  writeStamp(stamp, { sources });
}

async function step(name, command, args) {
  const { code, text } = await withProgress(name, () => run(command, args, { cwd: folder }));
  if (code !== 0) throw new Failure(`${name} failed:\n${tail(text)}`);
}

const program = (name, path) => [join(folder, "node_modules", name, path)];

await runMain(async () => {
  await withLock(join(rootFolder, ".build", "lock-docs"), "build of the site", async () => {
    await installTools();
    await writeReference();
    await step("site", process.execPath, [...program("vitepress", "bin/vitepress.js"), "build", ".."]);
  });
  say(`the site is in ${join(".build", "site")}`);
  return 0;
});
