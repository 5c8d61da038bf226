import { Device } from "gated-delta";
import { LanguageModel, type ChatMessage } from "gated-delta/model";

const folder = process.argv[2] ?? "test/golden/models/qwen3_5-mlx-mixed"; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 24, pages: 400 });
using cache = model.cache({ bytes: 16 * model.stateBytes });

/** Answers `{ messages, user?, maxTokens? }` with text as it comes. All requests share the model's steps, and what they begin with. */
async function answer(request: Request): Promise<Response> {
  const { messages, user = "", maxTokens = 100 } = (await request.json()) as { messages: ChatMessage[]; user?: string; maxTokens?: number };
  const session = model.session({ cache, salt: user });
  const end = new AbortController(); // of a client that leaves
  try {
    session.chat(messages);
  } catch (error) {
    session[Symbol.dispose]();
    return new Response(String(error), { status: 400 });
  }
  const pieces = session.generate({ maxTokens, drafts: true, signal: end.signal });
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        for (;;) {
          const { value, done } = await pieces.next();
          if (done) {
            session[Symbol.dispose]();
            return controller.close();
          }
          if (value.text !== "") return controller.enqueue(encoder.encode(value.text));
        }
      } catch (error) {
        session[Symbol.dispose]();
        if (!end.signal.aborted) controller.error(error);
      }
    },
    cancel() {
      end.abort();
      session[Symbol.dispose]();
    },
  });
  return new Response(body, { headers: { "content-type": "text/plain; charset=utf-8" } });
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
