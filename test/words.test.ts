/** Plain words: expressions that read as a translation, in any text of the project, and comments that begin with "What". */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";

const root = join(import.meta.dir, "..");
const folders = "{lib,swift,shaders,docs,test,bench,packages}/**/*.{ts,mjs,swift,c,cpp,h,metal,md,sh,txt}";

/** Each with a plain one. */
const plain: Readonly<Record<string, string>> = {
  beside: "next to, besides, against",
  whoever: "those who, the caller",
  somebody: "someone, the caller",
  nobody: "no one; often the passive",
  "for whom": "who it is for",
  "by now": "leave it out",
  "until now": "leave it out: history belongs in commits",
  formerly: "leave it out: history belongs in commits",
  previously: "leave it out: history belongs in commits",
};
const words = new RegExp(`\\b(?:${Object.keys(plain).join("|")})\\b`, "gi");
/** Such a noun clause hides its noun: "What a call costs" is the cost of a call. */
const openings = /(?:\/\/+|\/\*+|^ *\*|^#) What (?!.*\?)/;

/** The lines of a text that are not in plain words. */
function translated(text: string): string[] {
  return text.split("\n").flatMap((line, i) => {
    const found = [...line.matchAll(words)].map(([word]) => `${i + 1}: "${word}", rather ${plain[word.toLowerCase()]}`);
    return openings.test(line) ? [...found, `${i + 1}: begins with "What": name it`] : found;
  });
}

test("plain words in comments, names and pages", () => {
  const files = [...new Bun.Glob(folders).scanSync(root), ...new Bun.Glob("*.md").scanSync(root)];
  const read = files.filter((file) => !file.includes("node_modules/") && basename(file) !== basename(import.meta.path));
  expect(read.length).toBeGreaterThan(1000);
  expect(read.flatMap((file) => translated(readFileSync(join(root, file), "utf8")).map((line) => `${file}:${line}`))).toEqual([]);
});

test("others are found", () => {
  const planted = [
    "/** What a call costs. */",
    "  // What nobody reads stays beside it.",
    " * Whoever asked by now gets it, besides the others.",
    "# What is built here",
    "// What now? The file is next to it.",
    "What a page may begin with.",
    "const besideTimer = 1;",
  ];
  expect(translated(planted.join("\n")).map((line) => line.replace(/, rather.*|: name it/, ""))).toEqual([
    '1: begins with "What"', '2: "nobody"', '2: "beside"', '2: begins with "What"', '3: "Whoever"', '3: "by now"', '4: begins with "What"',
  ]);
});
