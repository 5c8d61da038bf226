// The long run: `bun test/session-schedules/long.ts [--schedules N] [--seed N] [--first N] [--backend cpu|metal] [--seconds N]`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import type { BackendName } from "../../lib/index.ts";
import { deviceText, printRecord } from "../support/long-run.ts";
import { openFixtures } from "./fixtures.ts";
import { runSchedules } from "./runner.ts";

const { values } = parseArgs({
  options: {
    schedules: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
    first: { type: "string", default: "0" },
    seconds: { type: "string", default: "Infinity" },
    backend: { type: "string", default: "cpu" },
    threads: { type: "string", default: "1" },
  },
});

const folder = mkdtempSync(join(tmpdir(), "gated-delta-sessions-"));
const device = Device.open({ backend: values.backend as BackendName, threads: Number(values.threads) });
const fixtures = await openFixtures(device, folder);
const start = performance.now();
const { run, counts, failure } = await runSchedules(fixtures, Number(values.seed), Number(values.first), Number(values.schedules), Number(values.seconds));
const seconds = (performance.now() - start) / 1000;
rmSync(folder, { recursive: true, force: true });

const verdict = ["every token and logit is that of the cold run", "not everything is that of the cold run"] as const;
const report = { run, counts: [...counts], device: deviceText(device), failure };
printRecord("test/session-schedules/long.ts", report, seconds, `schedules of seed ${values.seed}`, verdict);
process.exit(failure === undefined ? 0 : 1);
