/** Stores: a folder, Redis, S3. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, rmSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openStore } from "../../../lib/server.ts";
import { pieceBytes } from "../../../lib/server/store/session-store.ts";
import { thrownBy } from "../../support/devices.ts";
import { scratch } from "../../support/files.ts";
import { redisProgram, startRedis, startS3 } from "../../support/store-servers.ts";
import type { StoreServer } from "../../support/store-servers.ts";
import { until } from "../../support/servers.ts";
import { bytesOf, storeContract } from "./contract.ts";

const { newPath } = scratch();

describe("places", () => {
  const wrong: [argument: string, place: unknown, options: object][] = [
    ["place", "", {}],
    ["place", 1, {}],
    ["place", "ftp://host/folder", {}],
    ["place", "s3://", {}],
    ["place", "redis://[::", {}],
    ["seconds", "folder", { seconds: 0 }],
    ["bytes", "folder", { bytes: -1 }],
    ["size", "folder", { size: 1 }],
  ];
  test.each(wrong)("a wrong %s is named: %p", (argument, place, options) => {
    const error = thrownBy(() => openStore(place as string, options));
    expect([error.op, error.argument, error.code]).toEqual(["openStore", argument, "invalid-argument"]);
  });

  test("a folder that can't be made is a file's error", () => {
    const file = newPath();
    writeFileSync(file, "");
    expect([thrownBy(() => openStore(join(file, "folder"))).code]).toEqual(["file"]);
  });
});

describe("a folder", () => {
  const folder = newPath("store");
  storeContract(() => folder);

  test("only its owner can read it", async () => {
    const store = openStore(folder);
    await store.write("entries/private", bytesOf(10));
    const modes = [folder, join(folder, "entries"), join(folder, "entries/private")].map((path) => statSync(path).mode & 0o777);
    expect(modes).toEqual([0o700, 0o700, 0o600]);
    expect(readdirSync(join(folder, "entries")).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  test("objects that were not used for the time given are gone", async () => {
    const place = newPath("old");
    const store = openStore(place, { seconds: 100 });
    await store.write("entries/a", bytesOf(10));
    await store.close(); // it has now looked for old objects
    const past = Date.now() / 1000 - 101;
    utimesSync(join(place, "entries/a"), past, past);
    expect([await store.has([{ name: "entries/a", bytes: 10 }]), await store.read("entries/a", new Uint8Array(10))]).toEqual([[false], false]);
    utimesSync(join(place, "entries/a"), past + 2, past + 2);
    expect(await store.has([{ name: "entries/a", bytes: 10 }])).toEqual([true]); // and it counts as used now
    expect(statSync(join(place, "entries/a")).mtimeMs).toBeGreaterThan(1000 * (past + 50));
  });

  test("above the limit the oldest objects go first, and what killed writers have left", async () => {
    const place = newPath("full");
    const before = openStore(place);
    const old = Date.now() / 1000 - 5000;
    for (let i = 0; i < 10; i++) {
      await before.write(`entries/${i}`, bytesOf(1000));
      utimesSync(join(place, `entries/${i}`), old + i, old + i);
    }
    writeFileSync(join(place, "entries/.x.tmp"), "");
    utimesSync(join(place, "entries/.x.tmp"), old, old);
    expect(await before.has([{ name: "entries/1", bytes: 1000 }])).toEqual([true]); // used, and so the newest
    const store = openStore(place, { bytes: 6000 });
    await store.write("entries/new", bytesOf(1000));
    await store.close();
    // 11000 bytes are more than 6000, so no more than 5400 stay.
    expect(readdirSync(join(place, "entries")).sort()).toEqual(["1", "7", "8", "9", "new"]);
  });

  test("a folder that was removed is made again", async () => {
    const place = newPath("removed");
    const store = openStore(place);
    for (let i = 0; i < 3; i++) {
      await store.write("entries/a", bytesOf(1000));
      await store.add("lengths/a", "1");
      expect([await store.read("entries/a", new Uint8Array(1000)), await store.members(["lengths/a"])]).toEqual([true, [["1"]]]);
      rmSync(place, { recursive: true });
    }
  });
});

describe.skipIf(redisProgram === null)("Redis (Debian's redis-server)", () => {
  let server: StoreServer;
  beforeAll(async () => void (server = await startRedis()));
  afterAll(() => server?.[Symbol.asyncDispose]());
  storeContract(() => server.place);

  test("no key is larger than a piece, and all expire", async () => {
    const store = openStore(server.place, { seconds: 1000 });
    const client = new Bun.RedisClient(server.place);
    try {
      await store.write("entries/pieces", bytesOf(2 * pieceBytes + 1));
      await store.add("lengths/expire", "1");
      const keys = ["entries/pieces:1:3", "entries/pieces:2:3", "entries/pieces:3:3"].map((key) => `gated-delta:${key}`);
      expect(await Promise.all(keys.map((key) => client.strlen(key)))).toEqual([pieceBytes, pieceBytes, 1]);
      for (const key of [...keys, "gated-delta:lengths/expire"]) expect(await client.ttl(key)).toBeGreaterThan(900);
      await client.expire(keys[1]!, 50);
      expect(await store.has([{ name: "entries/pieces", bytes: 2 * pieceBytes + 1 }])).toEqual([true]);
      expect(await client.ttl(keys[1]!)).toBeGreaterThan(900); // used
      await client.del(keys[1]!);
      expect(await store.has([{ name: "entries/pieces", bytes: 2 * pieceBytes + 1 }])).toEqual([false]);
      expect(await store.read("entries/pieces", new Uint8Array(2 * pieceBytes + 1))).toBe(false);
    } finally {
      client.close();
      await store.close();
    }
  });

  test("a server that was restarted is found again", async () => {
    const port = Number(new URL(server.place).port);
    const store = openStore(server.place);
    await store.add("lengths/before", "1");
    await server[Symbol.asyncDispose]();
    server = await startRedis(port);
    let found: readonly (readonly string[])[] = [];
    const ask = async (): Promise<void> => void (found = await store.members(["lengths/before"]).catch(() => []));
    await until(() => (void ask(), found.length > 0));
    expect(found).toEqual([[]]);
    await store.close();
  }, 60_000);
});

describe("S3", () => {
  const server = startS3();
  const before = { ...process.env };
  beforeAll(() => void Object.assign(process.env, server.env));
  afterAll(async () => {
    for (const name of Object.keys(server.env)) if (before[name] === undefined) delete process.env[name];
    Object.assign(process.env, before);
    await server[Symbol.asyncDispose]();
  });
  storeContract(() => server.place);

  test("large objects go up in parts, and keys begin with the folder", async () => {
    const store = openStore(`${server.place}/`);
    const uploads = server.uploads;
    await store.write("entries/parts", bytesOf(2 * pieceBytes + 1));
    expect([server.uploads, server.objects.get("servers/entries/parts")?.length]).toEqual([uploads + 1, 2 * pieceBytes + 1]);
    const whole = openStore("s3://sessions");
    await whole.write("entries/whole", bytesOf(5));
    expect(server.objects.has("entries/whole")).toBe(true);
  });
});
