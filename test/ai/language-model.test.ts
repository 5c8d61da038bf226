/** The model of `gated-delta/ai` in the AI SDK's own functions. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { generateObject, generateText, isStepCount, jsonSchema, Output, streamText } from "ai";
import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { ModelMessage } from "ai";
import { languageModel } from "../../lib/ai.ts";
import { messagesOf } from "../../lib/ai/prompt.ts";
import type { AiModelOptions } from "../../lib/ai.ts";
import { GatedDeltaError } from "../../lib/index.ts";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import type { SessionCache } from "../../lib/model.ts";
import { lakeQuestion as prompt, lakeSteps as expected, lakeTools as tools } from "../support/ai-tools.ts";
import { thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { lakeAnswers, lakeParameters, toolNames } from "../support/servers.ts";
import { noTags, openReciter } from "../support/turns.ts";

const device = openDevice(2);
let tiny: LanguageModel;
let lakes: LanguageModel;
let cache: SessionCache;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 12, pages: 128 });
  lakes = await openReciter(device, { answers: lakeAnswers, template: thinkingTemplate, tokens: "other" }, { states: 12 });
  cache = lakes.cache({ bytes: lakes.states * lakes.stateBytes + lakes.pages * lakes.pageBytes, step: 16 });
});
afterAll(() => device.close());

const hello = [{ role: "user" as const, content: [{ type: "text" as const, text: "Hello" }] }];
const schema = jsonSchema<{ deep: boolean }>({ type: "object", properties: { deep: { type: "boolean" } }, required: ["deep"], additionalProperties: false });

/** The parts of a stream from the model itself. */
async function partsOf(model: LanguageModelV4, options: Partial<LanguageModelV4CallOptions>): Promise<LanguageModelV4StreamPart[]> {
  const { stream } = await model.doStream({ prompt: hello, ...options });
  const parts: LanguageModelV4StreamPart[] = [];
  for await (const part of stream as unknown as AsyncIterable<LanguageModelV4StreamPart>) parts.push(part);
  return parts;
}

test("nothing of the SDK is imported at run time", () => {
  const files = [...new Bun.Glob("**/*.ts").scanSync(join(import.meta.dir, "../../lib"))].map((file) => readFileSync(join(import.meta.dir, "../../lib", file), "utf8"));
  const imports = files.flatMap((text) => [...text.matchAll(/^.*"@ai-sdk\/provider";$/gm)].map(([line]) => line));
  expect(imports.length).toBeGreaterThan(2);
  expect(imports.filter((line) => !line.startsWith("import type "))).toEqual([]);
});

test.each([true, false])("runs the loop of tools, streamed: %p", async (stream) => {
  const options = { model: languageModel(lakes, { cache }), prompt, tools, stopWhen: isStepCount(5), maxRetries: 0 };
  const steps = stream ? await streamText(options).steps : (await generateText(options)).steps;
  expect(steps.map(({ reasoningText, text, toolCalls }) => [reasoningText, text, toolCalls.map(({ input }) => (input as { lake: string }).lake)])).toEqual(expected);
  expect(steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "tool-calls", "stop"]);
  for (const [i, { usage }] of steps.entries()) {
    const { inputTokens, inputTokenDetails: { cacheReadTokens, noCacheTokens }, outputTokens, outputTokenDetails: { reasoningTokens, textTokens } } = usage;
    expect(cacheReadTokens! + noCacheTokens!).toBe(inputTokens!);
    expect(reasoningTokens! + textTokens!).toBe(outputTokens!);
    expect(reasoningTokens).toBeGreaterThan(0);
    if (i > 0) expect(cacheReadTokens).toBeGreaterThan(0);
  }
});

