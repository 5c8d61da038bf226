// The long run: `bun test/answer-texts/long.ts [--texts N] [--seed N] [--first N] [--jobs N]`.
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Counts } from "../support/schedules.ts";
import { runTexts } from "./run.ts";

const { values } = parseArgs({ options: { texts: { type: "string", default: "1000000" }, seed: { type: "string", default: "1" }, first: { type: "string", default: "0" }, jobs: { type: "string", default: "1" }, json: { type: "boolean", default: false } } });
const [texts, seed, first, jobs] = [Number(values.texts), Number(values.seed), Number(values.first), Number(values.jobs)];
const start = performance.now();
const size = Math.ceil(texts / jobs);

async function inJobs(): Promise<{ counts: Counts; failure: string | undefined }> {
  const told = await Promise.all(Array.from({ length: jobs }, async (_, job) => {
    const part = ["--texts", `${Math.min(size, texts - job * size)}`, "--first", `${first + job * size}`, "--seed", `${seed}`, "--json"];
    return JSON.parse(await Bun.spawn([process.execPath, import.meta.path, ...part], { stdout: "pipe", stderr: "inherit" }).stdout.text()) as { counts: [string, number][]; failure?: string };
  }));
  const counts = new Counts();
  for (const [event, times] of told.flatMap((each) => each.counts)) counts.add(event, times);
  return { counts, failure: told.find(({ failure }) => failure !== undefined)?.failure };
}

const { counts, failure } = jobs > 1 ? await inJobs() : runTexts(seed, first, texts);
if (values.json) console.log(JSON.stringify({ counts: [...counts], failure }));
else {
  console.log(`command: bun test/answer-texts/long.ts ${process.argv.slice(2).join(" ")}`);
  console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; Bun ${Bun.version}`);
  console.log(`${texts} texts of seed ${seed} in ${((performance.now() - start) / 1000).toFixed(0)} s: ${failure === undefined ? "nothing is thrown or lost, every cut gives the same pieces, and the work is linear" : failure}`);
  for (const [event, times] of [...counts].sort(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${event}: ${times}`);
}
process.exit(failure === undefined ? 0 : 1);
