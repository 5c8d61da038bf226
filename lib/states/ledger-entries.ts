/** What a pool's slot ledger keeps: states, the passes that they are in, and the errors about them. */
import { BoundsError, DisposedError, GatedDeltaError } from "../errors.ts";
import type { Content } from "./content.ts";

/** A logical state. Its fields are the ledger's. */
export interface Holder {
  /** Where its content is, or goes when it has none yet. */
  slot: number;
  /** Nothing was stepped into it yet: it reads as zeros, whatever its slot holds. */
  fresh: boolean;
  /** Whether what its slot holds is what was computed. */
  content: Content;
  step: LedgerStep | LedgerTrial | undefined;
  live: boolean;
}

/** Memory for the slots of a step, one of each a holder. */
export interface SlotArrays {
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;
}

/** One forward pass over some holders. */
export interface LedgerStep {
  readonly holders: readonly Holder[];
  /** The slot that each holder's state is read from; −1 for zeros. */
  readonly readSlots: Int32Array;
  /** The slot that each holder's next state goes to; all distinct. */
  readonly writeSlots: Int32Array;
  /** For each holder, slots for states on the way, which become holders of their own when the step is done. */
  readonly extraSlots: readonly (readonly number[])[];
  /** Whether a write replaces content that aborting would have to bring back. */
  readonly overwrites: boolean;
  open: boolean;
  /** Called where the engine has collected its handles before it ended. */
  collected?: () => void;
}

/** A forward pass whose end is chosen later: each holder moves to one of its slots, or stays where it is. */
export interface LedgerTrial {
  readonly holders: readonly Holder[];
  /** The slot that each holder's state is read from; −1 for zeros. */
  readonly readSlots: Int32Array;
  /** The slots that each holder can move to. */
  readonly choices: readonly (readonly number[])[];
  open: boolean;
  /** Called where the engine has collected its handles before it ended. */
  collected?: () => void;
}

export function expectIdle(op: string, holder: Holder, argument?: string): void {
  if (!holder.live)
    throw new DisposedError({ op, argument, expected: "a state that is not freed", received: "a freed one" });
  if (holder.step === undefined) return;
  const message = "this state has an open step: call its done() or abort() first";
  throw new GatedDeltaError("state", { op, argument, message });
}

/** Refuses a holder whose content was lost, too. */
export function expectUsable(op: string, holder: Holder, argument?: string): void {
  expectIdle(op, holder, argument);
  const { failure } = holder.content;
  if (failure === undefined) return;
  const message = `this state is invalid, since the work that wrote it failed (${failure.message}): free it, or make it zeros with pool.zero`;
  throw new GatedDeltaError("state", { op, argument, message, cause: failure });
}

export function tooFew(op: string, argument: string, needed: number, free: number): BoundsError {
  return new BoundsError({ op, argument, expected: `at most ${free} slots, as many as are free`, received: `${needed}` });
}

export function stillRead(op: string): GatedDeltaError {
  const message =
    "open steps of this state's forks still read it, and no slot is free: call their done() or abort() first";
  return new GatedDeltaError("state", { op, message });
}
