// All recorded conversations: `bun test/templates/long.ts [FOLDER…]`, with the templates in this folder and in others; those not
// recorded are listed. `--write FILE` writes the conversations for oracle.py instead.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { stringifyWithDigits } from "../../lib/model/text/json-digits.ts";
import { conversationOf } from "./conversations.ts";
import recorded from "./recorded.json";
import { block, count, digestOf, loadTemplate, seed } from "./render.ts";

const { values, positionals } = parseArgs({ allowPositionals: true, options: { write: { type: "string" } } });
if (values.write !== undefined) {
  writeFileSync(values.write, Array.from({ length: count }, (_, n) => `${stringifyWithDigits(conversationOf(seed, n))}\n`).join(""));
  process.exit();
}
console.log(`command: bun test/templates/long.ts ${positionals.join(" ")}; Bun ${Bun.version}`);
console.log(recorded.about);
const known = new Map(Object.values(recorded.templates).map((one) => [one.sha256, one]));
let differ = 0;
for (const folder of [import.meta.dir, ...positionals]) {
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".jinja")).sort()) {
    const { name, sha256, template } = loadTemplate(join(folder, file));
    const expected = known.get(sha256);
    if (expected === undefined) console.log(`  ${name}: not recorded`);
    else {
      const wrong = expected.blocks.filter((digest, i) => digestOf(template, i * block) !== digest).length;
      differ += wrong;
      console.log(`  ${name}, sha256 ${sha256.slice(0, 16)}…: ${expected.blocks.length * block} conversations, ${expected.refused} of them refused; ${wrong} blocks of ${block} differ`);
    }
  }
}
process.exit(differ === 0 ? 0 : 1);
