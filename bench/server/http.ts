/**
 * Times of HTTP, JSON and text: the time that a server adds to the model's own tokens, first bytes, requests a second, and a server's
 * start. All are measured in turns in one run. The clients are a process of their own.
 *
 *     bun bench/model/random-model.ts FOLDER --form 4bit
 *     bun bench/server/http.ts FOLDER [--threads 2] [--tokens 48] [--rounds 5] [--part tiny|start|eight]
 */
import { mkdtempSync, rmSync, writeFileSync, cpSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { createHandler } from "../../lib/server.ts";
import { giveTokenizer } from "../model/large-tokenizer.ts";
import type { Times, Work } from "./clients.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { threads: { type: "string", default: "2" }, tokens: { type: "string", default: "48" }, rounds: { type: "string", default: "5" }, part: { type: "string", multiple: true } },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("name a model's folder");
const [threads, tokens, rounds] = [values.threads, values.tokens, values.rounds].map(Number) as [number, number, number];
const scratch = mkdtempSync(join(tmpdir(), "gated-delta-http-"));
const clients = Bun.spawn([process.execPath, join(import.meta.dir, "clients.ts")], { ipc: (times: Times & { error?: string }) => answered(times), stdio: ["ignore", "inherit", "inherit"] });
let answered: (times: Times & { error?: string }) => void = () => {};
const ask = (work: Work): Promise<Times> =>
  new Promise((resolve, reject) => {
    answered = (times) => (times.error === undefined ? resolve(times) : reject(new Error(times.error)));
    clients.send(work);
  });

const sorted = (list: readonly number[]): number[] => list.toSorted((a, b) => a - b);
const median = (list: readonly number[]): number => sorted(list)[list.length >> 1]!;
const spread = (list: readonly number[]): string => `median ${median(list).toFixed(3)}, best ${sorted(list)[0]!.toFixed(3)}`;
/** This thread's processor time in milliseconds. */
const thread = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/** Eight answers at the same time: tokens by themselves, and over HTTP as text in events of JSON. */
async function eight(): Promise<void> {
  giveTokenizer(folder!);
  writeFileSync(join(folder!, "chat_template.jinja"), "{% for m in messages %}{{ m.content }}{% endfor %}");
  const bare = join(scratch, "bare");
  cpSync(folder!, bare, { recursive: true, filter: (path) => !/tokenizer|chat_template/.test(path) });
  using device = Device.open({ backend: "cpu", threads });
  const options = { states: 10, pages: 64 };
  using plain = await LanguageModel.load(device, bare, { ...options, weights: "mapped" });
  using model = await LanguageModel.load(device, folder!, { ...options, weights: "mapped" });
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: createHandler(model, { sampling: "greedy" }) });
  const content = "one two three";
  const prompt = [...model.text.encode(content)];
  const body = { messages: [{ role: "user", content }], max_tokens: tokens, stream: true, logit_bias: Object.fromEntries(model.config.eosTokens.map((token) => [token, -100])) };
  const logitBias = new Map(model.config.eosTokens.map((token) => [token, -100]));
  const alone = async (): Promise<void> => {
    await Promise.all(Array.from({ length: 8 }, async () => {
      using session = plain.session().append(prompt);
      for await (const _ of session.generate({ maxTokens: tokens, logitBias })) continue;
    }));
  };
  const served = async (): Promise<void> => void (await ask({ url: new URL("/v1/chat/completions", server.url).href, body, clients: 8, requests: 1 }));
  const ways = { alone, served };
  const found = { alone: { wall: [] as number[], cpu: [] as number[] }, served: { wall: [] as number[], cpu: [] as number[] } };
  for (let round = 0; round <= rounds; round++) {
    for (const name of round % 2 === 0 ? (["alone", "served"] as const) : (["served", "alone"] as const)) {
      const [wall, cpu] = [performance.now(), thread()];
      await ways[name]();
      if (round === 0) continue;
      found[name].wall.push((performance.now() - wall) / tokens);
      found[name].cpu.push((thread() - cpu) / tokens);
    }
  }
  await server.stop(true);
  console.log(`eight answers of ${tokens} tokens, ms a step of eight tokens, ${device.name}, ${threads} threads, ${rounds} rounds in turns`);
  for (const [name, { wall, cpu }] of Object.entries(found)) console.log(`  ${name.padEnd(8)} wall ${spread(wall)}; this thread's processor time ${spread(cpu)}`);
  const added = median(found.served.cpu) - median(found.alone.cpu);
  console.log(`  HTTP, JSON and text: ${added.toFixed(3)} ms of processor time a step, ${((100 * added) / median(found.alone.wall)).toFixed(1)} % of the median step, ${((100 * added) / sorted(found.alone.wall)[0]!).toFixed(1)} % of the best; wall ${((100 * median(found.served.wall)) / median(found.alone.wall) - 100).toFixed(1)} % (best ${((100 * sorted(found.served.wall)[0]!) / sorted(found.alone.wall)[0]! - 100).toFixed(1)} %)`);
}

