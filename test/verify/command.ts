/** `npm run verify`: golden files of operations, and the models and mixers of `gated-delta verify`. */

import { basename } from "node:path";
import type { Command } from "../../lib/cli/command.ts";
import { checkLayer, layerOp, layerPrefix } from "../../lib/cli/verify/layer-files.ts";
import { Report } from "../../lib/cli/verify/report.ts";
import { runVerify, sharedHelp } from "../../lib/cli/verify/run.ts";
import { causalConvKind } from "./causal-conv-files.ts";
import { fusedConvKind } from "./fused-conv-files.ts";
import { fusedGdnKind } from "./fused-gdn-files.ts";
import { gatedDeltaKind } from "./gated-delta-files.ts";
import { gatedRmsNormKind } from "./gated-rmsnorm-files.ts";
import { OpFile, type FileKind } from "./op-file.ts";

const layerKind: FileKind = { prefix: layerPrefix, op: layerOp, check: checkLayer };

/** All kinds of files, recognised by the beginning of a file's name. */
const kinds: readonly FileKind[] = [gatedDeltaKind, causalConvKind, gatedRmsNormKind, layerKind, fusedGdnKind, fusedConvKind];

const help = `Usage: npm run verify -- PATHS... [--backend auto|cpu|metal] [--threads N] [--dtype D] [--json]

Runs the case of each golden file in every way that it can be run and compares the
results with the file's references. Ways that promise equal bits are compared with
each other as well. The kind of a file comes from how its name begins:
${kinds.map(({ prefix, op }) => `  ${prefix.padEnd(15)}${op}`).join("\n")}

${sharedHelp}`;

/** The command. */
export const verify: Command = {
  help,
  run: (args) => runVerify(args, {
    check(path, device) {
      using file = new OpFile(path);
      const kind = kinds.find(({ prefix }) => basename(path).startsWith(prefix));
      if (!kind) throw file.bad(`a name beginning with ${kinds.map(({ prefix }) => prefix).join(", ")}`, basename(path));
      const report = new Report({ file: path, op: kind.op, backend: device.backend });
      kind.check(file, device, report);
      return report.rows;
    },
  }),
};
