/** `POST /v1/responses`, by its own client, by hand, and in the form that Codex sends. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import type { Served } from "../../lib/server/api.ts";
import { ResponsesAnswer } from "../../lib/server/openai/responses-answer.ts";
import type { ResponsesBody } from "../../lib/server/openai/responses-schema.ts";
import { ResponsesTools } from "../../lib/server/openai/responses-tools.ts";
import { Problem, unsupported } from "../../lib/server/problem.ts";
import { thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { eventsOf, lakeAnswers, lakeParameters, runTool, serve, toolNames } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";
import { openReciter } from "../support/turns.ts";

const device = openDevice(2);
const path = "/v1/responses";
let tiny: LanguageModel;
let reciter: LanguageModel;
let server: TestServer;
let lakes: TestServer;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 12, pages: 128 });
  // Codex sends instructions, so that its prompts begin with one more message.
  const answers = { ...lakeAnswers, 4: lakeAnswers[3], 6: lakeAnswers[5], 8: lakeAnswers[7] };
  reciter = await openReciter(device, { answers, template: thinkingTemplate, tokens: "other" }, { states: 12 });
  server = serve(tiny, { name: "tiny" });
  lakes = serve(reciter);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await lakes[Symbol.asyncDispose]();
  device.close();
});

const clientOf = ({ url }: TestServer) => new OpenAI({ baseURL: new URL("/v1", url).href, apiKey: "none", maxRetries: 0 });
const tools = toolNames.map((name) => ({ type: "function" as const, name, description: `The ${name} of a lake`, parameters: lakeParameters, strict: false }));
const question = { role: "user" as const, content: "Which is deeper, Baikal or Superior?" };

/** The parts of a response: thoughts, texts, and calls with their arguments. */
const partsOf = (output: readonly any[]) =>
  output.map(({ type, content, name, arguments: text }) => (type === "function_call" ? [name, text] : content.map((part: any) => part.text).join("")));

const expected = [
  ["Two depths are wanted.", "Let me see.", ["depth", '{"lake": "Baikal"}'], ["depth", '{"lake": "Superior 🏞️"}']],
  ["An area, to be sure.", ["area", '{"lake": "Superior"}']],
  ["That is clear now.", "Baikal is four times as deep as Superior."],
];

test.each([true, false])("the client runs a loop of tools to its end, streamed: %p", async (stream) => {
  const client = clientOf(lakes);
  const input: OpenAI.Responses.ResponseInputItem[] = [question];
  const seen: unknown[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const body = { model: "any", input, tools, store: false, max_output_tokens: 2000 };
    const response = stream ? await client.responses.stream(body).finalResponse() : await client.responses.create(body);
    expect(response.status).toBe("completed");
    seen.push(partsOf(response.output));
    if (turn > 0) expect(response.usage!.input_tokens_details.cached_tokens).toBeGreaterThan(0);
    input.push(...(response.output as OpenAI.Responses.ResponseInputItem[]));
    for (const item of response.output) {
      if (item.type === "function_call") input.push({ type: "function_call_output", call_id: item.call_id, output: runTool(item.name, JSON.parse(item.arguments)) });
    }
  }
  expect(seen).toEqual(expected);
});

test("thoughts come sealed where a response is not to be stored, or they are asked for", async () => {
  for (const [body, sealed] of [[{}, false], [{ store: false }, true], [{ include: ["reasoning.encrypted_content"] }, true]] as const) {
    const { output, metadata } = (await (await lakes.send(path, { input: [question], tools, metadata: { turn: "1" }, ...body })).json()) as any;
    expect([metadata, "encrypted_content" in output[0]]).toEqual([{ turn: "1" }, sealed]);
  }
});

