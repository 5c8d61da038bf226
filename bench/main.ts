/** `npm run bench`: measures, probes the limits next to each measurement, and reports. */
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { Device } from "../lib/index.ts";
import { fullBudget, quickBudget } from "./benchmark.ts";
import type { Benchmark, Budget } from "./benchmark.ts";
import { fullMetalBudget, measureOnGpu, metalHeading, metalText, quickMetalBudget } from "./metal/measure.ts";
import type { MetalRow } from "./metal/measure.ts";
import { writeBenchReceipt } from "./metal/receipt.ts";
import { metalSuite } from "./metal/suite.ts";
import { Probe } from "./native/probe.ts";
import { readOptions, usage } from "./options.ts";
import type { Options } from "./options.ts";
import { picture } from "./picture.ts";
import { heading, markdown, readTimes, text } from "./row.ts";
import type { Row } from "./row.ts";
import { Devices, suite } from "./suite.ts";
import { limitOf, rateOf } from "./work.ts";

async function rowOf(benchmark: Benchmark, probe: Probe, budget: Budget): Promise<Row> {
  const { name, threads, work } = benchmark;
  if (work === undefined)
    return { name, ...(await benchmark.measure(budget)), limitPercent: null, limit: null, rate: null, unit: null };
  // Before and after: other load on the machine may be present at only one of the two times.
  const before = limitOf(probe, work, threads, budget.milliseconds / 4);
  const figure = await benchmark.measure(budget);
  const after = limitOf(probe, work, threads, budget.milliseconds / 4);
  const limit = before.us < after.us ? before : after;
  return { name, ...figure, limitPercent: (100 * limit.us) / figure.us, limit: limit.text, ...rateOf(work, figure.us) };
}

/** Opens Metal; a Mac without an available GPU (a virtual one) still runs its other benchmarks. */
function openMetal({ metal }: Options): Device | undefined {
  try {
    return Device.open("metal");
  } catch (error) {
    if (metal) throw error;
    console.error(`Nothing was measured on a GPU: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

function metalRows(benchmarks: readonly Benchmark[], options: Options): MetalRow[] {
  if (benchmarks.length === 0) return [];
  using device = openMetal(options);
  if (device === undefined) return [];
  const { json, quick } = options;
  if (!json) console.log(`\n${device.name}${device.emulated ? ": its times say nothing of any GPU" : ""}\n${metalHeading}`);
  return benchmarks.map((benchmark) => {
    const row = measureOnGpu(device, benchmark, quick ? quickMetalBudget : fullMetalBudget);
    console.log(json ? JSON.stringify(row) : metalText(row));
    return row;
  });
}

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (typeof options === "string") {
    console.error(`${options}\n\n${usage}`);
    return 2;
  }
  using devices = new Devices();
  const mac = process.platform === "darwin";
  const wanted = ({ name }: Benchmark) => options.filter === undefined || options.filter.test(name);
  const benchmarks = options.metal ? [] : suite(devices).filter(wanted);
  const onGpu = options.metal || mac ? metalSuite().filter(wanted) : [];
  if (options.list) {
    for (const { name } of [...benchmarks, ...onGpu]) console.log(name);
    return 0;
  }
  if (benchmarks.length + onGpu.length === 0) {
    console.error("no benchmark has such a name; --list shows all");
    return 2;
  }
  const earlier = options.compare === undefined ? undefined : readTimes(options.compare);
  const budget = options.quick ? quickBudget : fullBudget;
  let probe: Probe | undefined;
  if (!options.json && benchmarks.length > 0) {
    probe = new Probe();
    const { isa } = devices.of(1);
    console.log(
      `${cpus()[0]?.model ?? "unknown processor"}, ${isa} kernels, ${probe.isa} probes, Bun ${Bun.version}${options.quick ? ", quick: not for comparison" : ""}`,
    );
    console.log(heading(earlier !== undefined));
  }
  const rows: Row[] = [];
  for (const benchmark of benchmarks) {
    const row = await rowOf(benchmark, (probe ??= new Probe()), budget);
    rows.push(row);
    // Ratios go to stderr if stdout is JSON.
    if (options.json) console.log(JSON.stringify(row));
    if (!options.json) console.log(text(row, earlier?.get(row.name), earlier !== undefined));
    else if (earlier !== undefined) console.error(text(row, earlier.get(row.name), true));
  }
  const metal = metalRows(onGpu, options);
  // A Mac's whole run is recorded in a file, to be committed: a partial or quick run would take its place.
  const isWhole = !options.quick && !options.metal && options.filter === undefined;
  const root = join(import.meta.dir, "..");
  const folder = options.receipt ?? (mac && isWhole ? join(root, "test/receipts") : undefined);
  if (folder !== undefined) console.error(`receipt: ${await writeBenchReceipt(root, folder, { cpu: rows, metal })}`);
  if (options.picture !== undefined) writeFileSync(options.picture, picture(rows));
  if (options.markdown !== undefined) writeFileSync(options.markdown, markdown(rows));
  return 0;
}

process.exitCode = await main();
