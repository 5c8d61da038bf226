/** The common parts of a server's APIs: keys, limits, clients that leave, the shutdown, the log. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { cpSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { GatedDeltaError } from "../../lib/index.ts";
import { createHandler } from "../../lib/server.ts";
import type { ServerOptions } from "../../lib/server.ts";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { Admission } from "../../lib/server/admission.ts";
import { openDevice, thrownBy } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { startServer } from "../support/server-process.ts";
import { eventsOf, serve, until } from "../support/servers.ts";

const device = openDevice(2);
const path = "/v1/chat/completions";
const { newPath } = scratch();
let tiny: LanguageModel;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 12, pages: 128 });
});
afterAll(() => device.close());

const hello = [{ role: "user", content: "Hello" }];
/** A request whose answer contains no token that ends it. */
const long = { messages: hello, stream: true, logit_bias: {} as Record<string, number> };
/** A request whose answer is longer than a client's and a server's buffers hold. */
const slow = { ...long, max_tokens: 4000, n: 8, logprobs: true, top_logprobs: 20 };
beforeAll(() => {
  for (const token of tiny.config.eosTokens) long.logit_bias[token] = -100;
});

describe("options", () => {
  const wrong: [argument: string, options: unknown][] = [
    ["cache", { cache: {} }],
    ["name", { name: "" }],
    ["keys.0", { keys: [""] }],
    ["keys", { keys: "key" }],
    ["limits.queue", { limits: { queue: -1 } }],
    ["limits.other", { limits: { other: 1 } }],
    ["sampling", { sampling: "warm" }],
    ["metrics", { metrics: "closed" }],
    ["metrics", { metrics: "key" }],
    ["drafts", { drafts: 1 }],
    ["page", { page: 1 }],
    ["log", { log: "stderr" }],
    ["other", { other: 1 }],
  ];
  test.each(wrong)("a wrong %s is named", (argument, options) => {
    const error = thrownBy(() => createHandler(tiny, options as ServerOptions));
    expect([error.op, error.argument, error.code]).toEqual(["createHandler", argument, "invalid-argument"]);
  });

  test("a cache of another model, and no model, are refused", async () => {
    using other = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
    using cache = other.cache({ bytes: 1 });
    expect(thrownBy(() => createHandler(tiny, { cache })).argument).toBe("cache");
    expect(thrownBy(() => createHandler({} as LanguageModel)).argument).toBe("model");
  });

  test("what is no request is refused by name", async () => {
    const handler = createHandler(tiny);
    for (const value of [null, 5, "http://localhost/", {}, { url: "http://localhost/", headers: {} }, Object.create(Request.prototype)]) {
      const error: unknown = await handler(value as Request).catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "invalid-argument", op: "handler", argument: "request" });
    }
  });
});

test("the list of models, and whether the server is well", async () => {
  await using server = serve(tiny, { name: "tiny/1" });
  const models = (await (await server.send("/v1/models")).json()) as any;
  expect(models).toMatchObject({ object: "list", data: [{ id: "tiny/1", object: "model", owned_by: "gated-delta", max_model_len: tiny.config.maxPositions }] });
  using small = await LanguageModel.load(device, tinyModel, { states: 2, pages: 3 });
  expect(small.pageTokens * small.pages).toBeLessThan(small.config.maxPositions);
  await using little = serve(small);
  expect(((await (await little.send("/v1/models")).json()) as any).data[0].max_model_len).toBe(small.pageTokens * small.pages);
  for (const name of ["tiny/1", "tiny%2F1"]) expect(((await (await server.send(`/v1/models/${name}`)).json()) as any).id).toBe("tiny/1");
  await using named = serve(tiny, { name: "org/müller 50%" });
  for (const name of ["org/m%C3%BCller%2050%25", "org%2fm%c3%bcller%2050%25", "org/müller 50%25"]) expect([name, (await named.send(`/v1/models/${name}`)).status]).toEqual([name, 200]);
  expect((await named.send("/v1/models/50%")).status).toBe(404);
  expect((await server.send("/v1/models/other")).status).toBe(404);
  expect(await (await server.send("/health")).json()).toEqual({ status: "ok" });
  for (const of of ["/health", "/v1/models", "/v1/models/tiny%2F1"]) {
    const head = await server.send(of, undefined, { method: "HEAD" });
    expect([head.status, head.headers.get("content-type"), await head.text()]).toEqual([200, "application/json", ""]);
  }
  expect((await server.send("/v1/chat")).status).toBe(404);
  for (const method of ["GET", "HEAD", "OPTIONS", "DELETE"]) {
    const response = await server.send(path, undefined, { method });
    expect([response.status, response.headers.get("allow"), response.headers.get("access-control-allow-origin")]).toEqual([405, "POST", null]);
  }
  expect((await server.send("/v1/models", {})).status).toBe(405);
});

