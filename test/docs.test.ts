import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const docs = join(root, "docs");
const { folder } = scratch();
const examples = readdirSync(join(docs, "examples")).filter((name) => name.endsWith(".ts"));
const guides = readdirSync(docs).filter((name) => name.endsWith(".md"));

/** Runs an example as a project that has installed the package would, from the clone's folder. */
function run(name: string): { status: number; errors: string; out: string } {
  const modules = join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  if (!existsSync(join(modules, "gated-delta"))) symlinkSync(root, join(modules, "gated-delta"), "dir");
  writeFileSync(join(folder, name), readFileSync(join(docs, "examples", name)));
  const child = Bun.spawnSync([process.execPath, join(folder, name)], { cwd: root, stdout: "pipe", stderr: "pipe", timeout: 60_000 });
  return { status: child.exitCode, errors: child.stderr.toString(), out: child.stdout.toString() };
}

describe("the site's guides", () => {
  test.each(examples)("example %s runs", (name) => {
    const { status, errors, out } = run(name);
    expect([status, errors]).toEqual([0, ""]);
    expect(out).not.toBe("");
  });

  test("show every example, and no other program", () => {
    const shown = new Set<string>();
    for (const name of guides) {
      const text = readFileSync(join(docs, name), "utf8");
      for (const [, file] of text.matchAll(/^<<< @\/examples\/(\S+)$/gm)) shown.add(file!);
      for (const [, language] of text.matchAll(/^```(\w*)\n[\s\S]*?^```$/gm)) expect([name, language]).toEqual([name, "sh"]);
    }
    expect([...shown].sort()).toEqual(examples.sort());
  });
});
