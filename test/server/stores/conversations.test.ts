/** Conversations that continue at another server. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LanguageModel, tinyModel } from "../../../lib/model.ts";
import { createHandler, openStore } from "../../../lib/server.ts";
import type { ServerOptions, SessionStore } from "../../../lib/server.ts";
import { memoryOf } from "../../../lib/model/model-memory.ts";
import { PrefixNames } from "../../../lib/server/store/prefix-names.ts";
import { openDevice, thrownBy } from "../../support/devices.ts";
import { scratch } from "../../support/files.ts";
import { redisProgram, startRedis, startS3 } from "../../support/store-servers.ts";
import { until } from "../../support/servers.ts";
import { answerText, plainServer, secret, storeServer, words } from "../../support/store-conversations.ts";
import type { PlainServer } from "../../support/store-conversations.ts";

const device = openDevice(2);
const { newPath } = scratch();
let model: LanguageModel;
let cold: PlainServer;
beforeAll(async () => {
  model = await LanguageModel.load(device, tinyModel, { states: 24, pages: 256 });
  cold = plainServer(model, { cache: undefined });
});
afterAll(() => device.close());

const settings = { max_tokens: 24, temperature: 1, logprobs: true, chat_template_kwargs: { enable_thinking: false } };
const first = { ...settings, seed: 1, messages: [{ role: "system", content: words(120, 1) }, { role: "user", content: words(50, 2) }] };

/** The request after an answer. */
function next(request: { messages: object[]; seed: number }, body: any, content: string) {
  return { ...request, seed: request.seed + 1, messages: [...request.messages, { role: "assistant", content: body.choices[0].message.content }, { role: "user", content }] };
}

/** A server answers the first request, and its store receives the whole conversation. */
async function begun(store: SessionStore, options: ServerOptions = {}, headers: Record<string, string> = {}) {
  using server = storeServer(model, store, options);
  const { body, entry } = await server.ask(first, headers);
  await server.handler.drain();
  expect(entry.status).toBe(200);
  return { body, entry };
}

const files = (place: string): string[] => ["blocks", "entries"].flatMap((folder) => readdirSync(join(place, folder)).map((name) => join(place, folder, name)));

async function moves(store: SessionStore): Promise<void> {
  const one = await begun(store);
  expect([one.entry.cachedTokens, one.entry.restoredTokens]).toEqual([0, 0]);
  expect(answerText(one.body)).toBe(answerText((await cold.ask(first)).body));
  const second = next(first, one.body, "And the deepest?");
  // The same turn at a server that has the conversation in its cache, for comparison.
  using stayed = plainServer(model);
  await stayed.ask(first);
  const there = await stayed.ask(second);
  using server = storeServer(model, store);
  const { body, entry } = await server.ask(second);
  expect(entry.restoredTokens).toBeGreaterThan(512);
  expect([entry.promptTokens, entry.cachedTokens]).toEqual([there.entry.promptTokens!, there.entry.cachedTokens!]);
  expect(entry.promptTokens! - entry.cachedTokens!).toBeLessThan(80);
  expect(answerText(body)).toBe(answerText((await cold.ask(second)).body));
  // The third turn finds the second one here, and reads nothing from the store.
  const third = await server.ask(next(second, body, "Which of them is the oldest?"));
  expect([third.entry.restoredTokens, third.entry.cachedTokens! > entry.cachedTokens!]).toEqual([0, true]);
  await server.handler.drain();
}

describe("a turn that lands on another server reads no more than at the first one, and has the same bits", () => {
  test("with a folder", () => moves(openStore(newPath("store"))));

  test.skipIf(redisProgram === null)("with Redis (Debian's redis-server)", async () => {
    await using server = await startRedis();
    const store = openStore(server.place);
    await moves(store);
    await store.close();
  });

  test("with S3", async () => {
    await using server = startS3();
    const before = { ...process.env };
    Object.assign(process.env, server.env);
    try {
      await moves(openStore(server.place));
    } finally {
      for (const name of Object.keys(server.env)) if (before[name] === undefined) delete process.env[name];
      Object.assign(process.env, before);
    }
  });

  test("and another conversation finds the first message, which they share", async () => {
    const store = openStore(newPath("store"));
    await begun(store);
    using server = storeServer(model, store);
    const other = { ...first, messages: [first.messages[0]!, { role: "user", content: "Something else." }] };
    const { body, entry } = await server.ask(other);
    expect(entry.restoredTokens).toBeGreaterThan(400);
    expect(answerText(body)).toBe(answerText((await cold.ask(other)).body));
  });

  test("several answers at once, and requests for the same conversation at the same time", async () => {
    const store = openStore(newPath("store"));
    const one = await begun(store);
    using server = storeServer(model, store);
    const requests = [1, 2, 3].map((seed) => ({ ...next(first, one.body, "And?"), seed, n: seed }));
    const answers = await Promise.all(requests.map((request) => server.ask(request)));
    for (const [i, { body }] of answers.entries()) {
      const alone = await cold.ask(requests[i]!);
      expect(body.choices.map((choice: any) => JSON.stringify(choice))).toEqual(alone.body.choices.map((choice: any) => JSON.stringify(choice)));
    }
    for (const { restoredTokens } of server.log) expect(restoredTokens).toBeGreaterThan(512);
  });
});

