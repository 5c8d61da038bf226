// The long run: `bun test/session-pressure/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import type { Told } from "../support/long-run.ts";
import { openForms } from "./models.ts";
import { runSchedules } from "./runner.ts";
import { mostBehind } from "./watch.ts";

/** What ran, and how long requests waited. */
interface ToldOfWaiting extends Told {
  readonly furthest: number;
}

await longRun<ToldOfWaiting>({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  run: async ({ device, folder, seed, first, count }) => {
    const forms = await openForms(device, folder);
    const { run, counts, furthest, failure } = await runSchedules(forms, seed, first, count);
    return { run, counts: [...counts], furthest, failure };
  },
  verdict: ["every answer is that of the cold run, and all memory is back", "not everything is as it should be"],
  lines: () => [`  no request with room waited for more than ${mostBehind} steps in a row of later ones`],
});
