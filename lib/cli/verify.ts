/** `gated-delta verify`: golden files and model folders, every way that their cases can be run. */

import { statSync } from "node:fs";
import { basename } from "node:path";
import { Device } from "../device/device.ts";
import { describe } from "../errors.ts";
import { UsageError, deviceOptions, errorText, parseDeviceOptions, parseOptions, print, type Command } from "./command.ts";
import { causalConvKind } from "./verify/causal-conv-files.ts";
import { fusedConvKind } from "./verify/fused-conv-files.ts";
import { fusedGdnKind } from "./verify/fused-gdn-files.ts";
import { gatedDeltaKind } from "./verify/gated-delta-files.ts";
import { gatedRmsNormKind } from "./verify/gated-rmsnorm-files.ts";
import { GoldenFile, type FileKind } from "./verify/golden-file.ts";
import { layerKind } from "./verify/layer-files.ts";
import { modelBounds } from "./verify/compare.ts";
import { Report, summary, type Row } from "./verify/report.ts";
import type { FloatDType } from "../tensor/dtype.ts";

/** Every kind of files that can be checked, found by how a file's name begins. */
const kinds: readonly FileKind[] = [gatedDeltaKind, causalConvKind, gatedRmsNormKind, layerKind, fusedGdnKind, fusedConvKind];

const help = `Usage: gated-delta verify PATHS... [--backend auto|cpu|metal] [--threads N]
                          [--dtype f32|f16|bf16] [--json]

Runs the case of each golden file in every way that it can be run and compares the
results with the file's references. Ways that promise equal bits are compared with
each other as well. The kind of a file comes from how its name begins:
${kinds.map(({ prefix, op }) => `  ${prefix.padEnd(15)}${op}`).join("\n")}

A folder is a language model: its prompts are read whole, split, batched with others,
forked and restored from a copy, and go on greedily. Each way is compared with the
folder's expected.safetensors, where there is one, and with the first way to the bit.

  --backend  where to run (default: auto)
  --threads  CPU threads to use (default: all)
  --dtype    of a model's activations, states and pages (default: f32). Logits may be
             ${modelBounds.f32} from the expected ones with f32, ${modelBounds.f16} with f16, ${modelBounds.bf16} with bf16; with the last
             two, ways that cut a sequence into other calls promise no equal bits and
             are left out
  --json     one JSON object a line for each file, way and tensor:
             file, op, backend, way, tensor, relRms, maxAbs, tolerance, pass
             (a number that is not finite is null)

Exit status: 0 if everything passes, 1 if anything fails, 2 if nothing fails but a path
could not be checked: it is damaged, not of a known kind, or the backend is not there.
`;

/** The `verify` subcommand. */
export const verify: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const options = { ...deviceOptions, dtype: { type: "string", default: "f32" }, json: { type: "boolean", default: false } } as const;
  const { values, positionals } = parseOptions(args, options);
  const { dtype } = values;
  if (dtype !== "f32" && dtype !== "f16" && dtype !== "bf16") {
    throw new UsageError(`--dtype: expected f32, f16 or bf16, got ${describe(dtype)}`);
  }
  if (positionals.length === 0) throw new UsageError("name at least one file or folder");
  using device = Device.open(parseDeviceOptions(values));
  if (!values.json) print(`on ${device.backend}: ${device.name}`);
  let failed = false;
  let bad = false;
  for (const path of positionals) {
    try {
      const rows = await check(path, device, dtype);
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

async function check(path: string, device: Device, dtype: FloatDType): Promise<readonly Row[]> {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isFolder) return checkFile(path, device);
  const { checkModel } = await import("./verify/model-folders.ts");
  return await checkModel(path, device, dtype);
}

function checkFile(path: string, device: Device): readonly Row[] {
  using file = new GoldenFile(path);
  const kind = kinds.find(({ prefix }) => basename(path).startsWith(prefix));
  if (!kind) throw file.bad(`a name beginning with ${kinds.map(({ prefix }) => prefix).join(", ")}`, basename(path));
  const report = new Report({ file: path, op: kind.op, backend: device.backend });
  kind.check(file, device, report);
  return report.rows;
}
