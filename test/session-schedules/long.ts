// The long run: `bun test/session-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import { sessionSchedules } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  machine: ({ device, folder }) => sessionSchedules(device, folder),
  verdict: ["every token and logit is that of the cold run", "not everything is that of the cold run"],
});
