/** Random schedules of sessions under pressure: a machine of support/schedules.ts. */
import { mkdirSync } from "node:fs";
import type { Device } from "../../lib/index.ts";
import type { Counts, ScheduleMachine } from "../support/schedules.ts";
import { Random } from "../support/random.ts";
import { openForms, pressedModel } from "./models.ts";
import type { Form, Pressed } from "./models.ts";
import { runSchedule } from "./schedule.ts";

/** Lines of a failing schedule that are printed. */
const lastLines = 120;

/** A schedule with a model of its own. */
interface PressureSchedule extends Disposable {
  readonly pressed: Pressed;
  readonly random: Random;
  readonly folder: string;
  readonly counts: Counts;
  readonly lines: string[];
}

/** All sessions run at the same time: a schedule is one action, and may go another way each time. */
export class PressureSchedules implements ScheduleMachine<"run", PressureSchedule>, Disposable {
  readonly unit = "schedule";
  readonly reference = "the cold run";
  readonly repeatable = false;
  readonly #forms: readonly Form[];

  constructor(forms: readonly Form[]) {
    this.#forms = forms;
  }

  /** Writes all weights to `folder`. */
  static async open(device: Device, folder: string): Promise<PressureSchedules> {
    return new PressureSchedules(await openForms(device, folder));
  }

  make(): readonly ["run"] {
    return ["run"];
  }

  async begin(seed: number, folder: string, counts: Counts): Promise<PressureSchedule> {
    mkdirSync(folder, { recursive: true });
    const random = new Random(seed);
    const pressed = await pressedModel(this.#forms, random);
    return { pressed, random, folder, counts, lines: [], [Symbol.dispose]: () => pressed.model[Symbol.dispose]() };
  }

  step({ pressed, random, folder, counts, lines }: PressureSchedule): Promise<void> {
    return runSchedule(pressed, random, folder, counts, lines);
  }

  /** A schedule compares everything before its action is over. */
  end(): void {}

  describe({ pressed, lines }: PressureSchedule): readonly string[] {
    return [pressed.text, ...lines.slice(-lastLines)];
  }

  [Symbol.dispose](): void {
    for (const { cold } of this.#forms) cold[Symbol.dispose]();
  }
}
