/** `npm run bench:gpu -- --pack FOLDER`. */
import { parseArgs } from "node:util";
import { encode, pack } from "./pack.ts";

const { values } = parseArgs({ options: { pack: { type: "string" }, encode: { type: "string" } } });
if (values.encode !== undefined) {
  encode(Number(values.encode));
} else if (values.pack === undefined) {
  console.error("usage: npm run bench:gpu -- --pack FOLDER");
  process.exitCode = 2;
} else {
  console.log(`${values.pack}: ${pack(values.pack)} dispatches; on a machine with a card: ${values.pack}/run.sh`);
}
