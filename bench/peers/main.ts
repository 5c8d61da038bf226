/**
 * Compares the gated delta rule of other libraries with this one's, in turn on one machine, as a table.
 *
 *     bun bench/peers/main.ts --python PYTHON [--ggml FOLDER] [--systems NAME,...] [--threads 1,2] [--tokens 1,512,2048] [--rounds 5]
 *
 * PYTHON has numpy and the ones of onnx, onnxruntime, torch and mlx to compare; FOLDER has ggml's shared libraries. The caller provides
 * both: nothing is fetched or built here. 16 key heads, 32 value heads of 128 x 128, f32, one sequence, states hot, keys as they are
 * (normalised before). Each system is a separate process; in each round they are timed one after the other. A system that does not start
 * is left out and named. First, each system's output is compared with this library's.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Random } from "../../test/support/random.ts";
import { Child } from "../child.ts";

const { values } = parseArgs({
  options: {
    python: { type: "string" },
    ggml: { type: "string" },
    systems: { type: "string", default: "onnxruntime,ggml,torch-chunked,torch-recurrent,mlx" },
    threads: { type: "string", default: "1,2" },
    tokens: { type: "string", default: "1,512,2048" },
    rounds: { type: "string", default: "5" },
    milliseconds: { type: "string", default: "300" },
  },
});
const { python } = values;
if (python === undefined) throw new Error("--python: name the Python that has the other libraries");
const [threadCounts, tokenCounts] = [values.threads, values.tokens].map((list) => list.split(",").map(Number)) as [
  number[],
  number[],
];
const [keyHeads, valueHeads, dim] = [16, 32, 128];
/** A token takes these systems a millisecond or more: only short prompts. */
const slow = new Set(["mlx", "torch-recurrent"]);

/** Writes the inputs of the longest prompt to files. */
function writeInputs(folder: string, tokens: number): void {
  const random = new Random(5);
  const write = (name: string, length: number, number: () => number) =>
    writeFileSync(join(folder, `${name}.f32`), Float32Array.from({ length }, number));
  const keys = Float32Array.from({ length: tokens * keyHeads * dim }, () => random.uniform(-1, 1));
  for (let row = 0; row < keys.length; row += dim) {
    const of = keys.subarray(row, row + dim);
    const factor = 1 / Math.hypot(...of);
    of.forEach((x, i) => (of[i] = x * factor));
  }
  writeFileSync(join(folder, "key.f32"), keys);
  write("query", tokens * keyHeads * dim, () => random.uniform(-1, 1));
  write("value", tokens * valueHeads * dim, () => random.uniform(-1, 1));
  write("gate", tokens * valueHeads, () => random.uniform(-0.2, 0));
  write("beta", tokens * valueHeads, () => random.uniform(0, 1));
  write("state", valueHeads * dim * dim, () => random.uniform(-0.1, 0.1));
}

interface System {
  readonly name: string;
  readonly child: Child;
  readonly version: string;
}

async function start(name: string, threads: number, folder: string): Promise<System | undefined> {
  const ours = name === "recurrent" || name === "chunked";
  const command = ours
    ? [process.execPath, `${import.meta.dir}/ours.ts`, name, String(threads), folder]
    : [python!, `${import.meta.dir}/peers.py`, name, String(threads), folder, values.ggml ?? ""];
  const child = new Child(command);
  try {
    const { version } = (await child.next()) as { version: string };
    return { name, child, version };
  } catch {
    console.log(`${name}: not to be had here`);
    return undefined;
  }
}

/** ‖x − ours‖ / ‖ours‖ for the outputs of `tokens` tokens. */
async function difference(system: System, ours: System, tokens: number, folder: string): Promise<number> {
  const [mine, theirs] = await Promise.all(
    [ours, system].map(async ({ child }, i) => {
      const file = join(folder, `out-${i}.f32`);
      await child.ask(`${tokens} 0 ${file}`);
      const bytes = readFileSync(file);
      return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    }),
  );
  let [error, norm] = [0, 0];
  mine!.forEach((x, i) => {
    error += (theirs![i]! - x) ** 2;
    norm += x * x;
  });
  return Math.sqrt(error / norm);
}

const text = (us: number) => (us < 1000 ? `${us.toFixed(0)} µs` : `${(us / 1000).toFixed(us < 1e5 ? 1 : 0)} ms`);
const median = (numbers: number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!;

async function compare(threads: number, folder: string): Promise<void> {
  const names = ["recurrent", "chunked", ...values.systems.split(",")];
  const systems = (await Promise.all(names.map((name) => start(name, threads, folder)))).filter((x) => x !== undefined);
  if (threads === threadCounts[0]) for (const { name, version } of systems) console.log(`${name}: ${version}`);
  console.log(`\n| threads | tokens | system | least | median | times the faster of ours, least, median of rounds | differs by |`);
  console.log("|--:|--:|---|--:|--:|--:|--:|");
  for (const tokens of tokenCounts) {
    const some = systems.filter(({ name }) => tokens <= 512 || !slow.has(name));
    const differences = new Map<string, number>();
    for (const system of some) differences.set(system.name, await difference(system, systems[0]!, tokens, folder));
    const rounds: Map<string, number[]>[] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      const of = new Map<string, number[]>();
      for (const { name, child } of some) {
        // The previous library's threads may still be looking for work.
        await Bun.sleep(20);
        of.set(name, (await child.ask(`${tokens} ${values.milliseconds}`)) as number[]);
      }
      rounds.push(of);
    }
    const least = (name: string, of: Map<string, number[]>) => Math.min(...of.get(name)!);
    const best = (name: string) => Math.min(...rounds.map((of) => least(name, of)));
    const faster = best("chunked") < best("recurrent") ? "chunked" : "recurrent";
    for (const { name } of some) {
      const ratio = best(name) / best(faster);
      const ratios = rounds.map((of) => least(name, of) / least(faster, of));
      const all = rounds.flatMap((of) => of.get(name)!);
      console.log(
        `| ${threads} | ${tokens} | ${name} | ${text(best(name))} | ${text(median(all))} | ${ratio.toFixed(2)}, ${median(ratios).toFixed(2)} | ${differences.get(name)!.toExponential(0)} |`,
      );
    }
  }
  for (const { child } of systems) child[Symbol.dispose]();
}

const folder = mkdtempSync(join(tmpdir(), "gated-delta-peers-"));
try {
  console.log(`${cpus()[0]?.model ?? "unknown processor"}, ${cpus().length} cores`);
  writeInputs(folder, Math.max(...tokenCounts));
  for (const threads of threadCounts) await compare(threads, folder);
} finally {
  rmSync(folder, { recursive: true });
}
process.exit(0);
