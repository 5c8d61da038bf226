/** The names, bytes and places of tokens with probabilities, where characters consist of several tokens. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { tokenBytes } from "../../lib/model/text/tokenizer.ts";
import { TextOffsets } from "../../lib/server/openai/text-offsets.ts";
import { plainTemplate, thinkingTemplate } from "../support/chat-templates.ts";
import { openDevice } from "../support/devices.ts";
import { eventsOf, serve } from "../support/servers.ts";
import { openReciter } from "../support/turns.ts";

const device = openDevice(2);
const text = "Lakes: 🏞️🌊, 水 and é.";
let tiny: LanguageModel;
let reciter: LanguageModel;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 6, pages: 32 });
  reciter = await openReciter(device, { answers: { 1: text, 2: text }, template: plainTemplate, tokens: "split" });
});
afterAll(() => device.close());

/** The bytes of a name, read as Python's `unicode_escape` does. */
function bytesOf(name: string, prefix: string): number[] {
  const escaped = name.startsWith(prefix) && /\\x[0-9a-f]{2}/.test(name);
  if (!escaped) return [...Buffer.from(name)];
  return [...Buffer.from(name.slice(prefix.length).replace(/\\x(..)/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))), "latin1")];
}

test("completions name half characters by their bytes, and tell where each token begins", async () => {
  await using server = serve(reciter);
  const body = { prompt: "<|im_start|>", max_tokens: 100, logprobs: 1, temperature: 0 };
  const { choices: [choice] } = (await (await server.send("/v1/completions", body)).json()) as any;
  expect(choice.text).toBe(text);
  const { tokens, text_offset: offsets } = choice.logprobs as { tokens: string[]; text_offset: number[] };
  expect(tokens.filter((token) => token.startsWith("bytes:")).length).toBeGreaterThan(2);
  expect(tokens.join("")).not.toContain("\ufffd");
  const bytes = tokens.map((token) => bytesOf(token, "bytes:"));
  expect(Buffer.from(bytes.flat()).toString()).toBe(text);
  /** The place of the character that each byte belongs to. */
  const characters = [...text].flatMap((character, i) => Array<number>(Buffer.byteLength(character)).fill(i));
  expect(offsets).toEqual(bytes.map((_, i) => characters[bytes.slice(0, i).flat().length]!));
  const streamed = await eventsOf(await server.send("/v1/completions", { ...body, stream: true }));
  const of = (name: string) => streamed.flatMap((event) => event.choices?.[0]?.logprobs?.[name] ?? []);
  expect([of("tokens"), of("text_offset")]).toEqual([tokens, offsets]);
});

test("most likely tokens of completions have names of their own", async () => {
  await using server = serve(tiny);
  const { choices: [choice] } = (await (await server.send("/v1/completions", { prompt: "Hello", max_tokens: 8, logprobs: 20, seed: 1, temperature: 1 })).json()) as any;
  using session = tiny.session().append("Hello");
  const expected: object[] = [];
  let halves = 0;
  for await (const { topLogprobs = [], end } of session.generate({ sampling: "model", seed: 1, temperature: 1, maxTokens: 8, topLogprobs: 20 })) {
    if (end === "token") continue;
    const names = topLogprobs.map(({ token, logprob }) => [Buffer.from(tokenBytes(tiny.text.tokenizer).bytesOf(token) ?? []).toString("latin1"), logprob] as const);
    expected.push(Object.fromEntries(names.toReversed()));
    halves += names.filter(([name]) => /^[\x80-\xff]$/.test(name)).length;
  }
  expect(halves).toBeGreaterThan(8);
  const got = choice.logprobs.top_logprobs.map((top: object) => Object.fromEntries(Object.entries(top).map(([name, value]) => [Buffer.from(bytesOf(name, "bytes:")).toString("latin1"), value])));
  expect(got).toEqual(expected);
});

test("chat completions have the bytes of each token, and their escapes where these are half a character", async () => {
  await using server = serve(reciter);
  const { choices: [choice] } = (await (await server.send("/v1/chat/completions", { messages: [{ role: "user", content: "a" }], logprobs: true, top_logprobs: 2, temperature: 0 })).json()) as any;
  const { content } = choice.logprobs as { content: { token: string; bytes: number[]; top_logprobs: { token: string; bytes: number[] }[] }[] };
  expect(choice.message.content).toBe(text);
  expect(Buffer.from(content.flatMap(({ bytes }) => bytes)).toString()).toBe(text);
  for (const { token, bytes } of content.flatMap((one) => [one, ...one.top_logprobs])) expect(bytesOf(token, "")).toEqual(bytes);
  expect(content.some(({ token }) => /^\\x[89ab][0-9a-f]/.test(token))).toBe(true);
});

test.each([
  [[0xe2, 0x80, 0x61], [0, 0, 1]],
  [[0xe2, 0xe2, 0x82, 0xac, 0x61], [0, 1, 1, 1, 2]],
  [[0x80, 0x80, 0x61], [0, 1, 2]],
  [[0xe0, 0x80, 0x61], [0, 1, 2]],
  [[0x61, 0xf0, 0x9f, 0x98, 0x80, 0x61], [0, 1, 1, 1, 1, 2]],
])("tokens of the bytes %j begin at %j", (bytes, offsets) => {
  const { tokenizer } = tiny.text;
  const ids = bytes.map((byte) => Array.from({ length: tokenizer.size }, (_, id) => id).find((id) => Buffer.from(tokenBytes(tokenizer).bytesOf(id) ?? []).equals(Uint8Array.of(byte)))!);
  const places = new TextOffsets(tokenizer);
  const control = tokenizer.idOf("<|im_start|>")!;
  expect(ids.map((id) => [places.next(control), places.next(id)][1]!)).toEqual(offsets);
  const characters = [...tokenizer.decode(ids)];
  expect(characters[offsets.at(-1)!]).toBe("a");
});

test("tokens of thoughts that end within a character are counted as thoughts", async () => {
  const thoughts = "Deep 🏞️🌊 water.\n";
  using model = await openReciter(device, { answers: { 2: `${thoughts}</think>\n\nYes.` }, template: thinkingTemplate, tokens: "split" });
  await using server = serve(model);
  const body = { messages: [{ role: "user", content: "a" }], temperature: 0, logprobs: true };
  const { choices: [choice], usage } = (await (await server.send("/v1/chat/completions", body)).json()) as any;
  expect([choice.message.content, choice.message.reasoning_content]).toEqual(["Yes.", thoughts.trim()]);
  const tokens = (choice.logprobs.content as { token: string }[]).map(({ token }) => token);
  const end = tokens.indexOf("</think>");
  expect(tokens.slice(0, end).some((token) => token.includes("\\x"))).toBe(true);
  expect(usage.completion_tokens_details.reasoning_tokens).toBe(end);
  for (let most = 1; most < end; most++) {
    const { usage: part } = (await (await server.send("/v1/chat/completions", { ...body, max_tokens: most })).json()) as any;
    expect([part.completion_tokens, part.completion_tokens_details.reasoning_tokens]).toEqual([most, most]);
  }
});
