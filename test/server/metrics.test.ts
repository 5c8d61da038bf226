/** `GET /metrics`: vLLM's names, which routers read, and the server's own. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { openStore } from "../../lib/server.ts";
import { openDevice } from "../support/devices.ts";
import { scratch } from "../support/files.ts";
import { serve, until } from "../support/servers.ts";
import type { TestServer } from "../support/servers.ts";
import { secret, words } from "../support/store-conversations.ts";

const device = openDevice(2);
const { folder, newPath } = scratch();
const path = "/v1/chat/completions";
let tiny: LanguageModel;
beforeAll(async () => {
  tiny = await LanguageModel.load(device, tinyModel, { states: 12, pages: 128 });
});
afterAll(() => device.close());

interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The samples of a page in Prometheus' text format, each of a metric whose help and type come before it. */
async function samplesOf(server: TestServer, init: RequestInit = {}): Promise<Sample[]> {
  const response = await server.send("/metrics", undefined, init);
  expect([response.status, response.headers.get("content-type")]).toEqual([200, "text/plain; version=0.0.4; charset=utf-8"]);
  let meter = "";
  return (await response.text()).split("\n").flatMap((line) => {
    if (line === "") return [];
    const [, kind, named] = /^# (HELP|TYPE) (\S+) .+$/.exec(line) ?? [];
    if (kind === "HELP") meter = named!;
    if (kind !== undefined) {
      expect(named).toBe(meter);
      return [];
    }
    const [, name, labels, value] = /^([a-z_:]+)(?:\{(.*)\})? (\S+)$/i.exec(line)!;
    expect(name!.startsWith(meter)).toBe(true);
    const pairs = [...(labels ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key!, text!]);
    return [{ name: name!, labels: Object.fromEntries(pairs) as Record<string, string>, value: Number(value) }];
  });
}

const valueOf = (samples: readonly Sample[], name: string, labels: Record<string, string> = {}): number | undefined =>
  samples.find((sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value))?.value;

test("routers find what they read from vLLM, and each sample has the model's name", async () => {
  await using server = serve(tiny, { name: 'ti"ny' });
  const samples = await samplesOf(server);
  const names = samples.map(({ name }) => name);
  for (const name of ["vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc"]) expect([name, valueOf(samples, name)]).toEqual([name, 0]);
  expect(samples.find(({ name }) => name === "vllm:cache_config_info")).toMatchObject({ value: 1, labels: { block_size: "64", num_gpu_blocks: "128", cache_dtype: "f32", enable_prefix_caching: "True" } });
  expect(new Set(samples.map(({ labels }) => labels["model_name"]))).toEqual(new Set(['ti\\"ny']));
  expect(names.filter((name) => name.startsWith("gated_delta_store"))).toEqual([]);
});

