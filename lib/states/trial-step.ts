/** The end of a trial without choices: its holders go on by a step, which begins when it is known what to write. */
import type { Outcome } from "./content.ts";
import type { LedgerTrial, SlotLedger } from "./slot-ledger.ts";

/**
 * Ends a trial by a step of its holders, in which `write` runs. No other step of theirs is open meanwhile, so that each can
 * have a slot to write: its own, or one that is set aside for it. Where anything throws the trial is as it was.
 */
export function finishByStep(op: string, ledger: SlotLedger, trial: LedgerTrial, outcome: Outcome, write: (writeSlots: Int32Array) => void): void {
  const enter = (entry: LedgerTrial | undefined): void => {
    for (const holder of trial.holders) holder.step = entry;
  };
  enter(undefined);
  try {
    const step = ledger.begin(op, trial.holders, false);
    try {
      write(step.writeSlots);
    } catch (error) {
      ledger.abort(step);
      throw error;
    }
    trial.open = false;
    ledger.finish(step, outcome);
  } catch (error) {
    enter(trial);
    throw error;
  }
}
