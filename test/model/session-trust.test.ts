/** Contents of a session's file do not reach other sessions through a cache unless the caller trusts the file. */
import { afterAll, describe, expect, test } from "bun:test";
import { bitsEqual } from "../../lib/cli/verify/compare.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import type { LoadSessionOptions } from "../../lib/model.ts";
import { readModel, writeChanged } from "../support/changed-models.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { forgeSession } from "../support/forged.ts";
import { openTiny, rejection, textOf, tinyFolder } from "../support/models.ts";
import { coldRun, tokensOf } from "../support/sessions.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();

const options = { states: 8, pages: { count: 100, tokens: 8 } };
/** The common beginning of many users' conversations. */
const system = textOf(3, 40);
const read = 30;

/** A session's file as another program could write it: states negated. */
function forged(path: string): string {
  return forgeSession(path, files.newPath("forged"), (tensors) => {
    for (const [name, { data }] of tensors) if (name.startsWith("states.")) for (let at = 3; at < data.length; at += 4) data[at]! ^= 0x80;
  });
}

/** The file of a session that has read the first tokens of {@link system}. */
async function savedOf(model: LanguageModel): Promise<string> {
  using session = model.session().append(system.slice(0, read));
  await session.logits();
  const path = files.newPath("session");
  await session.save(path);
  return path;
}

/** Lets a session read the rest and answer, which adds entries to the cache if it may. */
async function goOn(session: Session): Promise<void> {
  session.append(system.slice(session.length)).append([1, 2]);
  await tokensOf(session.generate({ ignoreModelStops: true, maxTokens: 3 }));
}

describe("a session of a file", () => {
  type Use = (model: LanguageModel, path: string, options: LoadSessionOptions) => Promise<Session>;
  const uses: Record<string, Use> = {
    "by itself": (model, path, given) => Session.load(model, path, given),
    "by a fork": async (model, path, given) => {
      using session = await Session.load(model, path, given);
      return session.fork();
    },
    "by a fork of a fork, made after it has read": async (model, path, given) => {
      using session = await Session.load(model, path, given);
      await session.append([system[read]!]).logits();
      using fork = session.fork();
      const other = fork.fork();
      return other;
    },
    "saved again and loaded": async (model, path, given) => {
      using session = await Session.load(model, path, given);
      const again = files.newPath("again");
      await session.save(again);
      return await Session.load(model, again, given);
    },
  };

  test.each(Object.entries(uses))("adds nothing to a cache, %s; another user's logits stay as they are", async (_, use) => {
    using model = await openTiny(device, options);
    const prompt = [...system, 50, 51];
    const { logits } = await coldRun(model, prompt, 1);
    const path = forged(await savedOf(model));
    for (const given of [{}, { trust: false }]) {
      using cache = model.cache({ bytes: 1e9, step: 8 });
      using session = await use(model, path, { ...given, cache });
      await goOn(session);
      expect(cache.size).toBe(0);
      using other = model.session({ cache }).append(prompt);
      expect(bitsEqual(await other.logits(), logits[0]!)).toBe(true);
      expect([cache.hits, cache.size > 0]).toEqual([0, true]); // the cache works
    }
  });

  test("adds what it reads where the caller says trust, as any other session", async () => {
    using model = await openTiny(device, options);
    const prompt = [...system, 50, 51];
    const { logits } = await coldRun(model, prompt, 1);
    for (const use of Object.values(uses)) {
      using cache = model.cache({ bytes: 1e9, step: 8 });
      using session = await use(model, await savedOf(model), { cache, trust: true });
      await goOn(session);
      expect(cache.size).toBeGreaterThan(0);
      using other = model.session({ cache }).append(prompt);
      expect(bitsEqual(await other.logits(), logits[0]!)).toBe(true);
      expect(cache.hits).toBe(1);
    }
  });

  test("with trust its states are the others': that is what the word means", async () => {
    using model = await openTiny(device, options);
    const prompt = [...system, 50, 51];
    const { logits } = await coldRun(model, prompt, 1);
    using cache = model.cache({ bytes: 1e9, step: 8 });
    using session = await Session.load(model, forged(await savedOf(model)), { cache, trust: true });
    await goOn(session);
    using other = model.session({ cache }).append(prompt);
    expect(bitsEqual(await other.logits(), logits[0]!)).toBe(false);
    expect(cache.hits).toBe(1);
  });

  test("takes from a cache what others have read", async () => {
    using model = await openTiny(device, options);
    using cache = model.cache({ bytes: 1e9, step: 8 });
    using other = model.session({ cache }).append(system).append([1, 2, 3]);
    await other.logits();
    const path = files.newPath("session");
    await model.session().append([...system, 1]).save(path); // tokens alone
    using session = await Session.load(model, path, { cache });
    await session.logits();
    expect(cache.hits).toBe(1);
  });

  test("of another model, which differs in its mixers, does not come as far", async () => {
    const parts = readModel(tinyFolder());
    const folder = writeChanged(files.newPath("model"), parts, ({ tensors }) => {
      for (const [name, { dtype, shape, data }] of Object.entries(tensors)) {
        if (!name.endsWith("in_proj_qkv.weight")) continue;
        const bytes = (data as Uint8Array).slice();
        for (let at = 3; at < bytes.length; at += 4) bytes[at]! ^= 0x80;
        tensors[name] = { dtype, shape, data: bytes };
      }
    });
    using model = await openTiny(device, options);
    using changed = await LanguageModel.load(device, folder, options);
    const path = await savedOf(changed);
    using cache = model.cache({ bytes: 1e9, step: 8 });
    for (const trust of [false, true]) {
      expect((await rejection(Session.load(model, path, { cache, trust }))).message).toContain("one of another model");
    }
    const prompt = [...system, 50, 51];
    using other = model.session({ cache }).append(prompt);
    expect(bitsEqual(await other.logits(), (await coldRun(model, prompt, 1)).logits[0]!)).toBe(true);
    expect(cache.hits).toBe(0);
  });

  test("trust is true or false, and an option of loading alone", async () => {
    using model = await openTiny(device, options);
    const path = await savedOf(model);
    const error = await rejection(Session.load(model, path, { trust: "yes" as never }));
    expect([error.op, error.argument, error.expected, error.received]).toEqual(["Session.load", "trust", "a boolean", '"yes"']);
    expect((await rejection(Session.load(model, path, { trusted: true } as never))).message).toContain("cache, salt, whenFull, trust");
    expect(() => model.session({ trust: true } as never)).toThrow("trust");
    expect(model.freeStates).toBe(8);
  });
});
