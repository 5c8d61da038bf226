/**
 * A step of some states that runs before it is known whether it counts. It reads the states and writes to slots that hold nothing,
 * without taking them: the pool's accounts do not show the step, and to drop it is to forget it. Submissions run in order, so a slot
 * that another state takes meanwhile is written after the step. If the step fails, only states that have taken its results are
 * invalid.
 */
import type { Plan } from "../device/plan.ts";
import { hasEncoded, ignoreFailure, settle } from "../device/device.ts";
import type { Outcome } from "./content.ts";
import { makeStep, stepPass } from "./pool-step.ts";
import type { SlotLead, SlotLedger } from "./slot-ledger.ts";
import { holderOf, ledgerOf } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";

/** Holds no handles, so that those of abandoned sequences can be collected. */
export class StepAhead {
  /** The ticket of the step's submission. */
  readonly ticket: number;
  readonly #ledger: SlotLedger;
  readonly #leads: readonly SlotLead[];
  readonly #outcome: Outcome;

  private constructor(ledger: SlotLedger, leads: readonly SlotLead[], outcome: Outcome, ticket: number) {
    this.#ledger = ledger;
    this.#leads = leads;
    this.#outcome = outcome;
    this.ticket = ticket;
  }

  /**
   * Replays a plan that was recorded with a placeholder.
   *
   * @param handles one or more of one pool.
   * @returns undefined, and nothing has run, if there are too few unused slots, if a state can't be moved (it has no content, is in
   *   a step, or shares its slot), or if the submission would also have ops of others.
   */
  static run(handles: readonly StateHandle[], plan: Plan): StepAhead | undefined {
    const [{ pool }] = handles as [StateHandle, ...StateHandle[]];
    const ledger = ledgerOf(handles[0]!);
    if (pool.device[hasEncoded]) return undefined;
    pool.device[settle]();
    const leads = ledger.lead(handles.map(holderOf));
    if (leads === undefined) return undefined;
    const [readSlots, writeSlots] = [Int32Array.from(leads, ({ from }) => from), Int32Array.from(leads, ({ to }) => to)];
    // A step of no holders: only the replay sees its slots, and its end changes nothing.
    using step = makeStep(pool, ledger, [], { holders: [], readSlots, writeSlots, extraSlots: [], overwrites: false, open: true });
    const ticket = plan.run({ step });
    pool.device[ignoreFailure]();
    return new StepAhead(ledger, leads, stepPass(step)!.coverage.outcome, ticket);
  }

  /** Whether a state is still the one that the step read, and the slot that the step wrote is still unused. */
  canTake(i: number, handle: StateHandle): boolean {
    const lead = this.#leads[i]!;
    return lead.holder === holderOf(handle) && this.#ledger.canFollow(lead);
  }

  /** Makes the written state the handle's, after {@link canTake}. */
  take(i: number): void {
    this.#ledger.follow(this.#leads[i]!, this.#outcome);
  }
}
