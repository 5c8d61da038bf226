/** Packages that only some programs need: which ones' code is run, and which ones' is not. */
import { beforeAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const { newPath } = scratch();
const name = "some-optional-package";

/** A folder with a package that exports this text. */
function folderWith(text: string, folder: string = newPath("folder")): string {
  const at = join(folder, "node_modules", name);
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, "package.json"), JSON.stringify({ name, main: "main.js" }));
  writeFileSync(join(at, "main.js"), `module.exports = ${JSON.stringify(text)};\n`);
  return folder;
}

/** A project with gated-delta and a program that loads the package. */
function project(): string {
  const folder = newPath("project");
  const modules = join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  for (const part of ["lib", "package.json"]) cpSync(join(root, part), join(modules, "gated-delta", part), { recursive: true });
  symlinkSync(join(root, "node_modules", "zod"), join(modules, "zod"), "dir");
  writeFileSync(join(folder, "program.ts"), `import { optionalPackage } from "./node_modules/gated-delta/lib/native/optional-package.ts";
try {
  console.log((await import(optionalPackage("load", "${name}"))).default);
} catch (error) {
  console.log(String(error));
}
`);
  return folder;
}

const missing = `UnsupportedError: load: expected the package ${name}: \`bun add ${name}\`, got no such package\n`;
const printed = (cwd: string, ...args: readonly string[]): string => Bun.spawnSync([...args], { cwd, stdout: "pipe", stderr: "pipe" }).stdout.toString();

let [bare, complete, compiled] = ["", "", ""];
beforeAll(() => {
  bare = project();
  complete = folderWith("of the project", project());
  compiled = join(bare, "program");
  const build = [process.execPath, "build", "program.ts", "--compile", "--external", "@gated-delta/*", "--outfile", compiled];
  expect(Bun.spawnSync(build, { cwd: bare, stdout: "ignore", stderr: "inherit" }).exitCode).toBe(0);
});

test("a program takes them from where it is, and never from the working directory", () => {
  const other = folderWith("of another folder");
  expect(printed(other, process.execPath, join(complete, "program.ts"))).toBe("of the project\n");
  expect(printed(other, process.execPath, join(bare, "program.ts"))).toBe(missing);
  expect(printed(bare, process.execPath, join(bare, "program.ts"))).toBe(missing);
});

test("a compiled one, which is in no folder, takes them from the working directory", () => {
  expect(printed(folderWith("of this folder"), compiled)).toBe("of this folder\n");
  expect(printed(bare, compiled)).toBe(missing);
});
