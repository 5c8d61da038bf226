/** Sessions on disk: they continue as if nothing had happened, and wrong files are refused. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync, readdirSync, truncateSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { FileError } from "../../lib/errors.ts";
import { nextTurn } from "../../lib/turns.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import { openSafetensors, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { openTiny, rejection, textOf, tinyFolder } from "../support/models.ts";
import { Random } from "../support/random.ts";
import { coldRun, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const all = { ignoreModelStops: true } as const;

describe("a session that was saved", () => {
  test("goes on with the same tokens and bits, and reads nothing again, in this model and in another of the same weights", async () => {
    using model = await openTiny(device);
    using other = await openTiny(device, { pages: { count: 50, tokens: 5 }, batchTokens: 7 });
    const prompt = textOf(3, 40);
    const { tokens, logits } = await coldRun(model, prompt, 20);
    const path = files.newPath("session");
    for (const given of [0, 1, 7]) {
      for (const drafts of [false, true]) {
        using session = model.session().append(prompt);
        for await (const { token } of session.generate({ ...all, maxTokens: given, drafts })) expect(typeof token).toBe("number");
        if (given === 0) await session.logits();
        await session.save(path);
        const had = session.read;
        if (!drafts) expect(had).toBe(given === 0 ? 40 : 39 + given);
        // The session's later tokens are not in the file.
        await tokensOf(session.generate({ ...all, maxTokens: 3 }));
        for (const to of [model, other]) {
          using restored = await Session.load(to, path);
          expect([restored.length, restored.read]).toEqual([40 + given, had]);
          expect([...restored.tokens]).toEqual([...prompt, ...tokens.slice(0, given)]);
          const before = to.steps;
          expect(bitsEqual(await restored.logits(), logits[given]!)).toBe(true);
          expect(to.steps - before).toBe(given === 0 ? 0 : 1);
          using loaded = await Session.load(to, path);
          using fork = loaded.fork();
          expect(await tokensOf(fork.generate({ ...all, maxTokens: 13, drafts }))).toEqual(tokens.slice(given, given + 13));
          expect(await tokensOf(restored.generate({ ...all, maxTokens: 13 }))).toEqual(tokens.slice(given, given + 13));
        }
      }
    }
  });

  test("is saved again from what was loaded; one that was not read has its tokens", async () => {
    using model = await openTiny(device, { states: 1 });
    const [path, again] = [files.newPath("a"), files.newPath("b")];
    const { logits } = await coldRun(model, textOf(1, 12), 1);
    {
      using session = model.session().append(textOf(1, 12));
      await session.save(path);
      expect((await Session.load(model, path)).read).toBe(0);
      await session.logits();
      await session.save(path);
    }
    await (await Session.load(model, path)).save(again);
    expect(readFileSync(again).equals(readFileSync(path))).toBe(true);
    using restored = await Session.load(model, again);
    const before = model.steps;
    expect(bitsEqual(await restored.logits(), logits[0]!)).toBe(true);
    expect(model.steps).toBe(before);
    using empty = model.session();
    await empty.save(path);
    expect((await Session.load(model, path)).length).toBe(0);
  });

  test("waits for a state and pages like any other, and has those of a cache", async () => {
    using model = await openTiny(device, { states: 2 });
    using cache = model.cache({ bytes: 1e9, step: 8 });
    const path = files.newPath("session");
    {
      using session = model.session({ cache }).append(textOf(1, 30));
      await session.logits();
      await session.save(path);
    }
    expect(cache.size).toBeGreaterThan(0);
    const { tokens } = await (async () => (cache.clear(), coldRun(model, textOf(1, 30), 4)))();
    using busy = model.session().append([1]);
    await busy.logits();
    const blocking = busy.fork();
    using restored = await Session.load(model, path, { cache });
    const run = tokensOf(restored.generate({ ...all, maxTokens: 4 }));
    await Bun.sleep(30);
    blocking[Symbol.dispose]();
    expect(await run).toEqual(tokens);
  });
});

describe("while a session is saved", () => {
  test("its next step waits; it may be appended to, forked, saved again and disposed of; others go on", async () => {
    using model = await openTiny(device, { states: 6, pages: { count: 100, tokens: 8 } });
    const prompt = textOf(3, 40);
    const { tokens, logits } = await coldRun(model, prompt, 12);
    const [path, second] = [files.newPath("session"), files.newPath("session")];
    using session = model.session().append(prompt);
    const pieces = session.generate({ ...all, maxTokens: 10, drafts: true });
    for (let i = 0; i < 4; i++) await pieces.next();
    const order: string[] = [];
    const saved = session.save(path).then(() => order.push("saved"));
    const again = session.save(second).then(() => order.push("saved"));
    const next = pieces.next().then(() => order.push("next"));
    using fork = session.fork();
    expect(await tokensOf(fork.generate({ ...all, maxTokens: 8 }))).toEqual(tokens.slice(4, 12));
    await Promise.all([saved, again, next]);
    // A right guess has already given the next token.
    expect(order.filter((what) => what === "saved")).toHaveLength(2);
    await pieces.return();
    expect(readFileSync(second).equals(readFileSync(path))).toBe(true);
    using restored = await Session.load(model, path);
    expect([...restored.tokens]).toEqual([...prompt, ...tokens.slice(0, 4)]);
    expect(bitsEqual(await restored.logits(), logits[4]!)).toBe(true);

    const last = session.save(path);
    session.append([1, 2, 3]);
    session[Symbol.dispose]();
    await last;
    using after = await Session.load(model, path);
    expect(after.length).toBe(45);
    for (const one of [fork, restored, after]) one[Symbol.dispose]();
    expect([model.freeStates, model.freePages]).toEqual([6, 100]);
  });

  test("a step waits for the end of it", async () => {
    using model = await openTiny(device);
    const path = files.newPath("session");
    using session = model.session().append(textOf(1, 9));
    await session.logits();
    let over = false;
    const saved = session.save(path).then(() => void (over = true));
    await session.append([5]).logits();
    expect(over).toBe(true);
    await saved;
    expect((await Session.load(model, path)).length).toBe(9);
  });

  test("a step that waits for it can be aborted, and is not begun", async () => {
    using model = await openTiny(device);
    using session = model.session().append(textOf(1, 9));
    await session.logits();
    for (const late of [false, true]) {
      let over = false;
      const saved = session.save(files.newPath("session")).then(() => void (over = true));
      const leaving = new AbortController();
      if (!late) leaving.abort(new Error("enough"));
      const read = session.append([5]).logits({ signal: leaving.signal });
      if (late) leaving.abort(new Error("enough"));
      await expect(read).rejects.toThrow("enough");
      expect(over).toBe(false);
      await saved;
    }
    const { logits } = await coldRun(model, [...textOf(1, 9), 5, 5], 1);
    expect(bitsEqual(await session.logits(), logits[0]!)).toBe(true);
  });

  test("another session waits for its state, also where it has ended meanwhile", async () => {
    using model = await openTiny(device, { states: 1 });
    const session = model.session().append(textOf(1, 9));
    await session.logits();
    const saved = session.save(files.newPath("session"));
    session[Symbol.dispose]();
    using other = model.session().append(textOf(2, 9));
    const logits = await other.logits();
    await saved;
    other[Symbol.dispose]();
    expect(bitsEqual(logits, (await coldRun(model, textOf(2, 9), 1)).logits[0]!)).toBe(true);
  });

  test("a model that is disposed of leaves the file that was there", async () => {
    const model = await openTiny(device);
    const path = files.newPath("session");
    const session = model.session().append(textOf(1, 30));
    await session.logits();
    await session.save(path);
    const before = readFileSync(path);
    const saved = session.append([1, 2]).save(path);
    model[Symbol.dispose]();
    expect((await rejection(saved)).code).toBe("disposed");
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(dirname(path)).filter((name) => name.endsWith(".tmp"))).toEqual([]);
  });

  test("a model that is disposed of while a file is read is named, not the file", async () => {
    const model = await openTiny(device);
    const path = files.newPath("session");
    const session = model.session().append(textOf(1, 30));
    await session.logits();
    await session.save(path);
    const loaded = Session.load(model, path);
    model[Symbol.dispose]();
    expect(await rejection(loaded)).toMatchObject({ code: "disposed", op: "Session.load", expected: "a model that is not disposed" });
  });

  test("a session that is being made of a file can end, and give what it took back", async () => {
    using model = await openTiny(device, { states: 2 });
    const path = files.newPath("session");
    {
      using session = model.session().append(textOf(1, 30));
      await session.logits();
      await session.append([3]).save(path);
    }
    const most = 60;
    const { tokens } = await coldRun(model, [...textOf(1, 30), 3], most + 3);
    for (const how of ["disposed", "aborted"] as const) {
      const controller = new AbortController();
      using session = await Session.load(model, path);
      const given: number[] = [];
      const generated = (async () => {
        for await (const { token } of session.generate({ ...all, maxTokens: most, signal: controller.signal })) given.push(token);
      })();
      // The state is taken where its filling begins. How far the filling, or the answer, gets before the end is not fixed.
      while (model.freeStates === 2) await nextTurn();
      if (how === "disposed") session[Symbol.dispose]();
      else controller.abort(new Error("enough"));
      expect(await generated.then(() => "given", (error: Error) => error.message)).toMatch(how === "disposed" ? "disposed" : "enough");
      if (how === "aborted") given.push(...(await tokensOf(session.generate({ ...all, maxTokens: 3 }))));
      expect(given).toEqual(tokens.slice(0, given.length));
    }
    while (model.freeStates < 2) await nextTurn(); // the test's own time limit ends it
    expect([model.freeStates, model.freePages]).toEqual([2, 32]);
  });
});

describe("files that are refused", () => {
  test("what is no session, of another model, damaged, or lies", async () => {
    using model = await openTiny(device);
    const path = files.newPath("session");
    using session = model.session().append(textOf(1, 9));
    await session.logits();
    await session.save(path);
    const bad = files.newPath("bad");
    const refused = async (words: RegExp | string, to: LanguageModel = model, from = bad) => {
      const error = await rejection(Session.load(to, from));
      expect(error).toBeInstanceOf(FileError);
      expect(error.message).toMatch(words);
    };
    await refused("no such file");
    using others = await Promise.all([
      openTiny(device, {}, { vocabulary: 54 }),
      LanguageModel.load(device, tinyFolder({}, 2), { states: 1, pages: 4 }),
    ]).then(async ([a, b]) => {
      const stack = new DisposableStack();
      stack.use(a);
      stack.use(b);
      await refused("another model", a, path);
      await refused("another model", b, path);
      return stack;
    });
    expect(others.disposed).toBe(false);
    using half = await openTiny(device, { pages: { count: 32, tokens: 8, dtype: "bf16" } });
    await refused("dtypes", half, path);

    const bytes = readFileSync(path);
    for (const at of [bytes.length - 1, bytes.length - 5000]) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1;
      writeFileSync(bad, changed);
      await refused(/checksum/);
    }
    for (const length of [0, 7, 100, bytes.length - 1]) {
      writeFileSync(bad, bytes);
      truncateSync(bad, length);
      await refused(/./);
    }
    writeFileSync(bad, bytes);
    {
      using file = openSafetensors(path);
      const tensors = new Map<string, TensorToWrite>(file.names.map((name) => [name, { dtype: file.info(name).dtype, shape: file.info(name).shape, data: file.read(name) }]));
      for (const [version, words] of [
        ["1", /expected a session of version 3 of the format, got one of version 1, which an earlier gated-delta wrote without .* save it again/],
        ["2", /got one of version 2, which an earlier gated-delta wrote without .* save it again/],
        ["4", /got one of version 4, which a later gated-delta wrote/],
        ["two", /got version "two"/],
      ] as const) {
        writeSafetensors(bad, tensors, { ...Object.fromEntries(file.metadata), version });
        await refused(words);
      }
      writeSafetensors(bad, tensors, { ...Object.fromEntries(file.metadata), read: "10" });
      await refused(/checksum/);
      writeSafetensors(bad, tensors);
      await refused(/format/);
    }
    await refused("a directory", model, files.folder);
    for (const [run, words] of [
      [() => Session.load({} as never, path), "LanguageModel"],
      [() => Session.load(model, ""), "path"],
      [() => Session.load(model, 5 as never), "path"],
      [() => Session.load(model, path, { other: 1 } as never), "other"],
      [() => session.save(""), "path"],
      [() => session.save(join(files.folder, "none", "such")), "cannot be written"],
    ] as const) expect((await rejection(run())).message).toContain(words);
    const pieces = session.generate(all);
    await pieces.next();
    const next = pieces.next();
    expect((await rejection(session.save(bad))).code).toBe("state");
    await next;
    await session.save(bad);
    expect((await Session.load(model, bad)).length).toBe(11);
    await pieces.return();
    session[Symbol.dispose]();
    expect((await rejection(session.save(bad))).code).toBe("disposed");
    expect(model.freeStates).toBe(4);
  });
});

/** Continues from the file, and saves after each token, until it is killed. */
const child = `
import { Device } from ${JSON.stringify(join(import.meta.dir, "../../lib/index.ts"))};
import { LanguageModel, Session } from ${JSON.stringify(join(import.meta.dir, "../../lib/model.ts"))};
const [folder, path] = process.argv.slice(-2);
const model = await LanguageModel.load(Device.open("cpu"), folder, { states: 2, pages: { count: 64, tokens: 8 } });
const session = await Session.load(model, path);
for await (const _ of session.generate({ ignoreModelStops: true, temperature: 1, seed: 7, drafts: true })) {
  await session.save(path);
  process.stdout.write(session.length + "\\n");
}
`;
const kills = process.env["GATED_DELTA_TEST_LONG"] === "1" ? 500 : 12;

