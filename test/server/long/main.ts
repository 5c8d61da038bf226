/**
 * `npm run test:server [-- PART… --seed N …]`: the long tests of servers, all or those named; the last line says how many parts passed. The
 * record of a part is test/receipts/server-PART.txt.
 */
import { cpus } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { describe } from "../../../lib/errors.ts";
import { Device } from "../../../lib/index.ts";

/** The numbers of the command line, of which each part reads its own. */
export interface LongOptions {
  readonly minutes: number;
  readonly clients: number;
  readonly seed: number;
}

/** A part: a module whose `run` throws if the part fails, and reports the rest in lines. */
export interface LongPart {
  run(say: (line: string) => void, options: LongOptions): Promise<void>;
}

/** The parts by their names, with the modules next to this file. */
const parts: Readonly<Record<string, string>> = { load: "load.ts", stores: "stores.ts", s3: "s3.ts" };

const number = (text: string): { type: "string"; default: string } => ({ type: "string", default: text });
const { values, positionals: given } = parseArgs({ allowPositionals: true, options: { minutes: number("10"), clients: number("500"), seed: number("1") } });
const unknown = given.find((name) => !(name in parts));
if (unknown !== undefined) {
  console.error(`expected some of ${Object.keys(parts).join(", ")}, got ${describe(unknown)}`);
  process.exit(2);
}
{
  using device = Device.open("cpu");
  console.log(`processor: ${cpus()[0]?.model ?? "unknown"}, ${cpus().length} cores; backend: cpu ${device.isa}; Bun ${Bun.version}`);
}
let failed = 0;
const wanted = given.length > 0 ? given : Object.keys(parts);
const options = { minutes: Number(values.minutes), clients: Number(values.clients), seed: Number(values.seed) };
for (const name of wanted) {
  const begun = performance.now();
  console.log(`${name}:`);
  try {
    const part = (await import(join(import.meta.dir, parts[name]!))) as LongPart;
    await part.run((line) => console.log(`  ${line}`), options);
    console.log(`  ok, ${Math.round((performance.now() - begun) / 1000)} s`);
  } catch (error) {
    failed++;
    console.log(`  not ok: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  }
}
console.log(`${wanted.length - failed} parts passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
