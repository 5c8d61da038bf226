/** Random schedules over tiny models: a machine of support/schedules.ts. */
import type { Device } from "../../lib/index.ts";
import { anyCalls } from "../support/schedules.ts";
import type { Call, Counts, ScheduleMachine } from "../support/schedules.ts";
import type { Products } from "../support/roles.ts";
import { Random } from "../support/random.ts";
import { actions, weights } from "./actions.ts";
import { openFixtures } from "./fixtures.ts";
import type { Fixture } from "./fixtures.ts";
import { Schedule } from "./schedule.ts";

type Name = keyof typeof actions;

export class ModelSchedules implements ScheduleMachine<Call<Name>, Schedule>, Disposable {
  readonly unit = "schedule";
  readonly reference = "the cold run";
  readonly repeatable = true;
  readonly fixtures: readonly Fixture[];

  constructor(fixtures: readonly Fixture[]) {
    this.fixtures = fixtures;
  }

  /** Opens all models; tiny ones are written to `folder`. With int8 activations these are other models, with packed weights. */
  static async open(device: Device, folder: string, products: Products = "exact"): Promise<ModelSchedules> {
    return new ModelSchedules(await openFixtures(device, folder, products));
  }

  get models(): readonly string[] {
    return this.fixtures.map(({ name }) => `a model of ${name}`);
  }

  make(random: Random): readonly Call<Name>[] {
    this.#anyFixture(random);
    const length = 6 + random.below(16);
    const calls = anyCalls(random, weights, length);
    return [{ name: "create", seed: 0 }, { name: "run", seed: random.below(2 ** 32) }, ...calls];
  }

  /** The first number of a schedule's seed. */
  #anyFixture(random: Random): Fixture {
    return this.fixtures[random.below(this.fixtures.length)]!;
  }

  begin(seed: number, _folder: string, counts: Counts): Schedule {
    return new Schedule(this.#anyFixture(new Random(seed)), counts);
  }

  step(schedule: Schedule, { name, seed }: Call<Name>): Promise<void> | void {
    return actions[name](schedule, new Random(seed));
  }

  end(schedule: Schedule): Promise<void> {
    return schedule.finish();
  }

  describe({ lines }: Schedule): readonly string[] {
    return lines;
  }

  [Symbol.dispose](): void {
    for (const { model, cold } of this.fixtures) [model, cold].forEach((each) => each[Symbol.dispose]());
  }
}
