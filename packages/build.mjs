// `npm run pack`: makes the packages of this checkout in .build/packages, as a release publishes them: `gated-delta` and the
// package of this system's library, and an archive of each, which the command in the last line installs in a project. `-- main` or
// `-- platform` makes one of them; `-- linux-arm64` makes that one on Linux x64.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Failure, elapsed, runMain, say } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { setUp } from "../swift/scripts/steps.mjs";
import { installCommand, packArchives } from "./archives.mjs";
import { buildCross, canCross } from "./cross.mjs";
import { buildMainPackage } from "./main-package.mjs";
import { buildPlatformPackage } from "./platform-package.mjs";
import { hostPlatform, outputFolder, platforms } from "./platforms.mjs";
import { installTools } from "./tools.mjs";

/** The default packages, and others that can be named: platforms for which this system has a compiler. */
const kinds = ["main", "platform"];
const others = platforms.filter((platform) => canCross(platform)).map(({ name }) => name);

/** Makes the named packages; returns their folders by name. `forRelease`: see buildPlatformPackage. */
export async function buildPackages(names = kinds, { forRelease = true } = {}) {
  const folders = {};
  if (names.includes("main")) {
    await setUp(rootFolder, ["dependencies"]);
    await installTools();
    folders.main = await buildMainPackage();
    say(`made ${folders.main}`);
  }
  if (names.includes("platform")) {
    const platform = hostPlatform();
    if (platform === null) throw new Failure(`there is no package for ${process.platform}-${process.arch}.`);
    folders.platform = await buildPlatform(platform, await setUp(rootFolder), forRelease);
  }
  for (const platform of platforms.filter(({ name }) => names.includes(name))) {
    const state = await setUp(rootFolder);
    folders[platform.name] = await buildPlatform(platform, { ...state, cross: await buildCross(state, platform) }, forRelease);
  }
  return folders;
}

/** Makes one platform's package and prints the sizes of its parts. */
async function buildPlatform(platform, state, forRelease) {
  const { folder, bytes, gzipped, origins } = await buildPlatformPackage(platform, state, { forRelease });
  say(`made ${folder}: ${platform.file} has ${(bytes / 1e6).toFixed(2)} MB, ${(gzipped / 1e6).toFixed(2)} MB gzipped`);
  for (const { name, bytes: part } of origins.slice(0, 12)) say(`  ${(part / 1e6).toFixed(2).padStart(5)} MB  ${name}`);
  return folder;
}

if (process.argv[1]?.endsWith("build.mjs")) {
  await runMain(async () => {
    const names = process.argv.slice(2);
    const known = [...kinds, ...others];
    const unknown = names.filter((name) => !known.includes(name));
    if (unknown.length > 0) throw new Failure(`no package ${unknown.join(", ")}: this system makes ${known.join(", ")}.`);
    if (names.length === 0) rmSync(join(outputFolder), { recursive: true, force: true });
    const folders = await buildPackages(names.length === 0 ? kinds : names);
    const archives = names.length === 0 ? await packArchives(Object.values(folders)) : [];
    say(`packed (${elapsed()})`);
    if (archives.length > 0) {
      say("this installs them in a project, entered in its folder:");
      process.stdout.write(`${installCommand(archives)}\n`);
    }
    return 0;
  });
}
