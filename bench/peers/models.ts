/**
 * Compares whole models with llama.cpp and its relatives, in turn on one machine, as a table.
 *
 *     bun bench/peers/models.ts --model FOLDER [--gguf FILE] [--node-llama-cpp FOLDER] [--llama-bench FOLDER] [--threads 2,1] [--rounds 5]
 *         [--work token,prompt:16,prompt:512,prompt:4096,batch:8,batch:32,after:4096,after:32768] [--activations exact,int8]
 *
 * --model is a model of this library; --gguf is the same shape for llama.cpp, and is measured here as well. --node-llama-cpp is the folder
 * of that npm package, which includes llama.cpp; --llama-bench is a folder with the programs `llama-bench` and `llama-batched-bench` of
 * ik_llama.cpp or llama.cpp. The caller provides all of them: nothing is fetched or built here.
 *
 * `token` is a token after a few; `prompt:N` reads N tokens; `batch:N` is a step of N sequences, a token each; `after:N` is a token after N.
 * In each round, the systems are timed one after the other.
 */
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Child } from "../child.ts";

const { values } = parseArgs({
  options: {
    model: { type: "string" },
    gguf: { type: "string" },
    "node-llama-cpp": { type: "string" },
    "llama-bench": { type: "string" },
    activations: { type: "string", default: "exact" },
    threads: { type: "string", default: "2" },
    rounds: { type: "string", default: "5" },
    work: { type: "string", default: "token,prompt:16,prompt:512,batch:8,after:4096" },
  },
});
const { model, gguf } = values;
if (model === undefined) throw new Error("--model: name a model's folder or file");
const list = (text: string) => text.split(",");

/** The programs to start for this many threads, by name. */
function programs(threads: string): [string, string[]][] {
  const at = (file: string) => `${import.meta.dir}/${file}`;
  const ours = (path: string, activations: string): string[] => [process.execPath, at("model-ours.ts"), path, threads, activations];
  const found: [string, string[]][] = [];
  for (const activations of list(values.activations)) {
    found.push([`ours, ${activations}`, ours(model!, activations)]);
    if (gguf !== undefined && gguf !== model) found.push([`ours, ${activations}, GGUF`, ours(gguf, activations)]);
  }
  const [module, tools] = [values["node-llama-cpp"], values["llama-bench"]];
  if ((module ?? tools) !== undefined && gguf === undefined) throw new Error("--gguf: name the file that llama.cpp reads");
  if (module !== undefined) found.push(["llama.cpp", ["node", at("model-llama.mjs"), gguf!, threads, module]]);
  if (tools !== undefined) found.push(["llama-bench", [process.execPath, at("model-bench.ts"), gguf!, threads, tools]]);
  return found;
}

const milliseconds = (seconds: number) => `${(1000 * seconds).toFixed(seconds < 1 ? 1 : 0)} ms`;
const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!;

async function compare(threads: string): Promise<void> {
  const systems: { readonly name: string; readonly child: Child }[] = [];
  for (const [name, command] of programs(threads)) {
    const child = new Child(command);
    console.log(`${name}: ${((await child.next()) as { version: string }).version}`);
    systems.push({ name, child });
  }
  console.log(`\n| threads | work | system | least | median | over the first, least, median of rounds |\n|--:|---|---|--:|--:|--:|`);
  for (const work of list(values.work)) {
    const rounds: number[][][] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      const of: number[][] = [];
      for (const { child } of systems) {
        // The previous system's threads may still be looking for work.
        await Bun.sleep(50);
        of.push((await child.ask(work)) as number[]);
      }
      rounds.push(of);
    }
    for (const [i, { name }] of systems.entries()) {
      const all = (s: number) => rounds.flatMap((of) => of[s]!);
      const ratios = rounds.map((of) => median(of[i]!) / median(of[0]!));
      const ratio = (Math.min(...all(i)) / Math.min(...all(0))).toFixed(2);
      console.log(`| ${threads} | ${work} | ${name} | ${milliseconds(Math.min(...all(i)))} | ${milliseconds(median(all(i)))} | ${ratio}, ${median(ratios).toFixed(2)} |`);
    }
  }
  for (const { child } of systems) child[Symbol.dispose]();
}

console.log(`${cpus()[0]?.model ?? "unknown processor"}, ${cpus().length} cores`);
for (const threads of list(values.threads)) await compare(threads);
