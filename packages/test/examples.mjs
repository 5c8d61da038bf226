// The programs and commands of the site's guides, which the tests of the packages run unchanged.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { rootFolder } from "../../swift/scripts/root.mjs";

/** The text of docs/examples/NAME. */
export const example = (name) => readFileSync(join(rootFolder, "docs", "examples", name), "utf8");
