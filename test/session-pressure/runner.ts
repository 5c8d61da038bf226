/** Random schedules of sessions under pressure: a machine of support/schedules.ts. */
import { mkdirSync } from "node:fs";
import type { Device } from "../../lib/index.ts";
import { concurrent } from "../support/schedules.ts";
import type { Counts, OpenedMachine } from "../support/schedules.ts";
import type { Products } from "../support/roles.ts";
import { Random } from "../support/random.ts";
import { openForms, pressedModel } from "./models.ts";
import type { Pressed } from "./models.ts";
import { runSchedule } from "./schedule.ts";

/** The number of lines of a failing schedule that are printed. */
const lastLines = 120;

/** A schedule with a model of its own. */
interface PressureSchedule extends Disposable {
  readonly pressed: Pressed;
  readonly random: Random;
  readonly folder: string;
  readonly counts: Counts;
  readonly lines: string[];
}

export type PressureSchedules = OpenedMachine<"run", PressureSchedule>;

/** Writes all weights to `folder`. A schedule is one action, which compares everything. */
export async function pressureSchedules(device: Device, folder: string, products: Products = "exact"): Promise<PressureSchedules> {
  const forms = await openForms(device, folder, products);
  return {
    ...concurrent,
    make: () => ["run"],
    async begin(seed, place, counts) {
      mkdirSync(place, { recursive: true });
      const random = new Random(seed);
      const pressed = await pressedModel(forms, random);
      return { pressed, random, folder: place, counts, lines: [], [Symbol.dispose]: () => pressed.model[Symbol.dispose]() };
    },
    step: ({ pressed, random, folder, counts, lines }) => runSchedule(pressed, random, folder, counts, lines),
    end() {},
    describe: ({ pressed, lines }) => [pressed.text, ...lines.slice(-lastLines)],
    [Symbol.dispose]() {
      for (const { cold } of forms) cold[Symbol.dispose]();
    },
  };
}
