/** Programs made by `bun build --compile`: on a platform whose library is not installed, they end with an error. */
import { describe, expect, test } from "bun:test";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { platforms, packageName } from "../packages/platforms.mjs";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const { newPath } = scratch();

/** A project with gated-delta and the library's packages for these platforms, as far as a bundler reads them. */
function project(installed: readonly string[]): string {
  const folder = newPath("project");
  const modules = join(folder, "node_modules");
  const scope = join(modules, "@gated-delta");
  mkdirSync(scope, { recursive: true });
  for (const name of ["lib", "package.json"]) cpSync(join(root, name), join(modules, "gated-delta", name), { recursive: true });
  for (const name of ["zod", "@huggingface"]) symlinkSync(join(root, "node_modules", name), join(modules, name), "dir");
  for (const name of installed) {
    mkdirSync(join(scope, name));
    writeFileSync(join(scope, name, "package.json"), JSON.stringify({ name: `@gated-delta/${name}`, type: "module", exports: "./index.js" }));
    writeFileSync(join(scope, name, "index.js"), 'import path from "./library.bin" with { type: "file" };\nexport default path;\n');
    writeFileSync(join(scope, name, "library.bin"), name);
  }
  writeFileSync(join(folder, "program.ts"), 'import { libraryInfo } from "gated-delta";\ntry {\n  console.log(libraryInfo().path);\n} catch (error) {\n  console.log(String(error));\n}\n');
  return folder;
}

function build(cwd: string, ...args: readonly string[]) {
  const { exitCode, stderr } = Bun.spawnSync([process.execPath, "build", "program.ts", ...args], { cwd, stdout: "ignore", stderr: "pipe" });
  return { exitCode, errors: stderr.toString() };
}

const host = `${process.platform}-${process.arch}`;
const names = platforms.map(({ name }: { name: string }) => name);

describe("bun build --compile", () => {
  const folder = project([host]);
  const start = (path: string) => Bun.spawnSync([path], { cwd: dirname(path), env: { ...process.env, GATED_DELTA_LIBRARY: "", GATED_DELTA_CACHE: folder }, stdout: "pipe" }).stdout.toString();

  test("for this platform takes the library that is installed", () => {
    expect(build(folder, "--compile", "--outfile", "here").exitCode).toBe(0);
    expect(start(join(folder, "here"))).toContain(join(folder, "libraries")); // it was unpacked, but is not a library
  });

  test.each(names)("for %s ends with an error that names the library, where that is not installed", (name) => {
    const { exitCode, errors } = build(name === host ? project([]) : folder, "--compile", `--target=bun-${name}`, "--outfile", "elsewhere");
    expect(exitCode).toBe(1);
    expect(errors).toContain(`Could not resolve: "${packageName({ name })}"`);
    expect(errors).toContain("not installed? bun install --os='*' --cpu='*'");
  });

  test("without the library, where that is asked for; the program says what it lacks", () => {
    const bare = project([]);
    expect(build(bare, "--compile", "--external", "@gated-delta/*", "--outfile", "without").exitCode).toBe(0);
    expect(start(join(bare, "without"))).toContain(`This program was compiled without @gated-delta/${host}`);
  });
});

test("a bundle for any platform takes what is there", () => {
  for (const installed of [[], [host]]) expect(build(project(installed), "--target=bun", "--outdir", "bundle")).toEqual({ exitCode: 0, errors: "" });
});
