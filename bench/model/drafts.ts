/**
 * Times a step in which some sequences verify guesses while others decode, in turns in one run:
 *
 * - `decode`: the neighbours alone, one token each;
 * - `fork`: one pass over the neighbours' tokens and, by a fork of each drafting sequence, its guesses;
 * - `mixed`: one pass, in which the drafting sequences verify their guesses; then all guesses are accepted;
 * - `two`: the neighbours' tokens, then the verification, each as a submission; then all guesses are accepted.
 *
 *     bun bench/model/drafts.ts FOLDER [--threads 2] [--neighbours 0,1,4] [--drafting 1,3] [--tokens 8] [--rounds 12]
 */
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { entryOf } from "../../lib/model/batch.ts";
import { memoryOf } from "../../lib/model/model-memory.ts";
import { verificationOf } from "../../lib/model/run-result.ts";
import { LanguageModel } from "../../lib/model.ts";
import type { Sequence } from "../../lib/model.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: "string", default: "2" },
    neighbours: { type: "string", default: "0,1,4" },
    drafting: { type: "string", default: "1,3" },
    tokens: { type: "string", default: "8" },
    rounds: { type: "string", default: "12" },
  },
});
const [folder] = positionals;
if (folder === undefined) throw new Error("name a model's folder");
const [threads, tokens, rounds] = [values.threads, values.tokens, values.rounds].map(Number) as [number, number, number];
const counts = (list: string) => list.split(",").map(Number);

using device = Device.open({ backend: "cpu", threads });
const most = Math.max(...counts(values.neighbours)) + Math.max(...counts(values.drafting));
using model = await LanguageModel.load(device, folder, { states: 2 * most, pages: 64 * most, draftTokens: (tokens + 1) * Math.max(...counts(values.drafting)) });
const { run } = memoryOf(model);
const ids = (count: number, seed: number) => Array.from({ length: count }, (_, i) => (i * 7919 + seed * 31) % model.config.vocabSize);

/** Sequences that have read a prompt. */
async function read(count: number): Promise<Sequence[]> {
  const sequences = Array.from({ length: count }, () => model.sequence());
  for (const [i, sequence] of sequences.entries()) await model.run([{ sequence, tokens: ids(64, i) }]);
  return sequences;
}

/** Milliseconds of a step. */
interface Times {
  readonly wall: number;
  /** The processor time of all cores together: other programs add less to it. */
  readonly cpu: number;
}

const median = (times: readonly number[]) => times.toSorted((a, b) => a - b)[times.length >> 1]!;

console.log(`${folder}, ${threads} threads, ${device.name}; ${tokens} guesses a sequence that drafts, medians of ${rounds} rounds in turns, in ms`);
for (const drafting of counts(values.drafting)) {
  for (const count of counts(values.neighbours)) {
    const [neighbours, drafters] = [await read(count), await read(drafting)];
    const decode = () => neighbours.map((sequence, i) => ({ sequence, tokens: ids(1, i) }));
    const guesses = () => drafters.map((sequence, i) => entryOf({ sequence, tokens: ids(tokens + 1, i) }, tokens));
    const verify = async (entries: Parameters<typeof run>[1]) => {
      for (const result of await run("bench", entries)) verificationOf(result)?.accept(tokens);
      await device.finish();
    };
    const ways: Record<string, () => Promise<void>> = {
      ...(count > 0 && { decode: async () => void (await model.run(decode())) }),
      fork: async () => {
        const forks = drafters.map((sequence) => sequence.fork());
        await model.run([...decode(), ...forks.map((sequence, i) => ({ sequence, tokens: ids(tokens + 1, i), logits: "all" as const }))]);
        for (const fork of forks) fork[Symbol.dispose]();
      },
      mixed: () => verify([...decode().map((entry) => entryOf(entry)), ...guesses()]),
      ...(count > 0 && {
        two: async () => {
          await model.run(decode());
          await verify(guesses());
        },
      }),
    };
    const times = new Map(Object.keys(ways).map((way) => [way, [] as Times[]]));
    for (let round = -2; round < rounds; round++) {
      for (const [way, step] of Object.entries(ways)) {
        const start = performance.now();
        const cpu = process.cpuUsage();
        await step();
        const { user, system } = process.cpuUsage(cpu);
        if (round >= 0) times.get(way)!.push({ wall: performance.now() - start, cpu: (user + system) / 1000 });
      }
    }
    const cells = Array.from(times, ([way, list]) => {
      const wall = list.map((one) => one.wall);
      return `${way} ${median(wall).toFixed(1)} (best ${Math.min(...wall).toFixed(1)}, cpu ${median(list.map((one) => one.cpu)).toFixed(1)})`;
    });
    console.log(`${drafting} drafting, ${count} neighbours: ${cells.join(", ")}`);
    for (const sequence of [...neighbours, ...drafters]) sequence[Symbol.dispose]();
  }
}
