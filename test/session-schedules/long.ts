// The long run: `bun test/session-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal]`.
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
    seconds: { type: "string", default: "Infinity" },
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
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-sessions-"));
  using device = Device.open({ backend: values.backend as BackendName, threads: 1 });
  const fixtures = await openFixtures(device, folder);
  const { run, counts, failure } = await runSchedules(fixtures, seed, first, schedules, Number(values.seconds));
  rmSync(folder, { recursive: true, force: true });
  const models = fixtures.map(({ name, pageDType, model }) => `${name}: ${model.states} states, ${model.pages} pages of ${model.pageTokens} ${pageDType}`);
  return { run, counts: [...counts], models, device: deviceText(device), failure };
}

const start = performance.now();
const options = ["--seed", `${seed}`, "--seconds", values.seconds, "--backend", values.backend, "--json"];
const partOf = (from: number, count: number) => ["--schedules", `${count}`, "--first", `${from}`, ...options];
const report = jobs > 1 ? await inJobs<ToldOfModels>(import.meta.path, jobs, first, schedules, partOf) : await here();
const seconds = (performance.now() - start) / 1000;

if (values.json) {
  console.log(JSON.stringify(report));
} else {
  const verdict = ["every token and logit is that of the cold run", "not everything is that of the cold run"] as const;
  printRecord("test/session-schedules/long.ts", report, seconds, `schedules of seed ${seed}`, verdict, report.models.map((model) => `  ${model}`));
}
// Models that still have work would keep the process.
process.exit(report.failure === undefined ? 0 : 1);
