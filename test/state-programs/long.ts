// The long run: `bun test/state-programs/long.ts [--programs N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
// With `--short-files` the process must be unable to write files of more than a few KiB (`ulimit -f`): saving is frequent
// then, and may fail half way.
import { longRun } from "../support/long-run.ts";
import type { Told } from "../support/long-run.ts";
import { Machine } from "./machine.ts";
import { runPrograms } from "./runner.ts";

await longRun<Told>({
  path: import.meta.path,
  what: "programs",
  count: 100_000,
  extra: { "short-files": false },
  run: ({ device, folder, seed, first, count, extra }) => {
    const options = extra["short-files"] ? { shortFiles: true, weights: { save: 8, load: 8 } } : {};
    const { programs: run, counts, failure } = runPrograms(new Machine(device), folder, seed, first, count, options);
    return { run, counts: [...counts], failure };
  },
  verdict: ["all do what the model says", "not all do what the model says"],
});
