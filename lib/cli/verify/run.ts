/** The command line of `verify`, for the package and for a clone, which differ in the files that they check. */

import { existsSync } from "node:fs";
import { Device } from "../../device/device.ts";
import { UnsupportedError, describe } from "../../errors.ts";
import type { Prompts } from "../../model/model-options.ts";
import { UsageError, deviceOptions, errorText, parseDeviceOptions, parseOptions, print } from "../command.ts";
import { checkFolder, isCheckpoint } from "./folders.ts";
import { summary, type Row } from "./report.ts";

/** How files, as opposed to folders, are checked. */
export interface FileChecks {
  /** Throws a {@link UsageError} for a file that the command does not check. */
  accept?(path: string): void;
  /** @throws {FileError} for a file that is missing or damaged. */
  check(path: string, device: Device): readonly Row[];
}

/** The end of the help texts. */
export const sharedHelp = `A directory with a config.json is a checkpoint, and so is a GGUF file or a directory with one:
its model or mixers run whole, split, batched, forked and restored, all to the same bits, and
are compared with expected.safetensors where there is one. Models also run as sessions: among
other sessions, with a cache, drafts, forks and files.

  --backend  where to run (default: auto)
  --threads  CPU threads to use (default: all)
  --dtype    activations of checkpoints: f32, f16 or bf16 (default: f32)
  --activations
             of models: exact, or int8 for products with packed weights (default: exact)
  --prompts  of models: exact, matrix (Metal: tokens that are read take the GPU's matrix units; the
             results of those ways are named so), or both (default: both on Metal, exact on a CPU)
  --json     one JSON object a line for each file, way and tensor:
             file, op, backend, way, tensor, relRms, maxAbs, tolerance, pass
             (a number that is not finite is null)

Exit status: 0 if everything passes, 1 if anything fails, 2 if nothing fails but a path
could not be checked: it is damaged, not of a known kind, or the backend is not there.
`;

const verifyOptions = {
  dtype: { type: "string", default: "f32" },
  activations: { type: "string", default: "exact" },
  prompts: { type: "string" },
  json: { type: "boolean", default: false },
} as const;

/** The settings of --prompts, in their order. */
const promptSettings: Readonly<Record<string, readonly Prompts[]>> = { exact: ["exact"], matrix: ["matrix"], both: ["exact", "matrix"] };

/** Checks the paths of a command line and returns the exit status. */
export async function runVerify(args: readonly string[], files: FileChecks): Promise<number> {
  const { values, positionals } = parseOptions(args, { ...deviceOptions, ...verifyOptions });
  if (positionals.length === 0) throw new UsageError("name at least one file or directory");
  const { dtype, activations, prompts: wanted } = values;
  if (wanted !== undefined && !Object.hasOwn(promptSettings, wanted)) {
    throw new UsageError(`--prompts: expected exact, matrix or both, got ${describe(wanted)}`);
  }
  if (activations !== "exact" && activations !== "int8") {
    throw new UsageError(`--activations: expected exact or int8, got ${describe(activations)}`);
  }
  if (dtype !== "f32" && dtype !== "f16" && dtype !== "bf16") {
    throw new UsageError(`--dtype: expected f32, f16 or bf16, got ${describe(dtype)}`);
  }
  for (const path of positionals) {
    if (isCheckpoint(path)) continue;
    files.accept?.(path);
    if (!existsSync(path)) continue; // said with the others
    if (dtype !== "f32" || activations !== "exact") throw new UsageError(`--dtype and --activations are for checkpoints, and ${path} is none`);
  }
  using device = Device.open(parseDeviceOptions(values));
  if (wanted !== undefined && wanted !== "exact" && device.backend !== "metal") {
    throw new UnsupportedError({ op: "verify", argument: "--prompts", expected: "exact: a CPU has no matrix units", received: wanted });
  }
  const prompts = promptSettings[wanted ?? (device.backend === "metal" ? "both" : "exact")]!;
  if (!values.json) print(`on ${device.backend}: ${device.name}`);
  let failed = false;
  let bad = false;
  for (const path of positionals) {
    try {
      const rows = isCheckpoint(path) ? await checkFolder(path, device, { dtype, activations, prompts }) : files.check(path, device);
      for (const row of values.json ? rows : []) print(JSON.stringify(row));
      if (!values.json) print(summary(path, rows));
      failed ||= rows.some((row) => !row.pass);
    } catch (error) {
      process.stderr.write(`bad  ${path}: ${errorText(error).replace(`: ${path}: `, ": ")}\n`);
      bad = true;
    }
  }
  return failed ? 1 : bad ? 2 : 0;
}
