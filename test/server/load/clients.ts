/** The behaviour of clients: they ask and compare, or misbehave in every way that a socket allows. */
import type { Random } from "../../support/random.ts";
import { answerOf, streamedAnswer } from "./cases.ts";
import type { Case } from "./cases.ts";
import { exchange, requestText } from "./http.ts";
import type { RawResponse } from "./http.ts";

/** A client's finished request: its kind, and how it ended. */
export interface Done {
  readonly kind: string;
  readonly outcome: string;
  /** Set for streams that were read to their end. */
  readonly response?: RawResponse;
}

type Client = (port: number, one: Case, random: Random) => Promise<Done>;

/** Compares an answer with the known one. A full server says so, and when to come back. */
function compared(kind: string, one: Case, response: RawResponse, stream: boolean): Done {
  const { status, headers, body } = response;
  if (status === 503 || status === 529) {
    if (!(Number(headers["retry-after"]) >= 1)) throw new Error(`status ${status} without Retry-After`);
    return { kind, outcome: "full" };
  }
  if (status !== 200) throw new Error(`${kind}, ${one.path}: status ${status}: ${body.slice(0, 300)}`);
  const [text, tokens] = stream ? streamedAnswer(body) : answerOf(one.path, JSON.parse(body));
  if (text !== one.text || tokens !== one.tokens) throw new Error(`${kind}, ${one.path}: ${JSON.stringify([text, tokens])} is not the cold run's ${JSON.stringify([one.text, one.tokens])}: ${JSON.stringify(one.body)}`);
  return { kind, outcome: "the cold run's answer", ...(stream ? { response } : {}) };
}

function post(one: Case, stream: boolean): string {
  const usage = stream && /completions$/.test(one.path) ? { stream_options: { include_usage: true } } : {};
  return requestText("POST", one.path, { ...one.body, stream, ...usage });
}

const whole: Client = async (port, one) => compared("whole", one, await exchange(port, post(one, false)), false);
const streamed: Client = async (port, one) => compared("streamed", one, await exchange(port, post(one, true)), true);

/** Reads nothing for a while, and then everything. */
const stalling: Client = async (port, one, random) => {
  const { kind, outcome } = compared("stalled", one, await exchange(port, post(one, true), { stall: 500 + random.below(2500) }), true);
  return { kind, outcome }; // its times are not the server's
};

/** Leaves in the middle of a long answer, or while it waits. */
const leaving: Client = async (port, one, random) => {
  const body = { ...one.body, stream: random.below(3) > 0, ...(one.path === "/v1/responses" ? { max_output_tokens: 2000 } : { max_tokens: 2000 }) };
  const manners = random.below(2) === 0 ? { leaveAfter: 1 + random.below(2000) } : { leaveAt: random.below(400) };
  await exchange(port, requestText("POST", one.path, body), manners);
  return { kind: "left", outcome: "left" };
};

/** Asks for a long answer, reads none of it, and leaves. */
const deaf: Client = async (port, _, random) => {
  const leaveAt = 1000 + random.below(3000);
  await exchange(port, requestText("POST", "/v1/chat/completions", { messages: [{ role: "user", content: "Tell me all." }], stream: true, n: 4, max_tokens: 800, logprobs: true, top_logprobs: 20 }), { stall: leaveAt + 1000, leaveAt });
  return { kind: "deaf", outcome: "left" };
};

/** Sends a part of a request, and nothing more. */
const halves: Client = async (port, one, random) => {
  const text = post(one, true);
  const { status } = await exchange(port, text.slice(0, 1 + random.below(text.length - 1)), { leaveAt: 100 + random.below(1500) });
  if (status >= 500) throw new Error(`half a request: status ${status}`);
  return { kind: "half", outcome: status === 0 ? "no answer" : `status ${status}` };
};

/** Sends something that is not a request, or not one for this server. */
const garbage: Client = async (port, one, random) => {
  const text = post(one, false);
  const bytes = Uint8Array.from({ length: 1 + random.below(3000) }, () => random.below(256));
  const junk = Array.from({ length: 1 + random.below(200) }, () => String.fromCharCode(32 + random.below(95))).join("");
  const sent = random.pick<() => string | Uint8Array>([
    () => bytes,
    () => requestText("POST", one.path, junk),
    () => requestText("POST", one.path, JSON.stringify(one.body).slice(0, -1 - random.below(20))),
    () => requestText("POST", one.path, { ...one.body, temperature: "hot", prompt: {}, input: 1, messages: {} }),
    () => requestText("POST", one.path, "x".repeat(300_000)),
    () => requestText("PUT", one.path, one.body),
    () => requestText("GET", `/${encodeURIComponent(junk)}`),
    () => requestText("POST", one.path, one.body, { "content-encoding": "br" }),
    () => text.replace("HTTP/1.1", "HTTP/7.7"),
    () => text.replace(/content-length: \d+/, "content-length: -5"),
    () => text.replace("\r\n\r\n", `\r\nx-junk: ${"y".repeat(100_000)}\r\n\r\n`),
  ])();
  const { status } = await exchange(port, sent, { leaveAt: 5000 });
  if (status === 200 || (status >= 500 && status !== 505)) throw new Error(`garbage: status ${status} for ${JSON.stringify(typeof sent === "string" ? sent.slice(0, 400) : [...sent.slice(0, 100)])}`);
  return { kind: "garbage", outcome: status === 0 ? "closed" : `status ${status}` };
};

/** The kinds of clients, and how often each comes. */
const kinds: readonly (readonly [times: number, client: Client])[] = [[30, whole], [40, streamed], [4, stalling], [12, leaving], [1, deaf], [6, halves], [7, garbage]];
const all = kinds.flatMap(([times, client]) => Array.from({ length: times }, () => client));

/** One request of any kind. */
export function anyRequest(port: number, cases: readonly Case[], random: Random): Promise<Done> {
  return random.pick(all)(port, random.pick(cases), random);
}

/** One streamed request. */
export function streamedRequest(port: number, cases: readonly Case[], random: Random): Promise<Done> {
  return streamed(port, random.pick(cases), random);
}
