/** Random schedules of sessions: a machine of support/schedules.ts. */
import { mkdirSync } from "node:fs";
import type { Device } from "../../lib/index.ts";
import { concurrent } from "../support/schedules.ts";
import type { OpenedMachine } from "../support/schedules.ts";
import type { Products } from "../support/roles.ts";
import { Random } from "../support/random.ts";
import { openFixtures } from "./fixtures.ts";
import { killedSessions } from "./killed.ts";
import { Schedule } from "./schedule.ts";

/** One schedule out of this many begins with the files of a killed process. */
const killEvery = 16;

type Action = "adopt" | "run";

export type SessionSchedules = OpenedMachine<Action, Schedule>;

/** Opens all models; they are written to `folder`. */
export async function sessionSchedules(device: Device, folder: string, products: Products = "exact"): Promise<SessionSchedules> {
  const fixtures = await openFixtures(device, folder, products);
  return {
    ...concurrent,
    models: fixtures.map(({ name, pageDType, model }) => `${name}: ${model.states} states, ${model.pages} pages of ${model.pageTokens} ${pageDType}`),
    make: (_random, n) => (n % killEvery === killEvery - 1 ? ["adopt", "run"] : ["run"]),
    begin(seed, place, counts) {
      mkdirSync(place, { recursive: true });
      const random = new Random(seed);
      return new Schedule(fixtures[random.below(fixtures.length)]!, random, counts, place);
    },
    async step(schedule, action) {
      if (action === "run") return schedule.run();
      await schedule.adopt(await killedSessions(schedule.fixture, schedule.random, schedule.folder));
      schedule.counts.add("processes killed");
    },
    end: (schedule) => schedule.end(),
    describe: ({ lines }) => lines,
    [Symbol.dispose]() {
      for (const { model, cold } of fixtures) [model, cold].forEach((each) => each[Symbol.dispose]());
    },
  };
}