test("the parts of a stream, in full", async () => {
  const functions = toolNames.map((name) => ({ type: "function" as const, name, inputSchema: lakeParameters }));
  const parts = await partsOf(languageModel(lakes), { prompt: [{ role: "user", content: [{ type: "text", text: prompt }] }], tools: functions });
  const kinds = parts.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]);
  const call = ["tool-input-start", "tool-input-delta", "tool-input-end", "tool-call"];
  expect(kinds as string[]).toEqual(["stream-start", "response-metadata", "reasoning-start", "reasoning-delta", "reasoning-end", "text-start", "text-delta", "text-end", ...call, ...call, "finish"]);
  expect(parts.at(-1)).toMatchObject({ type: "finish", finishReason: { unified: "tool-calls", raw: "calls" }, usage: { inputTokens: { total: expect.any(Number) } } });
});

test("an object fits its schema, by either function, and next to tools that it may call", async () => {
  const model = languageModel(tiny, { sampling: "greedy" });
  const { output } = await generateText({ model, prompt, output: Output.object({ schema }), maxRetries: 0 });
  expect(output).toEqual({ deep: expect.any(Boolean) });
  const { object } = await generateObject({ model, prompt, schema, maxRetries: 0 });
  expect(object).toEqual({ deep: expect.any(Boolean) });
  const functions = [{ type: "function" as const, name: "depth", inputSchema: { ...lakeParameters, properties: { lake: { enum: ["Baikal", "Superior"] } } } }];
  const both = { prompt: hello, tools: functions, responseFormat: { type: "json" as const, schema: { type: "boolean" as const } } };
  const calls = (await languageModel(lakes).doGenerate(both)).content.filter(({ type }) => type !== "reasoning");
  expect(calls.length).toBeGreaterThan(0);
  for (const part of calls) expect(part).toMatchObject({ type: "tool-call", toolName: "depth", input: expect.stringMatching(/^\{"lake": ?"(?:Baikal|Superior)"\}$/) });
  const gatedDelta = { logitBias: noTags(lakes) };
  const { content } = await languageModel(lakes).doGenerate({ ...both, providerOptions: { gatedDelta }, reasoning: "none" });
  expect(content.at(-1)).toEqual({ type: "text", text: expect.stringMatching(/^(?:true|false)$/) });
});

test("settings are those of a session, and a seed gives the same answer", async () => {
  const model = languageModel(tiny, { name: "tiny" });
  const gatedDelta = { minP: 0.01, repetitionPenalty: 1.1, logitBias: { 5: -100 } };
  const settings = { temperature: 0.9, topP: 0.95, topK: 40, frequencyPenalty: 0.5, presencePenalty: 0.25, seed: 3 };
  using session = tiny.session().chat([{ role: "user", content: "Hello" }], { specialTokens: "text" });
  const alone = await session.complete({ sampling: "model", ...settings, ...gatedDelta, maxTokens: 15 });
  const { text, usage, response } = await generateText({ model, prompt: "Hello", ...settings, maxOutputTokens: 15, providerOptions: { gatedDelta } });
  expect([text, usage.outputTokens, response.modelId]).toEqual([alone.text, alone.tokens.length, "tiny"]);
  const streamed = streamText({ model, prompt: "Hello", ...settings, maxOutputTokens: 15, providerOptions: { gatedDelta } });
  expect(await streamed.text).toBe(alone.text);
});

test("a regular expression, and a stop string, which ends the answer and is named", async () => {
  const model = languageModel(tiny);
  const { text } = await generateText({ model, prompt: "Hello", providerOptions: { gatedDelta: { regex: "[a-c]{3}" } } });
  expect(text).toMatch(/^[a-c]{3}$/);
  const { content, finishReason } = await languageModel(lakes).doGenerate({ prompt: [{ role: "user", content: [{ type: "text", text: "Which?" }] }], stopSequences: ["me see"] });
  expect([content.at(-1), finishReason]).toEqual([{ type: "text", text: "Let " }, { unified: "stop", raw: 'stop sequence "me see"' }]);
});

