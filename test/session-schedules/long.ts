// The long run: `bun test/session-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal] [--int8 | --matrix]`.
import { longRun } from "../support/long-run.ts";
import { sessionSchedules } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  flags: ["int8", "matrix"],
  machine: ({ device, folder, flags }) => sessionSchedules(device, folder, flags.has("int8") ? "int8" : flags.has("matrix") ? "matrix" : "exact"),
  verdict: ["every token and logit is that of the cold run", "not everything is that of the cold run"],
});
