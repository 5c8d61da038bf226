/** The kernels' text inside the library is that of shaders/, flattened. */
import { describe, expect, test } from "bun:test";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { library } from "../lib/native/library.ts";
import { libraryInfo } from "../lib/native/library-info.ts";
import { flattened } from "./emulator/frontend/preprocess.ts";

const root = join(import.meta.dir, "..");
const shaders = join(root, "shaders");
const kernels = readdirSync(shaders).filter((name) => name.endsWith(".metal")).sort();
const text = flattened(kernels.map((name) => `shaders/${name}`), root);

test("the library holds the text of the shaders as they are", () => {
  library();
  const bytes = readFileSync(libraryInfo()!.path);
  for (const name of readdirSync(shaders).filter((name) => /\.(metal|h)$/.test(name))) {
    // In pieces between includes, each of which is a string that ends with `\0`. Metal's compiler restarts line numbers after an include.
    const pieces = readFileSync(join(shaders, name), "utf8").split(/^ *# *include ".*\n/m);
    pieces[0] = `#line 1 "shaders/${name}"\n${pieces[0]}`;
    const last = pieces.length - 1;
    for (const [i, piece] of pieces.entries()) {
      // The text after a file's last newline is a line, too.
      if (piece !== "" || i === last) expect([name, i, bytes.includes(`${piece}${i === last ? "\n" : ""}\0`)]).toEqual([name, i, true]);
    }
  }
});

describe("the flattened text", () => {
  test("holds every shader file once, headers before what includes them", () => {
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
    let [file, number] = ["", 0];
    let compared = 0;
    for (const line of text.trimEnd().split("\n")) {
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
