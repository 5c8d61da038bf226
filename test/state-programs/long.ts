// The long run: `bun test/state-programs/long.ts [--programs N] [--seed N] [--first N] [--backend cpu|metal]`.
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { Machine } from "./machine.ts";
import { runPrograms } from "./runner.ts";

const { values } = parseArgs({
  options: {
    programs: { type: "string", default: "100000" },
    seed: { type: "string", default: "1" },
    first: { type: "string", default: "0" },
    backend: { type: "string", default: "cpu" },
  },
});
const [programs, seed, first] = [Number(values.programs), Number(values.seed), Number(values.first)];
const folder = mkdtempSync(join(tmpdir(), "gated-delta-programs-"));
using device = Device.open({ backend: values.backend as BackendName, threads: 1 });
const machine = new Machine(device);
const start = performance.now();
const report = runPrograms(machine, folder, seed, first, programs);
const seconds = (performance.now() - start) / 1000;
rmSync(folder, { recursive: true, force: true });

console.log(`command: bun test/state-programs/long.ts --programs ${programs} --seed ${seed}${first > 0 ? ` --first ${first}` : ""} --backend ${values.backend}`);
console.log(`processor: ${cpus()[0]?.model ?? "unknown"}; backend: ${device.backend}${device.emulated ? ", emulated" : ""} ${device.isa}; Bun ${Bun.version}`);
console.log(`${report.programs} programs in ${seconds.toFixed(1)} s, ${report.failure === undefined ? "none differs from the model" : "one differs from the model"}`);
for (const [what, count] of [...report.counts].sort(([a], [b]) => (a < b ? -1 : 1))) console.log(`  ${what}: ${count}`);
if (report.failure !== undefined) {
  console.log(report.failure);
  process.exitCode = 1;
}
