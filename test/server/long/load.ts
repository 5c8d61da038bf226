/** The long run of the load: many clients on a server, some of which misbehave. */
import { runLoad } from "../load/load.ts";
import type { Spread } from "../load/load.ts";
import type { Figures } from "../load/server.ts";
import type { LongOptions } from "./main.ts";

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
const spread = ({ count, median, p99, most }: Spread): string => `median ${median.toFixed(0)} ms, 99 % within ${p99.toFixed(0)} ms, at most ${most.toFixed(0)} ms (${count} streams)`;
const line = ({ active, freeStates, states, freePages, pages, descriptors, rss, heap, objects }: Figures): string =>
  `${active} active, ${freeStates} of ${states} states and ${freePages} of ${pages} pages free, ${descriptors} descriptors, resident ${mebibytes(rss)} MiB, heap ${mebibytes(heap)} MiB of ${objects} objects`;

/** Runs it, and reports its figures. */
export async function run(say: (line: string) => void, { minutes, clients, seed }: LongOptions): Promise<void> {
  const onFigures = (figures: Figures, seconds: number): void => say(`after ${seconds.toFixed(0)} s: ${line(figures)}`);
  const { begin, end, calm, loaded, counts } = await runLoad({ seed, clients, seconds: 60 * minutes, every: 60, onFigures });
  say(`${clients} clients for ${minutes} minutes, seed ${seed}: every answer was the cold run's, and nothing is held`);
  say(`at the beginning: ${line(begin)}`);
  say(`at the end: ${line(end)}`);
  say(`at most ${end.mostActive} requests were answered or waited; ${end.steps} steps, ${end.hits} hits of the cache, ${end.tokensSaved} tokens not read again`);
  say(`32 clients, to the first byte: ${spread(calm.first)}; between two pieces of a stream: ${spread(calm.gap)}`);
  say(`${clients} clients, to the first byte, with the wait for a turn: ${spread(loaded.first)}; between two pieces of a stream: ${spread(loaded.gap)}`);
  for (const [what, count] of [...counts].toSorted(([a], [b]) => (a < b ? -1 : 1))) say(`${what}: ${count}`);
}
