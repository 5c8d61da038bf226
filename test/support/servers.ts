/** Servers on loopback for tests. */
import { createHandler } from "../../lib/server.ts";
import type { RequestLog, ServerHandler, ServerOptions } from "../../lib/server.ts";
import type { LanguageModel } from "../../lib/model.ts";

/** A server, and its handler's log of requests. */
export interface TestServer extends AsyncDisposable {
  readonly url: URL;
  readonly handler: ServerHandler;
  readonly log: readonly RequestLog[];
  /** Sends a request: a POST with a body as JSON, or with a text as it is; or a GET. */
  send(path: string, body?: unknown, init?: RequestInit): Promise<Response>;
}

/** Serves a model, with a cache that has all of its memory unless another one is given. */
export function serve(model: LanguageModel, options: ServerOptions = {}): TestServer {
  const log: RequestLog[] = [];
  const cache = model.cache({ bytes: model.states * model.stateBytes + model.pages * model.pageBytes, step: 16 });
  const handler = createHandler(model, { cache, log: (entry) => log.push(entry), ...options });
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: handler });
  const { url } = server;
  const send = (path: string, body?: unknown, init: RequestInit = {}): Promise<Response> => {
    const { headers, ...rest } = init;
    const post = body === undefined ? {} : { method: "POST", body: typeof body === "string" ? body : JSON.stringify(body) };
    return fetch(new URL(path, url), { ...post, headers: { "content-type": "application/json", ...(headers as Record<string, string> | undefined) }, ...rest });
  };
  const end = async (): Promise<void> => {
    await server.stop(true);
    await handler.drain();
    cache[Symbol.dispose]();
  };
  return { url, handler, log, send, [Symbol.asyncDispose]: end };
}

/** The data of a stream's events, in order; comments are left out. */
export async function eventsOf(response: Response): Promise<any[]> {
  const blocks = (await response.text()).split("\n\n").filter((block) => block !== "" && !block.startsWith(":"));
  return blocks.map((block) => {
    const data = block.split("\n").find((line) => line.startsWith("data: "))!.slice(6);
    return data === "[DONE]" ? data : JSON.parse(data);
  });
}

/** Waits until something holds. */
export async function until(holds: () => boolean, milliseconds = 30_000): Promise<void> {
  const deadline = performance.now() + milliseconds;
  while (!holds()) {
    if (performance.now() > deadline) throw new Error("it never held");
    await Bun.sleep(5);
  }
}

const call = (name: string, lake: string) => `<tool_call>\n{"name": "${name}", "arguments": {"lake": "${lake}"}}\n</tool_call>`;

/** A model's recited answers, by the prompt's number of `<|im_start|>`: thoughts, text and two calls; one more call; an answer. */
export const lakeAnswers = {
  3: `Two depths are wanted.\n</think>\n\nLet me see.\n${call("depth", "Baikal")}\n${call("depth", "Superior 🏞️")}`,
  5: `An area, to be sure.\n</think>${call("area", "Superior")}`,
  7: "That is clear now.\n</think>\n\nBaikal is four times as deep as Superior.",
};

/** The results of the tools that these answers call. */
export function runTool(name: string, { lake }: { readonly lake: string }): string {
  const depths: Readonly<Record<string, number>> = { Baikal: 1642, "Superior 🏞️": 406, Superior: 406 };
  return JSON.stringify(name === "depth" ? { metres: depths[lake] } : { squareKilometres: 82103 });
}

/** The names of these tools. */
export const toolNames = ["depth", "area"] as const;

/** The schema of their arguments. */
export const lakeParameters = { type: "object" as const, properties: { lake: { type: "string" } }, required: ["lake"] };
