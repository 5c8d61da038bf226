/**
 * Measures loading a model's folder or GGUF file: the time, the increase to the peak of resident memory, as a ratio to the weights' bytes,
 * and the longest time that the event loop kept a timer waiting, next to that of an idle event loop; then the same for its tokenizer up to
 * the ids of a first text, and for reading the same bytes. Times are those of the clock and of the process on all processors; on Linux
 * there is also the most processor time of the event loop between two beats, to which other programs do not add.
 *
 *     bun bench/model/load.ts FOLDER [--backend cpu] [--weights copied]
 */
import { readFileSync, readdirSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { loadModelWeights } from "../../lib/model/load-weights.ts";
import type { LoadedModel } from "../../lib/model/load-weights.ts";
import { ModelText } from "../../lib/model/text/model-text.ts";
import { openCheckpoint } from "../../lib/checkpoint/safetensors.ts";

/** The result of one measurement. */
interface Measured {
  readonly seconds: number;
  /** The processor time of all threads. */
  readonly processorSeconds: number;
  /** Milliseconds between two beats of the timer. */
  readonly longestGap: number;
  /** Milliseconds of the event loop's own processor time between two beats. */
  readonly longestWork: number | undefined;
}

/** Processor time of this thread so far, in milliseconds: the first number in Linux's statistics about it. */
function threadTime(): number | undefined {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  } catch {
    return undefined;
  }
}

/** Runs a function while a timer beats every millisecond. */
async function besideTimer(run: () => Promise<unknown>): Promise<Measured> {
  let [longestGap, longestWork] = [0, 0];
  let [last, lastTime] = [performance.now(), threadTime()];
  const beat = () => {
    const [now, time] = [performance.now(), threadTime()];
    longestGap = Math.max(longestGap, now - last);
    longestWork = Math.max(longestWork, (time ?? NaN) - (lastTime ?? NaN));
    [last, lastTime] = [now, time];
  };
  const timer = setInterval(beat, 1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  [longestGap, longestWork] = [0, 0];
  const [start, usage] = [performance.now(), process.cpuUsage()];
  await run();
  beat();
  clearInterval(timer);
  const seconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(usage);
  return { seconds, processorSeconds: (user + system) / 1e6, longestGap, longestWork: Number.isNaN(longestWork) ? undefined : longestWork };
}

/** The most resident memory so far, in bytes. Linux's maxRSS begins with that of the process that started this one. */
function peak(): number {
  if (process.platform === "darwin") return process.resourceUsage().maxRSS;
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024;
}

function bytesIn(path: string): number {
  using source = openCheckpoint(path);
  return source.names.reduce((sum, name) => sum + source.info(name).bytes, 0);
}

/** Reads the files into memory that is reused for each piece. */
async function readAll(path: string): Promise<void> {
  const files = statSync(path).isDirectory() ? readdirSync(path).map((name) => join(path, name)) : [path];
  const piece = new Uint8Array(8 << 20);
  for (const file of files) {
    const handle = await open(file);
    while ((await handle.read(piece, 0, piece.length, null)).bytesRead > 0);
    await handle.close();
  }
}

const { values, positionals } = parseArgs({ allowPositionals: true, options: { backend: { type: "string", default: "cpu" }, weights: { type: "string", default: "copied" } } });
const [folder] = positionals;
if (folder === undefined) {
  console.error("usage: load.ts FOLDER [--backend cpu] [--weights copied]");
  process.exit(2);
}
using device = Device.open(values.backend as "cpu");
const bytes = bytesIn(folder);
await readAll(folder); // into the page cache
const idle = await besideTimer(() => new Promise((resolve) => setTimeout(resolve, 1000)));
Bun.gc(true);
const before = process.memoryUsage.rss();
let pieces = 0;
let loaded: LoadedModel | undefined;
const load = await besideTimer(async () => (loaded = await loadModelWeights(device, folder, { weights: values.weights as "copied", onProgress: () => pieces++ })));
const after = peak();
const text = new ModelText(loaded!.folder, loaded!.config);
const tokenizer = text.hasTokenizer ? await besideTimer(async () => text.encode("the first text")) : undefined;
const read = await besideTimer(() => readAll(folder));

const told = ({ seconds, processorSeconds, longestGap, longestWork }: Measured) => ({
  seconds: Number(seconds.toFixed(3)),
  processorSeconds: Number(processorSeconds.toFixed(3)),
  longestGapMs: Number(longestGap.toFixed(1)),
  longestWorkMs: longestWork && Number(longestWork.toFixed(1)),
});
console.log(JSON.stringify({
  folder: folder.split("/").at(-1),
  weightMB: Math.round(bytes / 1e6),
  read: told(read),
  load: told(load),
  pieces,
  tokenizer: tokenizer && told(tokenizer),
  idleGapMs: Number(idle.longestGap.toFixed(1)),
  peakOverBeforeMB: Math.round((after - before) / 1e6),
  peakRatio: Number(((after - before) / bytes).toFixed(3)),
}));
loaded?.weights[Symbol.dispose]();
