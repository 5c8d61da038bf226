// The long run: `bun test/model-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import { ModelSchedules } from "./runner.ts";

await longRun({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  machine: ({ device, folder }) => ModelSchedules.open(device, folder),
  verdict: ["every logit has the bits of the cold run", "not every logit has the bits of the cold run"],
});
