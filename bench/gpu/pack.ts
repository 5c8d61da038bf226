/** Fills a folder with the translated kernels, the cases' dispatches and a runner that needs nothing but CUDA. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Device } from "../../lib/index.ts";
import { chooseForms, packReplay, withoutRecord } from "../../test/emulator/cuda/replay.ts";
import { cases } from "./cases.ts";
import { every } from "./every.ts";
import { readPeers, writeOutline } from "./peers.ts";

/** A number of forms per kernel: more than any kernel has. */
const formsEach = 64;

/** The cores of the GPU that dispatches are recorded for: with these, compared and timed dispatches have the same forms. */
const cores = "64";

const root = join(import.meta.dirname, "..", "..");

/** After this many submissions, the work limit of a command buffer is that for the fastest GPUs. */
const submissions = 9;

/**
 * Encodes one case; the emulator writes the outlines of its dispatches, as this process was told (see `pack`). Those of the last
 * submission remain: before it, the backend has learned that nothing needs to be cut for this GPU.
 */
export function encode(number: number): void {
  const c = cases[number];
  if (c === undefined) throw new RangeError(`there is no case ${number}`);
  const outlines = process.env["GATED_DELTA_EMULATOR_RECORD"];
  using device = Device.open("metal");
  const ops = c.ops(device);
  for (let i = 0; i < submissions; i += 1) {
    if (outlines !== undefined) for (const name of readdirSync(outlines)) rmSync(join(outlines, name));
    device.run(...ops);
    device.wait();
  }
}

/** Runs every kernel on the emulator, which records the dispatches. */
export function runEvery(): void {
  using device = Device.open("metal");
  for (const ops of every(device)) {
    device.run(...ops);
    device.wait();
  }
}

/** Runs main.ts in a process of its own: native code sees the environment that its process began with. */
function child(args: readonly string[], env: Record<string, string>): void {
  const { status, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, "main.ts"), ...args], {
    env: { ...process.env, GATED_DELTA_EMULATOR_CORES: cores, ...env },
    encoding: "utf8",
    timeout: 1_200_000,
  });
  if (status !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
}

/** `peersFolder`: see peers.ts. */
export async function pack(output: string, peersFolder?: string): Promise<number> {
  const records = join(output, "outlines");
  rmSync(records, { recursive: true, force: true });
  mkdirSync(records, { recursive: true });
  const shaders = readdirSync(join(root, "shaders")).filter((f) => f.endsWith(".metal"));
  const recorded = join(output, "recorded");
  mkdirSync(recorded, { recursive: true });
  child(["--every"], { GATED_DELTA_EMULATOR_RECORD: recorded });
  const library = process.env["GATED_DELTA_METAL_EMULATOR"] ?? join(root, ".build", "emulator", "libGatedDeltaShaders.so");
  await packReplay(
    shaders.map((f) => join(root, "shaders", f)),
    recorded,
    library,
    output,
    formsEach,
    chooseForms,
  );
  rmSync(recorded, { recursive: true });
  const missing = withoutRecord(output);
  if (missing.length > 0) throw new Error(`every.ts runs no ${missing.join(", ")}`);
  renameSync(join(output, "run.sh"), join(output, "compare.sh"));
  copyFileSync(join(import.meta.dirname, "bench.cpp"), join(output, "bench.cpp"));
  copyFileSync(join(import.meta.dirname, "run.sh"), join(output, "run.sh"));

  const peers = peersFolder === undefined ? [] : readPeers(peersFolder, output);
  for (const { name, group } of peers) {
    if (!cases.some((c) => c.group === group)) throw new Error(`${name}: there is no group ${group}`);
  }
  const lines: string[] = [];
  let count = 0;
  for (const [number, c] of cases.entries()) {
    const made = join(records, "made");
    mkdirSync(made);
    child(["--encode", `${number}`], { ...c.environment, GATED_DELTA_EMULATOR_RECORD: made, GATED_DELTA_EMULATOR_OUTLINES: "1" });
    lines.push(`case ${c.name} ${c.bytes} ${c.group}`, ...c.rotate.map((r) => `rotate ${r}`));
    for (const [i, name] of readdirSync(made).sort().entries()) {
      const to = `outlines/${String(number).padStart(3, "0")}-${i}-${name.replace(/^\d+-/, "")}`;
      renameSync(join(made, name), join(output, to));
      lines.push(`record ${to}`);
      count += 1;
    }
    rmSync(made, { recursive: true });
    // The cases of a group are next to each other.
    if (cases[number + 1]?.group === c.group) continue;
    for (const [i, peer] of peers.entries()) {
      if (peer.group !== c.group) continue;
      const to = `outlines/peer-${String(i).padStart(3, "0")}.emurec`;
      writeOutline(peer, join(output, to));
      lines.push(`case ${peer.name} ${c.bytes} ${c.group}`, ...(peer.rotate ?? []).map((r) => `rotate ${r}`), `record ${to}`);
      count += 1;
    }
  }
  writeFileSync(join(output, "cases.txt"), `${lines.join("\n")}\n`);
  return count;
}
