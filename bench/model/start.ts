/**
 * Measures how soon a folder's model answers, with copied and with mapped weights, with the files in the system's cache (warm) and not
 * in it (cold): the load, the first token, the median of later ones, and the resident memory afterwards, the process's own and that of
 * files; then tokens of both in turns. Each measurement has a process of its own. Linux only; cold means that GNU dd has told the
 * system to drop the file from its cache.
 *
 *     bun bench/model/start.ts FOLDER [--rounds 3] [--tokens 12] [--threads N]
 */
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";

const { values, positionals: [folder] } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: "string", default: "3" }, tokens: { type: "string", default: "12" }, threads: { type: "string" }, child: { type: "string" } },
});
if (folder === undefined) {
  console.error("usage: start.ts FOLDER [--rounds 3] [--tokens 12] [--threads N]");
  process.exit(2);
}

const median = (numbers: readonly number[]): number => numbers.toSorted((a, b) => a - b)[numbers.length >> 1] ?? NaN;

/** Megabytes of this process, by their names in `/proc/self/status`. */
function residentMemory(...names: string[]): number[] {
  const status = readFileSync("/proc/self/status", "utf8");
  return names.map((name) => Math.round((1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(status)?.[1] ?? NaN)) / 1e6));
}

/** The measurements of one process, in seconds and megabytes. */
interface Measured {
  readonly load: number;
  readonly first: number;
  readonly later: number;
  readonly own: number;
  readonly files: number;
}

async function measure(weights: "copied" | "mapped"): Promise<Measured> {
  using device = Device.open({ backend: "cpu", threads: Number(values.threads ?? 0) });
  const start = performance.now();
  using model = await LanguageModel.load(device, folder!, { states: 1, pages: 4, weights, draftTokens: 0 });
  const loaded = performance.now();
  using sequence = model.sequence();
  const times: number[] = [];
  for (let i = 0; i < Number(values.tokens); i++) {
    const before = performance.now();
    await model.run([{ sequence, tokens: [100 + i] }]);
    times.push((performance.now() - before) / 1000);
  }
  const [own = NaN, files = NaN] = residentMemory("RssAnon", "RssFile");
  return { load: (loaded - start) / 1000, first: times[0]!, later: median(times.slice(2)), own, files };
}

/** Tokens of a copied and of a mapped model in turns, in one process: the ratio of their times. */
async function compare(): Promise<string> {
  using device = Device.open({ backend: "cpu", threads: Number(values.threads ?? 0) });
  const options = { states: 1, pages: 4, draftTokens: 0 };
  using copied = await LanguageModel.load(device, folder!, options);
  using mapped = await LanguageModel.load(device, folder!, { ...options, weights: "mapped" });
  const sides = [copied, mapped].map((model) => ({ model, sequence: model.sequence(), times: [] as number[] }));
  for (let i = 0; i < Number(values.tokens) + 2; i++) {
    for (const { model, sequence, times } of sides) {
      const before = performance.now();
      await model.run([{ sequence, tokens: [100 + i] }]);
      if (i >= 2) times.push((performance.now() - before) / 1000);
    }
  }
  const [one, two] = sides.map(({ times }) => ({ best: Math.min(...times), median: median(times) }));
  return `in turns: a token ${one!.best.toFixed(4)} s copied, ${two!.best.toFixed(4)} s mapped at best (medians ${one!.median.toFixed(4)}, ${two!.median.toFixed(4)})`;
}

function dropFromCache(): void {
  for (const name of readdirSync(folder!)) {
    Bun.spawnSync(["dd", `if=${join(folder!, name)}`, "iflag=nocache", "count=0", "status=none"]);
  }
}

if (values.child !== undefined) {
  console.log(values.child === "both" ? await compare() : JSON.stringify(await measure(values.child as "copied")));
} else {
  const inChild = (what: string): string => {
    return Bun.spawnSync([process.execPath, ...process.argv.slice(1), "--child", what], { stderr: "inherit" }).stdout.toString().trim();
  };
  for (const cold of Number(values.rounds) > 0 ? [true, false] : []) {
    const found = { copied: [] as Measured[], mapped: [] as Measured[] };
    // In turns, since other work on the machine comes and goes.
    for (let round = 0; round < Number(values.rounds); round++) {
      for (const weights of ["copied", "mapped"] as const) {
        if (cold) dropFromCache();
        found[weights].push(JSON.parse(inChild(weights)) as Measured);
      }
    }
    for (const [weights, all] of Object.entries(found)) {
      const of = (name: keyof Measured): number => median(all.map((one) => one[name]));
      const best = Math.min(...all.map(({ later }) => later));
      console.log(`${cold ? "cold" : "warm"} ${weights}: load ${of("load").toFixed(3)} s, first token ${of("first").toFixed(3)} s, later ones ${of("later").toFixed(4)} s (best ${best.toFixed(4)}), own ${of("own")} MB, files ${of("files")} MB`);
    }
  }
  console.log(inChild("both"));
}
