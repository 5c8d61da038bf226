/**
 * Conversations of seeded answers with servers that share a store; one is killed in the middle of every other answer. The client
 * then asks another one for the same answer. Each whole answer is compared with that of a server without a cache and a store.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createHandler, openStore } from "../../lib/server.ts";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import type { Device } from "../../lib/index.ts";
import { Random } from "./random.ts";
import { startServer } from "./server-process.ts";
import { plainServer, secret, words } from "./store-conversations.ts";

/** A server that can be killed. */
interface Victim {
  readonly url: URL;
  kill(): Promise<void>;
}

export interface KillOptions {
  readonly device: Device;
  /** Servers to kill: in this process, and in separate processes. */
  readonly handlers: number;
  readonly processes: number;
  readonly seed: number;
  /** A folder for the secret. */
  readonly folder: string;
  /** The place of the store. */
  readonly place: string;
  /** Called after each kill. */
  readonly progress?: (killed: number) => void;
}

export interface KillResult {
  /** The number of whole answers, each of which is compared. */
  readonly answers: number;
  readonly killed: number;
  /** The kills after the client had received a part of the answer. */
  readonly within: number;
  /** Tokens of prompts, and those of them that were not read since they were cached. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** Differences, as texts: none are expected. */
  readonly wrong: readonly string[];
}

/** A server in this process. It ends as if it were killed: its connections break, and nothing more is written. */
function handlerServer(model: LanguageModel, place: string): Victim {
  const cache = model.cache({ bytes: model.states * model.stateBytes + model.pages * model.pageBytes });
  const store = openStore(place);
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: createHandler(model, { cache, store, secret }) });
  const kill = async (): Promise<void> => {
    cache[Symbol.dispose]();
    await server.stop(true);
  };
  return { url: server.url, kill };
}

/** `gated-delta serve` in a process, which is killed with SIGKILL. */
function processServer(folder: string, place: string): Promise<Victim> {
  const file = join(folder, "secret");
  writeFileSync(file, `${secret}\n`);
  return startServer(tinyModel, ["--backend", "cpu", "--threads", "1", "--sessions", "4", "--context", "2048", "--quiet", "--store", place, "--secret-file", file]);
}

interface Turn {
  readonly messages: readonly object[];
  readonly seed: number;
}

/** Asks for an answer and gives it whole, or undefined when the server was killed after `most` events. */
async function ask(victim: Victim, turn: Turn, most: number): Promise<{ text: string; logprobs: unknown[]; usage: any } | "within" | "before"> {
  const body = { ...turn, max_tokens: 30, temperature: 1, logprobs: true, stream: true, stream_options: { include_usage: true } };
  let events = 0;
  let killing: Promise<void> | undefined;
  let timer: Timer | undefined;
  const answer = { text: "", logprobs: [] as unknown[], usage: undefined as any };
  try {
    if (most === 0) timer = setTimeout(() => void (killing ??= victim.kill()), 20);
    const response = await fetch(new URL("/v1/chat/completions", victim.url), { method: "POST", body: JSON.stringify(body) });
    const decoder = new TextDecoder();
    let rest = "";
    for await (const chunk of response.body!) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (line === "data: [DONE]" && killing === undefined) return answer;
        if (!line.startsWith("data: ")) continue;
        const { choices, usage, error } = JSON.parse(line.slice(6));
        if (error !== undefined) throw new Error(JSON.stringify(error));
        answer.text += choices[0]?.delta.content ?? choices[0]?.delta.reasoning_content ?? "";
        answer.logprobs.push(...(choices[0]?.logprobs?.content ?? []));
        answer.usage = usage ?? answer.usage;
        if (++events === most) await (killing ??= victim.kill());
      }
    }
    throw new Error("the stream ended without its last event");
  } catch (error) {
    if (killing === undefined) throw error;
    await killing;
    return events > 0 ? "within" : "before";
  } finally {
    clearTimeout(timer);
  }
}

/** Runs conversations until all servers are killed. */
export async function killServers({ device, handlers, processes, seed, folder, place, progress }: KillOptions): Promise<KillResult> {
  using model = await LanguageModel.load(device, tinyModel, { states: 64, pages: 256 });
  using reference = plainServer(model, { cache: undefined });
  const random = new Random(seed);
  // Processes are spread evenly among handlers.
  const kinds = Array.from({ length: handlers + processes }, (_, i) => Math.floor(((i + 1) * processes) / (handlers + processes)) > Math.floor((i * processes) / (handlers + processes)));
  const open = (own: boolean): Promise<Victim> => (own ? processServer(folder, place) : Promise.resolve(handlerServer(model, place)));
  const sum = { answers: 0, killed: 0, within: 0, promptTokens: 0, cachedTokens: 0, wrong: [] as string[] };
  let victim = await open(kinds[0]!);
  let messages: object[] = [];
  for (let turn = 0; sum.killed < kinds.length; turn++) {
    if (messages.length === 0 || random.below(5) === 0) messages = [{ role: "system", content: words(40 + random.below(80), random.below(3)) }];
    messages.push({ role: "user", content: words(5 + random.below(60), turn) });
    const asked = { messages, seed: turn };
    for (;;) {
      // Half of the answers lose their server, at the 12th event at the latest, and some lose several servers.
      const answer = await ask(victim, asked, sum.killed < kinds.length && random.below(2) > 0 ? random.below(13) : Infinity);
      if (answer === "before" || answer === "within") {
        sum.killed++;
        if (answer === "within") sum.within++;
        progress?.(sum.killed);
        victim = sum.killed < kinds.length ? await open(kinds[sum.killed]!) : handlerServer(model, place);
        continue;
      }
      const { body } = await reference.ask({ ...asked, max_tokens: 30, temperature: 1, logprobs: true });
      const { message, logprobs } = body.choices[0];
      const expected = JSON.stringify([(message.reasoning_content ?? "") + (message.content ?? ""), logprobs.content]);
      const got = JSON.stringify([answer.text, answer.logprobs]);
      if (got !== expected) sum.wrong.push(`turn ${turn}: expected ${expected}, got ${got}`);
      sum.answers++;
      sum.promptTokens += answer.usage.prompt_tokens;
      sum.cachedTokens += answer.usage.prompt_tokens_details.cached_tokens;
      messages.push({ role: "assistant", content: message.content ?? "" });
      if (answer.usage.prompt_tokens > 900) messages = [];
      break;
    }
  }
  await victim.kill();
  return sum;
}
