/** `gated-delta verify`: checks models and mixers in every way that they can run. */

import { existsSync } from "node:fs";
import { basename } from "node:path";
import { UsageError, type Command } from "./command.ts";
import { GoldenFile } from "./verify/golden-file.ts";
import { checkLayer, layerOp, layerPrefix } from "./verify/layer-files.ts";
import { Report } from "./verify/report.ts";
import { runVerify, sharedHelp, type FileChecks } from "./verify/run.ts";

const help = `Usage: gated-delta verify PATHS... [--backend auto|cpu|metal] [--threads N] [--dtype D]
                          [--activations A] [--prompts P] [--json]

Runs models and mixers in every way that they can run, compares the results with references
where there are some, and the bits of ways that promise equal ones with each other.

A file ${layerPrefix}*.safetensors is one mixer with a case: hidden states and the outputs expected.
${sharedHelp}`;

/** The `verify` subcommand. */
export const verify: Command = { help, run: (args) => runVerify(args, layers) };

const layers: FileChecks = {
  accept(path) {
    if (basename(path).startsWith(layerPrefix) || !existsSync(path)) return;
    throw new UsageError(
      `${path}: expected the directory of a model or of mixers, or a file ${layerPrefix}*.safetensors; ` +
        "golden files of operations are checked by `npm run verify` in a clone of the repository",
    );
  },
  check(path, device) {
    using file = new GoldenFile(path);
    const report = new Report({ file: path, op: layerOp, backend: device.backend });
    checkLayer(file, device, report);
    return report.rows;
  },
};
