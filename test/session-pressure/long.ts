// The long run: `bun test/session-pressure/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import type { Told } from "../support/long-run.ts";
import { openForms } from "./models.ts";
import { runSchedules } from "./runner.ts";

await longRun<Told>({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  run: async ({ device, folder, seed, first, count }) => {
    const forms = await openForms(device, folder);
    const { run, counts, failure } = await runSchedules(forms, seed, first, count);
    return { run, counts: [...counts], failure };
  },
  verdict: ["every answer is that of the cold run, and all memory is back", "not everything is as it should be"],
});
