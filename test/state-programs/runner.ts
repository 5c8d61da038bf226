/** Random programs over pools: a machine of support/schedules.ts. */
import { anyCalls } from "../support/schedules.ts";
import type { Call, Counts, ScheduleMachine } from "../support/schedules.ts";
import { Random } from "../support/random.ts";
import { passActions } from "./actions-passes.ts";
import { runActions } from "./actions-runs.ts";
import { stateActions } from "./actions-states.ts";
import type { Action } from "./actions-states.ts";
import type { Machine } from "./machine.ts";
import { Program } from "./program.ts";

const actions = { ...stateActions, ...passActions, ...runActions } satisfies Record<string, Action>;

type Name = keyof typeof actions;

/** How often each kind of action comes. */
const usualWeights: Readonly<Record<Name, number>> = {
  allocate: 12, fork: 10, free: 4, drop: 1.5, zero: 3, cache: 5, save: 0.5, load: 0.5, disposePool: 0.3, addPool: 1, inject: 3, wait: 8, waitOnce: 2,
  step: 9, draft: 6, encodeOp: 9, encodeMade: 4, runRest: 12, submit: 5, discard: 2, wrote: 2, done: 11, abort: 3, leave: 3, commit: 6, raw: 0.5,
  poolRun: 9, draftRun: 5, record: 2, replay: 4, poolRunPlan: 5, dropPlan: 0.5,
};

export class StatePrograms implements ScheduleMachine<Call<Name>, Program> {
  readonly unit = "program";
  readonly reference = "the model";
  readonly repeatable = true;
  readonly #machine: Machine;
  readonly #shortFiles: boolean;

  /** @param shortFiles whether the process can write only short files: saves are then frequent, and may fail halfway. */
  constructor(machine: Machine, shortFiles = false) {
    this.#machine = machine;
    this.#shortFiles = shortFiles;
  }

  make(random: Random): readonly Call<Name>[] {
    const length = 30 + random.below(60);
    return anyCalls<Name>(random, this.#shortFiles ? { ...usualWeights, save: 8, load: 8 } : usualWeights, length);
  }

  begin(seed: number, folder: string, counts: Counts): Program {
    const program = new Program(this.#machine, folder, counts, this.#shortFiles);
    const random = new Random(seed);
    const pools = 1 + random.below(3);
    for (let i = 0; i < pools; i++) program.addPool(2 + random.below(7), i === 0 || random.below(3) > 0);
    return program;
  }

  step(program: Program, { name, seed }: Call<Name>): void {
    actions[name](program, new Random(seed));
    program.checkFree();
    program.count(`action ${name}`);
  }

  end(program: Program): void {
    program.end();
  }

  describe({ lines }: Program): readonly string[] {
    return lines;
  }
}
