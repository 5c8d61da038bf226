/** `npm run bench`: measures, probes the limits beside each measurement, and reports. */
import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { fullBudget, quickBudget } from "./benchmark.ts";
import type { Benchmark, Budget } from "./benchmark.ts";
import { Probe } from "./native/probe.ts";
import { readOptions, usage } from "./options.ts";
import { picture } from "./picture.ts";
import { heading, markdown, readTimes, text } from "./row.ts";
import type { Row } from "./row.ts";
import { Devices, suite } from "./suite.ts";
import { limitOf, rateOf } from "./work.ts";

async function rowOf(benchmark: Benchmark, probe: Probe, budget: Budget): Promise<Row> {
  const { name, threads, work } = benchmark;
  if (work === undefined)
    return { name, ...(await benchmark.measure(budget)), limitPercent: null, limit: null, rate: null, unit: null };
  // Before and after: other load on the machine may be present at one of the two times only.
  const before = limitOf(probe, work, threads, budget.milliseconds / 4);
  const figure = await benchmark.measure(budget);
  const after = limitOf(probe, work, threads, budget.milliseconds / 4);
  const limit = before.us < after.us ? before : after;
  return { name, ...figure, limitPercent: (100 * limit.us) / figure.us, limit: limit.text, ...rateOf(work, figure.us) };
}

async function main(): Promise<number> {
  const options = readOptions(process.argv.slice(2));
  if (typeof options === "string") {
    console.error(`${options}\n\n${usage}`);
    return 2;
  }
  using devices = new Devices();
  const benchmarks = suite(devices).filter(({ name }) => options.filter === undefined || options.filter.test(name));
  if (options.list) {
    for (const { name } of benchmarks) console.log(name);
    return 0;
  }
  if (benchmarks.length === 0) {
    console.error("no benchmark has such a name; --list shows all");
    return 2;
  }
  const earlier = options.compare === undefined ? undefined : readTimes(options.compare);
  const budget = options.quick ? quickBudget : fullBudget;
  const probe = new Probe();
  if (!options.json) {
    const { isa } = devices.of(1);
    console.log(
      `${cpus()[0]?.model ?? "unknown processor"}, ${isa} kernels, ${probe.isa} probes, Bun ${Bun.version}${options.quick ? ", quick: not for comparison" : ""}`,
    );
    console.log(heading(earlier !== undefined));
  }
  const rows: Row[] = [];
  for (const benchmark of benchmarks) {
    const row = await rowOf(benchmark, probe, budget);
    rows.push(row);
    // Ratios go to stderr where stdout is JSON.
    if (options.json) console.log(JSON.stringify(row));
    if (!options.json) console.log(text(row, earlier?.get(row.name), earlier !== undefined));
    else if (earlier !== undefined) console.error(text(row, earlier.get(row.name), true));
  }
  if (options.picture !== undefined) writeFileSync(options.picture, picture(rows));
  if (options.markdown !== undefined) writeFileSync(options.markdown, markdown(rows));
  return 0;
}

process.exitCode = await main();
