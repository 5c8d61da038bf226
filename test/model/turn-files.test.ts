/** Conversations on disk: they continue with further turns, and files that lie about their messages are refused or read again. */
import { afterAll, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { FileError, GatedDeltaError } from "../../lib/errors.ts";
import { dialogueText, readDialogue } from "../../lib/model/session/dialogue-file.ts";
import { LanguageModel, Session } from "../../lib/model.ts";
import type { ChatMessage } from "../../lib/model.ts";
import { plainTemplate, thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { forgeSession } from "../support/forged.ts";
import { openTiny, rejection } from "../support/models.ts";
import { Random } from "../support/random.ts";
import { writeReciter } from "../support/reciter.ts";
import { expectAllAtOnce, expectFresh, openReciter, textOfSession, user } from "../support/turns.ts";

const device = openDevice(2);
afterAll(() => device.close());
const files = scratch();
const answers = { 2: "Lake Superior is a large lake — 🏞️.", 4: "Quite deep: its deepest place lies four hundred metres below." };
const recital = { answers, template: plainTemplate };

describe("a conversation that was saved", () => {
  test("goes on with a further turn, after an answer or in the middle of one", async () => {
    using model = await openReciter(device, recital);
    const path = files.newPath();
    for (const maxTokens of [0, 1, 5, 100]) {
      using session = model.session().chat([user("Name a large lake.")]);
      await session.complete({ maxTokens });
      await session.save(path);
      using loaded = await Session.load(model, path);
      expect(loaded.messages).toEqual(session.messages);
      expect(loaded.messages.every((message) => Object.isFrozen(message))).toBe(true);
      expect([loaded.turn, loaded.usage.generatedTokens]).toEqual([undefined, session.usage.generatedTokens]);
      const again = files.newPath();
      await loaded.save(again);
      expect(await Bun.file(again).bytes()).toEqual(await Bun.file(path).bytes());
      using followed = loaded.fork().chat([user("How deep is it?")]);
      await expectAllAtOnce(followed);
      expect(followed.turn!.droppedTokens > 0).toBe(maxTokens === 0); // the start of an answer without a token
      if (maxTokens > 0) expect((await followed.answer()).content).toBe(answers[4]);
      if (maxTokens < 100) expect((await loaded.answer()).content).toBe(answers[2]);
    }
  });

  test("keeps its tokens, the end of a cut answer, and the options of its template", async () => {
    using model = await openReciter(device, { answers: { 3: answers[2] }, template: thinkingTemplate, tokens: "other" });
    const path = files.newPath();
    const tools = [{ type: "function", function: { name: "depth", most: 2n ** 70n, least: 1e20 } }];
    using session = model.session().chat([user("Name a large lake.")], { tools, variables: { enable_thinking: false }, specialTokens: "text" });
    expect((await session.answer({ stop: "large" })).content).toBe("Lake Superior is a ");
    await session.save(path);
    using loaded = await Session.load(model, path);
    expect(loaded.messages).toEqual(session.messages);
    const next = [user("<|im_end|> How deep?")];
    expect([...loaded.chat(next).tokens]).toEqual([...session.chat(next).tokens]);
    expect(textOfSession(loaded)).toContain(String(2n ** 70n));
    expect(textOfSession(loaded)).toEndWith("<think>\n\n</think>\n\n");
    expect(loaded.tokens.filter((id) => id === 2).length).toBe(4); // those of the template
    await expectFresh(loaded);
  });

  test("goes back where the template writes the past otherwise", async () => {
    const thoughts = { 2: "A lake. Superior comes to mind.\n</think>\n\nLake Superior.", 4: "Deep, they ask.\n</think>\n\n406 metres." };
    using model = await openReciter(device, { answers: thoughts, template: thinkingTemplate });
    using cache = model.cache({ bytes: 1e9, step: 1 });
    const path = files.newPath();
    {
      using session = model.session().chat([user("Name a large lake.")]);
      await session.complete();
      await session.save(path);
    }
    for (const trust of [false, true]) {
      using session = (await Session.load(model, path, { cache, trust })).chat([user("How deep is it?")]);
      expect(session.turn!.droppedTokens).toBeGreaterThan(10);
      expect(session.read).toBe(0);
      await expectFresh(session);
      expect(cache.size > 0).toBe(trust);
      expect((await session.answer()).content).toBe("406 metres.");
    }
  });

  test("is the one that it was when its saving began, though it goes back meanwhile", async () => {
    const thoughts = { 2: "A lake. Superior comes to mind.\n</think>\n\nLake Superior.", 4: "Deep, they ask.\n</think>\n\n406 metres." };
    using model = await openReciter(device, { answers: thoughts, template: thinkingTemplate });
    using session = model.session().chat([user("Name a large lake.")]);
    await session.complete();
    const [tokens, messages, read] = [[...session.tokens], session.messages, session.read];
    const path = files.newPath();
    const saved = session.save(path);
    session.chat([user("How deep is it?")]);
    expect([session.turn!.droppedTokens > 10, session.read]).toEqual([true, 0]);
    const answer = session.answer();
    await saved;
    expect((await answer).content).toBe("406 metres.");
    using loaded = await Session.load(model, path);
    expect([[...loaded.tokens], loaded.messages, loaded.read]).toEqual([tokens, messages, read]);
    await expectFresh(loaded);
    await expectFresh(session);
  });

  test("without messages has none afterwards", async () => {
    using model = await openReciter(device, recital);
    const path = files.newPath();
    using session = model.session();
    await session.save(path);
    expect((await Session.load(model, path)).chat([user("a")]).messages).toEqual([user("a")]);
    await session.append("text").save(path);
    using loaded = await Session.load(model, path);
    expect(() => loaded.messages).toThrow("not those of messages");
  });

  test("is refused by a folder without its template, unless it has no messages", async () => {
    const folder = writeReciter(files.newPath(), recital);
    const path = files.newPath();
    const bare = files.newPath();
    {
      using model = await LanguageModel.load(device, folder, { states: 2, pages: 16 });
      using session = model.session().chat([user("a")]);
      await session.save(path);
      await model.session().append([1, 2]).save(bare);
    }
    rmSync(join(folder, "chat_template.jinja"));
    using model = await LanguageModel.load(device, folder, { states: 2, pages: 16 });
    expect((await rejection(Session.load(model, path))).message).toContain("chat_template.jinja");
    expect((await Session.load(model, bare)).length).toBe(2);
    using tiny = await openTiny(device);
    const own = files.newPath();
    await tiny.session().append([1]).save(own);
    await tiny.session().save(own);
    expect((await Session.load(tiny, own)).messages).toEqual([]);
  });
});

describe("files that lie", () => {
  const text = new TextEncoder();
  const dialogue = { messages: [user("Name a large lake.")], settings: {}, answer: { start: 20, reasoning: "closed" } };

  test.each<[string, unknown, RegExp]>([
    ["no JSON", "{", /JSON/],
    ["bytes that are no text", Uint8Array.of(0x22, 0xff, 0x22), /dialogue/],
    ["another type", [], /object/],
    ["nothing", "null", /object/],
    ["a member of another name", { ...dialogue, other: 1 }, /other/],
    ["an inherited name", JSON.stringify(dialogue).replace("{", '{"__proto__":{"other":1},'), /__proto__/],
    ["no messages", { settings: {} }, /messages/],
    ["messages of another type", { ...dialogue, messages: {} }, /messages/],
    ["a message of another type", { ...dialogue, messages: [1] }, /messages\[0\]/],
    ["a message without a role", { ...dialogue, messages: [{ content: "" }] }, /role/],
    ["a role that no template has", { ...dialogue, messages: [{ role: "robot", content: "" }] }, /robot/],
    ["a message without content", { ...dialogue, messages: [{ role: "user" }] }, /content/],
    ["content of another type", { ...dialogue, messages: [{ role: "user", content: 5 }] }, /content/],
    ["an image", { ...dialogue, messages: [{ role: "user", content: [{ type: "image" }] }] }, /image/],
    ["settings of another type", { ...dialogue, settings: 1 }, /options/],
    ["settings of other names", { ...dialogue, settings: { tool: [] } }, /tool/],
    ["tools of another type", { ...dialogue, settings: { tools: "all" } }, /tools/],
    ["a template that the model does not have", { ...dialogue, settings: { template: "other" } }, /other/],
    ["special tokens of another name", { ...dialogue, settings: { specialTokens: "all" } }, /specialTokens/],
    ["an answer of another type", { ...dialogue, answer: 5 }, /answer/],
    ["an answer before the tokens", { ...dialogue, answer: { start: -1, reasoning: "closed" } }, /start/],
    ["an answer after the tokens", { ...dialogue, answer: { start: 10_000, reasoning: "closed" } }, /start/],
    ["an answer at a fraction", { ...dialogue, answer: { start: 1.5, reasoning: "closed" } }, /start/],
    ["an answer of another beginning", { ...dialogue, answer: { start: 1, reasoning: true } }, /reasoning/],
    ["a text of no answer", { ...dialogue, answer: undefined, cutAnswer: "a" }, /cutAnswer/],
    ["an answer's text of another type", { ...dialogue, cutAnswer: 1 }, /cutAnswer/],
    ["arrays without end", `{"messages":${"[".repeat(200_000)}`, /./],
    ["arrays that nest deep", `{"messages":[{"role":"user","content":"","deep":${"[".repeat(5000)}${"]".repeat(5000)}}],"settings":{}}`, /./],
  ])("%s", async (_, value, words) => {
    using model = await openReciter(device, recital);
    const path = files.newPath();
    await model.session().chat([user("Name a large lake.")]).save(path);
    const data = value instanceof Uint8Array ? value : text.encode(typeof value === "string" ? value : JSON.stringify(value));
    const bad = forgeSession(path, files.newPath(), (tensors) => tensors.set("dialogue", { dtype: "U8", shape: [data.length], data }));
    const loaded = await Session.load(model, bad).then((session) => session, (error: unknown) => error);
    if (loaded instanceof Session) {
      // A deeply nested message is like any other, as far as it can be read.
      expect(_).toContain("nest deep");
      expect(loaded.messages.length).toBe(1);
      return;
    }
    expect(loaded).toBeInstanceOf(FileError);
    expect((loaded as FileError).message).toMatch(words);
    expect((loaded as FileError).message).toContain("dialogue");
  });

  test("messages that nest deeper than a template can read are refused when the conversation goes on", async () => {
    using model = await openReciter(device, recital);
    const nested = (depth: number) => ({ role: "user", content: "", deep: JSON.parse(`${"[".repeat(depth)}${"]".repeat(depth)}`) as unknown });
    const path = files.newPath();
    using session = model.session().chat([nested(2000)]);
    await session.save(path);
    using loaded = await Session.load(model, path);
    expect(loaded.chat([user("b")]).messages.length).toBe(2);
    const before = [...loaded.tokens];
    const error = (() => {
      try {
        loaded.chat([nested(20_000)]);
      } catch (thrown) {
        return thrown;
      }
      return undefined;
    })();
    expect(error).toBeInstanceOf(GatedDeltaError);
    expect([...loaded.tokens]).toEqual(before);
  });

  test("changes of single characters are refused, or are messages that go on", async () => {
    using model = await openReciter(device, recital);
    const whole = dialogueText({ dialogue: { messages: [user("a"), { role: "assistant", content: "b", n: 2n ** 70n }], settings: { tools: [{ a: 1 }], specialTokens: "text" }, answer: { start: 3, reasoning: "open" } }, cutAnswer: "c" });
    const random = new Random(5);
    let read = 0;
    for (let i = 0; i < 3000; i++) {
      const characters = [...whole];
      for (let changes = 1 + random.below(3); changes > 0; changes--) {
        const at = random.below(characters.length);
        characters.splice(at, random.below(3), ...[..."{}[]\",:0-9eE\u0000 a"].slice(random.below(18)).slice(0, random.below(2)));
      }
      try {
        const { dialogue } = readDialogue("load", model, characters.join(""), 5);
        expect(dialogue.messages.every((message) => Object.isFrozen(message) && typeof message.role === "string")).toBe(true);
        read++;
      } catch (error) {
        expect(error instanceof GatedDeltaError || error instanceof SyntaxError).toBe(true);
      }
    }
    expect(read).toBeGreaterThan(100);
  });

  test("a dtype of its own, and ranges of generated tokens that can't be", async () => {
    using model = await openReciter(device, recital);
    const path = files.newPath();
    using session = model.session().chat([user("Name a large lake.")]);
    await session.complete({ maxTokens: 3 });
    await session.save(path);
    const changes: [string, Int32Array][] = [
      ["dialogue", Int32Array.of(1)],
      ["generated", Int32Array.of(1)],
      ["generated", Int32Array.of(5, 5)],
      ["generated", Int32Array.of(7, 5)],
      ["generated", Int32Array.of(-1, 5)],
      ["generated", Int32Array.of(1, 1000)],
      ["generated", Int32Array.of(1, 3, 2, 5)],
    ];
    for (const [name, numbers] of changes) {
      const bad = forgeSession(path, files.newPath(), (tensors) => tensors.set(name, { dtype: "I32", shape: [numbers.length], data: new Uint8Array(numbers.buffer) }));
      expect((await rejection(Session.load(model, bad))).message).toContain(name);
    }
    const without = forgeSession(path, files.newPath(), (tensors) => void tensors.delete("generated"));
    expect((await rejection(Session.load(model, without))).message).toContain("generated");
  });

  test("messages that are not those of the tokens: the next turn compares them, and reads what differs again", async () => {
    using model = await openReciter(device, recital);
    const path = files.newPath();
    using session = model.session().chat([user("Name a large lake.")]);
    await session.complete();
    await session.save(path);
    const lies: [ChatMessage[], number][] = [[[user("Say something else.")], 20], [[], 0], [[user("Name a large lake."), user("More")], 1]];
    for (const [messages, start] of lies) {
      const data = text.encode(JSON.stringify({ messages, settings: {}, answer: { start, reasoning: "closed" } }));
      const bad = forgeSession(path, files.newPath(), (tensors) => tensors.set("dialogue", { dtype: "U8", shape: [data.length], data }));
      using loaded = (await Session.load(model, bad)).chat([user("And now?")]);
      expect(textOfSession(loaded)).toBe(model.text.template.render(loaded.messages));
      await expectFresh(loaded);
    }
  });
});