describe("nothing is shared", () => {
  const restored = async (store: SessionStore, options: ServerOptions, headers = {}): Promise<number> => {
    using server = storeServer(model, store, options);
    const { body, entry } = await server.ask(first, headers);
    expect(answerText(body)).toBe(answerText((await cold.ask(first)).body));
    return entry.restoredTokens!;
  };

  test("between clients of different salts", async () => {
    const store = openStore(newPath("store"));
    const keys = { alice: "one", bob: "one", carol: "two" };
    await begun(store, { keys }, { authorization: "Bearer alice" });
    expect(await restored(store, { keys }, { authorization: "Bearer carol" })).toBe(0);
    expect(await restored(store, { keys }, { authorization: "Bearer bob" })).toBeGreaterThan(512);
  });

  test("between servers of different secrets", async () => {
    const store = openStore(newPath("store"));
    await begun(store);
    expect(await restored(store, { secret: new TextEncoder().encode(`${secret}.`) })).toBe(0);
    expect(await restored(store, { secret: new TextEncoder().encode(secret) })).toBeGreaterThan(512);
  });

  test("between prefixes that differ in anything", () => {
    const scope = { identity: "a", form: "f32", kernels: "cpu avx2", roles: "exact", salt: "" } as const;
    const tokens = Int32Array.from({ length: 600 }, (_, i) => i);
    const namesOf = (given: Partial<typeof scope>, changed?: number, by = secret): string[] => {
      const names = new PrefixNames(Buffer.from(by), { ...scope, ...given }, changed === undefined ? tokens : tokens.map((token, i) => (i === changed ? 9999 : token)));
      return [names.block(0), names.block(1), names.lengths(0), names.lengths(1), names.lengths(2), names.entry(300), names.entry(512), names.entry(600)];
    };
    const plain = namesOf({});
    expect(new Set(plain).size).toBe(plain.length);
    const others = [{ identity: "b" }, { form: "f16" }, { kernels: "cpu avx512" }, { roles: "generated" as "exact" }, { salt: "x" }].map((given) => namesOf(given as typeof scope));
    for (const names of [...others, namesOf({}, undefined, `${secret}.`)]) for (const name of names) expect(plain).not.toContain(name);
    const same = (changed: number): number[] => namesOf({}, changed).flatMap((name, i) => (name === plain[i] ? [i] : []));
    // A token changes the names of the objects that it belongs to, and of all later ones.
    expect([same(0), same(255), same(256), same(299), same(300), same(511), same(599)]).toEqual([[2], [2], [0, 2, 3], [0, 2, 3], [0, 2, 3, 5], [0, 2, 3, 5], [0, 1, 2, 3, 4, 5, 6]]);
  });
});

describe("what a store gives is not believed", () => {
  const faults: [name: string, plant: (place: string) => void][] = [
    ["a changed bit in each object", (place) => files(place).forEach((file) => changed(file, (bytes) => void (bytes[bytes.length - 5]! ^= 1)))],
    ["a changed bit in a signature", (place) => files(place).forEach((file) => changed(file, (bytes) => void (bytes[3]! ^= 0x80)))],
    ["zeros", (place) => files(place).forEach((file) => changed(file, (bytes) => void bytes.fill(0)))],
    ["shortened objects", (place) => files(place).forEach((file) => truncateSync(file, statSync(file).size - 1))],
    ["objects under each other's names", (place) => swapped(files(place))],
    ["missing blocks", (place) => rmSync(join(place, "blocks"), { recursive: true })],
    ["missing objects of prefixes", (place) => rmSync(join(place, "entries"), { recursive: true })],
    ["members of sets that name nothing", (place) => sets(place).forEach((set) => ["1", "255", "600", "x", "-1", "1e3", "99999999999", "0600"].forEach((member) => writeFileSync(join(set, member), "")))],
  ];
  const changed = (file: string, change: (bytes: Uint8Array) => void): void => {
    const bytes = readFileSync(file);
    change(bytes);
    writeFileSync(file, bytes);
  };
  const swapped = (all: string[]): void => {
    const contents = all.map((file) => readFileSync(file));
    for (const [i, file] of all.entries()) {
      const other = contents.findIndex((bytes, j) => j !== i && bytes.length === contents[i]!.length);
      if (other >= 0) writeFileSync(file, contents[other]!);
      else rmSync(file);
    }
  };
  const sets = (place: string): string[] => readdirSync(join(place, "lengths")).map((name) => join(place, "lengths", name));

  test.each(faults)("%s", async (_, plant) => {
    const place = newPath("store");
    const store = openStore(place);
    const { body } = await begun(store);
    plant(place);
    const second = next(first, body, "And the deepest?");
    const expected = answerText((await cold.ask(second)).body);
    // Damaged objects are removed when they are read, and written again. Blocks are read only with a prefix's own object.
    for (const last of [false, false, true]) {
      using server = storeServer(model, store);
      const answer = await server.ask(second);
      expect([answer.entry.status, answerText(answer.body)]).toEqual([200, expected]);
      await server.handler.drain();
      if (last) expect(answer.entry.restoredTokens).toBeGreaterThan(512);
    }
  });
});

