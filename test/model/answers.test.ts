/** Answers to messages: their parts as they arrive, and the whole. */
import { afterAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { AnswerPiece, ChatOptions, LanguageModel, Piece, Session } from "../../lib/model.ts";
import { mergePieces } from "../../lib/model/text/formats/answer-piece.ts";
import { Session as Sessions } from "../../lib/model.ts";
import { plainTemplate, thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { collect, textOfPieces } from "../support/sessions.ts";
import { expectFresh, openReciter, textOfSession, tool, user } from "../support/turns.ts";

const device = openDevice(2);
afterAll(() => device.close());
const { newPath } = scratch();

const call = (lake: string) => `<tool_call>\n{"name": "depth", "arguments": {"lake": "${lake}"}}\n</tool_call>`;
/** Thoughts, text and two calls in one answer; then an answer without thoughts; then a call that cannot be read. */
const answers = {
  3: `I need two depths 🏞️.\n</think>\n\nI look them up.\n${call("Baikal")}\n${call("Superior")}`,
  5: "Both are here, so I can answer now.\n</think>\n\nBaikal is deeper, by far.",
  7: "Now a broken one?\n</think>\n\nThis fails: <tool_call>\n{\"name\": \"depth\", \"argum</tool_call> sorry",
};
const tools = [{ type: "function", function: { name: "depth", parameters: { type: "object", properties: { lake: { type: "string" } } } } }];
const options: ChatOptions = { tools };
const open = (tokens: "same" | "other" | "split" = "same"): Promise<LanguageModel> => openReciter(device, { answers, template: thinkingTemplate, tokens });
const ask = (model: LanguageModel) => model.session().chat([user("Which is deeper?")], options);
const partsOf = (pieces: readonly Piece[]): AnswerPiece[] => mergePieces(pieces.flatMap(({ parts }) => parts));
const calls = [{ name: "depth", arguments: { lake: "Baikal" } }, { name: "depth", arguments: { lake: "Superior" } }];

describe.each(["same", "other", "split"] as const)("with %s tokens", (tokens) => {
  test("parts come as they are certain, and together they are the text", async () => {
    using model = await open(tokens);
    using session = ask(model);
    const pieces = await collect(session.generate());
    expect(textOfPieces(pieces)).toBe(answers[3]);
    expect(pieces.flatMap(({ parts }) => parts).map(({ raw }) => raw).join("")).toBe(answers[3]);
    // Nothing waits for the end: thoughts arrive before the text, and a call's arguments before the next call.
    const types = pieces.map(({ parts }) => parts.map(({ type }) => type));
    expect(types.findIndex((of) => of.includes("reasoning"))).toBeLessThan(4);
    expect(types.findLastIndex((of) => of.includes("text"))).toBeLessThanOrEqual(types.findIndex((of) => of.includes("tool-call")));
    const [thoughts, text, ...both] = partsOf(pieces);
    expect(thoughts).toMatchObject({ type: "reasoning", text: "I need two depths 🏞️." });
    expect(text).toMatchObject({ type: "text", text: "I look them up." });
    expect(both.map((part) => part.type === "tool-call" && [part.index, part.name, JSON.parse(part.arguments), part.done])).toEqual([
      [0, "depth", { lake: "Baikal" }, calls[0]],
      [1, "depth", { lake: "Superior" }, calls[1]],
    ]);
  });

  test("the whole answer is ready to be executed, and its message passes back into the template", async () => {
    using model = await open(tokens);
    using session = ask(model);
    const { text, content, reasoning, toolCalls, message, end, usage } = await session.answer();
    expect([text, content, reasoning, toolCalls, end]).toEqual([answers[3], "I look them up.", "I need two depths 🏞️.", calls, "token"]);
    expect(message).toEqual({ role: "assistant", content, reasoning_content: reasoning, tool_calls: calls.map((one) => ({ type: "function", function: one })) });
    expect(session.messages.at(-1)).toEqual(message);
    expect(usage.generatedTokens).toBe(session.length - usage.promptTokens);

    const had = session.length;
    session.chat([tool("1642"), tool("406")]);
    expect(session.turn).toMatchObject({ keptTokens: had, droppedTokens: 0 });
    expect(textOfSession(session)).toBe(model.text.template.render(session.messages, options));
    await expectFresh(session);
    expect(await session.answer()).toMatchObject({ content: "Baikal is deeper, by far.", reasoning: "Both are here, so I can answer now.", toolCalls: [] });
  });

  test("an answer that is left after any token goes on here, in a fork and from a file, and is the same in the end", async () => {
    using model = await open(tokens);
    using asked = ask(model);
    const whole = await asked.fork().answer();
    const path = newPath();
    for (let most = 1; most <= whole.tokens.length; most += tokens === "split" ? 5 : 3) {
      using session = asked.fork();
      const first = [];
      for await (const piece of session.generate()) {
        first.push(piece);
        if (first.length === most) break;
      }
      const soFar = await session.answer({ maxTokens: 0 });
      expect(session.messages.at(-1)).toEqual(soFar.message);
      expect(whole.reasoning.startsWith(soFar.reasoning.replace(/[\ufffd\n]+$/, ""))).toBe(true);
      expect<unknown>(soFar.toolCalls).toEqual(calls.slice(0, soFar.toolCalls.length));
      await session.save(path);
      using loaded = await Sessions.load(model, path);
      for (const one of [loaded, session.fork(), session]) {
        const rest = await collect(one.generate());
        expect(textOfPieces([...first, ...rest])).toBe(answers[3]);
        if (most < whole.tokens.length) expect(partsOf([...first, ...rest])).toEqual(partsOf(await collect(asked.fork().generate())));
        expect(await one.answer()).toMatchObject({ message: whole.message, toolCalls: calls, tokens: [] });
      }
    }
  });

  test("an answer that is left within a stop string ends there when it goes on, or gives the text that was held back", async () => {
    using model = await open(tokens);
    using asked = ask(model);
    const stop = "depths 🏞️";
    const before = answers[3].slice(0, answers[3].indexOf(stop));
    const cut = await asked.fork().answer({ stop });
    const path = newPath();
    for (let most = 1; most < cut.tokens.length; most++) {
      using session = asked.fork();
      const first: Piece[] = [];
      for await (const piece of session.generate({ stop })) if (first.push(piece) === most) break;
      await session.save(path);
      using loaded = await Sessions.load(model, path);
      for (const one of [loaded, session.fork(), session]) {
        using other = one.fork();
        const rest = await collect(one.generate({ stop }));
        expect([textOfPieces([...first, ...rest]), rest.at(-1)!.end]).toEqual([before, "string"]);
        expect(one.messages.at(-1)).toEqual(cut.message);
        // The text that was held back may contain a shorter stop string: then no token is added.
        using shorter = other.fork();
        const held = textOfPieces([...first, ...(await collect(shorter.generate({ stop: "dep" })))]);
        expect(held).toBe(answers[3].slice(0, answers[3].indexOf("dep")));
        expect(textOfPieces([...first, ...(await collect(other.generate()))])).toBe(answers[3]);
      }
    }
  });
});

test("a call that the template writes otherwise is read again as it writes it", async () => {
  const other = 'Hm.\n</think>\n\n<tool_call>{"arguments":{"lake":"Baikal"},"name":"depth"}</tool_call>';
  using model = await openReciter(device, { answers: { 3: other }, template: thinkingTemplate });
  using session = ask(model);
  expect((await session.answer()).toolCalls).toEqual([calls[0]!]);
  session.chat([tool("1642")]);
  expect(session.turn!.droppedTokens).toBeGreaterThan(0);
  expect(textOfSession(session)).toContain(call("Baikal"));
  await expectFresh(session);
});

test("a cut call is text in the message, and the conversation goes on", async () => {
  using model = await open();
  using asked = ask(model);
  const cut = async (stop: string): Promise<Session> => {
    const session = asked.fork();
    expect((await session.answer({ stop })).end).toBe("string");
    return session;
  };
  using within = await cut("Superior");
  const { content, toolCalls } = await within.fork().answer({ maxTokens: 0 });
  expect(toolCalls).toEqual([calls[0]!]);
  await expectFresh(within.chat([tool("1642")]));
  expect(textOfSession(within)).toBe(model.text.template.render(within.messages, options));
  expect(content).toStartWith("I look them up.");
  using thinking = await cut("depths");
  expect(thinking.messages.at(-1)).toEqual({ role: "assistant", content: "", reasoning_content: "I need two " });
  await expectFresh(thinking.chat([tool("?")]));
});

test("a call that can't be read is text with a reason", async () => {
  using model = await open();
  using session = model.session().chat([user("a"), { role: "assistant", content: "b" }, user("c"), { role: "assistant", content: "d" }, user("e")], options);
  const parts = partsOf(await collect(session.generate()));
  expect(parts.map(({ raw }) => raw).join("")).toBe(answers[7]);
  const broken = parts.find((part) => part.type === "text" && part.reason !== undefined);
  expect(broken).toBeDefined();
  const { toolCalls, content } = await session.answer({ maxTokens: 0 });
  expect([toolCalls, content.includes("argum"), content.endsWith("sorry")]).toEqual([[], true, true]);
  await expectFresh(session.chat([user("f")]));
});

test("outside of answers to messages all text is text", async () => {
  using model = await open();
  using session = model.session().append(model.text.chat([user("Which is deeper?")], options));
  const pieces = await collect(session.generate());
  expect(partsOf(pieces)).toEqual([{ type: "text", text: answers[3], raw: answers[3] }]);
  using plain = await openReciter(device, { answers: { 2: "A <think> that </think> no one reads." }, template: plainTemplate });
  expect(await plain.session().chat([user("a")]).answer()).toMatchObject({ content: "A <think> that </think> no one reads.", reasoning: "" });
});

test("several answers at once leave the messages as they are", async () => {
  using model = await open();
  using session = ask(model);
  const all = await session.completeMany(3);
  expect(all.map(({ text }) => text)).toEqual([answers[3], answers[3], answers[3]]);
  expect(session.messages).toEqual([user("Which is deeper?")]);
});

test.each(["json", "xml", "python"])("nothing is read again between a call and its results: calls as %s", async (syntax) => {
  const template = readFileSync(join(import.meta.dir, `../templates/own-${syntax}.jinja`), "utf8");
  const question = user("Which is deeper, and by how much?");
  const properties = { lake: { type: "string" }, unit: { type: "string" }, least: { type: "integer" }, exact: { type: "boolean" } };
  const options = { tools: [{ type: "function", function: { name: "depth", parameters: { type: "object", properties } } }] };
  // The answer as the template writes it.
  using writer = await openReciter(device, { answers: { 2: "None." }, template });
  const thinks = writer.text.template.format().reasoning !== undefined;
  const message = {
    role: "assistant",
    content: "I look both up.",
    ...(thinks ? { reasoning_content: "Two depths are needed." } : {}),
    tool_calls: calls.map((one) => ({ type: "function", function: { ...one, arguments: { ...one.arguments, unit: "m", least: 0, exact: true } } })),
  };
  const prompt = writer.text.template.render([question], options);
  const whole = writer.text.template.render([question, message], { ...options, addGenerationPrompt: false });
  expect(whole).toStartWith(prompt);
  const beginnings = prompt.split("<|im_start|>").length - 1;
  const answer = whole.slice(prompt.length, whole.lastIndexOf("<|im_end|>"));

  using model = await openReciter(device, { answers: { [beginnings]: answer }, template, tokens: "other" });
  using session = model.session().chat([question], options);
  expect((await session.answer()).message).toEqual(message as never);
  const had = session.length;
  session.chat([tool("1642"), tool("406")]);
  expect(session.turn).toMatchObject({ keptTokens: had, droppedTokens: 0, rereadTokens: 0 });
  await expectFresh(session);
});
