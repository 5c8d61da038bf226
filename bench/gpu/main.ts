/** `npm run bench:gpu -- --pack FOLDER` fills a folder for a machine with an NVIDIA card; `--report FOLDER` makes a table of
 * the output of its run.sh. `--peers FOLDER` with `--pack` adds other projects' kernels (peers.ts). The other options
 * are those with which it calls itself. */
import { parseArgs } from "node:util";
import { report } from "./report.ts";
import { encode, pack, runEvery } from "./pack.ts";

const { values } = parseArgs({
  options: {
    pack: { type: "string" },
    peers: { type: "string" },
    report: { type: "string" },
    encode: { type: "string" },
    every: { type: "boolean" },
  },
});
if (values.encode !== undefined) {
  encode(Number(values.encode));
} else if (values.every === true) {
  runEvery();
} else if (values.report !== undefined) {
  console.log(report(values.report));
} else if (values.pack === undefined) {
  console.error("usage: npm run bench:gpu -- --pack FOLDER [--peers FOLDER] | --report FOLDER");
  process.exitCode = 2;
} else {
  console.log(`${values.pack}: ${await pack(values.pack, values.peers)} dispatches; on a machine with a card: ${values.pack}/run.sh`);
}
