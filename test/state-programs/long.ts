// The long run: `bun test/state-programs/long.ts [--programs N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
// With `--short-files` the process must be unable to write files of more than a few KiB (`ulimit -f`): saving is frequent
// then, and may fail half way.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { deviceText, inJobs, printRecord } from "../support/long-run.ts";
import type { Told } from "../support/long-run.ts";
import { Machine } from "./machine.ts";
import { runPrograms } from "./runner.ts";

const { values } = parseArgs({
  options: {
    programs: { type: "string", default: "100000" },
    seed: { type: "string", default: "1" },
    first: { type: "string", default: "0" },
    jobs: { type: "string", default: "1" },
    backend: { type: "string", default: "cpu" },
    "short-files": { type: "boolean", default: false },
    // What a job tells the process that started it.
    json: { type: "boolean", default: false },
  },
});
const [programs, seed, first, jobs] = [Number(values.programs), Number(values.seed), Number(values.first), Number(values.jobs)];

/** Runs a part of the programs in this process. */
function here(): Told {
  const folder = mkdtempSync(join(tmpdir(), "gated-delta-programs-"));
  using device = Device.open({ backend: values.backend as BackendName, threads: 1 });
  const options = values["short-files"] ? { shortFiles: true, weights: { save: 8, load: 8 } } : {};
  const { programs: run, counts, failure } = runPrograms(new Machine(device), folder, seed, first, programs, options);
  rmSync(folder, { recursive: true, force: true });
  return { run, counts: [...counts], device: deviceText(device), failure };
}

const start = performance.now();
const partOf = (from: number, count: number) => [
  "--programs", `${count}`, "--first", `${from}`, "--seed", `${seed}`, "--backend", values.backend, "--json", ...(values["short-files"] ? ["--short-files"] : []),
];
const report = jobs > 1 ? await inJobs(import.meta.path, jobs, first, programs, partOf) : here();
const seconds = (performance.now() - start) / 1000;

if (values.json) {
  console.log(JSON.stringify(report));
} else {
  printRecord("test/state-programs/long.ts", report, seconds, `programs of seed ${seed}`, ["all do what the model says", "not all do what the model says"]);
}
if (report.failure !== undefined) process.exitCode = 1;