test("a key is needed where there are some, and those with other salts share nothing", async () => {
  await using server = serve(tiny, { keys: { alice: "one", bob: "one", carol: "two" } });
  const messages = [{ role: "user", content: "Name three lakes of the north, and three of the south. ".repeat(3) }];
  const ask = (headers: Record<string, string>) => server.send(path, { messages, max_tokens: 1 }, { headers });
  const cached = async (headers: Record<string, string>) => ((await (await ask(headers)).json()) as any).usage.prompt_tokens_details.cached_tokens;
  expect(await cached({ authorization: "Bearer alice" })).toBe(0);
  expect(await cached({ authorization: "bearer bob" })).toBeGreaterThan(16);
  expect(await cached({ "x-api-key": "carol" })).toBe(0);
  expect(await cached({ authorization: "Bearer dave", "x-api-key": "carol" })).toBeGreaterThan(16);
  expect(await cached({ authorization: "Bearer carol", "x-api-key": "dave" })).toBeGreaterThan(16);
  for (const headers of [{}, { authorization: "Bearer dave" }, { authorization: "Basic alice" }, { "x-api-key": "constructor" }, { authorization: "Bearer dave", "x-api-key": "erin" }]) {
    const response = await ask(headers as Record<string, string>);
    expect([response.status, response.headers.get("www-authenticate"), ((await response.json()) as any).error.code]).toEqual([401, "Bearer", "invalid_api_key"]);
  }
  expect((await server.send("/v1/models")).status).toBe(401);
  expect((await server.send("/health")).status).toBe(200);
});

test("a request without a host, or with one that is none, is answered like others", async () => {
  await using server = serve(tiny);
  for (const head of ["HTTP/1.0", "HTTP/1.1\r\nHost: [::wrong", "HTTP/1.1\r\nHost: a b", "HTTP/1.1\r\nHost: localhost:99999999"]) {
    let text = "";
    const socket = connect(Number(server.url.port), "127.0.0.1").on("data", (chunk) => (text += String(chunk)));
    socket.write(`GET /health?all ${head}\r\nConnection: close\r\n\r\n`);
    await once(socket, "close");
    expect([head, text.startsWith("HTTP/1.1 200 OK"), text.endsWith('{"status":"ok"}')]).toEqual([head, true, true]);
  }
});

test("bodies that are too large, compressed or no text are refused", async () => {
  await using server = serve(tiny, { limits: { bodyBytes: 300 } });
  const body = { messages: [{ role: "user", content: "x".repeat(300) }] };
  expect((await server.send(path, body)).status).toBe(413);
  const chunks = new ReadableStream({
    start(controller) {
      for (let i = 0; i < 10; i++) controller.enqueue(new TextEncoder().encode(" ".repeat(50)));
      controller.close();
    },
  });
  expect((await server.send(path, undefined, { method: "POST", body: chunks })).status).toBe(413);
  expect((await server.send(path, undefined, { method: "POST", body: Bun.gzipSync(Buffer.from("{}")), headers: { "content-encoding": "gzip" } })).status).toBe(415);
  expect((await server.send(path, undefined, { method: "POST", body: Uint8Array.of(0x22, 0xff, 0x22) })).status).toBe(400);
  expect((await server.send(path, undefined, { method: "POST" })).status).toBe(400);
});

