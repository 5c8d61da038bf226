import { Device } from "gated-delta";
import { LanguageModel, type ChatMessage, type Session } from "gated-delta/model";

const folder = process.argv[2] ?? "test/golden/models/qwen3_5-mlx-mixed"; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 24, pages: 400 });
using cache = model.cache({ bytes: 16 * model.stateBytes });

/** The pieces of an answer as they come. It ends with the session disposed, also when the client has left. */
async function* piecesOf(session: Session, maxTokens: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  using own = session;
  const encoder = new TextEncoder();
  for await (const { text } of own.generate({ maxTokens, drafts: true, signal })) if (text !== "") yield encoder.encode(text);
}

/** Answers `{ messages, user?, maxTokens? }`. All requests share the model's steps, and what they begin with. */
async function answer(request: Request): Promise<Response> {
  const session = model.session({ cache, salt: request.headers.get("authorization") ?? "" });
  try {
    const { messages, maxTokens = 100 } = (await request.json()) as { messages: ChatMessage[]; maxTokens?: number };
    const body = piecesOf(session.chat(messages), maxTokens, request.signal);
    return new Response(body, { headers: { "content-type": "text/plain; charset=utf-8" } });
  } catch (error) {
    session[Symbol.dispose]();
    return new Response(String(error), { status: 400 });
  }
}

const server = Bun.serve({
  port: Number(process.env["PORT"] ?? 0),
  routes: {
    "/": () => Response.json({ freeStates: model.freeStates, cached: cache.size, hits: cache.hits, steps: model.steps }),
    "/chat": { POST: answer },
  },
});
console.log(server.url.href);
if (process.env["PORT"] === undefined) {
  // Tried once, without a port: one question, and the end.
  const body = JSON.stringify({ messages: [{ role: "user", content: "Hello" }], maxTokens: 10 });
  console.log(await (await fetch(new URL("/chat", server.url), { method: "POST", body })).text());
  await server.stop();
} else await new Promise<never>(() => {});
