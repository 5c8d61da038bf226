/** Random schedules of sessions: a machine of support/schedules.ts. */
import { mkdirSync } from "node:fs";
import type { Device } from "../../lib/index.ts";
import type { Counts, ScheduleMachine } from "../support/schedules.ts";
import { Random } from "../support/random.ts";
import { openFixtures } from "./fixtures.ts";
import type { Fixture } from "./fixtures.ts";
import { killedSessions } from "./killed.ts";
import { Schedule } from "./schedule.ts";

/** One of so many schedules begins with the files of a killed process. */
const killEvery = 16;

type Action = "adopt" | "run";

/** Sessions run at the same time, so that the same schedule may go another way each time. */
export class SessionSchedules implements ScheduleMachine<Action, Schedule>, Disposable {
  readonly unit = "schedule";
  readonly reference = "the cold run";
  readonly repeatable = false;
  readonly #fixtures: readonly Fixture[];

  constructor(fixtures: readonly Fixture[]) {
    this.#fixtures = fixtures;
  }

  /** Opens all models; they are written to `folder`. */
  static async open(device: Device, folder: string): Promise<SessionSchedules> {
    return new SessionSchedules(await openFixtures(device, folder));
  }

  get models(): readonly string[] {
    return this.#fixtures.map(({ name, pageDType, model }) => `${name}: ${model.states} states, ${model.pages} pages of ${model.pageTokens} ${pageDType}`);
  }

  make(_random: Random, n: number): readonly Action[] {
    return n % killEvery === killEvery - 1 ? ["adopt", "run"] : ["run"];
  }

  begin(seed: number, folder: string, counts: Counts): Schedule {
    mkdirSync(folder, { recursive: true });
    const random = new Random(seed);
    return new Schedule(this.#fixtures[random.below(this.#fixtures.length)]!, random, counts, folder);
  }

  async step(schedule: Schedule, action: Action): Promise<void> {
    if (action === "run") return schedule.run();
    await schedule.adopt(await killedSessions(schedule.fixture, schedule.random, schedule.folder));
    schedule.counts.add("processes killed");
  }

  end(schedule: Schedule): Promise<void> {
    return schedule.end();
  }

  describe({ lines }: Schedule): readonly string[] {
    return lines;
  }

  [Symbol.dispose](): void {
    for (const { model, cold } of this.#fixtures) [model, cold].forEach((each) => each[Symbol.dispose]());
  }
}
