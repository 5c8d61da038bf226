/** Requests with too much of something: each is refused before it causes work, and the error names the excess. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { excessOf, mostNested } from "../../lib/server/json-nesting.ts";
import { expectCounts } from "../../lib/server/body-counts.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { serve } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";

const device = openDevice(2);
let tiny: LanguageModel;
let server: TestServer;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 8, pages: 16 });
  server = serve(tiny, { name: "tiny" });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  device.close();
});

const [chat, completions, responses, messages] = ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"] as const;
const hello = { role: "user", content: "x" };
const deep = (depth: number): string => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;

async function ask(path: string, body: object | string): Promise<{ status: number; message: string; param: unknown }> {
  const response = await fetch(new URL(path, server.url), { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) });
  const { error } = (await response.json()) as { error?: { message: string; param?: unknown } };
  return { status: response.status, message: error?.message ?? "", param: error?.param };
}

const many = <One>(length: number, one: (i: number) => One): One[] => Array.from({ length }, (_, i) => one(i));
const fn = (i: number) => ({ type: "function", function: { name: `f${i}` } });
const call = (i: number) => ({ id: `c${i}`, type: "function", function: { name: "f", arguments: "{}" } });
const part = { type: "text", text: "x" };

describe("too many", () => {
  test.each([
    ["messages", chat, { messages: many(5000, () => hello) }, "messages: expected at most 4096 messages, parts and calls of tools in all, got 5000"],
    ["parts", chat, { messages: [{ role: "user", content: many(5000, () => part) }] }, "messages[0].content: expected at most 4096 messages, parts and calls of tools in all, got 5001 up to these"],
    ["parts of all messages", chat, { messages: many(3, () => ({ role: "user", content: many(2000, () => part) })) }, "messages[2].content: expected at most 4096 messages, parts and calls of tools in all, got 6003 up to these"],
    ["calls", chat, { messages: [hello, { role: "assistant", tool_calls: many(5000, call) }] }, "messages[1].tool_calls: expected at most 4096 messages, parts and calls of tools in all, got 5002 up to these"],
    ["tools", chat, { messages: [hello], tools: many(5000, fn) }, "tools: expected at most 4096 tools in all, got 5000"],
    ["items", responses, { input: many(5000, () => hello) }, "input: expected at most 4096 items and parts in all, got 5000"],
    ["tools of a namespace", responses, { input: "x", tools: [{ type: "namespace", name: "a", tools: many(5000, (i) => ({ type: "function", name: `f${i}` })) }] }, "tools[0].tools: expected at most 4096 tools in all, got 5001 up to these"],
    ["messages", messages, { max_tokens: 1, messages: many(5001, () => hello) }, "messages: expected at most 4096 messages and parts in all, got 5001"],
    ["parts of the system's", messages, { max_tokens: 1, messages: [hello], system: many(5000, () => part) }, "system: expected at most 4096 messages and parts in all, got 5001 up to these"],
    ["parts of a tool's result", messages, { max_tokens: 1, messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: many(5000, () => part) }] }] }, "messages[0].content[0].content: expected at most 4096 messages and parts in all, got 5002 up to these"],
    ["messages to count", `${messages}/count_tokens`, { messages: many(5001, () => hello) }, "messages: expected at most 4096 messages and parts in all, got 5001"],
    ["token ids", completions, { prompt: many(5000, () => 1) }, "the prompt is too long: there is room for at most 1023 tokens, and an answer"],
    ["token ids in an array", completions, { prompt: [many(5000, () => 1)] }, "the prompt is too long: there is room for at most 1023 tokens, and an answer"],
    ["prompts", completions, { prompt: many(5000, () => "a") }, 'prompt: expected a text, or an array of token ids: one prompt, got ["a", '],
    ["stop strings", chat, { messages: [hello], stop: many(17, () => "a") }, "stop: expected a text that is not empty, or an array of at most 16 of them, got"],
    ["stop strings", messages, { max_tokens: 1, messages: [hello], stop_sequences: many(17, () => "a") }, "stop_sequences: expected at most 16 texts, got"],
    ["biases", completions, { prompt: "a", logit_bias: Object.fromEntries(many(513, (i) => [i, 1])) }, "logit_bias: expected at most 512 token ids, as many as the model has, got 513"],
    ["biases", chat, { messages: [hello], logit_bias: Object.fromEntries(many(513, (i) => [i, 1])) }, "logit_bias: expected at most 512 token ids, as many as the model has, got 513"],
    ["biases", responses, { input: "a", logit_bias: Object.fromEntries(many(513, (i) => [i, 1])) }, "logit_bias: expected at most 512 token ids, as many as the model has, got 513"],
    ["values", chat, { messages: [hello], metadata: many(1_100_000, () => 1) }, "metadata: expected at most 266240 values in the body, got more"],
  ])("%s of %s", async (_, path, body, expected) => {
    const { status, message } = await ask(path, body);
    expect([status, message.slice(0, expected.length)]).toEqual([400, expected]);
  });

  test("there is a limit besides the model's positions", () => {
    const served = { model: { config: { maxPositions: 1 << 20 } } } as never;
    const counted = [{ what: "tools", most: 10, arrays: ["tools", "messages[].tools"] }];
    for (const body of [undefined, 5, "tools", {}, { tools: 5 }, { tools: many(10, () => 0), messages: [null, 5, {}] }]) expectCounts(body, served, counted);
    const run = () => expectCounts({ tools: many(9, () => 0), messages: [{ tools: [1] }, { tools: [1] }] }, served, counted);
    expect(run).toThrow("messages[1].tools: expected at most 10 tools in all, got 11 up to these");
  });
});

describe("too deep", () => {
  const nests = "arrays and objects that nest at most 256 deep, got deeper ones";
  const start = '{"max_tokens":1,"messages":[{"role":"user","content":"x"}],';
  test.each([
    ["tools", chat, `${start}"tools":[{"type":"function","function":{"name":"f","parameters":${deep(40_000)}}}]}`, `tools: expected ${nests}`],
    ["values of the template", chat, `${start}"chat_template_kwargs":{"a":${deep(300)}}}`, `chat_template_kwargs: expected ${nests}`],
    ["a schema", chat, `${start}"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":${deep(20_000)}}}}`, `response_format: expected ${nests}`],
    ["a call", messages, `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":${deep(20_000)}}]},{"role":"user","content":"x"}]}`, `messages: expected ${nests}`],
    ["a call's text", chat, JSON.stringify({ messages: [hello, { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: deep(20_000) } }] }] }), "messages[1].tool_calls[0].function.arguments: expected an object as JSON that nests at most 256 deep, got one that nests deeper"],
    ["the body", chat, "[".repeat(300), `the body: expected ${nests}`],
  ])("%s of %s", async (_, path, body, expected) => {
    const { status, message, param } = await ask(path, body);
    expect([status, message]).toEqual([400, expected]);
    if (path === chat) expect(param).toBe(expected.startsWith("the body") ? null : expected.slice(0, expected.indexOf(":")));
  });

  test("as deep as is allowed, and brackets in texts, are answered", async () => {
    const tools = [{ type: "function", function: { name: "f", parameters: JSON.parse(deep(40)) as object } }];
    expect(await ask(chat, { max_tokens: 1, messages: [hello], tools, metadata: { a: JSON.parse(deep(mostNested - 2)) as object } })).toMatchObject({ status: 200 });
    expect(await ask(chat, { max_tokens: 1, messages: [{ role: "user", content: `\\"${"[{".repeat(200)}\\` }] })).toMatchObject({ status: 200 });
  });

  test("the pass over the text", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect([nested(mostNested), `["\\"${nested(500)}\\\\"]`, '{"a":"', ""].map((text) => excessOf(text))).toEqual([undefined, undefined, undefined, undefined]);
    expect(excessOf(nested(mostNested + 1))).toEqual({ of: "depth", member: undefined });
    expect(excessOf(`{"a":{"b":1}, "c" : ${nested(mostNested)}}`)).toEqual({ of: "depth", member: "c" });
    expect(excessOf(`{"a\\"":${nested(mostNested)}}`)).toEqual({ of: "depth", member: undefined });
    expect([excessOf("[1,2,3]", 3), excessOf('{"a":[1,2,3]}', 3)]).toEqual([undefined, { of: "values", member: "a" }]);
  });
});

describe("too long", () => {
  const few = { status: 400, message: "the prompt is too long: there is room for at most 1023 tokens, and an answer" };
  test.each([
    ["words", "a b ".repeat(100_000)],
    ["one word", "a".repeat(300_000)],
    ["spaces", " ".repeat(300_000)],
    ["characters of two", "e\u0301".repeat(100_000)],
    ["marks out of order", `e${"\u0301\u0323".repeat(20_000)}`],
  ])("%s", async (_, text) => {
    expect(await ask(chat, { messages: [{ role: "user", content: text }] })).toMatchObject(few);
    expect(await ask(completions, { prompt: text })).toMatchObject(few);
    expect(await ask(`${messages}/count_tokens`, { messages: [{ role: "user", content: text }] })).toMatchObject(few);
  });

  test("a bit too long: the number is told; and tokens beyond the memory are counted", async () => {
    const text = "7".repeat(1500);
    expect((await ask(completions, { prompt: text })).message).toBe("the prompt is too long: it has 1500 tokens, and there is room for at most 1023, and an answer");
    expect((await ask(`${messages}/count_tokens`, { messages: [{ role: "user", content: "7".repeat(3000) }] })).status).toBe(200);
  });
});

test("in process, values that nest deep are named by their argument", () => {
  const value = JSON.parse(deep(40_000)) as object;
  const session = tiny.session();
  const expected = "values that nest at most 5000 deep";
  expect(thrownBy(() => session.chat([hello], { tools: [value] }))).toMatchObject({ op: "session.chat", argument: "tools", expected });
  expect(thrownBy(() => session.chat([hello], { variables: { value } }))).toMatchObject({ op: "session.chat", argument: "variables", expected });
  expect(thrownBy(() => session.chat([{ ...hello, value }]))).toMatchObject({ op: "session.chat", argument: "messages[0].value", received: "one that nests deeper" });
  expect(session.length).toBe(0);
});
