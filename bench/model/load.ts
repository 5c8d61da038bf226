/**
 * Measures the loading of a model's folder: time, peak resident memory over that before, as a ratio to the weights' bytes,
 * and the longest time that the event loop kept a timer waiting, next to that of an idle event loop. On Linux
 * also the most processor time that the event loop took between two beats, which other programs do not add to.
 *
 *     bun bench/model/load.ts FOLDER [--backend cpu]
 */
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { loadModelWeights } from "../../lib/model/load-weights.ts";
import { openCheckpoint } from "../../lib/checkpoint/safetensors.ts";

/** The result of one measurement. */
interface Measured {
  readonly seconds: number;
  /** Milliseconds between two beats of the timer. */
  readonly longestGap: number;
  /** Milliseconds of the event loop's own processor time between two beats. */
  readonly longestWork: number | undefined;
}

/** Processor time of this thread so far, in milliseconds: the first number that Linux keeps of it. */
function threadTime(): number | undefined {
  try {
    return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
  } catch {
    return undefined;
  }
}

/** Runs something while a timer of 1 ms beats. */
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
  const start = performance.now();
  await run();
  beat();
  clearInterval(timer);
  const seconds = (performance.now() - start) / 1000;
  return { seconds, longestGap, longestWork: Number.isNaN(longestWork) ? undefined : longestWork };
}

/** The most resident memory so far, in bytes. Linux's maxRSS begins with that of the process which started this one. */
function peak(): number {
  if (process.platform === "darwin") return process.resourceUsage().maxRSS;
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024;
}

function bytesIn(folder: string): number {
  using source = openCheckpoint(folder);
  return source.names.reduce((sum, name) => sum + source.info(name).bytes, 0);
}

const { values, positionals } = parseArgs({ allowPositionals: true, options: { backend: { type: "string", default: "cpu" } } });
const [folder] = positionals;
if (folder === undefined) {
  console.error("usage: load.ts FOLDER [--backend cpu]");
  process.exit(2);
}
using device = Device.open(values.backend as "cpu");
const weights = bytesIn(folder);
const idle = await besideTimer(() => new Promise((resolve) => setTimeout(resolve, 1000)));
Bun.gc(true);
const before = process.memoryUsage.rss();
let model: Awaited<ReturnType<typeof loadModelWeights>> | undefined;
let pieces = 0;
const { seconds, longestGap, longestWork } = await besideTimer(async () => (model = await loadModelWeights(device, folder, { onProgress: () => pieces++ })));
const after = peak();
console.log(JSON.stringify({
  folder: folder.split("/").at(-1),
  weightMB: Math.round(weights / 1e6),
  seconds: Number(seconds.toFixed(2)),
  pieces,
  longestGapMs: Number(longestGap.toFixed(1)),
  longestWorkMs: longestWork && Number(longestWork.toFixed(1)),
  idleGapMs: Number(idle.longestGap.toFixed(1)),
  peakOverBeforeMB: Math.round((after - before) / 1e6),
  peakRatio: Number(((after - before) / weights).toFixed(3)),
}));
model?.weights[Symbol.dispose]();
