// Workers ended at random: `bun test/state-programs/long-workers.ts [--workers N] [--seed N] [--backend cpu|metal]`.
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { BackendName } from "../../lib/index.ts";
import { endWorkers } from "./ended-workers.ts";

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "500" },
    seed: { type: "string", default: "1" },
    backend: { type: "string", default: "cpu" },
  },
});
const folder = mkdtempSync(join(tmpdir(), "gated-delta-workers-"));
const start = performance.now();
const { ended, programs, arrays, wrong } = await endWorkers(values.backend as BackendName, Number(values.seed), Number(values.workers), folder);
rmSync(folder, { recursive: true, force: true });
console.log(`command: bun test/state-programs/long-workers.ts --workers ${values.workers} --seed ${values.seed} --backend ${values.backend}`);
console.log(`processor: ${cpus()[0]?.model ?? "unknown"}; Bun ${Bun.version}`);
console.log(`${ended.exit + ended.throw + ended.terminate} Workers in ${((performance.now() - start) / 1000).toFixed(1)} s: ${ended.exit} by process.exit, ${ended.throw} by an uncaught exception, ${ended.terminate} by terminate()`);
console.log(`${arrays} arrays and ${programs} random programs of the main thread at the same time; ${wrong.length === 0 ? "nothing was wrong" : "wrong:"}`);
for (const line of wrong.slice(0, 20)) console.log(line);
process.exit(wrong.length === 0 ? 0 : 1);
