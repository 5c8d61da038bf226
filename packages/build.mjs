// `npm run pack`: makes the packages of this checkout in .build/packages, as a release publishes them: `gated-delta` and the
// package of this system's library. `-- main` or `-- platform` makes one of them.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { Failure, elapsed, runMain, say } from "../swift/scripts/report.mjs";
import { rootFolder } from "../swift/scripts/root.mjs";
import { setUp } from "../swift/scripts/steps.mjs";
import { buildMainPackage } from "./main-package.mjs";
import { buildPlatformPackage } from "./platform-package.mjs";
import { hostPlatform, outputFolder } from "./platforms.mjs";
import { installTools } from "./tools.mjs";

const kinds = ["main", "platform"];

/** Makes what is named; returns the folders by name. `forRelease`: see buildPlatformPackage. */
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
    const { folder, bytes, gzipped, origins } = await buildPlatformPackage(platform, await setUp(rootFolder), { forRelease });
    folders.platform = folder;
    say(`made ${folder}: ${platform.file} has ${(bytes / 1e6).toFixed(2)} MB, ${(gzipped / 1e6).toFixed(2)} MB gzipped`);
    for (const { name, bytes: part } of origins.slice(0, 12)) say(`  ${(part / 1e6).toFixed(2).padStart(5)} MB  ${name}`);
  }
  return folders;
}

if (process.argv[1]?.endsWith("build.mjs")) {
  await runMain(async () => {
    const names = process.argv.slice(2);
    const unknown = names.filter((name) => !kinds.includes(name));
    if (unknown.length > 0) throw new Failure(`no package ${unknown.join(", ")}: there is ${kinds.join(" and ")}.`);
    if (names.length === 0) rmSync(join(outputFolder), { recursive: true, force: true });
    await buildPackages(names.length === 0 ? kinds : names);
    say(`packed (${elapsed()})`);
    return 0;
  });
}
