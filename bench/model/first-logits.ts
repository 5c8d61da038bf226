/**
 * Measures loading a GGUF file, including its tokenizer, up to the first logits of a prompt, and the tokens after it, here and with
 * llama.cpp: in a process each, in turns, on a file in the page cache.
 *
 *     python bench/model/llama.py FILE --dense --tokenizer tokenizer.json
 *     bun bench/model/first-logits.ts FILE PATH-OF-NODE-LLAMA-CPP [--rounds 3] [--prompt 20] [--tokens 16] [--threads 2]
 *
 * Times are those of the clock and, in brackets, of the process on all processors: on a machine with other work, only the latter compare.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { largest } from "../../lib/cli/verify/model-ways.ts";
import { Device } from "../../lib/index.ts";
import { LanguageModel } from "../../lib/model.ts";

const { values, positionals: [file, client] } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "3" }, prompt: { type: "string", default: "20" }, tokens: { type: "string", default: "16" },
    threads: { type: "string", default: "2" }, child: { type: "string" },
  },
});
if (file === undefined || (client === undefined && values.child === undefined)) {
  console.error("usage: first-logits.ts FILE PATH-OF-NODE-LLAMA-CPP [--rounds 3] [--prompt 20] [--tokens 16] [--threads 2]");
  process.exit(2);
}
const [rounds, prompt, tokens, threads] = [values.rounds, values.prompt, values.tokens, values.threads].map(Number) as [number, number, number, number];

/** Milliseconds by the clock, and those of the process on all processors. */
interface Time {
  readonly clock: number;
  readonly processor: number;
}

interface Measured {
  /** The time until the model is loaded; that until the first logits, including loading and the tokenizer; that of a later token. */
  readonly loaded: Time;
  readonly first: Time;
  readonly token: Time;
}

function since(start: number, usage: NodeJS.CpuUsage): Time {
  const { user, system } = process.cpuUsage(usage);
  return { clock: performance.now() - start, processor: (user + system) / 1000 };
}

async function measure(weights: "copied" | "mapped"): Promise<Measured> {
  using device = Device.open({ backend: "cpu", threads });
  const [start, usage] = [performance.now(), process.cpuUsage()];
  using model = await LanguageModel.load(device, file!, { states: 1, pages: 4, weights });
  const loaded = since(start, usage);
  model.text.encode("llama.cpp has read the tokenizer");
  using sequence = model.sequence();
  const ids = Array.from({ length: prompt }, (_, i) => ((i * 7919) % 248000) + 3);
  let [result] = await model.run([{ sequence, tokens: ids }]);
  const first = since(start, usage);
  const [later, before] = [performance.now(), process.cpuUsage()];
  for (let i = 0; i < tokens; i++) [result] = await model.run([{ sequence, tokens: [largest(result!.logits)] }]);
  const { clock, processor } = since(later, before);
  return { loaded, first, token: { clock: clock / tokens, processor: processor / tokens } };
}

if (values.child !== undefined) {
  console.log(JSON.stringify(await measure(values.child as "copied")));
} else {
  readFileSync(file); // into the page cache
  const kinds = {
    copied: [process.execPath, import.meta.path, file, "--child", "copied"],
    mapped: [process.execPath, import.meta.path, file, "--child", "mapped"],
    "llama.cpp": ["node", join(import.meta.dir, "llama-first.mjs"), file, client!],
  };
  const numbers = ["--prompt", `${prompt}`, "--tokens", `${tokens}`, "--threads", `${threads}`];
  const found = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, [] as Measured[]]));
  for (let round = 0; round < rounds; round++) {
    for (const [kind, command] of Object.entries(kinds)) {
      const { success, stdout } = Bun.spawnSync([...command, ...numbers], { stderr: "inherit" });
      if (!success) throw new Error(`${command.join(" ")} failed`);
      found[kind]!.push(JSON.parse(stdout.toString()) as Measured);
    }
  }
  for (const [kind, all] of Object.entries(found)) {
    const best = (of: (one: Measured) => number) => Math.min(...all.map(of)).toFixed(1);
    const told = (name: keyof Measured) => `${best((one) => one[name].clock)} ms (${best((one) => one[name].processor)})`;
    console.log(`${kind}: loaded ${told("loaded")}, first logits of ${prompt} tokens ${told("first")}, a token ${told("token")}`);
  }
}