test("no limit of tokens is the server's limit", async () => {
  await using server = serve(tiny, { limits: { answerTokens: 5 } });
  const { logit_bias } = long;
  for (const [of, body] of [[path, { messages: hello }], ["/v1/completions", { prompt: "Hello" }]] as const) {
    const { usage, choices } = (await (await server.send(of, { ...body, logit_bias, max_tokens: -1 })).json()) as any;
    expect([usage.completion_tokens, choices[0].finish_reason]).toEqual([5, "length"]);
    for (const wrong of [0, -2, 1.5]) expect(((await (await server.send(of, { ...body, max_tokens: wrong })).json()) as any).error.param).toBe("max_tokens");
  }
});

test("a client that leaves ends its answer, and frees its memory", async () => {
  await using server = serve(tiny, { cache: undefined });
  for (const stream of [true, false]) {
    const controller = new AbortController();
    const before = tiny.steps;
    const response = server.send(path, { ...long, stream, max_tokens: 4000 }, { signal: controller.signal });
    if (stream) {
      const reader = (await response).body!.getReader();
      for (let text = ""; text.split("data: {").length < 4; ) text += new TextDecoder().decode((await reader.read()).value);
    } else await until(() => tiny.steps > before + 8);
    controller.abort();
    await response.catch(() => {});
    await until(() => server.handler.active === 0 && tiny.freeStates === tiny.states);
    expect(tiny.steps - before).toBeLessThan(4000);
    const entry = server.log.at(-1)!;
    expect(entry.answerTokens).toBeGreaterThan(1);
    expect([entry.status, entry.problem]).toEqual([stream ? 200 : 499, "the client has left"]);
  }
});

test("so many requests work, so many wait, and others are told to come back", async () => {
  await using server = serve(tiny, { limits: { concurrent: 1, queue: 1, queueSeconds: 0.3 } });
  const reader = (await server.send(path, slow)).body!.getReader();
  await reader.read();
  const waiting = server.send(path, { messages: hello, max_tokens: 1 });
  await until(() => server.handler.active === 2);
  const refused = await server.send(path, { messages: hello, max_tokens: 1 });
  expect([refused.status, refused.headers.get("retry-after"), ((await refused.json()) as any).error.type]).toEqual([503, "5", "server_error"]);
  const tooLong = await waiting; // the first one's client reads nothing, so that it does not end
  expect([tooLong.status, tooLong.headers.get("retry-after")]).toEqual([503, "1"]);
  const next = server.send(path, { messages: hello, max_tokens: 1 });
  await until(() => server.handler.active === 2);
  await reader.cancel(); // held until here: a collected answer ends its request
  expect((await next).status).toBe(200);
});

test("turns come in order, and one that leaves the queue leaves no trace", async () => {
  const admission = new Admission({ concurrent: 1, queue: 9, queueSeconds: 60 });
  const none = new AbortController().signal;
  const leave = await admission.enter(none);
  const order: number[] = [];
  const leaving = new AbortController();
  const enter = async (i: number, signal: AbortSignal): Promise<void> => {
    const done = await admission.enter(signal);
    order.push(i);
    done();
  };
  const all = [enter(0, none), enter(1, leaving.signal).catch((error: unknown) => expect(error).toBe("gone")), enter(2, none)];
  leaving.abort("gone");
  leave();
  await Promise.all(all);
  expect([order, admission.active]).toEqual([[0, 2], 0]);
});

test("an answer that takes too long ends with an error, in a stream as its last event", async () => {
  await using server = serve(tiny, { limits: { seconds: 0.2 } });
  const whole = await server.send(path, { ...slow, stream: false });
  expect([whole.status, ((await whole.json()) as any).error.code]).toEqual([504, "timeout"]);
  const events = await eventsOf(await server.send(path, slow));
  expect(events.at(-1)).toMatchObject({ error: { code: "timeout", message: "the answer took longer than the limit of 0.2 s" } });
});

test("a client that takes nothing of its answer is waited for, and holds its place no longer than the limit", async () => {
  await using server = serve(tiny, { limits: { seconds: 0.5 } });
  const body = JSON.stringify({ ...slow, n: 12 });
  const socket = connect(Number(server.url.port), "127.0.0.1").pause();
  socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  const before = tiny.steps;
  await until(() => tiny.steps > before + 2);
  await until(() => server.handler.active === 0 && server.log.length === 1);
  expect(tiny.steps - before).toBeLessThan(4000);
  expect(server.log[0]!.problem).toMatch(/limit of 0\.5 s/);
  socket.destroy();
});