test("the load is that of the requests at work and in the queue", async () => {
  await using server = serve(tiny, { limits: { concurrent: 1 } });
  const bias = Object.fromEntries(tiny.config.eosTokens.map((token) => [token, -100]));
  const long = { messages: [{ role: "user", content: words(30, 1) }], stream: true, logit_bias: bias, max_tokens: 4000, n: 8, logprobs: true, top_logprobs: 20 };
  const reader = (await server.send(path, long)).body!.getReader();
  await reader.read();
  const second = server.send(path, { messages: [{ role: "user", content: "Hello" }], max_tokens: 1 });
  await until(() => server.handler.active === 2);
  const samples = await samplesOf(server);
  expect([valueOf(samples, "vllm:num_requests_running"), valueOf(samples, "vllm:num_requests_waiting")]).toEqual([1, 1]);
  const usage = valueOf(samples, "vllm:kv_cache_usage_perc")!;
  expect([usage > 0, usage <= 1]).toEqual([true, true]);
  await reader.cancel(); // held until here: a collected answer ends its request
  await (await second).text();
  await until(() => server.handler.active === 0);
  const after = await samplesOf(server);
  for (const name of ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"]) expect([name, valueOf(after, name)]).toEqual([name, 0]);
});

test("requests, tokens and the cache are counted, from the first request on", async () => {
  await using server = serve(tiny);
  const messages = [{ role: "user", content: words(40, 2) }];
  const usages: any[] = [];
  for (let i = 0; i < 3; i++) usages.push(((await (await server.send(path, { messages, max_tokens: 5, seed: i })).json()) as any).usage);
  await server.send(path, { messages: "none" });
  await server.send("/v1/models/none");
  for (const other of ["/a", "/b", "/c?d=e"]) await server.send(other);
  const samples = await samplesOf(server);
  const count = (route: string, status: string) => valueOf(samples, "gated_delta_request_seconds_count", { route, status });
  expect([count(path, "200"), count(path, "400"), count("/v1/models", "404"), count("other", "404")]).toEqual([3, 1, 1, 3]);
  expect(samples.filter(({ name }) => name === "gated_delta_request_seconds_count").length).toBe(4);
  expect(valueOf(samples, "gated_delta_first_token_seconds_count")).toBe(3);
  expect(valueOf(samples, "gated_delta_first_token_seconds_bucket", { le: "+Inf" })).toBe(3);
  const sum = (read: (usage: any) => number) => usages.reduce((all, usage) => all + read(usage), 0);
  expect(valueOf(samples, "gated_delta_prompt_tokens_total")).toBe(sum(({ prompt_tokens }) => prompt_tokens));
  expect(valueOf(samples, "gated_delta_generated_tokens_total")).toBe(sum(({ completion_tokens }) => completion_tokens));
  const cached = sum(({ prompt_tokens_details }) => prompt_tokens_details.cached_tokens);
  expect([cached > 0, valueOf(samples, "gated_delta_cached_prompt_tokens_total")]).toEqual([true, cached]);
  expect([valueOf(samples, "gated_delta_cache_hits_total"), valueOf(samples, "gated_delta_cache_saved_tokens_total")]).toEqual([2, cached]);
  expect(valueOf(samples, "gated_delta_steps_total")).toBe(tiny.steps);
});

test("a store's figures are among them, and in the log", async () => {
  const store = openStore(newPath("store"));
  const messages = [{ role: "user", content: words(60, 3) }];
  await using one = serve(tiny, { store, secret });
  await (await one.send(path, { messages, max_tokens: 5 })).text();
  await one.handler.drain();
  await using other = serve(tiny, { store, secret });
  await (await other.send(path, { messages, max_tokens: 5 })).text();
  const restored = other.log[0]!.restoredTokens!;
  expect([one.log[0]!.restoredTokens, restored > 64]).toEqual([0, true]);
  const [before, after] = [await samplesOf(one), await samplesOf(other)];
  expect(valueOf(before, "gated_delta_store_written_total")).toBeGreaterThan(0);
  expect([valueOf(after, "gated_delta_store_restored_total"), valueOf(after, "gated_delta_store_restored_tokens_total")]).toEqual([1, restored]);
  for (const name of ["failures", "refused", "skipped"]) expect([name, valueOf(after, `gated_delta_store_${name}_total`)]).toEqual([name, 0]);
  await other.handler.drain();
});

test("they are open, or need a key, or are off", async () => {
  const keys = ["secret"];
  const status = async (server: TestServer, headers = {}) => (await server.send("/metrics", undefined, { headers })).status;
  await using open = serve(tiny, { keys });
  await using keyed = serve(tiny, { keys, metrics: "key" });
  await using off = serve(tiny, { metrics: "off" });
  expect([await status(open), await status(keyed), await status(keyed, { authorization: "Bearer secret" }), await status(off)]).toEqual([200, 401, 200, 404]);
  expect((await open.send("/metrics", {})).status).toBe(405);
});

test("without the package the page says how to install it, and answers go on", () => {
  const program = `
    Bun.resolveSync = () => { throw new Error("none"); };
    const { Device } = await import(${JSON.stringify(join(import.meta.dir, "../../lib/index.ts"))});
    const { LanguageModel, tinyModel } = await import(${JSON.stringify(join(import.meta.dir, "../../lib/model.ts"))});
    const { createHandler } = await import(${JSON.stringify(join(import.meta.dir, "../../lib/server.ts"))});
    using device = Device.open("cpu");
    using model = await LanguageModel.load(device, tinyModel, { states: 2, pages: 8 });
    const handler = createHandler(model);
    const send = (path, body) => handler(new Request("http://server" + path, body && { method: "POST", body: JSON.stringify(body) }));
    for (let i = 0; i < 2; i++) {
      console.log((await send("/v1/completions", { prompt: "a", max_tokens: 1 })).status);
      const response = await send("/metrics");
      console.log(response.status, (await response.json()).error.message);
    }
  `;
  const child = Bun.spawnSync([process.execPath, "-e", program], { cwd: folder, stdout: "pipe", stderr: "inherit", env: { ...process.env } });
  const lines = "200\n501 metrics need the package prom-client: `bun add prom-client`\n";
  expect(child.stdout.toString()).toBe(lines + lines);
});
