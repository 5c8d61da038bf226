/** Fills a folder with the translated kernels, the cases' dispatches and a runner that needs nothing else but CUDA. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Device } from "../../lib/index.ts";
import { writeCuda } from "../../test/emulator/build.ts";
import { cases } from "./cases.ts";

const root = join(import.meta.dirname, "..", "..");

/** Encodes one case; the emulator writes its dispatches' outlines, since this process was told to (see `pack`). */
export function encode(number: number): void {
  const c = cases[number];
  if (c === undefined) throw new RangeError(`there is no case ${number}`);
  using device = Device.open("metal");
  device.run(...c.ops(device));
  device.wait();
}

export function pack(output: string): number {
  const records = join(output, "outlines");
  rmSync(records, { recursive: true, force: true });
  mkdirSync(records, { recursive: true });
  const shaders = readdirSync(join(root, "shaders")).filter((f) => f.endsWith(".metal"));
  writeCuda(
    shaders.map((f) => join(root, "shaders", f)),
    output,
    root,
  );
  copyFileSync(join(import.meta.dirname, "bench.cpp"), join(output, "bench.cpp"));
  copyFileSync(join(import.meta.dirname, "run.sh"), join(output, "run.sh"));

  const lines: string[] = [];
  let count = 0;
  for (const [number, c] of cases.entries()) {
    const made = join(records, "made");
    mkdirSync(made);
    // Native code sees the environment that its process began with.
    const child = spawnSync(process.execPath, [join(import.meta.dirname, "main.ts"), "--encode", `${number}`], {
      env: { ...process.env, GATED_DELTA_EMULATOR_RECORD: made, GATED_DELTA_EMULATOR_OUTLINES: "1" },
      encoding: "utf8",
      timeout: 60_000,
    });
    if (child.status !== 0) throw new Error(`${c.name}: ${child.stderr}`);
    lines.push(`case ${c.name} ${c.bytes} ${c.group}`, ...c.rotate.map((r) => `rotate ${r}`));
    for (const [i, name] of readdirSync(made).sort().entries()) {
      const to = `outlines/${String(number).padStart(3, "0")}-${i}-${name.replace(/^\d+-/, "")}`;
      renameSync(join(made, name), join(output, to));
      lines.push(`record ${to}`);
      count += 1;
    }
    rmSync(made, { recursive: true });
  }
  writeFileSync(join(output, "cases.txt"), `${lines.join("\n")}\n`);
  return count;
}
