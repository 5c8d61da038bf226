/** A random schedule: up to 40 sessions, and sequences of the caller's own, over memory for 1 to 4 of them. */
import { Actor } from "./actor.ts";
import { runCaller } from "./caller.ts";
import { compareClaims } from "./claims.ts";
import type { Pressed } from "./models.ts";
import type { Random } from "../support/random.ts";
import type { Counts } from "../support/schedules.ts";
import { Situation } from "./situation.ts";
import { Watch } from "./watch.ts";

/** The time limit of a schedule in milliseconds: none takes nearly this long. */
const longest = 120_000;

/** Runs a schedule to its end, and compares its answers. Its actors write their actions to `lines`. */
export async function runSchedule(pressed: Pressed, random: Random, folder: string, counts: Counts, lines: string[]): Promise<void> {
  const { model } = pressed;
  const callers = random.below(5) === 0 ? 1 + random.below(2) : 0;
  const { promise: failure, reject: failed } = Promise.withResolvers<never>();
  failure.catch(() => {}); // handled below
  const watch = new Watch(model, pressed.promptTokens, callers === 0, (what) => situation.count(what));
  const made: Actor[] = [];
  const running = new Set<Promise<void>>();
  const start = (work: Promise<void>): void => {
    const one = work.catch(failed).finally(() => running.delete(one));
    running.add(one);
  };
  const spawn = (actor: Actor): void => {
    made.push(actor);
    start(actor.run(1 + actor.random.below(sessions > 16 ? 2 : 4)));
  };
  const cacheStep = 1 + random.below(12);
  const cache = random.below(3) === 0 ? undefined : model.cache({ bytes: random.below(3) === 0 ? 2 * model.stateBytes : 1e9, step: cacheStep, ratio: random.below(2) === 0 ? 2 : 1.3 });
  const stems = Array.from({ length: 3 }, () => Array.from({ length: pressed.longest }, () => random.below(50)));
  const situation = new Situation({ pressed, watch, cache, cacheStep, stems, folder, longPauses: random.below(40) === 0, failed, spawn, counts, lines });
  const sessions = Math.floor(Math.exp(random.uniform(0, Math.log(41))));
  const warned = ({ code, message }: Error & { code?: string }): void => {
    if (code === "GATED_DELTA_WAIT" && callers === 0) failed(new Error(`sessions wait for sessions: ${message}`));
  };
  process.on("warning", warned);
  const limit = setTimeout(() => failed(new Error(`not over after ${longest} ms`)), longest);
  try {
    start(watch.run());
    const watching = [...running];
    for (let i = 0; i < callers; i++) start(runCaller(situation, `caller ${i}`, situation.newRandom(random)));
    for (let i = 0; i < sessions; i++) spawn(Actor.begin(situation, situation.newName(), situation.newRandom(random)));
    const all = async (): Promise<void> => {
      for (let rest = [...running]; rest.length > watching.length; rest = [...running]) await Promise.race(rest.filter((one) => !watching.includes(one)));
    };
    await Promise.race([all(), failure]);
    if (sessions > model.states) situation.count("more sessions than states");
    expectAllBack(pressed, made, cache);
    await compareClaims(situation.claims, pressed, situation.count);
  } finally {
    clearTimeout(limit);
    process.off("warning", warned);
    watch.stop();
    for (const { session } of made) session[Symbol.dispose]();
    situation.count("sessions", made.length);
    situation.count("tokens found in caches", cache?.tokensSaved ?? 0);
  }
}

/** Ends all sessions, many of which are idle; then all memory must be free. */
function expectAllBack({ model }: Pressed, made: readonly Actor[], cache: { clear(): void } | undefined): void {
  for (const { session } of made) session[Symbol.dispose]();
  cache?.clear();
  if (model.freeStates === model.states && model.freePages === model.pages) return;
  throw new Error(`after all sessions ended ${model.freeStates} of ${model.states} states and ${model.freePages} of ${model.pages} pages are free`);
}
