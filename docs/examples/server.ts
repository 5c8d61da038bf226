import { Device } from "gated-delta";
import { LanguageModel, tinyModel } from "gated-delta/model";
import { createHandler } from "gated-delta/server";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 24, pages: 400 });
using cache = model.cache({ bytes: 16 * (model.stateBytes + 16 * model.pageBytes + 4 * 1024) }); // 16 entries of 1024 tokens

const key = process.env["KEY"];
const handler = createHandler(model, {
  cache,
  ...(key === undefined ? {} : { keys: [key] }),
  limits: { answerTokens: 4096, concurrent: 64 },
  log: ({ method, path, status, milliseconds }) => console.log(method, path, status, `${Math.round(milliseconds)} ms`),
});
const server = Bun.serve({
  port: Number(process.env["PORT"] ?? 0),
  hostname: "127.0.0.1",
  routes: { "/stats": () => Response.json({ freeStates: model.freeStates, cached: cache.size, hits: cache.hits, steps: model.steps }) },
  fetch: handler,
});
console.log(server.url.href);
if (process.env["PORT"] === undefined) {
  // Without a port this is a trial: one question, then exit.
  const body = JSON.stringify({ messages: [{ role: "user", content: "Hello" }], max_tokens: 10 });
  const answer = await handler(new Request(new URL("/v1/chat/completions", server.url).href, { method: "POST", body }));
  console.log(((await answer.json()) as { choices: { message: { content: string } }[] }).choices[0]!.message.content);
} else await new Promise((resolve) => process.on("SIGTERM", resolve));
await handler.drain();
await server.stop();