test("salts share nothing, and a call can have its own", async () => {
  const long = "Name three lakes of the north, and three of the south. ".repeat(3);
  const model = languageModel(lakes, { cache, salt: "one" });
  const cached = async (salt?: string) => {
    const { usage } = await generateText({ model, prompt: long, maxOutputTokens: 1, ...(salt === undefined ? {} : { providerOptions: { gatedDelta: { salt } } }) });
    return usage.inputTokenDetails.cacheReadTokens;
  };
  expect(await cached()).toBe(0);
  expect(await cached()).toBeGreaterThan(16);
  expect(await cached("two")).toBe(0);
});

test("an aborted call ends, and a stream that is left frees its memory", async () => {
  const endless = { maxOutputTokens: 4000, providerOptions: { gatedDelta: { ignoreModelStops: true } } };
  const model = languageModel(tiny);
  const reason = new Error("enough");
  const call = new AbortController();
  const generated = model.doGenerate({ prompt: hello, ...endless, abortSignal: call.signal });
  call.abort(reason);
  expect(await Promise.resolve(generated).catch((error: unknown) => error)).toBe(reason);
  const controller = new AbortController();
  const kinds: string[] = [];
  for await (const { type } of streamText({ model, prompt: "Hello", ...endless, abortSignal: controller.signal, onError: () => {} }).stream) {
    kinds.push(type);
    if (kinds.length > 8) controller.abort();
  }
  expect(kinds.at(-1)).toBe("abort");
  const { stream } = await model.doStream({ prompt: hello, ...endless });
  const reader = stream.getReader();
  for (let i = 0; i < 5; i++) await reader.read();
  await reader.cancel();
  expect(tiny.freeStates).toBe(tiny.states);
});

test("a text as a file is the text, given as it is, as bytes and in base64", async () => {
  const file = "Größe, 水: 🏞️";
  const parts = [{ type: "text", text: file }, { type: "data", data: new TextEncoder().encode(file) }, { type: "data", data: Buffer.from(file) }, { type: "data", data: Buffer.from(file).toString("base64") }] as const;
  for (const mediaType of ["text/plain", "text/markdown; charset=utf-8", "text/*", "text"]) {
    for (const data of parts) expect(messagesOf("op", [{ role: "user", content: [{ type: "file", mediaType, data }] }])).toEqual([{ role: "user", content: file }]);
  }
  const totalOf = async (content: object[]) => (await generateText({ model: languageModel(tiny), messages: [{ role: "user", content }] as ModelMessage[], maxOutputTokens: 1 })).usage.inputTokens;
  expect(await totalOf([{ type: "text", text: `Sum up: ${file}` }])).toBe(await totalOf([{ type: "text", text: "Sum up: " }, { type: "file", mediaType: "text/plain", data: new TextEncoder().encode(file) }]));
});

