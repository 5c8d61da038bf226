// The long run: `bun test/gguf-files/long.ts [--programs N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import { GgufFiles } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "programs",
  count: 20_000,
  machine: ({ device }) => new GgufFiles(device),
  verdict: ["every file gives a typed error or its numbers", "not every file gives a typed error or its numbers"],
});
