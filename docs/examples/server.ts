import { Device, GatedDeltaError } from "gated-delta";
import { LanguageModel, tinyModel, type ChatMessage, type Piece, type Session } from "gated-delta/model";

const folder = process.argv[2] ?? tinyModel; // of a checkpoint
using device = Device.open();
using model = await LanguageModel.load(device, folder, { states: 24, pages: 400 });
using cache = model.cache({ bytes: 16 * (model.stateBytes + 16 * model.pageBytes) }); // 16 entries of 1024 tokens
void model.text.tokenizer; // read it now: a large vocabulary takes a second

/** The text of an answer as it comes. It ends with the session disposed. */
async function* textOf(session: Session, first: IteratorResult<Piece, void>, pieces: AsyncGenerator<Piece, void>): AsyncGenerator<Uint8Array> {
  using own = session;
  const encoder = new TextEncoder();
  for (let at = first; !at.done && !own.disposed; at = await pieces.next()) if (at.value.text !== "") yield encoder.encode(at.value.text);
}

/** Answers `{ messages, maxTokens? }`. All requests share the model's steps, and what they begin with. */
async function answer(request: Request): Promise<Response> {
  const session = model.session({ cache, salt: request.headers.get("authorization") ?? "" });
  request.signal.addEventListener("abort", () => session[Symbol.dispose]()); // the client has left
  try {
    const { messages, maxTokens = 100 } = (await request.json()) as { messages: ChatMessage[]; maxTokens?: number };
    const pieces = session.chat(messages, { specialTokens: "text" }).generate({ maxTokens, drafts: true, signal: request.signal });
    const first = await pieces.next(); // a wrong request fails here, before the response begins
    return new Response(textOf(session, first, pieces), { headers: { "content-type": "text/plain; charset=utf-8" } });
  } catch (error) {
    session[Symbol.dispose]();
    const full = error instanceof GatedDeltaError && error.code === "out-of-memory";
    return new Response(String(error), { status: full ? 503 : 400 });
  }
}

const server = Bun.serve({
  port: Number(process.env["PORT"] ?? 0),
  idleTimeout: 255, // seconds without a byte, while a long prompt is read
  routes: {
    "/": () => Response.json({ freeStates: model.freeStates, cached: cache.size, hits: cache.hits, steps: model.steps }),
    "/chat": { POST: answer },
  },
});
console.log(server.url.href);
if (process.env["PORT"] === undefined) {
  // Without a port this is a trial: one question, then exit.
  const body = JSON.stringify({ messages: [{ role: "user", content: "Hello" }], maxTokens: 10 });
  console.log(await (await fetch(new URL("/chat", server.url), { method: "POST", body })).text());
  await server.stop();
} else await new Promise<never>(() => {});
