// The kernels' text inside the library is that of shaders/, flattened.
import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { kernelSource, target } from "../swift/scripts/shader-source.mjs";

const root = join(import.meta.dir, "..");
const shaders = join(root, "shaders");

describe("KernelSource.swift", () => {
  test("is up to date", () => {
    expect(readFileSync(target, "utf8") === kernelSource()).toBe(true);
    const check = Bun.spawnSync(["node", join(root, "swift", "scripts", "shader-source.mjs"), "--check"]);
    expect(check.stderr.toString()).toBe("");
    expect(check.exitCode).toBe(0);
  });

  test("holds every shader file once, headers before what includes them", () => {
    const text = kernelSource();
    const files = readdirSync(shaders).filter((name) => /\.(metal|h)$/.test(name));
    expect(files.length).toBeGreaterThan(15);
    for (const name of files) {
      expect(text.split(`#line 1 "shaders/${name}"\n`).length).toBe(2);
      const body = readFileSync(join(shaders, name), "utf8").split("\n");
      for (const line of body) {
        if (line.includes('#include "')) expect(text).not.toContain(line);
        else expect(text).toContain(line);
      }
    }
    expect(text.indexOf('"shaders/params.h"')).toBeLessThan(text.indexOf("kernel void"));
  });

  test("keeps the compiler's line numbers true", () => {
    const lines = kernelSource().split("\n");
    let [file, number] = ["", 0];
    let compared = 0;
    for (const line of lines.slice(4, -2)) {
      const mark = /^#line (\d+) "shaders\/(.+)"$/.exec(line);
      if (mark !== null) {
        [file, number] = [mark[2] ?? "", Number(mark[1])];
        continue;
      }
      const source = readFileSync(join(shaders, file), "utf8").split("\n")[number - 1];
      expect(line === source || (line === "" && source?.includes("#include") === true)).toBe(true);
      compared += 1;
      number += 1;
    }
    expect(compared).toBeGreaterThan(1500);
  });
});

describe("a shader that the generated file could not hold", () => {
  const folders: string[] = [];
  afterAll(() => folders.forEach((folder) => rmSync(folder, { recursive: true, force: true })));
  const generate = (text: string): (() => string) => {
    const folder = mkdtempSync(join(tmpdir(), "gated-delta-shaders-"));
    folders.push(folder);
    writeFileSync(join(folder, "a.metal"), text);
    return () => kernelSource(folder);
  };

  test("ends the Swift string", () => {
    expect(generate('constant char s[] = """##;\n')).toThrow("would end the Swift string");
  });

  test("is fine otherwise", () => {
    const text = generate('template [[host_name("a")]] kernel decltype(f<1>) f<1>;\n')();
    expect(text).toContain('#line 1 "shaders/a.metal"');
  });
});
