/** The end of a trial without choices: a step of its holders, which begins when the accepted tokens are known. */
import type { Outcome } from "./content.ts";
import type { LedgerTrial, SlotLedger } from "./slot-ledger.ts";

/**
 * Ends a trial with a step of its holders, in which `write` runs. They have no other open step, so each gets a slot to
 * write: its own or a reserved one. If anything throws, the trial is unchanged.
 */
export function finishByStep(
  op: string,
  ledger: SlotLedger,
  trial: LedgerTrial,
  outcome: Outcome,
  write: (writeSlots: Int32Array) => void,
): void {
  const enter = (entry: LedgerTrial | undefined): void => {
    for (const holder of trial.holders) holder.step = entry;
  };
  enter(undefined);
  try {
    const step = ledger.begin(op, trial.holders, false);
    try {
      write(step.writeSlots);
    } catch (error) {
      ledger.undo(step);
      throw error;
    }
    trial.open = false;
    ledger.finish(step, outcome);
  } catch (error) {
    enter(trial);
    throw error;
  }
}
