/** The receipt of `npm run bench`: the measurements, the machine, and whether a GPU ran them. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { machine, receiptName } from "../../test/run/receipt.mjs";
import type { Row } from "../row.ts";
import type { MetalRow } from "./measure.ts";

export interface Measured {
  readonly cpu: readonly Row[];
  readonly metal: readonly MetalRow[];
}

export interface BenchReceipt extends Measured {
  readonly kind: "npm run bench";
  readonly ranOnGpu: boolean;
  /** A note on the times if no GPU ran it. */
  readonly note?: string;
  readonly [fact: string]: unknown;
}

type Facts = Awaited<ReturnType<typeof machine>>;

export function benchReceipt({ changes, ...facts }: Facts, { cpu, metal }: Measured): BenchReceipt {
  const device = (facts.devices as { metal?: { emulated?: boolean; name?: string } }).metal;
  const ranOnGpu = device?.emulated === false && typeof device.name === "string" && metal.length > 0;
  const emulated = device?.emulated === true && metal.length > 0;
  return {
    kind: "npm run bench",
    ...facts,
    clean: changes === null ? null : changes === "",
    ranOnGpu,
    ...(emulated && { note: "Metal was emulated on the CPU: its times say nothing of any GPU" }),
    cpu,
    metal,
  };
}

/** Writes the receipt into `folder` and returns its path. */
export async function writeBenchReceipt(root: string, folder: string, measured: Measured): Promise<string> {
  const facts = await machine(root, process.execPath);
  const path = join(folder, receiptName(facts).replace(/\.json$/, "-bench.json"));
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, `${JSON.stringify(benchReceipt(facts, measured), null, 2)}\n`);
  return path;
}
