import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dir, "..");
const text = readFileSync(join(root, "README.md"), "utf8");

/** The anchors that links can name, as GitHub makes them from headings. */
const anchors = (markdown: string) =>
  new Set([...markdown.matchAll(/^#+ (.+)$/gm)].map(([, head]) => head!.toLowerCase().replace(/[^\w\- ]/g, "").replaceAll(" ", "-")));

describe("the README", () => {
  test("is short enough for two minutes", () => {
    const prose = text.replace(/^```[\s\S]*?^```$/gm, "").replace(/^\|.*$/gm, "");
    expect(prose.split(/\s+/).length).toBeLessThan(450);
  });

  test("shows the example that the site's tests run, and one block of commands of the manifest", () => {
    const blocks = [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => [language, code] as const);
    expect(blocks.map(([language]) => language)).toEqual(["ts", "sh"]);
    expect(blocks[0]![1]).toBe(readFileSync(join(root, "docs/examples/readme.ts"), "utf8"));
    expect(blocks[1]![1]!.split("\n").map((line) => line.split(/ {2,}/)[0])).toEqual(["npm run demo", "npm test", ""]);
  });

  test("names only files, parts of files, commands and variables that exist", () => {
    const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> };
    for (const [, script] of text.matchAll(/npm run ([\w:]+)/g)) expect(Object.keys(manifest.scripts)).toContain(script!);
    let links = 0;
    for (const [, target] of text.matchAll(/\]\((?!https?:)([^)]+)\)/g)) {
      const [path, part] = target!.split("#") as [string, string?];
      expect([target, path === "" || existsSync(join(root, path))]).toEqual([target, true]);
      if (part !== undefined) expect([...anchors(path === "" ? text : readFileSync(join(root, path), "utf8"))]).toContain(part);
      links++;
    }
    expect(links).toBeGreaterThan(10);
    for (const [, path] of text.matchAll(/`((?:test|packages|bench)\/[\w./-]+)`/g)) expect([path, existsSync(join(root, path!))]).toEqual([path, true]);
    const variables = readFileSync(join(root, "docs/install.md"), "utf8");
    for (const [name] of text.matchAll(/GATED_DELTA_\w+/g)) expect(variables).toContain(`| \`${name}\` |`);
  });

  test("says once, in the table of what is verified, that no Apple hardware has run it; claims about Metal lead there", () => {
    const table = text.slice(text.indexOf("## What is verified"), text.indexOf("## More"));
    expect(text.match(/not yet run on Apple hardware/g)).toHaveLength(1);
    expect(table).toMatch(/^\| Metal on Apple silicon \| nothing: not yet run on Apple hardware;/m);
    const elsewhere = text.replace(table, "").split(/\n\s*\n/).filter((part) => /Metal/.test(part) && !/^(?:```|\|)/.test(part));
    expect(elsewhere.length).toBeGreaterThan(0);
    for (const part of elsewhere) expect(part).toContain("(#what-is-verified-and-on-what)");
  });
});
