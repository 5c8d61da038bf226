// The long run: `bun test/model-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { deviceText, inJobs, printRecord } from "../support/long-run.ts";
import type { Told } from "../support/long-run.ts";
import { openFixtures } from "./fixtures.ts";
import { runSchedules } from "./runner.ts";

const { values } = parseArgs({
  options: {
    schedules: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
    first: { type: "string", default: "0" },
    backend: { type: "string", default: "cpu" },
    jobs: { type: "string", default: "1" },
    // What a job tells the process that started it.
    json: { type: "boolean", default: false },
  },
});
const [schedules, seed, first, jobs] = [Number(values.schedules), Number(values.seed), Number(values.first), Number(values.jobs)];

/** What ran, and on which models. */
interface ToldOfModels extends Told {
  readonly models: readonly string[];
}

/** Runs a part of the schedules in this process. */
async function here(): Promise<ToldOfModels> {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-schedules-"));
  using device = Device.open({ backend: values.backend as BackendName, threads: 1 });
  const fixtures = await openFixtures(device, folder);
  const { schedules: run, counts, failure } = await runSchedules(fixtures, seed, first, schedules);
  rmSync(folder, { recursive: true, force: true });
  const models = fixtures.map(({ name }) => name);
  return { run, counts: [...counts], models, device: deviceText(device), failure };
}

const start = performance.now();
const partOf = (from: number, count: number) => ["--schedules", `${count}`, "--first", `${from}`, "--seed", `${seed}`, "--backend", values.backend, "--json"];
const report = jobs > 1 ? await inJobs<ToldOfModels>(import.meta.path, jobs, first, schedules, partOf) : await here();
const seconds = (performance.now() - start) / 1000;

if (values.json) {
  console.log(JSON.stringify(report));
} else {
  const verdict = ["every logit has the bits of the cold run", "not every logit has the bits of the cold run"] as const;
  printRecord("test/model-schedules/long.ts", report, seconds, `schedules of seed ${seed}`, verdict, report.models.map((name) => `  a model of ${name}`));
}
if (report.failure !== undefined) process.exitCode = 1;
