/** The library of a compiled program: its place, and files that are not trusted. */
import { describe, expect, test } from "bun:test";
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { isOwnFolder } from "../lib/native/cache-folders.ts";
import { unpackLibrary } from "../lib/native/unpack.ts";
import { scratch } from "./support/files.ts";

const { newPath } = scratch();

/** A new folder that belongs to this user. */
function newFolder(mode = 0o700): string {
  const path = newPath("folder");
  mkdirSync(path);
  chmodSync(path, mode);
  return path;
}

const content = crypto.getRandomValues(new Uint8Array(65536));
const embedded = newPath("libGatedDelta.so");
writeFileSync(embedded, content);
const unpack = (cache: string): string => unpackLibrary(embedded, { GATED_DELTA_CACHE: cache });

describe("unpackLibrary", () => {
  test("writes one file for this user alone, and uses it again", () => {
    const cache = join(newFolder(), "not", "yet", "there");
    const path = unpack(cache);
    expect(dirname(path)).toBe(join(cache, "libraries"));
    expect(readFileSync(path).equals(content)).toBe(true);
    expect(lstatSync(path).mode & 0o777).toBe(0o500);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
    const { ino, mtimeMs } = statSync(path);
    expect(unpack(cache)).toBe(path);
    expect([statSync(path).ino, statSync(path).mtimeMs]).toEqual([ino, mtimeMs]);
    expect(readdirSync(dirname(path))).toHaveLength(1);
  });

  test("names the file by its content", () => {
    const cache = newFolder();
    const other = newPath("other.so");
    writeFileSync(other, content.subarray(1));
    expect(unpackLibrary(other, { GATED_DELTA_CACHE: cache })).not.toBe(unpack(cache));
    expect(readdirSync(join(cache, "libraries"))).toHaveLength(2);
  });

  test("replaces a file of another content, one that others can write to, and a link", () => {
    const cache = newFolder();
    const path = unpack(cache);
    const whole = readFileSync(path);
    const elsewhere = newPath("elsewhere.so");
    writeFileSync(elsewhere, whole);
    const spoil: (() => void)[] = [
      () => (chmodSync(path, 0o700), writeFileSync(path, Buffer.from(whole).fill(whole[100]! ^ 1, 100, 101))),
      () => (chmodSync(path, 0o700), writeFileSync(path, whole.subarray(0, 100))),
      () => chmodSync(path, 0o722),
      () => (Bun.spawnSync(["rm", path]), symlinkSync(elsewhere, path)),
    ];
    for (const change of spoil) {
      change();
      expect(unpack(cache)).toBe(path);
      expect(lstatSync(path).isFile()).toBe(true);
      expect(lstatSync(path).mode & 0o777).toBe(0o500);
      expect(readFileSync(path).equals(whole)).toBe(true);
      expect(readdirSync(dirname(path))).toHaveLength(1);
    }
  });

  test("goes elsewhere where a folder is not this user's alone or can't be made", () => {
    const open = newFolder();
    mkdirSync(join(open, "libraries"));
    chmodSync(join(open, "libraries"), 0o777);
    const file = newPath("file");
    writeFileSync(file, "");
    for (const cache of [open, file, join(file, "below")]) {
      const next = newFolder();
      const path = unpackLibrary(embedded, { GATED_DELTA_CACHE: cache, XDG_CACHE_HOME: next });
      expect(path).toStartWith(join(next, "gated-delta", "libraries"));
      expect(readFileSync(path).equals(content)).toBe(true);
    }
    expect(readdirSync(join(open, "libraries"))).toEqual([]);
  });
});

describe("isOwnFolder", () => {
  test("looks at the folder and at all above it", () => {
    const folder = newFolder();
    expect(isOwnFolder(folder)).toBe(true);
    const inner = join(folder, "a", "b");
    mkdirSync(inner, { recursive: true, mode: 0o755 });
    expect(isOwnFolder(inner)).toBe(true);
    for (const mode of [0o777, 0o775]) {
      chmodSync(join(folder, "a"), mode);
      expect(isOwnFolder(inner)).toBe(false); // another user could put a folder of their own there
    }
    chmodSync(join(folder, "a"), 0o1777);
    expect(isOwnFolder(inner)).toBe(true); // not with the sticky bit, as in /tmp
    chmodSync(inner, 0o1777);
    expect(isOwnFolder(inner)).toBe(false);
    const link = newPath("link");
    symlinkSync(inner, link);
    expect(isOwnFolder(link)).toBe(false);
  });

  // Only root can make a folder that belongs to another user.
  if (process.getuid?.() === 0) {
    test("refuses another user's", () => {
      const folder = newFolder();
      const inner = join(folder, "inner");
      mkdirSync(inner, { mode: 0o755 });
      chownSync(inner, 12345, 12345);
      expect(isOwnFolder(inner)).toBe(false);
      const next = newFolder();
      mkdirSync(join(folder, "libraries"));
      chownSync(join(folder, "libraries"), 12345, 12345);
      expect(unpackLibrary(embedded, { GATED_DELTA_CACHE: folder, XDG_CACHE_HOME: next })).toStartWith(next);
      expect(existsSync(next)).toBe(true);
    });
  }
});
