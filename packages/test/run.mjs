// `npm run test:package`: the packages of this checkout, published to a registry on loopback and used as by a user who has only
// Bun. The last line lists the passed checks; exit status 0 only if all passed.
//
//   --packages FOLDER   test existing packages (gated-delta and the platform's), as a release does
//   --root FOLDER       run the consumer inside a root file system with only what Bun needs (requires root)
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { run, which } from "../../swift/scripts/exec.mjs";
import { Failure, elapsed, runMain, say } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";
import { setUp } from "../../swift/scripts/steps.mjs";
import { buildPackages } from "../build.mjs";
import { platformManifest, tracesOfTests } from "../platform-package.mjs";
import { cloneManifest, hostPlatform, packageName, platforms } from "../platforms.mjs";
import { installTools } from "../tools.mjs";
import { checkArchives } from "./archives.mjs";
import { example } from "./examples.mjs";
import { startRegistry } from "./registry.mjs";
import { checkTypes, lint } from "./types.mjs";

/** Packages of the other platforms, as far as an installer sees them: it must not install them. */
function otherPlatforms(folder) {
  return platforms.filter((platform) => platform !== hostPlatform()).map((platform) => {
    const source = join(folder, platform.name);
    mkdirSync(source, { recursive: true });
    writeFileSync(join(source, "package.json"), JSON.stringify(platformManifest(platform, cloneManifest())));
    for (const file of ["index.js", "index.d.ts", platform.file]) writeFileSync(join(source, file), "");
    return source;
  });
}

/** PATH for the consumer: Bun, Node with npx if present, and a shell; no compiler, no Swift. */
function consumerPath(folder, bun) {
  const bin = join(folder, "bin");
  mkdirSync(bin);
  symlinkSync(bun, join(bin, "bun"));
  symlinkSync(bun, join(bin, "bunx"));
  const found = ["node", "npx", "sh"].filter((name) => which(name) !== null);
  for (const name of found) symlinkSync(realpathSync(which(name)), join(bin, name));
  return { path: bin, npx: found.includes("npx") && found.includes("node") };
}

/** Runs the consumer's checks; returns the number that passed. */
async function consume(folder, plan, root) {
  // Inside another root, paths begin at that root, and only Bun is available.
  const inside = (path) => (root === undefined ? path : `/${relative(root, path)}`);
  const bun = join(folder, "bun");
  cpSync(realpathSync(plan.bun), bun);
  chmodSync(bun, 0o755);
  const checkpoint = join(folder, "layer-bf16.safetensors");
  cpSync(join(rootFolder, "test/golden/layer-bf16.safetensors"), checkpoint);
  cpSync(join(rootFolder, "packages/test/consumer.mjs"), join(folder, "consumer.mjs"));
  const path = root === undefined ? consumerPath(folder, bun) : {};
  writeFileSync(join(folder, "plan.json"), JSON.stringify({ ...plan, bun: undefined, checkpoint: inside(checkpoint), ...path }));
  const command = [inside(bun), inside(join(folder, "consumer.mjs")), inside(folder)];
  const [file, ...args] = root === undefined ? command : ["chroot", root, ...command];
  const show = (line) => process.stdout.write(`${line}\n`);
  const { code, text } = await run(file, args, { cwd: folder, env: { PATH: process.env.PATH, HOME: inside(folder) }, output: show });
  if (code !== 0) throw new Failure("an installed package does not work: see above.");
  return Number(/^(\d+) checks of an installed package passed/m.exec(text)?.[1]);
}

async function main() {
  const { values } = parseArgs({ options: { packages: { type: "string" }, root: { type: "string" } } });
  const platform = hostPlatform();
  if (platform === null) throw new Failure(`there is no package for ${process.platform}-${process.arch}.`);
  const { bun } = await setUp(rootFolder, ["dependencies"]);
  await installTools();
  const folders = values.packages === undefined
    ? await buildPackages(undefined, { forRelease: false })
    : { main: join(values.packages, "gated-delta"), platform: join(values.packages, platform.name) };
  for (const folder of Object.values(folders)) if (!existsSync(join(folder, "package.json"))) throw new Failure(`there is no package in ${folder}.`);
  const traces = tracesOfTests(readFileSync(join(folders.platform, platform.file)));
  if (traces.length > 0) throw new Failure(`${platform.file} holds ${traces.join(", ")}, which only tests need.`);

  const folder = realpathSync(mkdtempSync(join(values.root === undefined ? tmpdir() : join(values.root, "tmp"), "gated-delta-consumer-")));
  const work = realpathSync(mkdtempSync(join(tmpdir(), "gated-delta-registry-")));
  const registry = await startRegistry(work);
  try {
    for (const name of Object.keys(cloneManifest().dependencies)) await registry.publish(join(rootFolder, "node_modules", name));
    const archived = await checkArchives({ folder: join(work, "archived"), packages: [folders.main, folders.platform], platform: platform.name, registry: registry.url, bun: realpathSync(bun) });
    for (const name of archived) process.stdout.write(`ok      ${name}\n`);
    say("publishing the packages to a registry on loopback");
    for (const other of otherPlatforms(join(work, "others"))) await registry.publish(other);
    const archives = { [packageName(platform)]: await registry.publish(folders.platform), "gated-delta": await registry.publish(folders.main) };
    const { version } = JSON.parse(readFileSync(join(folders.main, "package.json"), "utf8"));
    const programs = { first: example("operations.ts"), lake: example("readme.ts"), layer: example("layer.ts"), agent: example("state-agent.ts") };
    const install = example("install.sh").trim().split(" ");
    const others = platforms.filter((other) => other !== platform).map(({ name }) => name);
    const plan = { registry: registry.url, version, platform: platform.name, others, programs, install, bun };
    const installed = await consume(folder, plan, values.root === undefined ? undefined : realpathSync(values.root));
    const types = await checkTypes(join(folder, "project"));
    const lints = await lint(archives);
    for (const name of [...types, ...lints]) process.stdout.write(`ok      ${name}\n`);
    process.stdout.write(
      `passed: gated-delta ${version} with ${packageName(platform)}: ${archived.length + installed} checks of installed packages, ` +
        `${types.length} consumers' compilations, publint and attw of ${Object.keys(archives).length} packages (${elapsed()})\n`,
    );
    return 0;
  } finally {
    registry.stop();
    for (const path of [folder, work]) rmSync(path, { recursive: true, force: true, maxRetries: 3 });
  }
}

await runMain(async () => {
  try {
    return await main();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    process.stdout.write(`FAILED: ${error.message}\n`);
    return 1;
  }
});
