// The long run: `bun test/session-pressure/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal] [--matrix]`.
import { longRun } from "../support/long-run.ts";
import { pressureSchedules } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  flags: ["matrix"],
  machine: ({ device, folder, flags }) => pressureSchedules(device, folder, flags.has("matrix") ? "matrix" : "exact"),
  verdict: ["every answer is that of the cold run, and all memory is back", "not everything is as it should be"],
});