const methods = ["members", "add", "has", "read", "write", "remove"] as const;

describe("a store that does not work", () => {
  const broken = (store: SessionStore, which: readonly string[], how: () => Promise<never>): SessionStore => {
    const functions = [...methods, "close" as const].map((name) => [name, which.includes(name) ? how : (store[name] as (...given: unknown[]) => unknown).bind(store)]);
    return Object.fromEntries(functions) as SessionStore;
  };
  const failing = (): Promise<never> => Promise.reject(new Error("connection lost"));
  const silent = (): Promise<never> => new Promise(() => {});
  const warnings: string[] = [];
  const listen = (warning: Error & { code?: string }): void => void (warning.code === "GATED_DELTA_STORE" && warnings.push(warning.message));
  beforeAll(() => void process.on("warning", listen));
  afterAll(() => void process.off("warning", listen));

  test.each([...methods.map((name) => [name]), methods])("costs no answer: %p fails", async (...which) => {
    const store = openStore(newPath("store"));
    const { body } = await begun(store);
    const second = next(first, body, "And the deepest?");
    warnings.length = 0;
    using server = storeServer(model, broken(store, which, failing));
    const answer = await server.ask(second);
    expect([answer.entry.status, answerText(answer.body)]).toEqual([200, answerText((await cold.ask(second)).body)]);
    await server.handler.drain();
    if (which.includes("read")) expect(warnings).toEqual(["the store of conversations fails: connection lost. Conversations that it may have are read again"]);
  });

  test("that never answers is waited for, and not asked again for a while", async () => {
    const store = openStore(newPath("store"));
    const { body } = await begun(store);
    let calls = 0;
    const counted = (): Promise<never> => (calls++, silent());
    using server = storeServer(model, broken(store, methods, counted));
    const begin = performance.now();
    const request = next(first, body, "And the deepest?");
    expect((await server.ask(request)).entry.status).toBe(200);
    const before = calls;
    expect((await server.ask({ ...request, messages: [{ role: "user", content: words(200, 9) }] })).entry.status).toBe(200);
    if (performance.now() - begin < 6000) expect([before, calls]).toEqual([1, 1]);
    await server.handler.drain();
  });

  test("does not look so while the model's identity is computed, and no request waits long for that", async () => {
    using own = await LanguageModel.load(device, tinyModel, { states: 8, pages: 64 });
    const { identity } = memoryOf(own);
    const known = identity.get("test");
    const held = Promise.withResolvers<void>();
    Object.defineProperty(identity, "get", { value: () => held.promise.then(() => known) });
    const store = openStore(newPath("store"));
    await begun(store);
    const calls: string[] = [];
    const counted = Object.fromEntries([...methods, "close" as const].map((name) => [name, (...given: unknown[]) => (calls.push(name), (store[name] as Function)(...given))])) as unknown as SessionStore;
    warnings.length = 0;
    using server = storeServer(own, counted);
    const before = await server.ask(first);
    expect([before.entry.status, before.entry.restoredTokens, calls]).toEqual([200, 0, []]);
    held.resolve();
    await server.handler.drain();
    using other = storeServer(own, counted);
    const after = await other.ask(first);
    expect(after.entry.restoredTokens).toBeGreaterThan(512);
    expect(answerText(after.body)).toBe(answerText(before.body));
    await other.handler.drain();
    const page = await (await server.handler(new Request("http://server/metrics"))).text();
    expect([warnings, /^gated_delta_store_failures_total\{.*\} (\d+)$/m.exec(page)![1]]).toEqual([[], "0"]);
  });

  test("a prefix that no set names does not count as written", async () => {
    using server = storeServer(model, broken(openStore(newPath("store")), ["add"], failing));
    expect((await server.ask(first)).entry.status).toBe(200);
    await server.handler.drain();
    const page = await (await server.handler(new Request("http://server/metrics"))).text();
    const valueOf = (name: string): string => new RegExp(`^gated_delta_store_${name}_total\\{.*\\} (\\d+)$`, "m").exec(page)![1]!;
    expect([valueOf("written"), valueOf("failures")]).toEqual(["0", "1"]);
  });

  test("a client that leaves while a conversation is restored is let go", async () => {
    const store = openStore(newPath("store"));
    using server = storeServer(model, broken(store, methods, silent));
    const controller = new AbortController();
    const response = server.handler(new Request("http://server/v1/chat/completions", { method: "POST", body: JSON.stringify(first), signal: controller.signal }));
    await until(() => server.handler.active === 1);
    controller.abort();
    expect([(await response).status, server.log.length, server.handler.active]).toEqual([499, 1, 0]);
  });
});

