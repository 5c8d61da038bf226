/** Identities in the user's cache folder, and files that change after a model was loaded. */
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { appendFileSync, chmodSync, cpSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FileError } from "../../lib/errors.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import { isSettled } from "../../lib/model/identity/digest-cache.ts";
import { cacheFolders } from "../../lib/native/cache-folders.ts";
import { runProgram } from "../support/children.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { identityByHand } from "../support/identities.ts";
import { rejection, textOf, tinyFolder } from "../support/models.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const kept = { ...process.env };
afterEach(() => {
  for (const name of ["GATED_DELTA_CACHE", "XDG_CACHE_HOME"]) {
    if (kept[name] === undefined) delete process.env[name];
    else process.env[name] = kept[name];
  }
});

/** Makes a new cache folder, which is used from now on. */
function newCache(): string {
  const folder = files.newPath("cache");
  process.env["GATED_DELTA_CACHE"] = folder;
  return join(folder, "identities");
}

const load = (folder: string) => LanguageModel.load(device, folder, { states: 1, pages: { count: 4, tokens: 8 } });

/** A tiny model in a new folder, and its file. */
function newModel(): { folder: string; file: string } {
  const folder = files.newPath("model");
  cpSync(tinyFolder(), folder, { recursive: true });
  return { folder, file: join(folder, "model.safetensors") };
}

/** Files whose times are old enough for a cache: made once for all tests, long before the first one that needs them. */
const settled = (async () => {
  const models = Array.from({ length: 7 }, newModel);
  await Bun.sleep(2100);
  return models;
})();
const settledModel = async () => (await settled).pop()!;

/** Changes one byte of a file's last tensor in place. */
function changeByte(file: string): void {
  const bytes = readFileSync(file);
  bytes[bytes.length - 1]! ^= 1;
  writeFileSync(file, bytes);
}

/** The identity of a newly loaded model. */
async function identityOf(folder: string): Promise<string> {
  using model = await load(folder);
  return await model.identity();
}

