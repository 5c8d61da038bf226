// Stamps decide what is not done again: whatever changes the result must change them.
import { expect, test } from "bun:test";
import { mkdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readStamp, treeHash, writeStamp } from "../../swift/scripts/stamp.mjs";
import { cacheFolder, isComplete } from "../../swift/toolchain/install.mjs";
import { layout, revision, version } from "../../swift/toolchain/recipe.mjs";
import { temporaryFolder } from "./folder.ts";

test("a tree's hash follows content, time, names and absence", () => {
  using place = temporaryFolder();
  const hash = (): string => treeHash(place.path, ["a", "b"]);
  mkdirSync(join(place.path, "a/inner"), { recursive: true });
  writeFileSync(join(place.path, "a/inner/x"), "1");
  const first = hash();
  expect(hash()).toBe(first);
  writeFileSync(join(place.path, "b"), "");
  const second = hash();
  utimesSync(join(place.path, "a/inner/x"), new Date(0), new Date(0));
  const third = hash();
  writeFileSync(join(place.path, "a/y"), "");
  const fourth = hash();
  rmSync(join(place.path, "a"), { recursive: true });
  expect(new Set([first, second, third, fourth, hash()]).size).toBe(5);
});

test("a stamp that is missing or cut off is none", () => {
  using place = temporaryFolder();
  const file = join(place.path, "sub/stamp.json");
  expect(readStamp(file)).toBeNull();
  writeStamp(file, { a: 1 });
  expect(readStamp(file)).toEqual({ a: 1 });
  writeFileSync(file, '{"a":');
  expect(readStamp(file)).toBeNull();
});

test("a toolchain is complete only where its stamp says it stands, and of this recipe", () => {
  using place = temporaryFolder();
  const stamp = join(place.path, layout.stamp);
  expect(isComplete(place.path)).toBe(false);
  writeStamp(stamp, { swift: version, revision, prefix: place.path });
  expect(isComplete(place.path)).toBe(true);
  writeStamp(stamp, { swift: version, revision: revision - 1, prefix: place.path });
  expect(isComplete(place.path)).toBe(false);
  writeStamp(stamp, { swift: version, revision, prefix: tmpdir() });
  expect(isComplete(place.path)).toBe(false);
  writeStamp(stamp, { swift: version, revision, prefix: join(place.path, "gone") });
  expect(isComplete(place.path)).toBe(false);
});

test("the cache folder", () => {
  expect(cacheFolder({ GATED_DELTA_CACHE: "/x", XDG_CACHE_HOME: "/y" })).toBe("/x");
  expect(cacheFolder({ GATED_DELTA_CACHE: "", XDG_CACHE_HOME: "/y" })).toBe("/y/gated-delta");
  expect(cacheFolder({})).toEndWith("/.cache/gated-delta");
});