describe("writing", () => {
  /** A store whose objects are written only when it is told to. */
  function heldBack(store: SessionStore) {
    const waiting: (() => void)[] = [];
    let open = false;
    const write = async (name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> => {
      if (!open) await new Promise<void>((resolve) => waiting.push(resolve));
      await store.write(name, bytes);
    };
    const release = (): void => {
      open = true;
      for (const resolve of waiting.splice(0)) resolve();
    };
    const members = { members: store.members, add: store.add, has: store.has, read: store.read, remove: store.remove, close: store.close };
    const bound = Object.fromEntries(Object.entries(members).map(([name, method]) => [name, (method as Function).bind(store)]));
    return { store: { ...bound, write } as SessionStore, release, waiting };
  }

  test("holds up no answer, and the end waits for it", async () => {
    const real = openStore(newPath("store"));
    const { store, release, waiting } = heldBack(real);
    using server = storeServer(model, store);
    const one = await server.ask(first);
    await until(() => waiting.length === 1);
    const second = next(first, one.body, "And the deepest?");
    const two = await server.ask(second);
    expect([one.entry.status, two.entry.status, waiting.length]).toEqual([200, 200, 1]);
    let ended = false;
    const drained = server.handler.drain().then(() => void (ended = true));
    await Bun.sleep(20);
    expect(ended).toBe(false);
    release();
    await drained;
    using other = storeServer(model, real);
    expect((await other.ask(next(second, two.body, "Why?"))).entry.restoredTokens).toBeGreaterThan(512);
    await other.handler.drain();
  });

  test("has a bounded queue: further prefixes are left out", async () => {
    const { store, release, waiting } = heldBack(openStore(newPath("store")));
    using server = storeServer(model, store, { metrics: "open" });
    for (let i = 0; i < 80; i++) expect((await server.ask({ ...first, seed: i, max_tokens: 1, messages: [{ role: "user", content: words(30, i) }] })).entry.status).toBe(200);
    expect(waiting.length).toBe(1);
    const page = await (await server.handler(new Request("http://server/metrics"))).text();
    // More than 64 prompts are waiting.
    expect(Number(/^gated_delta_store_skipped_total\{.*\} (\d+)$/m.exec(page)![1])).toBeGreaterThan(0);
    release();
    await server.handler.drain();
  }, 60_000);

  test("does not write again what is there", async () => {
    const store = openStore(newPath("store"));
    await begun(store);
    const writes: string[] = [];
    const write = (name: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> => (writes.push(name), store.write(name, bytes));
    using server = storeServer(model, Object.assign(Object.create(store) as SessionStore, Object.fromEntries(methods.map((name) => [name, (store[name] as Function).bind(store)])), { write }));
    await server.ask(first);
    await server.handler.drain();
    expect(writes).toEqual([]);
  });
});

describe("options", () => {
  test("a store needs a cache, a secret and the functions of one", () => {
    const store = openStore(newPath("store"));
    using cache = model.cache({ bytes: 1 });
    const argument = (options: object) => {
      const { op, code, argument } = thrownBy(() => createHandler(model, options));
      return [op, code, argument];
    };
    expect(argument({ store, secret })).toEqual(["createHandler", "invalid-argument", "cache"]);
    expect(argument({ store, cache })).toEqual(["createHandler", "invalid-argument", "secret"]);
    expect(argument({ cache, secret })).toEqual(["createHandler", "invalid-argument", "secret"]);
    expect(argument({ store, cache, secret: "short" })).toEqual(["createHandler", "invalid-argument", "secret"]);
    expect(argument({ store: "folder", cache, secret })).toEqual(["createHandler", "invalid-argument", "store"]);
    expect(argument({ store: { read() {} }, cache, secret })).toEqual(["createHandler", "invalid-argument", "store"]);
    createHandler(model, { store, cache, secret: new Uint8Array(32) });
  });
});
