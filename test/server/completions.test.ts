/** `POST /v1/completions`, by its own client and by hand. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import OpenAI from "openai";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { openDevice } from "../support/devices.ts";
import { serve } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";

const device = openDevice(2);
let tiny: LanguageModel;
let server: TestServer;
let client: OpenAI;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 12, pages: 128 });
  server = serve(tiny, { name: "tiny" });
  client = new OpenAI({ baseURL: new URL("/v1", server.url).href, apiKey: "none", maxRetries: 0 });
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  device.close();
});

test("a text, and its tokens, go on as in a session of their own, streamed and whole", async () => {
  const prompt = "<|im_start|>user\nHello";
  using session = tiny.session().append(prompt);
  const tokens = [...session.tokens];
  const { text, tokens: answer } = await session.complete({ sampling: "model", seed: 3, temperature: 1, maxTokens: 16 });
  const body = { model: "tiny", seed: 3, temperature: 1 };
  for (const given of [prompt, [prompt], tokens, [tokens]]) {
    const whole = await client.completions.create({ ...body, prompt: given });
    expect([whole.choices[0]!.text, whole.usage!.prompt_tokens, whole.usage!.completion_tokens]).toEqual([text, tokens.length, answer.length]);
  }
  let streamed = "";
  let reason: string | undefined;
  for await (const { choices: [choice] } of await client.completions.create({ ...body, prompt, stream: true })) {
    streamed += choice!.text;
    reason = choice!.finish_reason ?? reason;
  }
  expect([streamed, reason]).toEqual([text, "length"]);
});

test("probabilities, several answers, and counts at the end of a stream", async () => {
  const body = { model: "tiny", prompt: "Hello", seed: 5, temperature: 1, n: 2, max_tokens: 4, logprobs: 2 };
  const whole = await client.completions.create(body);
  using session = tiny.session().append("Hello");
  const pieces = [];
  for await (const piece of session.generate({ sampling: "model", seed: 5, temperature: 1, maxTokens: 4, topLogprobs: 2 })) pieces.push(piece);
  expect(whole.choices[0]!.logprobs!.token_logprobs).toEqual(pieces.filter(({ end }) => end !== "token").map(({ logprob }) => logprob!));
  const offsets: number[][] = [[], []];
  let usage: OpenAI.CompletionUsage | undefined;
  for await (const chunk of await client.completions.create({ ...body, stream: true, stream_options: { include_usage: true } })) {
    for (const { index, logprobs } of chunk.choices) offsets[index]!.push(...(logprobs?.text_offset ?? []));
    usage = chunk.usage ?? usage;
  }
  expect(offsets).toEqual(whole.choices.map(({ logprobs }) => logprobs!.text_offset!));
  expect(usage!.completion_tokens).toBe(whole.usage!.completion_tokens);
});

test.each([
  [{ prompt: ["a", "b"] }, "prompt"],
  [{ prompt: "" }, "prompt"],
  [{}, "prompt"],
  [{ prompt: [[1], [2]] }, "prompt"],
  [{ prompt: [1, 99999999] }, "prompt[1]"],
  [{ prompt: "a", echo: true }, "echo"],
  [{ prompt: "a", suffix: "b" }, "suffix"],
  [{ prompt: "a", best_of: 3 }, "best_of"],
  [{ prompt: "a", n: 17 }, "n"],
] as const)("%j is refused", async (body, param) => {
  const response = await server.send("/v1/completions", body);
  expect([response.status, ((await response.json()) as any).error.param]).toEqual([400, param]);
});
