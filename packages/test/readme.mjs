// The programs of the README, which the tests of the packages run as they stand there.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Failure } from "../../swift/scripts/report.mjs";
import { rootFolder } from "../../swift/scripts/root.mjs";

/** The program under this name: a fence that begins with "ts NAME". */
export function readmeProgram(name) {
  const text = readFileSync(join(rootFolder, "README.md"), "utf8");
  const match = new RegExp(`^\`\`\`ts ${name}\\n([\\s\\S]*?)^\`\`\`$`, "m").exec(text);
  if (match === null) throw new Failure(`the README has no program ${name}`);
  return match[1];
}
