// Publishes the packages of a release: `node packages/publish.mjs FOLDER [--dry-run]`. FOLDER holds `gated-delta` and a folder for each
// platform, as `npm run pack` makes them on each system. The libraries go first and `gated-delta` last, so that
// installers of it find them. Versions that are already published are skipped, so a run that failed half-way can be repeated.
//
// In a GitHub workflow the packages carry provenance, for which `repository` must name the workflow's repository; elsewhere
// they carry none, and --dry-run shows what would be published.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { quick, run, tail } from "../swift/scripts/exec.mjs";
import { Failure, runMain, say } from "../swift/scripts/report.mjs";
import { cloneManifest, packageName, platforms } from "./platforms.mjs";

/** The packages of a release, in the order of publication. */
function release(folder) {
  return [...platforms.map((platform) => ({ name: packageName(platform), folder: join(folder, platform.name), file: platform.file })), { name: "gated-delta", folder: join(folder, "gated-delta"), file: "dist/index.js" }];
}

/** The reasons that these packages are not a release, one line each. */
export function problemsOf(folder, version, env = process.env) {
  const problems = [];
  const tag = env.GITHUB_REF_TYPE === "tag" ? env.GITHUB_REF_NAME : `v${version}`;
  if (tag !== `v${version}`) problems.push(`the tag is ${tag}, and package.json has ${version}`);
  for (const { name, folder: place, file } of release(folder)) {
    if (!existsSync(join(place, "package.json"))) {
      problems.push(`${name} is missing in ${place}`);
      continue;
    }
    const manifest = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
    if (manifest.name !== name) problems.push(`${place} holds ${manifest.name}`);
    if (manifest.version !== version) problems.push(`${name} is ${manifest.version}, and package.json has ${version}`);
    if (manifest.private !== undefined) problems.push(`${name} is private`);
    if (manifest.repository?.url === undefined) problems.push(`${name} names no repository: run in a workflow, or set GITHUB_SERVER_URL and GITHUB_REPOSITORY when packing`);
    if (!existsSync(join(place, file))) problems.push(`${name} has no ${file}`);
  }
  return problems;
}

/** How npm publishes `version`: `bun add gated-delta` does not install a pre-release (1.0.0-beta.1). */
export function publishFlags(version, dryRun, env = process.env) {
  const flags = ["--access", "public", "--ignore-scripts", "--tag", version.includes("-") ? "next" : "latest"];
  if (dryRun) return [...flags, "--dry-run"];
  return env.GITHUB_ACTIONS === "true" ? [...flags, "--provenance"] : flags;
}

async function main() {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { "dry-run": { type: "boolean" } } });
  if (positionals.length !== 1) throw new Failure("usage: node packages/publish.mjs FOLDER [--dry-run]");
  const [folder] = positionals;
  const { version } = cloneManifest();
  const problems = problemsOf(folder, version);
  for (const problem of problems) say(problem);
  if (problems.length > 0) throw new Failure("nothing was published.");
  const dryRun = values["dry-run"] === true;
  const flags = publishFlags(version, dryRun);
  for (const { name, folder: place } of release(folder)) {
    if (quick("npm", ["view", `${name}@${version}`, "version"]) === version) {
      say(`${name} ${version} is published already`);
      continue;
    }
    const { code, text } = await run("npm", ["publish", ...flags], { cwd: place });
    if (code !== 0) throw new Failure(`${name} could not be published:\n${tail(text, 30)}`);
    process.stdout.write(text);
    say(`${dryRun ? "would publish" : "published"} ${name} ${version}`);
  }
  return 0;
}

if (process.argv[1]?.endsWith("publish.mjs")) await runMain(main);
