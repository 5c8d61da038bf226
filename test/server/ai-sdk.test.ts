/** The AI SDK over HTTP: its tool loop, thoughts and objects. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, Output, stepCountIs, streamText } from "ai";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { lakeQuestion as prompt, lakeSteps as expected, lakeTools as tools } from "../support/ai-tools.ts";
import { thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { lakeAnswers, serve } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";
import { openReciter } from "../support/turns.ts";

const device = openDevice(2);
let server: TestServer;
let lakes: TestServer;
beforeAll(async () => {
  server = serve(await LanguageModel.load(device, tinyModel, { states: 12, pages: 128 }));
  lakes = serve(await openReciter(device, { answers: lakeAnswers, template: thinkingTemplate, tokens: "other" }, { states: 12 }));
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await lakes[Symbol.asyncDispose]();
  device.close();
});

const modelOf = ({ url }: TestServer) => createOpenAICompatible({ name: "local", baseURL: new URL("/v1", url).href, includeUsage: true, supportsStructuredOutputs: true })("any");

test("streamText runs the loop of tools, and gives thoughts and counts", async () => {
  const result = streamText({ model: modelOf(lakes), prompt, tools, stopWhen: stepCountIs(5), maxRetries: 0 });
  const kinds = new Set<string>();
  for await (const part of result.fullStream) kinds.add(part.type);
  for (const kind of ["reasoning-delta", "text-delta", "tool-call", "tool-result", "finish"]) expect(kinds).toContain(kind);
  const steps = await result.steps;
  expect(steps.map(({ reasoningText, text, toolCalls }) => [reasoningText, text, toolCalls.map(({ input }) => (input as { lake: string }).lake)])).toEqual(expected);
  expect(steps.map(({ finishReason }) => finishReason)).toEqual(["tool-calls", "tool-calls", "stop"]);
  expect(steps.slice(1).every(({ usage }) => usage.inputTokenDetails.cacheReadTokens! > 0)).toBe(true);
});

test("generateText runs it, too", async () => {
  const { steps } = await generateText({ model: modelOf(lakes), prompt, tools, stopWhen: stepCountIs(5), maxRetries: 0 });
  expect(steps.map(({ reasoningText, text, toolCalls }) => [reasoningText, text, toolCalls.map(({ input }) => (input as { lake: string }).lake)])).toEqual(expected);
});

test("an object fits its schema", async () => {
  const schema = jsonSchema<{ deep: boolean }>({ type: "object", properties: { deep: { type: "boolean" } }, required: ["deep"], additionalProperties: false });
  const { output } = await generateText({ model: modelOf(server), prompt, output: Output.object({ schema }), maxRetries: 0 });
  expect(output).toEqual({ deep: expect.any(Boolean) });
});