test("a stream whose answer can't begin yet says so to those who wait", async () => {
  await using server = serve(tiny, { cache: undefined });
  const taken = Array.from({ length: tiny.states }, () => tiny.sequence());
  const response = await server.send(path, { messages: hello, stream: true, max_tokens: 2 });
  const reader = response.body!.getReader();
  expect([response.status, new TextDecoder().decode((await reader.read()).value)]).toEqual([200, ": waiting\n\n"]);
  for (const sequence of taken) sequence[Symbol.dispose]();
  expect(new TextDecoder().decode((await reader.read()).value)).toStartWith("data: {");
  await reader.cancel();
});

test("draining lets answers end, and lets no more in", async () => {
  await using server = serve(tiny);
  const response = await server.send(path, { ...long, max_tokens: 200 });
  let drained = false;
  const draining = server.handler.drain().then(() => (drained = true));
  expect([(await server.send("/health")).status, (await server.send(path, { messages: hello })).status, drained]).toEqual([503, 503, false]);
  const events = await eventsOf(response);
  expect([events.at(-1), events.at(-2).choices[0].finish_reason]).toEqual(["[DONE]", "length"]);
  await draining;
  expect(server.handler.active).toBe(0);
});

test("the log has one entry a request, and one that throws does no harm", async () => {
  await using server = serve(tiny);
  await server.send(path, { ...long, stream: false, max_tokens: 2 });
  const { headers } = await server.send(path, { messages: 1 });
  const id = headers.get("x-request-id");
  expect(headers.get("request-id")).toBe(id);
  await (await server.send(path, { ...long, max_tokens: 2 })).text();
  expect(server.log).toMatchObject([
    { id: 1, method: "POST", path, status: 200, cachedTokens: 0, answerTokens: 2, promptTokens: expect.any(Number), firstMilliseconds: expect.any(Number) },
    { id: Number(id), status: 400, problem: expect.stringContaining("messages") },
    { id: 3, status: 200, answerTokens: 2 },
  ]);
  await using throwing = serve(tiny, {
    log: () => {
      throw new Error("the disk is full");
    },
  });
  expect((await throwing.send(path, { messages: hello, max_tokens: 1 })).status).toBe(200);
  const unhandled: unknown[] = [];
  const listen = (error: unknown): void => void unhandled.push(error);
  process.on("unhandledRejection", listen);
  await using rejecting = serve(tiny, { log: () => Promise.reject(new Error("the database is away")) });
  expect((await rejecting.send("/health")).status).toBe(200);
  await Bun.sleep(20);
  process.off("unhandledRejection", listen);
  expect(unhandled).toEqual([]);
});

test("a client that leaves while it sends its body is no client with a wrong body", async () => {
  await using server = serve(tiny);
  const socket = connect(Number(server.url.port), "127.0.0.1");
  await once(socket, "connect");
  socket.write(`POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{"messages":`);
  await Bun.sleep(50);
  socket.destroy();
  await until(() => server.log.length === 1);
  expect(server.log).toMatchObject([{ status: 499, problem: "the client has left" }]);
});

test("what is wrong with several answers is told before the prompt is read", async () => {
  await using server = serve(tiny);
  const messages = [{ role: "user", content: "abc def ".repeat(60) }];
  const tools = [{ type: "function", function: { name: "f" } }];
  const wrong: [param: string, members: object][] = [
    ["logit_bias", { logit_bias: { 511999: 1 } }],
    ["tool_choice.function.name", { tools, tool_choice: { type: "function", function: { name: "g" } } }],
    ["response_format.json_schema.schema.not", { response_format: { type: "json_schema", json_schema: { schema: { not: {} } } } }],
  ];
  const { steps } = tiny;
  for (const [param, members] of wrong) {
    for (const stream of [false, true]) {
      const response = await server.send(path, { messages, n: 2, stream, max_tokens: 2, ...members });
      expect([response.status, ((await response.json()) as any).error.param]).toEqual([400, param]);
    }
  }
  expect(tiny.steps).toBe(steps);
  const right = await server.send(path, { messages, n: 2, max_tokens: 40, response_format: { type: "json_object" }, tools, tool_choice: { type: "function", function: { name: "f" } } });
  expect([right.status, ((await right.json()) as any).choices.length]).toEqual([200, 2]);
});

