/** `gated-delta verify`: golden files and folders of checkpoints, every way that their cases can be run. */

import { basename } from "node:path";
import { Device } from "../device/device.ts";
import { describe } from "../errors.ts";
import { UsageError, deviceOptions, errorText, parseDeviceOptions, parseOptions, print, type Command } from "./command.ts";
import { causalConvKind } from "./verify/causal-conv-files.ts";
import { fusedConvKind } from "./verify/fused-conv-files.ts";
import { checkFolder, isFolder } from "./verify/folders.ts";
import { fusedGdnKind } from "./verify/fused-gdn-files.ts";
import { gatedDeltaKind } from "./verify/gated-delta-files.ts";
import { gatedRmsNormKind } from "./verify/gated-rmsnorm-files.ts";
import { GoldenFile, type FileKind } from "./verify/golden-file.ts";
import { layerKind } from "./verify/layer-files.ts";
import { Report, summary, type Row } from "./verify/report.ts";

/** Every kind of files that can be checked, found by how a file's name begins. */
const kinds: readonly FileKind[] = [gatedDeltaKind, causalConvKind, gatedRmsNormKind, layerKind, fusedGdnKind, fusedConvKind];

const help = `Usage: gated-delta verify PATHS... [--backend auto|cpu|metal] [--threads N] [--dtype D] [--json]

Runs the case of each golden file in every way that it can be run and compares the
results with the file's references. Ways that promise equal bits are compared with
each other as well. The kind of a file comes from how its name begins:
${kinds.map(({ prefix, op }) => `  ${prefix.padEnd(15)}${op}`).join("\n")}

A directory with a config.json is a checkpoint: what is in it runs whole, split, batched,
forked and restored, all to the same bits, and is compared with expected.safetensors where
there is one. Models also run as sessions: with strangers beside them, a cache, drafts,
forks and files.

  --backend  where to run (default: auto)
  --threads  CPU threads to use (default: all)
  --dtype    activations of checkpoints: f32, f16 or bf16 (default: f32)
  --json     one JSON object a line for each file, way and tensor:
             file, op, backend, way, tensor, relRms, maxAbs, tolerance, pass
             (a number that is not finite is null)

Exit status: 0 if everything passes, 1 if anything fails, 2 if nothing fails but a file
could not be checked: it is damaged, not of a known kind, or the backend is not there.
`;

const ownOptions = {
  dtype: { type: "string", default: "f32" },
  json: { type: "boolean", default: false },
} as const;

/** The `verify` subcommand. */
export const verify: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, { ...deviceOptions, ...ownOptions });
  if (positionals.length === 0) throw new UsageError("name at least one file or directory");
  const { dtype } = values;
  if (dtype !== "f32" && dtype !== "f16" && dtype !== "bf16") {
    throw new UsageError(`--dtype: expected f32, f16 or bf16, got ${describe(dtype)}`);
  }
  using device = Device.open(parseDeviceOptions(values));
  if (!values.json) print(`on ${device.backend}: ${device.name}`);
  let failed = false;
  let bad = false;
  for (const path of positionals) {
    try {
      const rows = isFolder(path) ? await checkFolder(path, device, dtype) : checkFile(path, device);
      for (const row of values.json ? rows : []) print(JSON.stringify(row));
      if (!values.json) print(summary(path, rows));
      failed ||= rows.some((row) => !row.pass);
    } catch (error) {
      process.stderr.write(`bad  ${path}: ${errorText(error).replace(`${path}: `, "")}\n`);
      bad = true;
    }
  }
  return failed ? 1 : bad ? 2 : 0;
}

function checkFile(path: string, device: Device): readonly Row[] {
  using file = new GoldenFile(path);
  const kind = kinds.find(({ prefix }) => basename(path).startsWith(prefix));
  if (!kind) throw file.bad(`a name beginning with ${kinds.map(({ prefix }) => prefix).join(", ")}`, basename(path));
  const report = new Report({ file: path, op: kind.op, backend: device.backend });
  kind.check(file, device, report);
  return report.rows;
}
