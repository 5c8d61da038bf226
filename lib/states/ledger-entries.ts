/** Entries of a pool's slot ledger: states, the passes that they are in, and the errors about them. */
import { BoundsError, DisposedError, GatedDeltaError } from "../errors.ts";
import type { Content } from "./content.ts";

/** A logical state. Only the ledger changes its fields. */
export interface Holder {
  /** The slot for the content, assigned even before there is any. */
  slot: number;
  /** Whether no step has written the state yet: it reads as zeros, whatever its slot holds. */
  fresh: boolean;
  /** Whether its slot holds the computed state. */
  content: Content;
  step: LedgerStep | LedgerTrial | undefined;
  live: boolean;
}

/** The slots of a step, two for each holder. */
export interface SlotArrays {
  readonly readSlots: Int32Array;
  readonly writeSlots: Int32Array;
}

/** One forward pass over some holders. */
export interface LedgerStep {
  readonly holders: readonly Holder[];
  /** The slot that each holder's state is read from; −1 for zeros. */
  readonly readSlots: Int32Array;
  /** The slot that each holder's next state is written to; all distinct. */
  readonly writeSlots: Int32Array;
  /** For each holder, the slots of its checkpoints, which become holders themselves when the step is finished. */
  readonly extraSlots: readonly (readonly number[])[];
  /** Whether a write replaces content that undoing would have to restore. */
  readonly overwrites: boolean;
  open: boolean;
  /** Undoes the pass that it belongs to. Holds no handles, so that open passes of collected handles can be undone. */
  undo?: () => void;
}

/** A forward pass whose result is chosen later: each holder moves to one of its slots, or keeps its own. */
export interface LedgerTrial {
  readonly holders: readonly Holder[];
  /** The slot that each holder's state is read from; −1 for zeros. */
  readonly readSlots: Int32Array;
  /** The slots that each holder can move to. */
  readonly choices: readonly (readonly number[])[];
  open: boolean;
  /** Undoes the pass that it belongs to. Holds no handles, so that open passes of collected handles can be undone. */
  undo?: () => void;
}

/** A slot that a holder's next state is written to before it is known whether the step counts. */
export interface SlotLead {
  readonly holder: Holder;
  readonly from: number;
  /** This slot holds nothing, and is not taken until the holder moves there. */
  readonly to: number;
  /** The content that is read. */
  readonly content: Content;
  /** How often the slot had been taken. */
  readonly taken: number;
}

export function expectIdle(op: string, holder: Holder, argument?: string): void {
  if (!holder.live)
    throw new DisposedError({ op, argument, expected: "a state that is not freed", received: "a freed one" });
  if (holder.step === undefined) return;
  const message = "this state has an open step: call its done() or abort() first";
  throw new GatedDeltaError("state", { op, argument, message });
}

/** {@link expectIdle}, and throws for a holder whose content was lost. */
export function expectUsable(op: string, holder: Holder, argument?: string): void {
  expectIdle(op, holder, argument);
  const { failure } = holder.content;
  if (failure === undefined) return;
  const message = `this state is invalid because the work that wrote it failed (${failure.message}): free it, or zero it with pool.zero`;
  throw new GatedDeltaError("state", { op, argument, message, cause: failure });
}

/** {@link expectUsable} for the holder at `i` of a pass, which already has the holders before it. */
export function expectNext(op: string, holders: readonly Holder[], i: number): void {
  const holder = holders[i]!;
  const argument = `handles[${i}]`;
  const first = holder.step === undefined ? i : holders.indexOf(holder);
  if (first < i) throw new GatedDeltaError("state", { op, argument, expected: "each state once", received: `that of handles[${first}] again` });
  expectUsable(op, holder, argument);
}

export function tooFew(op: string, argument: string, needed: number, free: number): BoundsError {
  return new BoundsError({ op, argument, expected: `at most ${free} slots, the number of free ones`, received: `${needed}` });
}

export function stillRead(op: string): GatedDeltaError {
  const message =
    "open steps of this state's forks still read it, and no slot is free: call their done() or abort() first";
  return new GatedDeltaError("state", { op, message });
}
