/**
 * The translator's command line.
 *
 *   bun test/emulator/main.ts build shaders/*.metal -o .build/emulator/libGatedDeltaShaders.so [--sanitizer address|undefined]
 *   bun test/emulator/main.ts check shaders/*.metal      typed compile and lint, for errors of Apple's compiler
 *   bun test/emulator/main.ts lint shaders/*.metal       the lint alone
 *   bun test/emulator/main.ts reflect shaders/*.metal    the kernels, as JSON
 *   bun test/emulator/main.ts translate shaders/x.metal  the C++ that runs, for reading
 *   bun test/emulator/main.ts cuda shaders/*.metal -o FOLDER   CUDA sources and a runner for them (cuda/runner.cpp says how)
 *   bun test/emulator/main.ts replay RECORDS shaders/*.metal -o FOLDER [--library LIBRARY.so]   the same, with recorded dispatches
 *   bun test/emulator/main.ts receipt RESULTS.jsonl...         a card's results, as JSON
 *   bun test/emulator/main.ts runner [--sanitizer address|undefined]
 *
 * Exit status: 0 done, 1 the sources have problems (one a line, "file:line: ..."), 2 bad usage.
 */
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";
import { join } from "node:path";
import { build, buildRunner, translateAll, writeCuda } from "./build.ts";
import { packReplay, receipt } from "./cuda/replay.ts";
import { checkTypes, parseTogether, type Problem } from "./check.ts";
import type { Sanitizer } from "./compile.ts";
import { lint } from "./lint/lint.ts";
import { reflectUnits } from "./reflect.ts";

type Command = (files: readonly string[], options: Options) => Promise<number>;
type Options = {
  readonly output: string | undefined;
  readonly sanitizer: Sanitizer;
  readonly only: readonly string[] | undefined;
  readonly keep: boolean;
  readonly library: string | undefined;
};

const defaultOutput = join(".build", "emulator", "libGatedDeltaShaders.so");

const commands: Record<string, Command> = {
  async build(files, options) {
    const output = options.output ?? defaultOutput;
    const names = await build(files, {
      output,
      sanitizer: options.sanitizer,
      keep: options.keep,
      onObject: (done, total, name) => console.log(`[${done}/${total}] ${name}`),
      ...(options.only === undefined ? {} : { only: options.only }),
    });
    console.log(`${output}: ${names.length} kernels`);
    return 0;
  },
  async check(files) {
    const unit = parseTogether(files);
    return await Promise.resolve(print([...checkTypes(unit), ...lint(unit)]));
  },
  async lint(files) {
    return await Promise.resolve(print(lint(parseTogether(files))));
  },
  async reflect(files) {
    console.log(JSON.stringify(reflectUnits(files), null, 2));
    return await Promise.resolve(0);
  },
  async translate(files, options) {
    const only = options.only === undefined ? {} : { only: options.only };
    for (const { code } of translateAll(files, only)) console.log(code);
    return await Promise.resolve(0);
  },
  async cuda(files, options) {
    const folder = options.output ?? join(".build", "emulator", "cuda");
    console.log(`${folder}: ${writeCuda(files, folder).join(", ")}`);
    return await Promise.resolve(0);
  },
  async replay([records, ...shaders], options) {
    const folder = options.output ?? join(".build", "emulator", "cuda");
    const count = await packReplay(shaders, records ?? "", options.library ?? defaultOutput, folder, 3);
    console.log(`${folder}: ${count} dispatches; on a machine with a card: ${join(folder, "run.sh")}`);
    return 0;
  },
  async receipt(results) {
    // The version of the kernels, to which the receipt applies.
    const commit = spawnSync("git", ["log", "-1", "--format=%h", "--", "shaders"], { encoding: "utf8" }).stdout.trim();
    const text = JSON.stringify(receipt(results, commit, new Date().toISOString().slice(0, 10)), null, 2);
    // One kernel or case per line.
    console.log(text.replace(/\{\s+"(?:dispatches|case)": [^{}]*\}/g, (line) => line.replace(/\s+/g, " ").replace("[ ", "[").replace(" ]", "]")));
    return await Promise.resolve(0);
  },
  async runner(_files, options) {
    console.log(await buildRunner(options.sanitizer));
    return 0;
  },
};

function print(problems: readonly Problem[]): number {
  for (const p of problems) console.log(`${p.file}:${p.line}: [${p.rule}] ${p.message}`);
  return problems.length > 0 ? 1 : 0;
}

function usage(problem: string): number {
  console.error(
    `${problem}\nusage: bun test/emulator/main.ts ${Object.keys(commands).join("|")} FILES [-o OUTPUT] [--sanitizer address|undefined] [--only KERNEL] [--keep]`,
  );
  return 2;
}

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: {
      output: { type: "string", short: "o" },
      sanitizer: { type: "string", default: "none" },
      only: { type: "string", multiple: true },
      keep: { type: "boolean", default: false },
      library: { type: "string" },
    },
  });
  const [name, ...files] = positionals;
  const command = commands[name ?? ""];
  if (command === undefined) return usage(`unknown command ${name ?? "(none)"}`);
  if (files.length === 0 && name !== "runner") return usage(`${name ?? ""}: no files`);
  const { sanitizer } = values;
  if (sanitizer !== "none" && sanitizer !== "address" && sanitizer !== "undefined")
    return usage(`unknown sanitizer ${sanitizer}`);
  try {
    return await command(files, {
      output: values.output,
      sanitizer,
      only: values.only,
      keep: values.keep,
      library: values.library,
    });
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    console.error(error.message);
    return 1;
  }
}

process.exitCode = await main();
