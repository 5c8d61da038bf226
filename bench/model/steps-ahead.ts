/**
 * Times greedy answers of sessions with and without steps that run before their tokens are known here, in turns in one run: the time of a
 * token, and the device's idle time between two steps, from the end of one as JavaScript sees it to the commit of the next.
 *
 *     bun bench/model/steps-ahead.ts [FOLDER] [--backend cpu] [--threads 2] [--sessions 1] [--prompt 64] [--tokens 200] [--rounds 9]
 */
import { parseArgs } from "node:util";
import { Device, Plan } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { PendingRuns } from "../../lib/model/pending-runs.ts";
import { RunAhead } from "../../lib/model/run-ahead.ts";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { replace } from "../../test/support/replace.ts";
import type { Method } from "../../test/support/replace.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    backend: { type: "string", default: "cpu" },
    threads: { type: "string", default: "2" },
    sessions: { type: "string", default: "1" },
    prompt: { type: "string", default: "64" },
    tokens: { type: "string", default: "200" },
    rounds: { type: "string", default: "9" },
  },
});
const [folder = tinyModel] = positionals;
const [threads, sessions, promptTokens, tokens, rounds] = [values.threads, values.sessions, values.prompt, values.tokens, values.rounds].map(Number) as [number, number, number, number, number];

using device = Device.open(values.backend === "cpu" ? { backend: "cpu", threads } : (values.backend as BackendName));
using model = await LanguageModel.load(device, folder, { sessions, context: promptTokens + tokens + 64 });

/** The end of the last step, if nothing has been committed since. */
let ended: number | undefined;
let idle: number[] = [];
let steps = 0;
let ahead = 0;
using hooks = new DisposableStack();
hooks.use(replace(Plan.prototype, "run", (original) => function (this: Plan, ...args: Parameters<Plan["run"]>) {
  const ticket = (original as Plan["run"]).apply(this, args);
  if (ended !== undefined) idle.push(performance.now() - ended);
  ended = undefined;
  steps++;
  return ticket;
} as Method));
hooks.use(replace(PendingRuns.prototype, "wait", (original) => async function (this: PendingRuns, ...args: Parameters<PendingRuns["wait"]>) {
  await (original as PendingRuns["wait"]).apply(this, args);
  if (args[1] === undefined) ended = performance.now();
  else ahead++;
} as Method));

/** Milliseconds per token of answers that are given at the same time. */
async function round(): Promise<number> {
  let start = 0;
  using all = new DisposableStack();
  await Promise.all(Array.from({ length: sessions }, async (_, s) => {
    const prompt = Array.from({ length: promptTokens }, (_token, i) => (i * 7919 + 11 + s) % model.config.vocabSize);
    let given = 0;
    for await (const _piece of all.use(model.session()).append(prompt).generate({ ignoreModelStops: true, maxTokens: tokens + 1 })) if (given++ === 0) start = performance.now();
  }));
  return (performance.now() - start) / tokens;
}

const median = (list: readonly number[]) => list.toSorted((a, b) => a - b)[list.length >> 1] ?? 0;
const times: number[][] = [[], []];
const lines = ["ahead", "not ahead"];
const idles: number[][] = [[], []];
const shares = [[0, 0], [0, 0]];
for (let i = 0; i <= rounds; i++) {
  for (const way of [0, 1]) {
    using _ = way === 1 ? replace(RunAhead.prototype, "run", () => () => undefined) : undefined;
    [ended, idle, steps, ahead] = [undefined, [], 0, 0];
    const time = await round();
    if (i === 0) continue;
    times[way]!.push(time);
    idles[way]!.push(...idle);
    shares[way]![0]! += ahead;
    shares[way]![1]! += steps;
  }
}
console.log(`${folder}, ${device.name}, ${device.backend}, ${threads} threads, ${sessions} sessions; ${tokens} tokens after ${promptTokens}, ${rounds} rounds in turns`);
for (const way of [0, 1]) {
  const all = times[way]!;
  console.log(`${lines[way]!.padEnd(10)} ms a token: best ${Math.min(...all).toFixed(4)}, median ${median(all).toFixed(4)}; idle after ${idles[way]!.length} of ${shares[way]![1]} steps, median ${median(idles[way]!).toFixed(4)} ms`);
}
console.log(`ratio: best ${(Math.min(...times[0]!) / Math.min(...times[1]!)).toFixed(3)}, median ${(median(times[0]!) / median(times[1]!)).toFixed(3)}`);
