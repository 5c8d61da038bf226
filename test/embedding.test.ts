/**
 * The package as others use it: packed, installed in an empty project beside a platform package that holds this build's
 * library, run there, and once more as a single binary. Nothing of the clone is on the way.
 */
import { describe, expect, test } from "bun:test";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { libraryInfo } from "../lib/index.ts";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const { folder } = scratch();
const project = join(folder, "project");
const platform = `@gated-delta/${process.platform}-${process.arch}`;

/** Runs a command; fails with what it said. */
function run(command: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}): string {
  const { GATED_DELTA_LIBRARY: _, ...rest } = process.env;
  const child = Bun.spawnSync([...command], { cwd, stdout: "pipe", stderr: "pipe", timeout: 120_000, env: { ...rest, ...env } });
  const [out, errors] = [child.stdout.toString(), child.stderr.toString()];
  if (child.exitCode !== 0) throw new Error(`${command.join(" ")} ended with ${child.exitCode}:\n${out}${errors}`);
  return out;
}

/** Packs a folder and returns the archive. */
function pack(source: string, name: string): string {
  const target = join(folder, name);
  mkdirSync(target);
  run([process.execPath, "pm", "pack", "--destination", target, "--quiet"], source);
  return join(target, readdirSync(target).find((entry) => entry.endsWith(".tgz"))!);
}

/** The package that brings the library for this platform, as a release would have it. */
function packPlatform(): string {
  const source = join(folder, "platform");
  mkdirSync(source);
  const file = process.platform === "darwin" ? "libGatedDelta.dylib" : "libGatedDelta.so";
  copyFileSync(libraryInfo().path, join(source, file));
  const manifest = { name: platform, version: "0.1.0", type: "module", main: "./index.js", os: [process.platform], cpu: [process.arch] };
  writeFileSync(join(source, "package.json"), JSON.stringify(manifest));
  // As a file import, a bundler carries the library along.
  writeFileSync(join(source, "index.js"), `import path from "./${file}" with { type: "file" };\nexport default path;\n`);
  return pack(source, "packed-platform");
}

/** Makes a project, with what its package.json says installed from archives and this clone's own dependencies. */
function install(): void {
  mkdirSync(project);
  const manifest = {
    name: "project",
    private: true,
    type: "module",
    dependencies: { "gated-delta": `file:${pack(root, "packed")}` },
    optionalDependencies: { [platform]: `file:${packPlatform()}` },
    overrides: { zod: `file:${join(root, "node_modules", "zod")}` }, // no registry is asked
  };
  writeFileSync(join(project, "package.json"), JSON.stringify(manifest));
  run([process.execPath, "install", "--no-progress"], project, { BUN_INSTALL_CACHE_DIR: join(folder, "cache") });
}

describe("an empty project", () => {
  test("installs the package, runs the README's program, and compiles it to one binary", () => {
    install();
    const installed = JSON.parse(readFileSync(join(project, "node_modules", "gated-delta", "package.json"), "utf8")) as { scripts: object };
    expect(Object.keys(installed.scripts).filter((name) => /install|prepare/.test(name))).toEqual([]);
    const text = readFileSync(join(root, "README.md"), "utf8");
    const first = /^```ts first\n([\s\S]*?)^```$/m.exec(text)![1]!;
    const where = `import { libraryInfo } from "gated-delta";\nconsole.log("from", libraryInfo().source, libraryInfo().path);\n`;
    writeFileSync(join(project, "program.ts"), first + where);
    const expected = /^(?:cpu|metal), .+: prefilled 7 tokens, decoded 3$/m;

    const out = run([process.execPath, "program.ts"], project);
    expect(out).toMatch(expected);
    expect(out).toContain(`from platform-package ${join(project, "node_modules", platform)}`);

    run([process.execPath, "build", "--compile", "program.ts", "--outfile", "program"], project);
    const alone = join(folder, "elsewhere");
    mkdirSync(alone);
    copyFileSync(join(project, "program"), join(alone, "program"));
    run(["chmod", "+x", join(alone, "program")], alone);
    const compiled = run([join(alone, "program")], alone);
    expect(compiled).toMatch(expected);
    expect(compiled).toContain("from platform-package");
    expect(compiled).not.toContain(project);
  }, 240_000);
});
