/**
 * Times the choice of a token: from whole rows of logits in JavaScript, and from the k largest, which the device finds. Prints the
 * processor time of the process, both ways in turns: the best and the median round.
 *
 *     bun bench/model/choices.ts [--tokens 248320] [--rounds 15]
 */
import { parseArgs } from "node:util";
import { Device, topK } from "../../lib/index.ts";
import { bestCount } from "../../lib/model/sampling/best-logits.ts";
import { Sampler } from "../../lib/model/sampling/sampler.ts";
import { greedy } from "../../lib/model/sampling/settings.ts";
import type { SamplingSettings } from "../../lib/model/sampling/settings.ts";
import { Random } from "../../test/support/random.ts";

const { values: options } = parseArgs({ options: { tokens: { type: "string", default: "248320" }, rounds: { type: "string", default: "15" } } });
const [vocabSize, rounds] = [Number(options.tokens), Number(options.rounds)];
/** The number of choices in a round. */
const each = 20;

const settings: Readonly<Record<string, SamplingSettings>> = {
  greedy,
  "top-k 20, top-p 0.8": { ...greedy, temperature: 0.7, topK: 20, topP: 0.8 },
  "top-k 40, top-p 0.95": { ...greedy, temperature: 0.8, topK: 40, topP: 0.95 },
  "top-k 128": { ...greedy, temperature: 1, topK: 128 },
};

using device = Device.open({ backend: "cpu", threads: 1 });
const random = new Random(5);
// Several rows, which do not stay in the cache, like those of a model's steps.
const rows = 8;
const logits = device.tensor("f32", [rows, vocabSize]);
for (let i = 0; i < logits.data.length; i++) logits.data[i] = random.normal() * 3;

const used = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
function timed(choose: (row: number) => void): number {
  const before = used();
  for (let i = 0; i < each; i++) choose(i % rows);
  return (used() - before) / each;
}
const text = (times: readonly number[]): string => {
  const sorted = times.toSorted((a, b) => a - b);
  return `${sorted[0]!.toFixed(3)} ${sorted[sorted.length >> 1]!.toFixed(3)}`;
};

console.log(`ms of a choice among ${vocabSize} (best, median): whole rows; the largest`);
for (const [name, one] of Object.entries(settings)) {
  const sampler = new Sampler(one, 1, vocabSize);
  const count = bestCount(sampler.best!, vocabSize);
  const [values, ids] = [device.tensor("f32", [1, count]), device.tensor("id32", [1, count])];
  const plans = Array.from({ length: rows }, (_, row) => device.plan((pass) => pass.encode(topK({ x: logits.slice(row, row + 1), values, ids }))));
  const best = { values: values.data, ids: ids.data };
  const whole = Array.from({ length: rows }, (_, row) => logits.slice(row, row + 1).data);
  const ways = [
    (row: number) => sampler.choose(whole[row]!, row),
    (row: number) => {
      plans[row]!.run();
      device.wait();
      return sampler.chooseFrom(best, row);
    },
  ];
  for (let row = 0; row < rows; row++) if (ways[0]!(row) !== ways[1]!(row)) throw new Error(`${name}: two tokens`);
  const times: number[][] = [[], []];
  for (let round = 0; round < rounds; round++) for (const [i, way] of ways.entries()) times[i]!.push(timed(way));
  console.log(name.padEnd(24), text(times[0]!), ";", text(times[1]!));
  for (const plan of plans) plan[Symbol.dispose]();
}
