/** The `gated-delta` command of an installed package, as Node runs it: which Bun it chooses, and the files that this Bun reads. */
import { expect, test } from "bun:test";
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { scratch } from "./support/files.ts";

const { newPath } = scratch();
const node = Bun.which("node");
// A machine may have Bun alone, or a `node` that is Bun.
const isNode = node !== null && Bun.spawnSync([node, "-p", "process.versions.bun"]).stdout.toString().trim() === "undefined";

/** Writes files into a new folder, and returns the folder. */
function folderOf(files: Readonly<Record<string, string>>): string {
  const folder = newPath();
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, ".."), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const installed = folderOf({
  "package.json": JSON.stringify({ engines: { bun: ">=1.4.1" } }),
  "dist/cli/main.js": "console.log(Bun.version, process.env.PLANTED, globalThis.planted, ...process.argv.slice(2));",
});
cpSync(join(import.meta.dir, "../packages/bin.mjs"), join(installed, "bin/gated-delta.mjs"));
const current = newPath("current");
mkdirSync(current);
symlinkSync(process.execPath, join(current, "bun"));

/** A folder with a Bun that does nothing but print its version. */
function bunOf(version: string): string {
  const folder = folderOf({ bun: `#!/bin/sh\necho ${version}\n` });
  chmodSync(join(folder, "bun"), 0o755);
  return folder;
}

function run(path: readonly string[], cwd = installed) {
  const child = Bun.spawnSync([node!, join(installed, "bin/gated-delta.mjs"), "a b", "--c"], { cwd, env: { ...process.env, PATH: path.join(delimiter) } });
  return [child.exitCode, child.stdout.toString(), child.stderr.toString()];
}

const good = [0, `${Bun.version} undefined undefined a b --c\n`, ""];

test.skipIf(!isNode)("a Bun that is too old is passed over, and named if there is no other", () => {
  for (const version of ["1.4.0", "1.3.12", "0.9.9"]) expect(run([bunOf(version), current])).toEqual(good);
  for (const version of ["1.4.1", "1.4.10", "1.10.0", "2.0.0", "1.4.1-canary.1"]) expect(run([bunOf(version), current])).toEqual([0, `${version}\n`, ""]);
  for (const path of [[], [bunOf("1.4.0")], [bunOf("none")]]) expect(run(path)).toEqual([1, "", "gated-delta: no Bun 1.4.1 or later on PATH: install one and run the same command again.\n"]);
});

test.skipIf(!isNode)("settings of the folder that it is called in are not read", () => {
  const planted = { "planted.ts": 'globalThis.planted = 1; console.log("planted")' };
  for (const [files, read] of [
    [{ ".env": "PLANTED=1\n" }, `${Bun.version} 1 undefined\n`],
    [{ "bunfig.toml": 'preload = ["./planted.ts"]\n' }, `planted\n${Bun.version} undefined 1\n`],
    [{ "tsconfig.json": '{ "compilerOptions": { "paths": { "*": ["./planted.ts"] } } }' }, "planted\n"],
  ] as const) {
    const folder = folderOf({ ...planted, ...files });
    const plain = Bun.spawnSync([process.execPath, join(installed, "dist/cli/main.js")], { cwd: folder, env: { PATH: "/bin" } }).stdout.toString();
    expect(plain).toBe(read); // without the command, they are read
    expect(run([current], folder)).toEqual(good);
  }
});

test("a clone's command and doctor's probe start Bun alike", () => {
  const flags = (file: string) => /"--no-env-file", .*?(?=, \w)/.exec(readFileSync(join(import.meta.dir, "..", file), "utf8"))?.[0];
  expect(flags("packages/bin.mjs")).toContain("--tsconfig-override=/dev/null");
  for (const file of ["swift/scripts/command-line.mjs", "lib/cli/doctor.ts"]) expect(flags(file)).toBe(flags("packages/bin.mjs"));
});
