/**
 * Measures the identity of a folder's model: time and bytes a second with a new cache folder and with what it then holds,
 * compared with one thread that hashes a MiB in its cache again and again. The files are in memory: each was read once before.
 *
 *     bun bench/model/identity.ts FOLDER [--times 5]
 */
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { readDigests } from "../../lib/model/identity/digest-cache.ts";
import { ModelIdentity } from "../../lib/model/identity/model-identity.ts";
import { storedTensors } from "../../lib/model/identity/stored-tensors.ts";
import type { ModelConfig } from "../../lib/model.ts";
import { openCheckpoint } from "../../lib/checkpoint/safetensors.ts";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { times: { type: "string", default: "5" } } });
const [folder] = positionals;
if (folder === undefined) throw new Error("usage: bun bench/model/identity.ts FOLDER [--times 5]");

using source = openCheckpoint(folder);
const tensors = storedTensors(source, () => true);
const total = tensors.reduce((sum, { bytes }) => sum + bytes, 0);
/** The identity of the same tensors, without the memory of a loaded model. */
const identity = () => new ModelIdentity({} as ModelConfig, tensors).get("bench");

async function seconds(run: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await run();
  return (performance.now() - start) / 1000;
}

async function best(run: () => Promise<number>): Promise<number> {
  const times = [];
  for (let i = 0; i < Number(values.times); i++) times.push(await run());
  return Math.min(...times);
}

function newCache(): string {
  return (process.env["GATED_DELTA_CACHE"] = mkdtempSync(join(tmpdir(), "gated-delta-bench-")));
}

const block = new Uint8Array(2 ** 20);
const oneThread = await best(() => seconds(async () => {
  for (let i = 0; i < 256; i++) createHash("sha256").update(block).digest();
}));

const warm = newCache();
await identity();
const cold = await best(async () => {
  const cache = newCache();
  try {
    return await seconds(identity);
  } finally {
    rmSync(cache, { recursive: true });
  }
});
process.env["GATED_DELTA_CACHE"] = warm;
const known = (await readDigests(tensors[0]!.file.stamp)).size > 0;
const cached = await best(() => seconds(identity));
rmSync(warm, { recursive: true });

const rate = (bytes: number, time: number) => `${(bytes / 1e9 / time).toFixed(2)} GB/s`;
console.log(`${cpus()[0]?.model}, ${navigator.hardwareConcurrency} processors, Bun ${Bun.version}: the best of ${values.times}`);
console.log(`SHA-256, one thread:      ${rate(256 * block.length, oneThread)}`);
console.log(`identity of ${(total / 1e9).toFixed(2)} GB:     ${rate(total, cold)} (${cold.toFixed(3)} s)`);
console.log(known ? `from the cache folder:    ${(1000 * cached).toFixed(1)} ms` : "nothing is kept of files that were written in the last seconds: run this again");
