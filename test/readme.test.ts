import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as ggml from "../lib/ggml.ts";
import * as api from "../lib/index.ts";
import { scratch } from "./support/files.ts";

const root = join(import.meta.dir, "..");
const text = readFileSync(join(root, "README.md"), "utf8");
const { folder } = scratch();

/** The program in the README under this name: a fence that begins with "ts NAME". */
function program(name: string): string {
  const match = new RegExp(`^\`\`\`ts ${name}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(text);
  if (!match) throw new Error(`the README has no program ${name}`);
  return match[1]!;
}

/** Runs a program as a project that has installed the package would, from the clone's folder. */
function run(name: string): { status: number; out: string; errors: string } {
  const modules = join(folder, "node_modules");
  mkdirSync(modules, { recursive: true });
  if (!existsSync(join(modules, "gated-delta"))) symlinkSync(root, join(modules, "gated-delta"), "dir");
  const path = join(folder, `${name}.ts`);
  writeFileSync(path, program(name));
  const child = Bun.spawnSync([process.execPath, path], { cwd: root, stdout: "pipe", stderr: "pipe", timeout: 60_000 });
  return { status: child.exitCode, out: child.stdout.toString(), errors: child.stderr.toString() };
}

describe("the README", () => {
  test("has a first program that runs as pasted", () => {
    const { status, out, errors } = run("first");
    expect([status, errors]).toEqual([0, ""]);
    expect(out).toMatch(/^(?:cpu|metal), .+: prefilled 7 tokens, decoded 3$/m);
    expect(out).toMatch(/^first numbers:(?: -?\d\.\d{4}){4}$/m);
  });

  test("has a layer's program that runs as pasted", () => {
    const { status, out, errors } = run("layer");
    expect([status, errors]).toEqual([0, ""]);
    expect(out).toContain("hiddenSize: 192");
  });

  test("has a model's program that runs as pasted", () => {
    const { status, out, errors } = run("model");
    expect([status, errors]).toEqual([0, ""]);
    expect(out).toMatch(/^answer:(?: \d+){8}$/m);
    expect(out).toContain("12 tokens, 1 rows of logits; 12 tokens, 1 rows of logits; 4 tokens, 4 rows of logits");
  });

  test("has an agent that goes on in a new process with the bits it had in the old one", () => {
    const { status, out, errors } = run("agent");
    expect([status, errors]).toEqual([0, ""]);
    const [here, elsewhere] = out.trim().split("\n").map((line) => line.slice(line.indexOf(": ")));
    expect(here).toMatch(/^: token \d+(?: -?\d[\d.e-]*){3}$/);
    expect(elsewhere).toBe(here!);
  });

  test("tells of every operation, and of none that is not there", () => {
    const table = text.slice(text.indexOf("## The operations"), text.indexOf("## How it works"));
    const firstCells = [...table.matchAll(/^\|([^|]+)\|/gm)].map(([, cell]) => cell!);
    const told = firstCells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name!));
    const operations = Object.entries({ ...api, ...ggml }).filter(([name, value]) => {
      return typeof value === "function" && /^[a-z]/.test(name) && !/^(?:encode|decode)Bf16$|^libraryInfo$/.test(name);
    });
    expect(told.sort()).toEqual(operations.map(([name]) => name).sort());
  });

  test("names only files, commands and variables that exist", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> };
    for (const [, script] of text.matchAll(/npm run (\w+)/g)) expect(Object.keys(manifest.scripts)).toContain(script!);
    for (const [, target] of text.matchAll(/\]\((?!https?:|#)([^)]+)\)/g)) expect(existsSync(join(root, target!))).toBe(true);
    for (const [, anchor] of text.matchAll(/\]\(#([^)]+)\)/g)) {
      expect(text.toLowerCase()).toMatch(new RegExp(`^#+ ${anchor!.replaceAll("-", "[ -]")}$`, "m"));
    }
    for (const [path] of text.matchAll(/(?<=[`"])test\/golden\/[\w.-]+/g)) expect(existsSync(join(root, path))).toBe(true);
  });

  test("says beside every claim about Metal that no Apple hardware has run it", () => {
    const claims = /\b(?:through|pipelines over|on Apple)\b/i;
    const paragraphs = text.split(/\n\s*\n/).filter((part) => /Metal/.test(part) && claims.test(part));
    expect(paragraphs.length).toBeGreaterThan(1);
    for (const part of paragraphs) expect(part.replace(/\s+/g, " ")).toContain("not yet run on Apple hardware");
  });
});