describe("the cache folder", () => {
  test("has what was computed once: the files are not read again", async () => {
    const cache = newCache();
    const { folder } = await settledModel();
    const identity = await identityOf(folder);
    expect(readdirSync(cache)).toHaveLength(1);
    expect(statSync(cache).mode & 0o777).toBe(0o700);
    expect(statSync(join(cache, readdirSync(cache)[0]!)).mode & 0o777).toBe(0o600);
    using again = await load(folder);
    rmSync(folder, { recursive: true });
    expect(await again.identity()).toBe(identity);
  });

  test("keeps nothing of a file that may be written to again without another time", async () => {
    const cache = newCache();
    const { folder, file } = newModel();
    const later = new Date(Date.now() + 1e6); // as new as a file can be, however long the test takes
    utimesSync(file, later, later);
    await identityOf(folder);
    expect(readdirSync(cache)).toEqual([]);
    const second = 1_000_000_000n;
    const stamp = { device: 1n, inode: 1n, size: 1n };
    expect(isSettled({ ...stamp, modified: 5n * second, changed: 5n * second }, 7001)).toBe(true);
    expect(isSettled({ ...stamp, modified: 5n * second, changed: 5n * second }, 7000)).toBe(false);
    expect(isSettled({ ...stamp, modified: 0n, changed: 9n * second }, 7001)).toBe(false);
    expect(isSettled({ ...stamp, modified: 9n * second, changed: 0n }, 7001)).toBe(false);
  });

  test("has nothing for a file that was written to, also where its time of modification and size are as before", async () => {
    newCache();
    const { folder, file } = await settledModel();
    const before = await identityOf(folder);
    const { atime, mtime } = statSync(file);
    changeByte(file);
    utimesSync(file, atime, mtime);
    using model = await load(folder);
    const after = await model.identity();
    expect(after).not.toBe(before);
    expect(after).toBe(identityByHand(folder, model.config));
  });

  test("has nothing for a file of another time, or for another file of the same contents", async () => {
    const cache = newCache();
    const { folder, file } = await settledModel();
    const identity = await identityOf(folder);
    utimesSync(file, new Date(1e12), new Date(1e12));
    await Bun.sleep(2100);
    expect(await identityOf(folder)).toBe(identity);
    expect(readdirSync(cache)).toHaveLength(2);
    expect(await identityOf((await settledModel()).folder)).toBe(identity);
    expect(readdirSync(cache)).toHaveLength(3);
  });

  test("may be damaged in any way", async () => {
    const cache = newCache();
    const { folder } = await settledModel();
    const identity = await identityOf(folder);
    const entry = join(cache, readdirSync(cache)[0]!);
    const whole = readFileSync(entry, "utf8");
    const [digest] = /(?<="model.norm.weight",")[0-9a-f]{64}/.exec(whole)!;
    const other = digest.replace(/./, digest.startsWith("0") ? "1" : "0");
    const damaged = ["", "{", "null", "[]", whole.slice(0, -100), whole.replace(digest, other), whole.replace('"checksum"', '"other"'), whole.replace("model.norm", "model.nrom"), "\0".repeat(1000)];
    for (const text of damaged) {
      writeFileSync(entry, text);
      expect(await identityOf(folder)).toBe(identity);
      expect(readFileSync(entry, "utf8")).toBe(whole);
    }
    rmSync(entry);
    mkdirSync(entry);
    expect(await identityOf(folder)).toBe(identity);
    // An entry with a checksum of its own: its use shows that the others were not used.
    rmSync(entry, { recursive: true });
    const { tensors } = JSON.parse(whole) as { tensors: [string, string][] };
    const lie = tensors.map(([name, one]): [string, string] => [name, one === digest ? other : one]);
    const { dev, ino, size, mtimeNs, ctimeNs } = statSync(join(folder, "model.safetensors"), { bigint: true });
    const text = JSON.stringify(["gated-delta-identity-1", [dev, ino, size, mtimeNs, ctimeNs].join(" "), lie]);
    writeFileSync(entry, JSON.stringify({ checksum: new Bun.CryptoHasher("sha256").update(text).digest("hex"), tensors: lie }));
    expect(await identityOf(folder)).not.toBe(identity);
  });

  test("is passed over where others can write to it, or it can't be made", async () => {
    const { folder } = await settledModel();
    const open = files.newPath("open");
    mkdirSync(join(open, "identities"), { recursive: true });
    chmodSync(join(open, "identities"), 0o777);
    const file = files.newPath("file");
    writeFileSync(file, "");
    const identities = new Set<string>();
    for (const unusable of [open, file, join(file, "below"), "/proc/1/nowhere"]) {
      const next = files.newPath("next");
      process.env["GATED_DELTA_CACHE"] = unusable;
      process.env["XDG_CACHE_HOME"] = next;
      identities.add(await identityOf(folder));
      expect(readdirSync(join(next, "gated-delta", "identities"))).toHaveLength(1);
    }
    expect(identities.size).toBe(1);
    expect(readdirSync(join(open, "identities"))).toEqual([]);
  });

  test("is not needed", async () => {
    const { folder } = newModel();
    using model = await load(folder);
    const nowhere = files.newPath("file");
    writeFileSync(nowhere, "");
    const env = { GATED_DELTA_CACHE: nowhere, XDG_CACHE_HOME: nowhere, HOME: nowhere, TMPDIR: nowhere };
    const { ok, text } = runProgram(env, `
      import { Device } from "ROOTlib/index.ts";
      import { LanguageModel } from "ROOTlib/model.ts";
      using device = Device.open("cpu");
      using model = await LanguageModel.load(device, ${JSON.stringify(folder)}, { states: 1, pages: 4 });
      console.log(await model.identity());
    `);
    expect([ok, text.trim()]).toEqual([true, await model.identity()]);
  });

  test("is the system's usual one", () => {
    const last = (env: Record<string, string>, platform: NodeJS.Platform) => cacheFolders(env, platform).slice(0, -1);
    const home = process.env["HOME"]!;
    expect(last({}, "linux")).toEqual([join(home, ".cache/gated-delta")]);
    expect(last({}, "darwin")).toEqual([join(home, "Library/Caches/gated-delta")]);
    expect(last({ GATED_DELTA_CACHE: "/a", XDG_CACHE_HOME: "/b" }, "darwin").slice(0, 2)).toEqual(["/a", "/b/gated-delta"]);
  });
});

describe("a file of the model that changes after it was loaded", () => {
  const changes: Record<string, [(file: string) => void, string]> = {
    "is written to": [changeByte, "changed or replaced"],
    "becomes shorter": [(file) => writeFileSync(file, readFileSync(file).subarray(0, -1)), "changed or replaced"],
    "becomes longer": [(file) => appendFileSync(file, "x"), "changed or replaced"],
    "is replaced by a copy": [(file) => (cpSync(file, `${file}.new`), renameSync(`${file}.new`, file)), "changed or replaced"],
    "is removed": [(file) => rmSync(file), "no such file"],
    "becomes a folder": [(file) => (rmSync(file), mkdirSync(file)), "changed or replaced"],
  };

  test.each(Object.entries(changes))("%s", async (_, [change, words]) => {
    newCache();
    const { folder, file } = newModel();
    using model = await load(folder);
    change(file);
    for (const [op, run] of [["model.identity", () => model.identity()], ["session.save", () => model.session().append(textOf(1, 3)).save(files.newPath("session"))]] as const) {
      const error = await rejection(run());
      expect(error).toBeInstanceOf(FileError);
      expect([(error as FileError).path, error.op]).toEqual([file, op]);
      expect(error.message).toContain("expected the unchanged file from which the model was loaded, got ");
      expect(error.message).toContain(words);
    }
  });

  test("is no hindrance where the identity is known", async () => {
    newCache();
    const { folder, file } = newModel();
    using model = await load(folder);
    const identity = await model.identity();
    changeByte(file);
    expect(await model.identity()).toBe(identity);
    const path = files.newPath("session");
    await model.session().append(textOf(1, 3)).save(path);
    using loaded = await Session.load(model, path);
    expect(loaded.length).toBe(3);
  });

  test("while it is loaded: the model has no identity, also where the cache knows the file as it was", async () => {
    newCache();
    const { folder, file } = await settledModel();
    await identityOf(folder);
    let pieces = 0;
    const onProgress = () => void (pieces++ === 0 && changeByte(file));
    using model = await LanguageModel.load(device, folder, { states: 1, pages: 4, onProgress });
    const error = await rejection(model.identity());
    expect([error.code, (error as FileError).path]).toEqual(["file", file]);
    expect(error.message).toContain("while it was loaded");
  });
});
