// The long run: `bun test/constraints/long.ts [--schemas N] [--answers N] [--seed N]`.
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Device } from "../../lib/index.ts";
import { LanguageModel, tinyModel } from "../../lib/model.ts";
import { deviceText } from "../support/long-run.ts";
import { runSchemas } from "./answers.ts";
import type { Tally } from "./answers.ts";

const { values } = parseArgs({ options: { schemas: { type: "string", default: "10000" }, answers: { type: "string", default: "1" }, seed: { type: "string", default: "1" } } });
const [schemas, answers, first] = [values.schemas, values.answers, values.seed].map(Number) as [number, number, number];

const device = Device.open({ backend: "cpu", threads: 1 });
const model = await LanguageModel.load(device, tinyModel, { states: 24, pages: { count: 600, tokens: 16 } });
console.log(`command: bun test/constraints/long.ts ${process.argv.slice(2).join(" ")}`);
console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: ${deviceText(device)}; Bun ${Bun.version}`);
const start = performance.now();
const text = ({ valid, cut, impossible, tokens }: Tally): string => `${valid} valid, ${cut} cut off by their length, ${impossible} of schemas that nothing fits; ${tokens} tokens`;
const tally = await runSchemas(model, { first, schemas, answers, lanes: 6, maxTokens: 250 }, (done, now) => {
  if (done % Math.ceil(schemas / 20) === 0) console.log(`  after ${done} schemas, ${((performance.now() - start) / 1000).toFixed(0)} s: ${text(now)}`);
});
console.log(`${schemas * answers} answers to ${schemas} schemas of seed ${first}: ${text(tally)}; each valid one was parsed by JSON.parse and validated by ajv`);
process.exit();