test("the events of a stream, in full", async () => {
  const response = await lakes.send(path, { input: [question], tools, stream: true });
  const events = await eventsOf(response);
  expect(events.map(({ sequence_number: number }) => number)).toEqual(events.map((_, i) => i));
  const kinds = events.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]);
  const item = (delta: string, done: string) => ["response.output_item.added", "response.content_part.added", delta, done, "response.content_part.done", "response.output_item.done"];
  const call = ["response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done"];
  expect(kinds).toEqual([
    "response.created",
    "response.in_progress",
    ...item("response.reasoning_text.delta", "response.reasoning_text.done"),
    ...item("response.output_text.delta", "response.output_text.done"),
    ...call,
    ...call,
    "response.completed",
  ]);
  const last = events.at(-1).response;
  expect(events.filter(({ type }) => type === "response.output_item.done").map(({ item: done }) => done)).toEqual(last.output);
  expect(partsOf(last.output)).toEqual(expected[0]!);
  expect(last.usage.total_tokens).toBe(last.usage.input_tokens + last.usage.output_tokens);
});

test("an answer that is cut off is incomplete", async () => {
  for (const stream of [false, true]) {
    const response = await lakes.send(path, { input: [question], tools, stream, max_output_tokens: 2 });
    const { status, incomplete_details: details, output } = stream ? (await eventsOf(response)).at(-1).response : ((await response.json()) as any);
    expect([status, details, output.map((item: any) => item.status)]).toEqual(["incomplete", { reason: "max_output_tokens" }, ["incomplete"]]);
  }
});

test("a form is kept to", async () => {
  const schema = { type: "object", properties: { deep: { type: "boolean" } }, required: ["deep"], additionalProperties: false };
  const response = await clientOf(server).responses.create({ model: "tiny", input: "Hello", text: { format: { type: "json_schema", name: "depth", schema, strict: true } } });
  expect(JSON.parse(response.output_text)).toEqual({ deep: expect.any(Boolean) });
});

test("an answer that takes too long fails in a stream's own form", async () => {
  await using slow = serve(tiny, { limits: { seconds: 0.1 } });
  const bias = Object.fromEntries(tiny.config.eosTokens.map((token) => [token, -100]));
  const text = "Say it again. ".repeat(60);
  const sent = await slow.send(path, { input: text, stream: true, logit_bias: bias, repetition_penalty: 1.5, temperature: 1, max_output_tokens: 3000 });
  if (sent.status !== 200) return expect(sent.status).toBe(504); // a slow machine, before the stream began
  const { type, response } = (await eventsOf(sent)).at(-1);
  if (type === "response.failed") expect([response.status, response.error.code]).toEqual(["failed", "server_error"]);
  else expect(type).toBe("response.incomplete"); // a fast machine
});

test("a stream tells the client's failures from the server's", () => {
  const errorOf = (problem: Problem) => {
    const text = new ResponsesAnswer({ name: "tiny" } as Served, {} as ResponsesBody, new ResponsesTools({}), false).failed(problem);
    return JSON.parse(/^data: (.*)$/m.exec(text)![1]!).response.error;
  };
  const wrong = { message: "a", type: "invalid_request_error", param: null };
  expect(errorOf(new Problem("too-long", "a"))).toEqual({ ...wrong, code: "context_length_exceeded" });
  expect(errorOf(unsupported("tools[0]", "b"))).toEqual({ ...wrong, message: "tools[0]: b", param: "tools[0]", code: "unsupported_value" });
  expect(errorOf(new Problem("invalid", "a", { member: "input" }))).toEqual({ ...wrong, param: "input", code: "invalid_prompt" });
  for (const [kind, code] of [["internal", "server_error"], ["out-of-time", "server_error"], ["overloaded", "rate_limit_exceeded"]] as const) {
    expect(errorOf(new Problem(kind, "a"))).toEqual({ message: "a", type: "server_error", param: null, code });
  }
});

