// Generates files from the C header: run `node swift/scripts/layout.mjs` after every change of gated_delta.h, or with
// --check to compare (exit 1 if a file differs). `generate` lists the files and the parts of the header that they come
// from; the head of the header explains its annotations.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { appleExports, assertions, cpuConstants, isPublished, shaderConstants, versionScript } from "./layout/c.mjs";
import { swiftOpOptions, swiftOptionChecks } from "./layout/op-options.mjs";
import { parse } from "./layout/parse.mjs";
import { swiftEncoders, swiftExecutor, swiftOps, swiftOptions, swiftPass } from "./layout/swift.mjs";
import { typescriptFunctions, typescriptLayout, typescriptOps, typescriptOptions, typescriptPass } from "./layout/typescript.mjs";
import { cpuWeightFormats, shaderWeightFormats, swiftWeightFormats, typescriptWeightFormats } from "./layout/weights.mjs";

export { parse };

const root = new URL("../../", import.meta.url);
const headerPath = "swift/Sources/CGatedDelta/include/gated_delta.h";

/** Path and text of every generated file, for a given header. */
export function generate(header) {
  const parsed = parse(header);
  const published = parsed.functions.filter(isPublished);
  return new Map([
    ["swift/Sources/CGatedDelta/layout.c", assertions(parsed)],
    ["swift/Sources/CGatedDelta/exports.map", versionScript(parsed.functions)],
    ["swift/Sources/CGatedDelta/exports.txt", appleExports(parsed.functions)],
    ["swift/Sources/CGatedDelta/published.map", versionScript(published)],
    ["swift/Sources/CGatedDelta/published.txt", appleExports(published)],
    ["swift/Sources/CPUKernels/include/option_values.h", cpuConstants(parsed)],
    ["shaders/option_values.h", shaderConstants(parsed)],
    ["swift/Sources/CPUKernels/include/weight_formats.h", cpuWeightFormats(parsed)],
    ["shaders/weight_formats.h", shaderWeightFormats(parsed)],
    ["swift/Sources/GatedDeltaTypes/Options.swift", swiftOptions(parsed)],
    ["swift/Sources/GatedDeltaTypes/WeightFormats.swift", swiftWeightFormats(parsed)],
    ["swift/Sources/GatedDeltaTypes/Op.swift", swiftOps(parsed)],
    ["swift/Sources/GatedDeltaTypes/OpOptions.swift", swiftOpOptions(parsed)],
    ["swift/Sources/GatedDelta/Validation/OpOptions.swift", swiftOptionChecks(parsed)],
    ["swift/Sources/GatedDelta/Exports/Encode.swift", swiftEncoders(parsed)],
    ["swift/Sources/CPUBackend/Executor+Op.swift", swiftExecutor(parsed)],
    ["swift/Sources/MetalBackend/Pass+Op.swift", swiftPass(parsed)],
    ["lib/native/layout.ts", typescriptLayout(parsed)],
    ["lib/native/options.ts", typescriptOptions(parsed)],
    ["lib/native/weight-formats.ts", typescriptWeightFormats(parsed)],
    ["lib/native/ops.ts", typescriptOps(parsed)],
    ["lib/ops/functions.ts", typescriptFunctions(parsed)],
    ["lib/device/pass-ops.ts", typescriptPass(parsed)],
  ]);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const check = process.argv[2] === "--check";
  if (process.argv.length > (check ? 3 : 2)) {
    console.error("usage: node swift/scripts/layout.mjs [--check]");
    process.exit(2);
  }
  for (const [path, text] of generate(readFileSync(new URL(headerPath, root), "utf8"))) {
    let current;
    try {
      current = readFileSync(new URL(path, root), "utf8");
    } catch {
      current = undefined;
    }
    if (current === text) continue;
    if (check) {
      console.error(`${path} does not agree with ${headerPath}: run node swift/scripts/layout.mjs`);
      process.exitCode = 1;
    } else {
      writeFileSync(new URL(path, root), text); // only what differs, so that nothing else is built again
    }
  }
}