describe("what is wrong", () => {
  const text = (value: string) => [{ type: "text" as const, text: value }];
  const image = { type: "file" as const, mediaType: "image/png", data: { type: "data" as const, data: "" } };
  const wrong: [name: string, options: object, argument: string][] = [
    ["an image", { prompt: [{ role: "user", content: [image] }] }, "prompt[0].content[0]"],
    ["a text that is not UTF-8", { prompt: [{ role: "user", content: [{ ...image, mediaType: "text/plain", data: { type: "data", data: Uint8Array.of(0x61, 0xff) } }] }] }, "prompt[0].content[0].data"],
    ["a text elsewhere", { prompt: [{ role: "user", content: [{ ...image, mediaType: "text", data: { type: "url", url: new URL("http://localhost/") } }] }] }, "prompt[0].content[0].data"],
    ["what a provider thought in pictures", { prompt: [...hello, { role: "assistant", content: [{ ...image, type: "reasoning-file" }] }] }, "prompt[1].content[0]"],
    ["a call without an object", { prompt: [...hello, { role: "assistant", content: [{ type: "tool-call", toolCallId: "a", toolName: "b", input: "no" }] }] }, "prompt[1].content[0].input"],
    ["an image in a tool's result", { prompt: [...hello, { role: "tool", content: [{ type: "tool-result", toolCallId: "a", toolName: "b", output: { type: "content", value: [image] } }] }] }, "prompt[1].content[0].output.value[0]"],
    ["options that are none", { prompt: hello, providerOptions: { gatedDelta: [] } }, "providerOptions.gatedDelta"],
    ["a salt that is no text", { prompt: hello, providerOptions: { gatedDelta: { salt: 1 } } }, "providerOptions.gatedDelta.salt"],
    ["a function", { prompt: hello, providerOptions: { gatedDelta: { processors: [] } } }, "providerOptions.gatedDelta.processors"],
    ["probabilities", { prompt: hello, providerOptions: { gatedDelta: { logprobs: true } } }, "providerOptions.gatedDelta.logprobs"],
    ["likely tokens", { prompt: hello, providerOptions: { gatedDelta: { topLogprobs: 2 } } }, "providerOptions.gatedDelta.topLogprobs"],
    ["a limit as a text", { prompt: hello, providerOptions: { gatedDelta: { maxTokens: "5" } } }, "providerOptions.gatedDelta.maxTokens"],
    ["a seed as a text", { prompt: hello, providerOptions: { gatedDelta: { seed: "7" } } }, "providerOptions.gatedDelta.seed"],
    ["a limit that is null", { prompt: hello, providerOptions: { gatedDelta: { minTokens: null } } }, "providerOptions.gatedDelta.minTokens"],
    ["a limit of thoughts as a text", { prompt: hello, providerOptions: { gatedDelta: { maxReasoningTokens: "5" } } }, "providerOptions.gatedDelta.maxReasoningTokens"],
    ["a call without tools", { prompt: hello, toolChoice: { type: "required" } }, "toolChoice.type"],
    ["a call where no tool is a function", { prompt: hello, tools: [{ type: "provider", id: "other.search", name: "search", args: {} }], toolChoice: { type: "tool", toolName: "search" } }, "toolChoice.type"],
    ["another choice", { prompt: hello, toolChoice: { type: "any" } }, "toolChoice.type"],
    ["a choice without a name", { prompt: hello, tools: [{ type: "function", name: "f", inputSchema: {} }], toolChoice: { type: "tool" } }, "toolChoice.toolName"],
    ["a signal that is none", { prompt: hello, abortSignal: 5 }, "abortSignal"],
    ["a text that is none", { prompt: [{ role: "user", content: [{ type: "text", text: 5 }] }] }, "prompt[0].content[0].text"],
    ["a text instead of parts", { prompt: [{ role: "user", content: "Hello" }] }, "prompt[0].content"],
    ["a part that is none", { prompt: [...hello, { role: "assistant", content: [null] }] }, "prompt[1].content[0]"],
    ["a message of the system without a text", { prompt: [{ role: "system", content: 5 }, ...hello] }, "prompt[0].content"],
    ["a file without contents", { prompt: [{ role: "user", content: [{ type: "file", mediaType: "text/plain" }] }] }, "prompt[0].content[0].data"],
    ["a result of no type", { prompt: [...hello, { role: "tool", content: [{ type: "tool-result", toolCallId: "a", toolName: "b", output: { type: "later" } }] }] }, "prompt[1].content[0].output.type"],
    ["a result without a value", { prompt: [...hello, { role: "tool", content: [{ type: "tool-result", toolCallId: "a", toolName: "b", output: { type: "json" } }] }] }, "prompt[1].content[0].output.value"],
    ["a misspelt setting", { prompt: hello, providerOptions: { gatedDelta: { minp: 1 } } }, "minp"],
    ["a temperature out of range", { prompt: hello, temperature: -1 }, "temperature"],
    ["a schema that would not be kept", { prompt: hello, responseFormat: { type: "json", schema: { not: {} } } }, "schema.not"],
  ];
  test.each(wrong)("%s is refused by name", async (_, options, argument) => {
    const error = await Promise.resolve(languageModel(tiny).doGenerate(options as LanguageModelV4CallOptions)).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(GatedDeltaError);
    expect((error as GatedDeltaError).argument).toBe(argument);
    const streamed = await partsOf(languageModel(tiny), options).then((parts) => (parts.at(-1) as { readonly error?: unknown }).error, (caught: unknown) => caught);
    expect(streamed).toMatchObject({ argument });
  });

  test("errors say that a file is no text, or where its text is missing", () => {
    const messageOf = (part: object) => thrownBy(() => messagesOf("op", [{ role: "user", content: [part] }] as LanguageModelV4CallOptions["prompt"])).message;
    expect(messageOf(image)).toBe("op: prompt[0].content[0]: expected text: the model reads text alone, got a file of type image/png");
    expect(messageOf({ ...image, mediaType: "text/csv", data: { type: "reference", reference: {} } })).toBe("op: prompt[0].content[0].data: expected the text or the bytes of a file, got a part of type reference");
    expect(messageOf({ ...image, mediaType: "text/csv", data: { type: "data", data: "/w==" } })).toBe("op: prompt[0].content[0].data: expected the bytes of a text in UTF-8, for a file of type text/csv, got Uint8Array of 1 bytes");
  });

  test("a stream ends with its error", async () => {
    expect((await partsOf(languageModel(tiny), { temperature: -1 })).at(-1)).toMatchObject({ type: "error", error: { argument: "temperature" } });
  });

  test("what has no effect is a warning, and results have one text each", async () => {
    const { warnings } = await languageModel(tiny).doGenerate({ prompt: hello, maxOutputTokens: 1, reasoning: "high", tools: [{ type: "provider", id: "other.search", name: "search", args: {} }] });
    expect(warnings.map(({ type }) => type).toSorted()).toEqual(["compatibility", "unsupported"]);
    const outputs = [
      { type: "text", value: "a" }, { type: "json", value: { b: 1 } }, { type: "error-text", value: "c" }, { type: "error-json", value: [1] },
      { type: "execution-denied" }, { type: "execution-denied", reason: "d" }, { type: "content", value: text("e") },
      { type: "content", value: [{ type: "file", mediaType: "text/plain", data: { type: "text", text: "f" } }] },
    ] as const;
    const results = outputs.map((output, i) => ({ type: "tool-result" as const, toolCallId: `${i}`, toolName: "depth", output }));
    const calls = outputs.map((_, i) => ({ type: "tool-call" as const, toolCallId: `${i}`, toolName: "depth", input: { lake: "Baikal" } }));
    const messages = [...hello, { role: "assistant", content: calls }, { role: "tool", content: results }] as unknown as LanguageModelV4CallOptions["prompt"];
    const { usage } = await languageModel(lakes).doGenerate({ prompt: messages, maxOutputTokens: 1 });
    const texts = ["a", '{"b":1}', "c", "[1]", "The user has not allowed this call.", "d", "e", "f"];
    using session = lakes.session().chat([
      { role: "user", content: "Hello" },
      { role: "assistant", content: "", tool_calls: calls.map(({ toolCallId: id, input }) => ({ type: "function", id, function: { name: "depth", arguments: input } })) },
      ...texts.map((content, i) => ({ role: "tool", name: "depth", tool_call_id: `${i}`, content })),
    ], { specialTokens: "text" });
    expect(usage.inputTokens.total).toBe(session.length);
  });

  test.each([["cache", { cache: {} }], ["name", { name: "" }], ["salt", { salt: 1 }], ["sampling", { sampling: "warm" }], ["drafts", { drafts: 1 }], ["other", { other: 1 }]] as const)("an option %s is named", (argument, options) => {
    const error = thrownBy(() => languageModel(tiny, options as AiModelOptions));
    expect([error.op, error.argument]).toEqual(["languageModel", argument]);
  });

  test("no model, and a cache of another one", () => {
    expect(thrownBy(() => languageModel({} as LanguageModel)).argument).toBe("model");
    expect(thrownBy(() => languageModel(tiny, { cache })).argument).toBe("cache");
  });
});