test("a failure of the server says nothing of it to the client", async () => {
  const own = openDevice(1);
  const model = await LanguageModel.load(own, tinyModel, { states: 2, pages: 8 });
  const errors: unknown[] = [];
  const handler = createHandler(model, { log: ({ cause }) => errors.push(cause) });
  own.close();
  const response = await handler(new Request("http://localhost/v1/chat/completions", { method: "POST", body: JSON.stringify({ messages: hello }) }));
  expect([response.status, ((await response.json()) as any).error.message]).toEqual([500, "the server could not answer this request"]);
  expect(errors[0]).toBeInstanceOf(GatedDeltaError);
});

test("logits that are no numbers are the model's failure, with its cause in the log", async () => {
  const folder = newPath("model");
  cpSync(tinyModel, folder, { recursive: true });
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".safetensors"))) {
    const bytes = readFileSync(join(folder, file));
    const begin = 8 + Number(bytes.readBigUInt64LE(0));
    for (const [name, { data_offsets: [from, to] = [] }] of Object.entries<any>(JSON.parse(bytes.toString("utf8", 8, begin)))) {
      if (name.endsWith("model.norm.weight")) bytes.fill(0xff, begin + from, begin + to);
    }
    writeFileSync(join(folder, file), bytes);
  }
  using model = await LanguageModel.load(device, folder, { states: 2, pages: 16 });
  await using server = serve(model);
  const response = await server.send(path, { messages: hello, max_tokens: 2, n: 2 });
  expect([response.status, ((await response.json()) as any).error]).toEqual([500, { message: "the server could not answer this request", type: "server_error", param: null, code: "server_error" }]);
  expect(server.log).toMatchObject([{ status: 500, cause: { op: "sample", argument: "logits[0]", received: "NaN" } }]);
});

test("gated-delta serve has a model to try clients with", async () => {
  await using child = await startServer("tiny", ["--context", "512", "--backend", "cpu", "--threads", "1"]);
  expect(((await (await fetch(new URL("/v1/models", child.url))).json()) as any).data[0].id).toBe("tiny");
  const tools = [{ type: "function", function: { name: "pick", parameters: { type: "object", properties: { deep: { type: "boolean" } }, required: ["deep"], additionalProperties: false } } }];
  const body = JSON.stringify({ messages: hello, tools, tool_choice: { type: "function", function: { name: "pick" } }, max_tokens: 200 });
  const { choices: [{ message, finish_reason: reason }] } = (await (await fetch(new URL(path, child.url), { method: "POST", body })).json()) as any;
  expect([reason, message.tool_calls.length, message.tool_calls[0].function.name]).toEqual(["tool_calls", 1, "pick"]);
  expect(JSON.parse(message.tool_calls[0].function.arguments)).toEqual({ deep: expect.any(Boolean) });
});

test("gated-delta serve answers, and ends when it is told to", async () => {
  const main = join(import.meta.dir, "../../lib/cli/main.ts");
  const child = Bun.spawn([process.execPath, main, "serve", tinyModel, "--port", "0", "--key", "k", "--sessions", "2", "--context", "512", "--backend", "cpu", "--threads", "1"], { stdout: "pipe", stderr: "pipe" });
  const reader = child.stdout.getReader();
  const url = new TextDecoder().decode((await reader.read()).value).trim();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/v1$/);
  const headers = { authorization: "Bearer k" };
  const answer = await fetch(`${url}/chat/completions`, { method: "POST", headers, body: JSON.stringify({ ...long, stream: false, max_tokens: 3 }) });
  expect(((await answer.json()) as any).usage.completion_tokens).toBe(3);
  const stream = await fetch(`${url}/chat/completions`, { method: "POST", headers, body: JSON.stringify({ ...long, max_tokens: 60 }) });
  child.kill("SIGTERM");
  expect((await eventsOf(stream)).at(-1)).toBe("[DONE]");
  expect(await child.exited).toBe(0);
  const lines = (await child.stderr.text()).trim().split("\n");
  expect(lines.length).toBe(2);
  expect(lines[0]).toMatch(/ 1 POST \/v1\/chat\/completions 200 \d+ ms first \d+ ms prompt \d+ \(0 cached\) answer 3$/);
});
