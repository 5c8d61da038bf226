// The long run: `bun test/state-programs/long.ts [--programs N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal]`.
// With `--short-files` the process must be unable to write files of more than a few KiB (`ulimit -f`).
import { longRun } from "../support/long-run.ts";
import { Machine } from "./machine.ts";
import { StatePrograms } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "programs",
  count: 100_000,
  flags: ["short-files"],
  machine: ({ device, flags }) => new StatePrograms(new Machine(device), flags.has("short-files")),
  verdict: ["all do what the model says", "not all do what the model says"],
});
