// The long run: `bun test/session-schedules/long.ts [--schedules N] [--seed N] [--first N] [--jobs N] [--seconds N] [--backend cpu|metal]`.
import { longRun } from "../support/long-run.ts";
import type { Told } from "../support/long-run.ts";
import { openFixtures } from "./fixtures.ts";
import { runSchedules } from "./runner.ts";

/** What ran, and on which models. */
interface ToldOfModels extends Told {
  readonly models: readonly string[];
}

await longRun<ToldOfModels>({
  path: import.meta.path,
  what: "schedules",
  count: 10_000,
  extra: { seconds: "Infinity" },
  run: async ({ device, folder, seed, first, count, extra }) => {
    const fixtures = await openFixtures(device, folder);
    const { run, counts, failure } = await runSchedules(fixtures, seed, first, count, Number(extra["seconds"]));
    const models = fixtures.map(({ name, pageDType, model }) => `${name}: ${model.states} states, ${model.pages} pages of ${model.pageTokens} ${pageDType}`);
    return { run, counts: [...counts], models, failure };
  },
  verdict: ["every token and logit is that of the cold run", "not everything is that of the cold run"],
  lines: ({ models }) => models.map((model) => `  ${model}`),
});
