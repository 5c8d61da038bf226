// Stamps decide which work is skipped: everything that changes the result must change them.
import { expect, test } from "bun:test";
import { mkdirSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeForeignBuilds } from "../../swift/scripts/build.mjs";
import { currentBun, dependenciesAreCurrent } from "../../swift/scripts/dependencies.mjs";
import { contentHash, readStamp, treeHash, writeStamp } from "../../swift/scripts/stamp.mjs";
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

test("what was built at another path goes, and nothing else does", () => {
  using place = temporaryFolder();
  const build = join(place.path, ".build");
  const own = ["emulator", "lock", "packages", "repro"];
  const swifts = ["aarch64-unknown-linux-gnu", "arm64-apple-macosx", "build.db", "build.db-wal", "caches", "linux-arm64", "published", "release.yaml", "workspace-state.json", "x86_64-pc-linux-gnu"];
  const stamp = join(build, "gated-delta.json");
  const left = (root: string | undefined): string[] => {
    rmSync(build, { recursive: true, force: true });
    for (const name of [...own, ...swifts]) mkdirSync(join(build, name), { recursive: true });
    symlinkSync("x86_64-pc-linux-gnu", join(build, "release"));
    if (root !== undefined) writeStamp(stamp, { root });
    removeForeignBuilds(place.path);
    return readdirSync(build).filter((name) => name !== "gated-delta.json").sort();
  };
  expect(left(place.path)).toEqual([...own, ...swifts, "release"].sort());
  expect(left("/elsewhere")).toEqual(own);
  expect(left(undefined)).toEqual(own); // an older stamp, or an interrupted build
});

test("a copy of a folder has a Bun of its own", () => {
  using place = temporaryFolder();
  writeFileSync(join(place.path, "package-lock.json"), "{}");
  const lock = contentHash(join(place.path, "package-lock.json"));
  const stamp = join(place.path, "node_modules/.gated-delta.json");
  writeStamp(stamp, { lock, bun: "node_modules/.bin/bun" });
  expect(currentBun(place.path)).toBe(join(place.path, "node_modules/.bin/bun"));
  expect(dependenciesAreCurrent(place.path)).toBe(false);
  mkdirSync(join(place.path, "node_modules/.bin"));
  writeFileSync(join(place.path, "node_modules/.bin/bun"), "");
  expect(dependenciesAreCurrent(place.path)).toBe(true);
  writeStamp(stamp, { lock, bun: process.execPath });
  expect(currentBun(place.path)).toBe(process.execPath);
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