/** First bytes, and requests a second, of the tiny model. */
async function tiny(): Promise<void> {
  using device = Device.open({ backend: "cpu", threads: 1 });
  using model = await LanguageModel.load(device, tinyModel, { states: 40, pages: 200 });
  const handler = createHandler(model, { sampling: "greedy" });
  const messages = [{ role: "user", content: "Hello" }];
  const body = { messages, max_tokens: 16, stream: true };
  let recorded: string[] = [];
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request, self) => {
      if (new URL(request.url).pathname !== "/bare") return await handler(request, self);
      await request.json();
      const encoder = new TextEncoder();
      let i = 0;
      const stream = new ReadableStream<Uint8Array>({
        pull(controller) {
          if (i < recorded.length) controller.enqueue(encoder.encode(recorded[i++]));
          else controller.close();
        },
      });
      return new Response(stream, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
    },
  });
  const url = new URL("/v1/chat/completions", server.url).href;
  const bare = new URL("/bare", server.url).href;
  const text = await (await fetch(url, { method: "POST", body: JSON.stringify(body) })).text();
  recorded = text.split("\n\n").slice(0, -1).map((event) => `${event}\n\n`);

  const own: number[] = [];
  const served: number[] = [];
  const streamed: number[] = [];
  for (let round = 0; round < 200; round++) {
    const begun = performance.now();
    using session = model.session().chat(messages, { specialTokens: "text" });
    await session.generate({ maxTokens: 16 }).next();
    const first = performance.now() - begun;
    const { first: [byte] } = await ask({ url, body, clients: 1, requests: 1 });
    const { first: [bareByte] } = await ask({ url: bare, body, clients: 1, requests: 1 });
    if (round < 20) continue;
    own.push(first);
    served.push(byte!);
    streamed.push(bareByte!);
  }
  console.log(`the tiny model, ms to the first token in this process: ${spread(own)}; to the first byte over HTTP: ${spread(served)}; of a bare Bun.serve: ${spread(streamed)}`);
  const tenth = (list: readonly number[]): number => sorted(list)[Math.floor(list.length / 10)]!;
  console.log(`  the server adds ${(median(served) - median(own)).toFixed(3)} ms at the median and ${(tenth(served) - tenth(own)).toFixed(3)} ms in the fastest tenth, of which ${median(streamed).toFixed(3)} and ${tenth(streamed).toFixed(3)} ms are a bare server's`);

  const requests = 40;
  const sessions = async (): Promise<void> => {
    await Promise.all(Array.from({ length: 16 }, async () => {
      for (let i = 0; i < requests; i++) {
        using session = model.session().chat(messages, { specialTokens: "text" });
        for await (const _ of session.generate({ maxTokens: 16 })) continue;
      }
    }));
  };
  const ways = {
    "over HTTP": () => ask({ url, body, clients: 16, requests }),
    "sessions in this process": sessions,
    "a bare Bun.serve with the same bytes": () => ask({ url: bare, body, clients: 16, requests }),
  };
  const names = Object.keys(ways) as (keyof typeof ways)[];
  const found = new Map(names.map((name) => [name, { rate: [] as number[], cpu: [] as number[] }]));
  for (let round = 0; round <= rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const [begun, cpu] = [performance.now(), thread()];
      await ways[name]();
      if (round === 0) continue;
      found.get(name)!.rate.push((16 * requests * 1000) / (performance.now() - begun));
      found.get(name)!.cpu.push((thread() - cpu) / (16 * requests));
    }
  }
  await server.stop(true);
  console.log(`16 clients, streams of ${recorded.length} events, requests a second, and ms of this thread's processor time for each`);
  for (const [name, { rate, cpu }] of found) console.log(`  ${name.padEnd(38)} ${median(rate).toFixed(0)} (at best ${sorted(rate).at(-1)!.toFixed(0)}); ${spread(cpu)}`);
}

/** From the start of `gated-delta serve` with the tiny model to its first whole answer. */
async function start(): Promise<void> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round++) {
    const begun = performance.now();
    const child = Bun.spawn([process.execPath, join(import.meta.dir, "../../lib/cli/main.ts"), "serve", tinyModel, "--port", "0", "--backend", "cpu", "--quiet"], { stdout: "pipe", stderr: "ignore" });
    const { value } = await child.stdout.getReader().read();
    const url = new TextDecoder().decode(value).trim();
    const response = await fetch(`${url}/chat/completions`, { method: "POST", body: JSON.stringify({ messages: [{ role: "user", content: "Hello" }], max_tokens: 1 }) });
    await response.json();
    times.push(performance.now() - begun);
    child.kill();
    await child.exited;
  }
  console.log(`gated-delta serve, the tiny model, ms from its start to its first answer: ${spread(times)}`);
}

try {
  const all: Readonly<Record<string, () => Promise<void>>> = { tiny, start, eight };
  for (const name of values.part ?? Object.keys(all)) await all[name]!();
} finally {
  clients.kill();
  rmSync(scratch, { recursive: true, force: true });
}
process.exit();
