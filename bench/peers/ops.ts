/**
 * Compares operations with ggml's, in turn on one machine, as a table.
 *
 *     bun bench/peers/ops.ts --python PYTHON --ggml FOLDER [--filter TEXT] [--threads 1] [--rounds 7] [--milliseconds 60]
 *
 * PYTHON has numpy; FOLDER has ggml's shared libraries, such as their folder in the npm package of node-llama-cpp's prebuilt library for
 * this system. The caller provides both: nothing is fetched or built here. --filter selects the rows whose names contain a text.
 *
 * Names and memory are those of `npm run bench`; everything but matrices is f32. Weights of ggml's products are as in a file (`plain`) and
 * as llama.cpp repacks them; it rounds x to 8 bits (bf16 for bf16) in both. For the delta rule and the convolution, `op` is one operation
 * alone (with SiLU), and `graph` all that llama.cpp computes around it to keep states in a cache. Each of them is timed in each round.
 */
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { Child } from "../child.ts";
import { linearName } from "../cases/linear.ts";
import { nameOf } from "../shapes.ts";

const { values } = parseArgs({
  options: {
    python: { type: "string" },
    ggml: { type: "string" },
    filter: { type: "string", default: "" },
    threads: { type: "string", default: "1" },
    rounds: { type: "string", default: "7" },
    milliseconds: { type: "string", default: "60" },
  },
});
const { python, ggml } = values;
if (python === undefined || ggml === undefined) throw new Error("--python, --ggml: name a Python with numpy, and the folder of ggml's libraries");
const threads = Number(values.threads);

/** A benchmark's name, and the ways to compute it. */
interface Work {
  readonly name: string;
  readonly ours: readonly string[];
  readonly theirs: readonly string[];
}

const recurrent = (what: string, sequences: number, tokens: number, temperature: "cold" | "hot"): Work => ({
  name: nameOf(what, { dtype: "f32", sequences, tokens, valueHeads: 32, threads, temperature }),
  ours: ["exact"],
  theirs: ["graph", "op"],
});

const projections = (["f32", "bf16", "q8_0", "q4_0", "q4_k", "q5_k", "q6_k"] as const).flatMap((form) =>
  ([[1, "cold"], [8, "cold"], [512, "hot"]] as const).map(([rows, temperature]): Work => {
    const packed = form.startsWith("q");
    return {
      name: linearName({ form, rows, inFeatures: 1024, outFeatures: 3584, threads, temperature }),
      ours: packed ? ["exact", "int8"] : ["exact"],
      theirs: packed ? ["plain", "repacked"] : ["plain"],
    };
  }),
);

const works: Work[] = [
  recurrent("gatedDelta", 1, 1, "cold"),
  recurrent("gatedDelta", 8, 1, "cold"),
  recurrent("gatedDelta", 1, 1, "hot"),
  recurrent("gatedDelta", 1, 512, "hot"),
  recurrent("gatedDelta", 1, 2048, "hot"),
  recurrent("causalConv1d", 1, 1, "cold"),
  recurrent("causalConv1d", 8, 1, "cold"),
  recurrent("causalConv1d", 1, 512, "hot"),
  ...projections,
];

const median = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1]!;
const microseconds = (us: number) => us.toPrecision(us < 1000 ? 3 : 4);

console.log(`${cpus()[0]?.model ?? "unknown processor"}, ${cpus().length} cores, ${threads} threads`);
using ours = new Child([process.execPath, `${import.meta.dir}/ops-ours.ts`, String(threads)]);
using peer = new Child([python, `${import.meta.dir}/ops_ggml.py`, ggml, String(threads)]);
for (const child of [ours, peer]) console.log(((await child.next()) as { version: string }).version);

console.log("\n| work | ours | µs: least, median | ggml | µs: least, median | ggml over ours: leasts, median of rounds |\n|---|---|--:|---|--:|--:|");
for (const { name, ours: ways, theirs } of works.filter(({ name }) => name.includes(values.filter))) {
  const programs = [...ways.map((how) => ({ child: ours, how })), ...theirs.map((how) => ({ child: peer, how }))];
  // Tensors are made at the first call.
  for (const { child, how } of programs) await child.ask(`${name} ${how} 1`);
  const rounds: number[][][] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const of: number[][] = [];
    for (const { child, how } of programs) {
      // The previous program's threads may still be looking for work.
      await Bun.sleep(20);
      of.push((await child.ask(`${name} ${how} ${values.milliseconds}`)) as number[]);
    }
    rounds.push(of);
  }
  const least = (i: number) => Math.min(...rounds.flatMap((of) => of[i]!));
  const cells = (i: number) => `${programs[i]!.how} | ${microseconds(least(i))}, ${microseconds(median(rounds.flatMap((of) => of[i]!)))}`;
  for (const [i] of ways.entries()) {
    for (let j = ways.length; j < programs.length; j++) {
      if (rounds[0]![j]!.length === 0) continue;
      const ratio = median(rounds.map((of) => median(of[j]!) / median(of[i]!)));
      console.log(`| ${name} | ${cells(i)} | ${cells(j)} | ${(least(j) / least(i)).toFixed(2)}, ${ratio.toFixed(2)} |`);
    }
  }
}
process.exit(0);
