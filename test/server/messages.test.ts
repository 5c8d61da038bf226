/** `POST /v1/messages`, by its own client, by hand, and in the form that Claude Code sends. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { eventsOf, lakeAnswers, lakeParameters, runTool, serve, toolNames } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";
import { openReciter } from "../support/turns.ts";

const device = openDevice(2);
const path = "/v1/messages";
let tiny: LanguageModel;
let reciter: LanguageModel;
let server: TestServer;
let lakes: TestServer;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 12, pages: 128 });
  reciter = await openReciter(device, { answers: lakeAnswers, template: thinkingTemplate, tokens: "other" }, { states: 12 });
  server = serve(tiny, { name: "tiny" });
  lakes = serve(reciter);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await lakes[Symbol.asyncDispose]();
  device.close();
});

const clientOf = ({ url }: TestServer) => new Anthropic({ baseURL: url.href, apiKey: "none", maxRetries: 0 });
const tools = toolNames.map((name) => ({ name, description: `The ${name} of a lake`, input_schema: lakeParameters }));
const thinking = { type: "enabled" as const, budget_tokens: 1024 };
const question = { role: "user" as const, content: "Which is deeper, Baikal or Superior?" };
const hello = [{ role: "user" as const, content: "Hello" }];

test.each([true, false])("the client runs a loop of tools to its end, streamed: %p", async (stream) => {
  const client = clientOf(lakes);
  const messages: Anthropic.MessageParam[] = [question];
  const seen: unknown[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const body = { model: "any", max_tokens: 2000, thinking, tools, messages };
    const message = stream ? await client.messages.stream(body).finalMessage() : await client.messages.create(body);
    seen.push([message.content.map((block) => (block.type === "thinking" ? block.thinking : block.type === "text" ? block.text : block.type === "tool_use" ? [block.name, block.input] : block)), message.stop_reason]);
    if (turn > 0) expect(message.usage.cache_read_input_tokens).toBeGreaterThan(0);
    messages.push({ role: "assistant", content: message.content });
    const results = message.content.flatMap((block) =>
      block.type !== "tool_use" ? [] : [{ type: "tool_result" as const, tool_use_id: block.id, content: [{ type: "text" as const, text: runTool(block.name, block.input as { lake: string }) }] }],
    );
    messages.push({ role: "user", content: results });
  }
  expect(seen).toEqual([
    [["Two depths are wanted.", "Let me see.", ["depth", { lake: "Baikal" }], ["depth", { lake: "Superior 🏞️" }]], "tool_use"],
    [["An area, to be sure.", ["area", { lake: "Superior" }]], "tool_use"],
    [["That is clear now.", "Baikal is four times as deep as Superior."], "end_turn"],
  ]);
});

test.each([true, false])("the client's own loop of tools asks for a thread, and goes on without one, streamed: %p", async (stream) => {
  const runner = clientOf(lakes).beta.messages.toolRunner({
    model: "any",
    max_tokens: 2000,
    thinking,
    stream,
    messages: [question],
    tools: toolNames.map((name) => ({ type: "custom" as const, name, input_schema: lakeParameters, parse: (input: unknown) => input as { lake: string }, run: (input: { lake: string }) => runTool(name, input) })),
  });
  const before = lakes.log.length;
  const { content } = await runner.runUntilDone();
  expect(content.at(-1)).toMatchObject({ type: "text", text: "Baikal is four times as deep as Superior." });
  expect(lakes.log.slice(before).map(({ status }) => status)).toEqual([400, 200, 200, 200]);
});

test("the blocks of a whole answer have the members that clients check", async () => {
  const message = (await (await lakes.send(path, { max_tokens: 2000, thinking, tools, messages: [question] })).json()) as any;
  expect(message.content.slice(0, 2)).toEqual([{ type: "thinking", thinking: "Two depths are wanted.", signature: "gated-delta" }, { type: "text", text: "Let me see." }]);
  expect(message.usage).toEqual({ input_tokens: expect.any(Number), cache_creation_input_tokens: 0, cache_read_input_tokens: expect.any(Number), output_tokens: expect.any(Number), output_tokens_details: { thinking_tokens: expect.any(Number) } });
  expect(message.usage.output_tokens_details.thinking_tokens).toBeWithin(1, message.usage.output_tokens);
});

test("the events of a stream, in full", async () => {
  const response = await lakes.send(path, { max_tokens: 2000, thinking, tools, messages: [question], stream: true });
  const events = await eventsOf(response);
  const blocks = events.filter(({ type }) => type === "content_block_start").map(({ index, content_block: { type } }) => [index, type]);
  expect(blocks).toEqual([[0, "thinking"], [1, "text"], [2, "tool_use"], [3, "tool_use"]]);
  expect(events.filter(({ type }) => type === "content_block_stop").map(({ index }) => index)).toEqual([0, 1, 2, 3]);
  let open: number | undefined;
  for (const { type, index } of events) {
    if (type === "content_block_start") [open] = [index];
    if (type.startsWith("content_block")) expect(index).toBe(open);
  }
  expect(events[0]).toMatchObject({ type: "message_start", message: { role: "assistant", content: [], stop_reason: null, usage: { output_tokens: 1 } } });
  expect(events.slice(-2)).toMatchObject([{ type: "message_delta", delta: { stop_reason: "tool_use", stop_sequence: null }, usage: { output_tokens: expect.any(Number) } }, { type: "message_stop" }]);
  expect(events.filter(({ delta }) => delta?.type === "signature_delta").length).toBe(1);
  const { input_tokens: tokens, cache_read_input_tokens: cached } = events.at(-2).usage;
  const counted = await clientOf(lakes).messages.countTokens({ model: "any", thinking, tools, messages: [question] });
  expect(counted.input_tokens).toBe(tokens + cached);
});

test("an answer ends at a stop sequence, which it names, and at a length", async () => {
  const client = clientOf(lakes);
  const body = { model: "any", max_tokens: 2000, thinking, tools, messages: [question] };
  const stopped = await client.messages.create({ ...body, stop_sequences: ["never", "me see"] });
  expect([stopped.stop_reason, stopped.stop_sequence, stopped.content.at(-1)]).toMatchObject(["stop_sequence", "me see", { type: "text", text: "Let " }]);
  const short = await client.messages.create({ ...body, max_tokens: 2 });
  expect([short.stop_reason, short.usage.output_tokens]).toEqual(["max_tokens", 2]);
  const one = await client.messages.create({ ...body, tool_choice: { type: "auto", disable_parallel_tool_use: true } });
  expect(one.content.filter(({ type }) => type === "tool_use").length).toBe(1);
});

test("settings are those of a session, and a form is kept to", async () => {
  const client = clientOf(server);
  using session = tiny.session().chat(hello, { specialTokens: "text", variables: { enable_thinking: false } });
  const expected = await session.complete({ sampling: "model", temperature: 0, maxTokens: 12 });
  const coldest = { temperature: 0 }; // an option that the client's types leave out
  const answer = await client.messages.create({ model: "tiny", max_tokens: 12, messages: hello, ...coldest });
  expect(answer.content.map((block) => block.type === "text" && block.text).join("")).toBe(expected.text);
  expect([answer.model, answer.usage.output_tokens]).toEqual(["tiny", expected.tokens.length]);
  const schema = { type: "object", properties: { deep: { type: "boolean" } }, required: ["deep"], additionalProperties: false };
  const formed = (await (await server.send(path, { max_tokens: 60, messages: hello, output_config: { format: { type: "json_schema", schema } } })).json()) as any;
  expect(JSON.parse(formed.content[0].text)).toEqual({ deep: expect.any(Boolean) });
});

describe("failures", () => {
  const wrong: [name: string, body: object, text: RegExp][] = [
    ["no limit", { messages: hello }, /max_tokens: expected an integer/],
    ["an image", { max_tokens: 1, messages: [{ role: "user", content: [{ type: "image", source: {} }] }] }, /^messages\[0\]\.content\[0\]\.type: the model reads text alone/],
    ["a document in a tool's result", { max_tokens: 1, messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [{ type: "document" }] }] }] }, /text alone/],
    ["what is no part of a tool's result", { max_tokens: 1, messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [{ type: "text", text: "b" }, null] }] }] }, /^messages\[0\]\.content\[0\]\.content\[1\]: expected a part with a type, got null/],
    ["what is no result of a tool", { max_tokens: 1, messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: {} }] }] }, /^messages\[0\]\.content\[0\]\.content: expected a text, or an array of parts/],
    ["half a character to stop at", { max_tokens: 1, messages: hello, stop_sequences: ["ok", "\ud800"] }, /^stop_sequences\[1\]: expected a well-formed text/],
    ["a tool of Anthropic's servers", { max_tokens: 1, messages: hello, tools: [{ type: "web_search_20250305", name: "web_search" }] }, /tools\[0\]\.type/],
    ["a summary", { max_tokens: 1, messages: hello, compaction: { type: "enabled" } }, /^compaction: /],
    ["a tool that there is not", { max_tokens: 1, messages: hello, tools, tool_choice: { type: "tool", name: "width" } }, /^tool_choice\.name: expected "depth" \| "area", got "width"/],
    ["a form that can't be kept", { max_tokens: 1, messages: hello, output_config: { format: { type: "json_schema", schema: { not: {} } } } }, /^output_config\.format\.schema\.not: /],
    ["a form without its schema", { max_tokens: 1, messages: hello, output_config: { format: { type: "json_schema" } } }, /^output_config\.format\.schema: expected a JSON Schema, got nothing/],
    ["arguments that can't be kept", { max_tokens: 1, messages: hello, tools: [{ name: "a", input_schema: { properties: { b: { not: {} } } } }], tool_choice: { type: "any" } }, /^tools\[0\]\.input_schema\.properties\.b\.not: /],
    ["the beginning of an answer", { max_tokens: 1, messages: [...hello, { role: "assistant", content: "{" }] }, /last message is the assistant's/],
    ["a choice without tools", { max_tokens: 1, messages: hello, tool_choice: { type: "any" } }, /tool_choice/],
    ["a temperature out of range", { max_tokens: 1, messages: hello, temperature: 2 }, /temperature: expected a number in 0\.\.1/],
    ["a prompt that is too long", { max_tokens: 1, messages: [{ role: "user", content: "abc ".repeat(20_000) }] }, /prompt is too long/],
  ];
  test.each(wrong)("%s: status 400 in its own form, also for a stream", async (_, body, text) => {
    for (const stream of [false, true]) {
      const response = await server.send(path, { ...body, stream });
      const { type, error } = (await response.json()) as any;
      expect([response.status, type, error.type]).toEqual([400, "error", "invalid_request_error"]);
      expect(error.message).toMatch(text);
    }
  });

  test("on a path that others share, or that there is not, the header tells the form", async () => {
    for (const name of ["models/other", "messages/batches", "files"]) {
      const { type, error } = (await (await server.send(`/v1/${name}`, undefined, { headers: { "anthropic-version": "2023-06-01" } })).json()) as any;
      expect([type, error.type]).toEqual(["error", "not_found_error"]);
    }
    const error = await clientOf(server).models.retrieve("other").catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Anthropic.NotFoundError);
    expect((error as any).error.error.type).toBe("not_found_error");
  });

  test("the client gets a wrong key, and a server that is about to end, as errors of its own", async () => {
    await using closed = serve(tiny, { keys: ["secret"] });
    const wrongKey = await clientOf(closed).messages.create({ model: "a", max_tokens: 1, messages: hello }).catch((error: unknown) => error);
    expect(wrongKey).toBeInstanceOf(Anthropic.AuthenticationError);
    await closed.handler.drain();
    const client = new Anthropic({ baseURL: closed.url.href, apiKey: "secret", maxRetries: 0 });
    expect(await client.messages.create({ model: "a", max_tokens: 1, messages: hello }).catch(({ status, error }) => [status, error.error.type])).toEqual([529, "overloaded_error"]);
  });
});

describe("Claude Code", () => {
  /** A request in the form of Claude Code, which changes the header in its system prompt each time. */
  const requestOf = (turn: number, messages: object[]) => ({
    model: "claude-sonnet-4-5",
    system: [
      { type: "text", text: `x-anthropic-billing-header: cc_version=2.1.${turn}; cc_entrypoint=cli; cch=${turn}a77f;` },
      { type: "text", text: "You are Claude Code, Anthropic's official CLI for Claude.", cache_control: { type: "ephemeral" } },
      { type: "text", text: "Use the tools to look things up. ".repeat(8), cache_control: { type: "ephemeral" } },
    ],
    messages,
    tools: tools.map((tool, i) => (i === 1 ? { ...tool, cache_control: { type: "ephemeral" } } : tool)),
    tool_choice: { type: "auto" },
    metadata: { user_id: "user_0_account__session_0" },
    max_tokens: 32000,
    thinking: { type: "enabled", budget_tokens: 31999 },
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    stream: true,
  });
  const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14", authorization: "Bearer any" };

  test("resumes from the cache although its billing header changes", async () => {
    const first = [{ role: "user", content: [{ type: "text", text: "<system-reminder>\nBe brief.\n</system-reminder>" }, { type: "text", text: "Which?", cache_control: { type: "ephemeral" } }] }];
    const ask = async (turn: number, messages: object[]) => {
      const response = await server.send("/v1/messages?beta=true", { ...requestOf(turn, messages), max_tokens: 5 }, { headers });
      expect([response.status, response.status === 200 ? "" : await response.text()]).toEqual([200, ""]);
      return (await eventsOf(response)).at(-2).usage;
    };
    const cold = await ask(1, first);
    expect(cold.cache_read_input_tokens).toBe(0);
    const warm = await ask(2, first);
    expect(warm.input_tokens + warm.cache_read_input_tokens).toBe(cold.input_tokens);
    expect(warm.cache_read_input_tokens).toBeGreaterThan(0.9 * cold.input_tokens);
    const asText = (turn: number) => ({ ...requestOf(turn, first), max_tokens: 1, stream: false, system: requestOf(turn, first).system.map(({ text }) => text).join("\n") });
    const usages = [];
    for (const turn of [3, 4]) usages.push(((await (await server.send(path, asText(turn), { headers })).json()) as any).usage);
    expect(usages[1].cache_read_input_tokens).toBeGreaterThan(0.9 * usages[1].input_tokens);
  });
});
