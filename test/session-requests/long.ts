// The long run: `bun test/session-requests/long.ts [--requests N] [--seed N]`.
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";
import { deviceText } from "../support/long-run.ts";
import { tinyModel, writeTinyModel } from "../support/model-folders.ts";
import { runRequests } from "./requests.ts";

const { values } = parseArgs({ options: { requests: { type: "string", default: "100000" }, seed: { type: "string", default: "1" } } });

const folder = mkdtempSync(join(tmpdir(), "gated-delta-requests-"));
const device = Device.open({ backend: "cpu", threads: 1 });
const model = await LanguageModel.load(device, writeTinyModel(join(folder, "model"), tinyModel, 1), { states: 12, pages: { count: 120, tokens: 8 } });
console.log(`command: bun test/session-requests/long.ts ${process.argv.slice(2).join(" ")}`);
console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: ${deviceText(device)}; Bun ${Bun.version}`);
const start = performance.now();
await runRequests(model, folder, Number(values.requests), 20, Number(values.seed), ({ requests, rss, heap, objects }) =>
  console.log(`  after ${requests} requests, ${((performance.now() - start) / 1000).toFixed(0)} s: resident ${(rss / 2 ** 20).toFixed(1)} MiB, heap ${(heap / 2 ** 20).toFixed(2)} MiB of ${objects} objects`),
);
console.log(`${values.requests} requests of seed ${values.seed}: every state and page is free at the end`);
rmSync(folder, { recursive: true, force: true });
process.exit();
