/** `gated-delta demo`: runs Gated DeltaNet layers and a whole model, and compares their numbers with those of transformers. */

import { existsSync, readdirSync } from "node:fs";
import { basename, join } from "node:path";
import { Device } from "../device/device.ts";
import { tinyModel } from "../model/tiny-model.ts";
import { packageRoot } from "../native/candidates.ts";
import { StatePool } from "../states/state-pool.ts";
import { UsageError, deviceOptions, parseDeviceOptions, parseOptions, print, rate, type Command } from "./command.ts";
import { bounds, maxAbs, modelBounds, relRms } from "./verify/compare.ts";
import { isCheckpoint } from "./verify/folders.ts";
import { GoldenFile } from "./verify/golden-file.ts";
import { readLayerCase, type LayerCase } from "./verify/layer-files.ts";
import { cuSeqlensOf, gather, pieces, scatter } from "./verify/schedule.ts";

const help = `Usage: gated-delta demo [PATHS...] [--backend auto|cpu|metal] [--threads N]

Loads Gated DeltaNet layers (files; default: the layer-*.safetensors of test/golden),
prefills the prompts of a batch, decodes the rest token by token through a StatePool, and
compares every output with what transformers computed. Then does the same with a language
model (a folder with expected.safetensors, GGUF too; default: one of test/golden/models): loads it,
reads a prompt, and compares each token that it chooses, and what it was chosen from.

Exit status: 0 if all outputs of layers are within ${bounds.layer} of the reference, logits within
${modelBounds.f32}, and all tokens those of the reference; 1 if not.
`;

/** The `demo` subcommand. */
export const demo: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, deviceOptions);
  const paths = positionals.length > 0 ? positionals : [...goldenLayers(), ...goldenModel()];
  using device = Device.open(parseDeviceOptions(values));
  const details = [device.isa, device.emulated ? "emulated" : "", `${device.threads} threads`];
  print(`Device: ${device.backend}, ${device.name} (${details.filter((text) => text !== "").join(", ")})`);
  let passed = true;
  for (const path of paths) {
    if (isCheckpoint(path)) {
      passed = (await (await import("./demo-model.ts")).showModel(device, path)) && passed;
      continue;
    }
    using file = new GoldenFile(path, "demo");
    const data = readLayerCase(file, device);
    using _ = data.layer;
    passed = show(device, path, data) && passed;
  }
  print(passed ? "All outputs agree with the reference." : "OUT OF TOLERANCE: see above.");
  return passed ? 0 : 1;
}

/** Runs one layer and prints its speed and its errors. */
function show(device: Device, path: string, data: LayerCase): boolean {
  const { layer, sequences, tokens, prefill, hidden } = data;
  const { keyHeads, valueHeads, keyDim, valueDim } = layer.config;
  const heads = `${keyHeads} key and ${valueHeads} value heads of ${keyDim} x ${valueDim}`;
  print(`\n${basename(path)}: layer ${layer.layer}, hidden ${hidden}, ${heads}`);

  const output = new Float32Array(data.output.length);
  let prefillSeconds = 0;
  let decodeSeconds = 0;
  using pool = StatePool.create(device, { slots: sequences, layers: 1, ...layer.stateShape });
  const handles = Array.from({ length: sequences }, () => pool.allocate());
  for (const spans of pieces("", sequences, tokens, [prefill, 1]).calls) {
    const isPrefill = (spans[0]?.end ?? 0) <= prefill;
    const cuSeqlens = cuSeqlensOf(spans);
    const rows = cuSeqlens.at(-1) ?? 0;
    using input = device.tensorFrom("f32", [rows, hidden], gather(spans, data.cuSeqlens, hidden, data.input));
    using out = device.tensor("f32", [rows, hidden]);
    const start = performance.now();
    pool.run(handles, (step) => isPrefill
      ? layer.forward({ hidden: input, out, cuSeqlens, step })
      : layer.decode({ hidden: input, out, step }));
    device.wait();
    const seconds = (performance.now() - start) / 1000;
    if (isPrefill) prefillSeconds += seconds;
    else decodeSeconds += seconds;
    scatter(spans, data.cuSeqlens, hidden, out.data, output);
  }

  const decoded = tokens - prefill;
  print(`  prefill  ${sequences} x ${prefill} tokens in one batch: ${rate(sequences * prefill, prefillSeconds)}`);
  print(`  decode   ${sequences} x ${decoded} tokens, one at a time: ${rate(sequences * decoded, decodeSeconds)}`);
  const error = relRms(output, data.output);
  const passed = error <= bounds.layer;
  const errors = `relRms ${error.toExponential(2)}, largest error ${maxAbs(output, data.output).toExponential(2)}`;
  print(`  outputs  ${errors}; bound ${bounds.layer}: ${passed ? "ok" : "FAILED"}`);
  return passed;
}

function goldenLayers(): string[] {
  const folder = join(packageRoot, "test", "golden");
  let names: string[] = [];
  try {
    names = readdirSync(folder);
  } catch {
    // An installed package has no test data: the usage error below says what to do.
  }
  const layers = names.filter((name) => /^layer-.*\.safetensors$/.test(name)).sort();
  if (layers.length === 0) throw new UsageError(`there are no layers in ${folder}; name some files`);
  return layers.map((name) => join(folder, name));
}

/** The model at the end of the demo, if it exists. */
function goldenModel(): string[] {
  return existsSync(tinyModel) ? [tinyModel] : [];
}
