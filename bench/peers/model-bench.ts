/**
 * `llama-bench` and `llama-batched-bench` of ik_llama.cpp or llama.cpp as one of the programs that models.ts compares. Each answer is a
 * process of its own, which loads the model anew, with rows repacked where the program can.
 */
import { join } from "node:path";
import { createInterface } from "node:readline";

const [file, threads, folder] = process.argv.slice(2) as [string, string, string];

function output(name: string, ...args: string[]): string {
  const { stdout, stderr, exitCode } = Bun.spawnSync([join(folder, name), "-m", file, "-t", threads, ...args]);
  if (exitCode !== 0) throw new Error(`${name} ${args.join(" ")}: exit status ${exitCode}`);
  // llama-batched-bench prints its table in its log.
  return stdout.length > 0 ? stdout.toString() : stderr.toString();
}

/** The results of `llama-bench`, which prints a list of them. */
interface Result {
  readonly build_commit: string;
  readonly n_gen: number;
  readonly samples_ns: readonly number[];
}

const repacks = Bun.spawnSync([join(folder, "llama-bench"), "--help"]).stdout.toString().includes("-rtr");
const repacked = repacks ? ["-rtr", "1"] : [];
const results = (...args: string[]) => JSON.parse(output("llama-bench", ...args, ...repacked, "-r", "2", "-o", "json")) as Result[];

/** Seconds of a step of this many sequences, from the table of `llama-batched-bench`. */
function batch(sequences: number): number[] {
  const [size, steps] = [String(32 * sequences), 8];
  const text = output("llama-batched-bench", "-c", size, "-b", "512", "-ub", "512", "-npp", "16", "-ntg", String(steps), "-npl", String(sequences), ...(repacks ? ["-rtr"] : []));
  const rows = text.split("\n").filter((line) => line.startsWith("|")).map((line) => line.split("|").map((cell) => cell.trim()));
  const seconds = Number(rows.at(-1)?.[rows[0]!.indexOf("T_TG s")]);
  if (!(seconds > 0)) throw new Error(`llama-batched-bench: no table in\n${text}`);
  return [seconds / steps];
}

function times(kind: string, size: number): number[] {
  if (kind === "batch") return batch(size);
  if (kind === "prompt") return results("-p", String(size), "-n", "0").flatMap(({ samples_ns }) => samples_ns.map((t) => t / 1e9));
  const found = kind === "after" ? results("-p", "0", "-n", "0", "-gp", `${size},8`) : results("-p", "0", "-n", "16");
  return found.filter(({ n_gen }) => n_gen > 0).flatMap(({ n_gen, samples_ns }) => samples_ns.map((t) => t / n_gen / 1e9));
}

console.log(JSON.stringify({ version: `${folder}, ${repacks ? "rows repacked" : "rows as they lie"}` }));
for await (const line of createInterface({ input: process.stdin })) {
  const [kind, size] = line.split(":") as [string, string?];
  console.log(JSON.stringify(times(kind, Number(size))));
}
