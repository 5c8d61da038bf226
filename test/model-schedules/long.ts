// The long run: `bun test/model-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import type { Told } from "../support/long-run.ts";
import { openFixtures } from "./fixtures.ts";
import { runSchedules } from "./runner.ts";

/** The schedules that ran, and their models. */
interface ToldOfModels extends Told {
  readonly models: readonly string[];
}

await longRun<ToldOfModels>({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  run: async ({ device, folder, seed, first, count }) => {
    const fixtures = await openFixtures(device, folder);
    const { schedules, counts, failure } = await runSchedules(fixtures, seed, first, count);
    return { run: schedules, counts: [...counts], models: fixtures.map(({ name }) => name), failure };
  },
  verdict: ["every logit has the bits of the cold run", "not every logit has the bits of the cold run"],
  lines: ({ models }) => models.map((name) => `  a model of ${name}`),
});