test(`${kills} processes that are killed while they generate and save: each goes on where the last one was`, async () => {
  const folder = tinyFolder();
  using model = await openTiny(device, { pages: { count: 300, tokens: 8 } });
  const [path, script] = [files.newPath("session"), files.newPath("child.ts")];
  writeFileSync(script, child);
  const prompt = textOf(5, 10);
  using session = model.session().append(prompt);
  await session.save(path);
  const random = new Random(11);
  let length = 10;
  for (let i = 0; i < kills; i++) {
    const process_ = Bun.spawn([process.execPath, script, folder, path], { stdout: "pipe", stderr: "inherit" });
    const reader = process_.stdout.getReader();
    let text = "";
    const lines = 1 + random.below(4);
    while (text.split("\n").length <= lines) {
      const { value, done } = await reader.read();
      if (done) break;
      text += new TextDecoder().decode(value);
    }
    await Bun.sleep(random.uniform(0, 3));
    process_.kill("SIGKILL");
    await process_.exited;
    using restored = await Session.load(model, path);
    expect(restored.length).toBeGreaterThan(length);
    length = restored.length;
  }
  const { tokens, logits } = await coldRun(model, prompt, length - 9, { temperature: 1, seed: 7 });
  using restored = await Session.load(model, path);
  expect([...restored.tokens]).toEqual([...prompt, ...tokens.slice(0, length - 10)]);
  expect(bitsEqual(await restored.logits(), logits[length - 10]!)).toBe(true);
}, 600_000);
