/**
 * Replays agents' requests to a prefix cache, without a model, and counts the tokens that are read: with the library's
 * policy, and with a plain one that keeps the end of each prompt and of each answer and drops the least recently used.
 */
import { checkpointPositions, defaultFirst } from "../../lib/model/session/checkpoint-positions.ts";
import type { PositionOptions } from "../../lib/model/session/checkpoint-positions.ts";
import { PrefixStore } from "../../lib/states/prefix-store.ts";
import { Random } from "./random.ts";

/** One request: a prompt, and the answer that it got. */
export interface Request {
  readonly prompt: readonly number[];
  readonly answer: readonly number[];
  /** Positions after the last token of each message of the prompt. */
  readonly messageEnds: readonly number[];
}

export type Trace = readonly Request[];

/** Tokens that a replay read, one number for each request. */
export type Reads = readonly number[];

/** Sizes like those of a model: a state costs as much as a few hundred tokens' keys and values. */
export interface Costs {
  readonly state: number;
  readonly token: number;
  readonly budget: number;
}

const nothing: Disposable = { [Symbol.dispose]() {} };

/** The library's policy. The last token is always read: it gives the logits. */
export function replay(trace: Trace, { state, token, budget }: Costs, options: PositionOptions = {}): Reads {
  using store = new PrefixStore({ budget, bytes: (length, shared) => state + token * (length - shared) });
  return trace.map(({ prompt, answer, messageEnds }) => {
    const whole = Uint32Array.from([...prompt, ...answer]);
    const start = store.lookup(whole.subarray(0, prompt.length - 1))?.length ?? 0;
    for (const { position, likely } of checkpointPositions(start, prompt.length - 1, messageEnds, options)) {
      store.insert(whole.subarray(0, position), () => nothing, "", likely);
    }
    store.insert(whole.subarray(0, whole.length - 1), () => nothing);
    return prompt.length - start;
  });
}

/** The plain policy: ends of prompts and answers, dropped by age alone. */
export function replayLru(trace: Trace, { state, token, budget }: Costs): Reads {
  let entries: number[][] = []; // the most recently used one last
  const isPrefix = (short: readonly number[], long: readonly number[]) => short.length <= long.length && short.every((id, i) => long[i] === id);
  const shared = (entry: readonly number[], others: readonly number[][]) =>
    others.reduce((most, other) => (other.length < entry.length && other.length > most && isPrefix(other, entry) ? other.length : most), 0);
  const bytes = () => entries.reduce((sum, entry) => sum + state + token * (entry.length - shared(entry, entries)), 0);
  const use = (entry: number[]) => {
    entries = [...entries.filter((other) => other.length !== entry.length || !isPrefix(other, entry)), entry];
    while (bytes() > budget) entries.shift();
  };
  return trace.map(({ prompt, answer }) => {
    const found = entries.filter((entry) => entry.length < prompt.length && isPrefix(entry, prompt)).sort((a, b) => b.length - a.length)[0];
    if (found !== undefined) use(found);
    use(prompt.slice(0, -1));
    use([...prompt, ...answer].slice(0, -1));
    return prompt.length - (found?.length ?? 0);
  });
}

/** The largest number of tokens before an edit that are read again if a message is edited after its first k tokens. */
export function mostReadAgain(k: number, { first = defaultFirst, ratio = 2 }: PositionOptions = {}): number {
  return Math.max(2 * first, first + (k * (ratio - 1)) / ratio + 1);
}

/** How many tokens of each request come after its common prefix with earlier ones, and how far into a message the first of them is. */
export function changes(trace: Trace): readonly { readonly changed: number; readonly into: number }[] {
  const seen: number[][] = [];
  return trace.map(({ prompt, answer, messageEnds }) => {
    let common = 0;
    for (const other of seen) {
      let same = 0;
      while (same < prompt.length && prompt[same] === other[same]) same++;
      common = Math.max(common, same);
    }
    seen.push([...prompt, ...answer]);
    const start = Math.max(0, ...messageEnds.filter((end) => end <= common));
    return { changed: prompt.length - common, into: common - start };
  });
}

const end = 1;

/** Writes conversations of random messages. */
class Writer {
  readonly #random: Random;
  constructor(seed: number) {
    this.#random = new Random(seed);
  }
  message(length: number): number[] {
    return [...Array.from({ length: length - 1 }, () => 2 + this.#random.below(30000)), end];
  }
  request(messages: readonly (readonly number[])[], answer = this.message(60)): Request {
    const prompt = messages.flat();
    let position = 0;
    return { prompt, answer, messageEnds: messages.map((message) => (position += message.length)) };
  }
}

/** Agents' traces by name. */
export function agentTraces(seed = 1): Readonly<Record<string, Trace>> {
  const writer = new Writer(seed);
  const system = writer.message(2000);
  const many = Array.from({ length: 24 }, () => writer.request([system, writer.message(80)]));

  const edits: Request[] = [];
  const question = writer.message(900);
  for (const from of [899, 700, 450, 250, 100, 20]) {
    edits.push(writer.request([system, [...question.slice(0, from), ...writer.message(40)]]));
  }

  const again: Request[] = [];
  const asked = [system, writer.message(150)];
  for (let i = 0; i < 6; i++) again.push(writer.request(asked));

  // A main conversation whose every turn asks six sub-agents, each with a conversation of its own.
  const agents: Request[] = [];
  let main = [system, writer.message(200)];
  const subs = Array.from({ length: 6 }, () => [writer.message(1200), writer.message(60)]);
  for (let turn = 0; turn < 5; turn++) {
    for (const [i, sub] of subs.entries()) {
      const request = writer.request(sub);
      agents.push(request);
      subs[i] = [...sub, [...request.answer], writer.message(60)];
    }
    const request = writer.request(main);
    agents.push(request);
    main = [...main, [...request.answer], writer.message(300)];
  }
  const traces = { "long system prompt": many, "edit of the last message": edits, regeneration: again, "sub-agents that return": agents };
  return { ...traces, "all of these in turn": inTurn(Object.values(traces)) };
}

/** The first request of each trace, then the second of each, and so on. */
function inTurn(traces: readonly Trace[]): Trace {
  const longest = Math.max(...traces.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) => traces.flatMap((trace) => trace.slice(i, i + 1))).flat();
}