describe("refused", () => {
  const wrong: [name: string, body: object, param: string, text: RegExp][] = [
    ["no input", {}, "input", /input: expected a text, or an array of items/],
    ["nothing to answer", { input: [] }, "input", /at least one item/],
    ["an earlier response", { input: "a", previous_response_id: "resp_1" }, "previous_response_id", /send the whole conversation/],
    ["work in the background", { input: "a", background: true }, "background", /not kept/],
    ["a search", { input: "a", tools: [{ type: "web_search" }] }, "tools[0].type", /web_search = "disabled"/],
    ["a tool without a name", { input: "a", tools: [{ type: "function" }] }, "tools[0].name", /a text/],
    ["an image", { input: [{ role: "user", content: [{ type: "input_image" }] }] }, "input[0].content[0].type", /text alone/],
    ["an item of an earlier response", { input: [{ type: "item_reference", id: "a" }] }, "input[0].type", /send the items themselves/],
    ["another item", { input: [{ type: "computer_call" }] }, "input[0].type", /a function or custom tool/],
    ["a form that can't be kept", { input: "a", text: { format: { type: "json_schema", schema: { not: {} } } } }, "text.format.schema.not", /^text\.format\.schema\.not: /],
    ["a call without a name", { input: [{ type: "function_call", call_id: "a" }] }, "input[0]", /call_id and name/],
    ["a form without its schema", { input: "a", text: { format: { type: "json_schema", name: "a" } } }, "text.format.schema", /a JSON Schema, got nothing/],
    ["an item without a known role", { input: [{ role: "user", content: "a" }, { role: "narrator", content: "b" }] }, "input[1].role", /expected "system" \| "developer".*got "narrator"/],
    ["what is no item", { input: [{ role: "user", content: "a" }, 5] }, "input[1]", /an item, got 5/],
    ["what is no part of an output", { input: [{ type: "function_call_output", call_id: "a", output: [null] }] }, "input[0].output[0]", /a part, got null/],
    ["arguments that can't be kept, in a namespace", { input: "a", tools: [{ type: "function", name: "f" }, { type: "namespace", name: "n", tools: [{ type: "function", name: "g" }, { type: "function", name: "h", parameters: { properties: { b: { not: {} } } } }] }], tool_choice: "required" }, "tools[1].tools[1].parameters.properties.b.not", /^tools\[1\]\.tools\[1\]\.parameters\.properties\.b\.not: /],
    ["probabilities", { input: "a", top_logprobs: 1 }, "top_logprobs", /chat completions/],
    ["probabilities in the output", { input: "a", include: ["message.output_text.logprobs"] }, "include", /chat completions/],
  ];
  test.each(wrong)("%s", async (_, body, param, text) => {
    const response = await server.send(path, body);
    const { error } = (await response.json()) as any;
    expect([response.status, error.param]).toEqual([400, param]);
    expect(error.message).toMatch(text);
  });
});

test("Codex: its requests, whose thoughts come back sealed, resume from the cache", async () => {
  const text = (type: string, value: string) => [{ type, text: value }];
  const input: any[] = [
    { type: "message", role: "developer", content: text("input_text", "<permissions instructions>Sandbox: read-only.</permissions instructions>") },
    { type: "message", role: "user", content: text("input_text", "Which is deeper, Baikal or Superior?") },
  ];
  const seen: unknown[] = [];
  for (let turn = 0; turn < 3; turn++) {
    const body = {
      model: "any",
      instructions: "You are Codex, based on GPT-5. You are running as a coding agent in the Codex CLI.",
      input,
      tools,
      tool_choice: "auto",
      parallel_tool_calls: true,
      reasoning: { effort: "medium", summary: "auto" },
      store: false,
      stream: true,
      include: ["reasoning.encrypted_content"],
      prompt_cache_key: "0198a7c5",
      text: { verbosity: "medium" },
      client_metadata: { "x-codex-installation-id": "0" },
    };
    const events = await eventsOf(await lakes.send(path, body, { headers: { authorization: "Bearer any", originator: "codex_cli_rs", accept: "text/event-stream" } }));
    const { response } = events.at(-1);
    seen.push(partsOf(response.output));
    if (turn > 0) expect(response.usage.input_tokens_details.cached_tokens).toBeGreaterThan(0.5 * response.usage.input_tokens);
    const results: object[] = [];
    for (const { type, role, content, summary, encrypted_content: sealed, call_id: id, name, arguments: args } of response.output) {
      if (type === "message") input.push({ type, role, content: content.map((part: any) => ({ type: "output_text", text: part.text })) });
      else if (type === "reasoning") input.push({ type, summary, encrypted_content: sealed });
      else {
        input.push({ type, name, arguments: args, call_id: id });
        results.push({ type: "function_call_output", call_id: id, output: runTool(name, JSON.parse(args)) });
      }
    }
    input.push(...results);
  }
  expect(seen).toEqual(expected);
});
