// The long run: `bun test/model-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal] [--int8 | --matrix]`.
import { longRun } from "../support/long-run.ts";
import { ModelSchedules } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  flags: ["int8", "matrix"],
  machine: ({ device, folder, flags }) => ModelSchedules.open(device, folder, flags.has("int8") ? "int8" : flags.has("matrix") ? "matrix" : "exact"),
  verdict: ["every logit has the bits of the cold run", "not every logit has the bits of the cold run"],
});
