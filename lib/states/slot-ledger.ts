/**
 * Which physical slot of a pool holds what: the bookkeeping behind StatePool, without any tensor.
 *
 * Each holder (a logical state) has a slot with its content. Holders that were forked from one another share it until
 * they step. As many slots are set aside for them as they can need when they part, so that a fork fails at once or
 * never. In-place steps cost no slot: with every fork stepped, n holders use n slots.
 *
 *     holders of slot p   refs[p]
 *     of these, away      away[p]    an open step of theirs writes to another slot, which is their own when it is done
 *     set aside           max(0, refs[p] − away[p] − 1)    one can stay where it is, the others must leave
 */
import { BoundsError, GatedDeltaError } from "../errors.ts";
import { Outcome, lostContent, soundContent } from "./content.ts";
import { expectIdle, expectUsable, stillRead, tooFew } from "./ledger-entries.ts";
import type { Holder, LedgerStep, LedgerTrial, SlotArrays } from "./ledger-entries.ts";

export type { Holder, LedgerStep, LedgerTrial, SlotArrays };

/** Memory for the slots of a step over so many holders. */
function slotArrays(holders: number): SlotArrays {
  return { readSlots: new Int32Array(holders), writeSlots: new Int32Array(holders) };
}

/** Keeps account of `capacity` slots. A failing call changes nothing. */
export class SlotLedger {
  readonly capacity: number;
  /** Slots that hold nothing; some of them are set aside. */
  readonly #unused: number[];
  readonly #refs: Int32Array;
  readonly #away: Int32Array;
  readonly #aside: Int32Array;
  #totalAside = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#unused = Array.from({ length: capacity }, (_, i) => capacity - 1 - i);
    this.#refs = new Int32Array(capacity);
    this.#away = new Int32Array(capacity);
    this.#aside = new Int32Array(capacity);
  }

  /** Slots that a new holder or fork can have. */
  get free(): number {
    return this.#unused.length - this.#totalAside;
  }

  /** A new holder, which reads as zeros until its first step. */
  allocate(op: string): Holder {
    this.#expectFree(op);
    return this.#freshHolder();
  }

  /** A new holder whose slot the caller fills: it has content from now on. */
  allocateFilled(op: string): Holder {
    const holder = this.allocate(op);
    holder.fresh = false;
    return holder;
  }

  /** The slot to read a holder's content from; −1 for zeros. Not during a step: what it has then is about to change. */
  slotToRead(op: string, holder: Holder, argument: string): number {
    expectUsable(op, holder, argument);
    return holder.fresh ? -1 : holder.slot;
  }

  /** Whether others hold the same slot. */
  isShared(holder: Holder): boolean {
    return this.#refs[holder.slot]! > 1;
  }

  /** Whether ending a holder would leave one more slot free: its own, or one that is set aside for it. */
  givesSlot(holder: Holder): boolean {
    const refs = this.#refs[holder.slot]!;
    return refs === 1 || this.#asideFor(refs - 1, this.#away[holder.slot]!) < this.#aside[holder.slot]!;
  }

  /** A second holder of the same content. */
  fork(op: string, holder: Holder): Holder {
    expectUsable(op, holder);
    this.#expectFree(op);
    if (holder.fresh) return this.#freshHolder();
    this.#refs[holder.slot]!++;
    this.#settle(holder.slot);
    return { slot: holder.slot, fresh: false, content: holder.content, step: undefined, live: true };
  }

  /** Ends a holder; the content stays as long as others hold it. */
  release(op: string, holder: Holder): void {
    expectIdle(op, holder);
    holder.live = false;
    this.#leave(holder.slot);
  }

  /** Makes a holder read as zeros again. */
  zero(op: string, holder: Holder): void {
    expectIdle(op, holder);
    if (this.#refs[holder.slot]! > 1) {
      if (!this.#canPart(holder.slot)) throw stillRead(op);
      this.#leave(holder.slot);
      holder.slot = this.#take();
      this.#refs[holder.slot] = 1;
    }
    holder.fresh = true;
    holder.content = soundContent();
  }

  /**
   * Opens a step.
   *
   * @param undoable whether content must survive until the step is done: then nothing is written in place.
   * @param extras for each holder, how many slots more to take, for states on the way.
   * @param arrays where the slots go; new ones where it is absent.
   */
  begin(op: string, holders: readonly Holder[], undoable: boolean, extras: readonly number[] = [], arrays?: SlotArrays): LedgerStep {
    const { readSlots, writeSlots } = arrays ?? slotArrays(holders.length);
    const step: { -readonly [K in keyof LedgerStep]: LedgerStep[K] } = {
      holders,
      readSlots,
      writeSlots,
      extraSlots: [],
      overwrites: false,
      open: true,
    };
    for (const [i, holder] of holders.entries()) {
      try {
        expectUsable(op, holder, `handles[${i}]`);
        const { slot, fresh } = holder;
        readSlots[i] = fresh ? -1 : slot;
        const inPlace = fresh || this.#staysInPlace(op, step, holder, undoable);
        if (inPlace) {
          writeSlots[i] = slot;
          step.overwrites ||= !fresh;
        } else {
          writeSlots[i] = this.#take();
          this.#away[slot]!++;
          this.#settle(slot);
        }
        holder.step = step;
      } catch (error) {
        this.#undo(step, i);
        throw error;
      }
    }
    const extra = extras.reduce((sum, count) => sum + count, 0);
    if (extra > this.free) {
      const { free } = this;
      this.#undo(step, holders.length);
      throw tooFew(op, "checkpoints", extra, free);
    }
    step.extraSlots = extras.map((count) => Array.from({ length: count }, () => this.#take()));
    return step;
  }

  /**
   * What was written is each holder's content from now on.
   *
   * @returns holders of the extra slots, for each holder of the step.
   */
  finish(step: LedgerStep, outcome: Outcome): Holder[][] {
    step.open = false;
    const sources = step.holders.map(({ content }) => content);
    for (const [i, holder] of step.holders.entries()) {
      holder.step = undefined;
      holder.fresh = false;
      holder.content = outcome.contentFrom(sources[i]!);
      const from = holder.slot;
      const to = step.writeSlots[i]!;
      if (to === from) continue;
      holder.slot = to;
      this.#refs[to] = 1;
      this.#away[from]!--;
      this.#leave(from);
    }
    return step.extraSlots.map((slots, i) => slots.map((slot) => {
      this.#refs[slot] = 1;
      return { slot, fresh: false, content: outcome.contentFrom(sources[i]!), step: undefined, live: true };
    }));
  }

  /** Everything is as before {@link begin} or {@link beginTrial}. */
  abort(step: LedgerStep | LedgerTrial): void {
    if ("choices" in step) {
      this.finishTrial(step, step.holders.map(() => 0), new Outcome());
    } else {
      this.#unused.push(...step.extraSlots.flat());
      this.#undo(step, step.holders.length);
    }
  }

  /**
   * {@link abort} of a step whose work has run: states whose slot it wrote are lost. In a full pool the last of a slot's
   * holders steps in place, and those that shared the slot with it are in the same step: they go back to it.
   */
  abandon(step: LedgerStep, failure: Error): void {
    this.abort(step);
    const overwritten = new Set(step.holders.flatMap(({ fresh, slot }, i) => (!fresh && step.writeSlots[i] === slot ? [slot] : [])));
    for (const holder of step.holders) if (!holder.fresh && overwritten.has(holder.slot)) holder.content = lostContent(failure);
  }

  /** Opens a trial: `counts[i]` slots for holder i. */
  beginTrial(op: string, holders: readonly Holder[], counts: readonly number[]): LedgerTrial {
    const needed = counts.reduce((sum, count) => sum + count, 0);
    if (needed > this.free) throw tooFew(op, "counts", needed, this.free);
    const trial = {
      holders,
      readSlots: new Int32Array(holders.length),
      choices: counts.map((count) => Array.from({ length: count }, () => this.#take())),
      open: true,
    };
    for (const [i, holder] of holders.entries()) {
      try {
        expectUsable(op, holder, `handles[${i}]`);
      } catch (error) {
        for (const begun of holders.slice(0, i)) begun.step = undefined;
        for (const slots of trial.choices) this.#unused.push(...slots);
        throw error;
      }
      trial.readSlots[i] = holder.fresh ? -1 : holder.slot;
      holder.step = trial;
    }
    return trial;
  }

  /** Moves each holder to its choice `chosen[i]`, counted from 1; 0 leaves it. */
  finishTrial(trial: LedgerTrial, chosen: readonly number[], outcome: Outcome): void {
    trial.open = false;
    for (const [i, holder] of trial.holders.entries()) {
      holder.step = undefined;
      const slots = trial.choices[i]!;
      const to = slots[chosen[i]! - 1];
      for (const slot of slots) if (slot !== to) this.#unused.push(slot);
      if (to === undefined) continue;
      this.#leave(holder.slot);
      holder.slot = to;
      holder.fresh = false;
      holder.content = outcome.contentFrom(holder.content);
      this.#refs[to] = 1;
    }
  }

  #undo(step: LedgerStep, count: number): void {
    step.open = false;
    for (let i = count - 1; i >= 0; i--) {
      const holder = step.holders[i]!;
      holder.step = undefined;
      const to = step.writeSlots[i]!;
      if (to === holder.slot) continue;
      this.#unused.push(to);
      this.#away[holder.slot]!--;
      this.#settle(holder.slot);
    }
  }

  /** Whether a holder with content steps in place; throws where it can neither do that nor get another slot. */
  #staysInPlace(op: string, step: LedgerStep, holder: Holder, undoable: boolean): boolean {
    const { slot } = holder;
    const alone = this.#refs[slot] === 1;
    if (alone && !undoable) return true;
    if (this.#canPart(slot)) return false;
    if (alone || undoable) {
      throw new BoundsError({
        op,
        argument: "handles",
        expected: "a free slot for each state of an undoable step",
        received: `a pool whose ${this.capacity} slots are in use`,
      });
    }
    // The last one to leave a full pool's slot. Ops read everything before they write, so it may be overwritten when
    // nobody but this step reads it.
    const others = step.holders.filter((other) => other !== holder && other.live && other.slot === slot);
    if (others.length === this.#refs[slot]! - 1) return true;
    throw stillRead(op);
  }

  /** Whether a holder of a slot can have another slot: one that is set aside for it, or one that is free. */
  #canPart(slot: number): boolean {
    return this.#aside[slot]! > 0 || this.free > 0;
  }

  #freshHolder(): Holder {
    const slot = this.#take();
    this.#refs[slot] = 1;
    return { slot, fresh: true, content: soundContent(), step: undefined, live: true };
  }

  #take(): number {
    return this.#unused.pop()!;
  }

  #leave(slot: number): void {
    if (--this.#refs[slot]! === 0) this.#unused.push(slot);
    this.#settle(slot);
  }

  /** Sets aside what the holders of a slot can need. */
  #settle(slot: number): void {
    const needed = this.#asideFor(this.#refs[slot]!, this.#away[slot]!);
    this.#totalAside += needed - this.#aside[slot]!;
    this.#aside[slot] = needed;
  }

  /** Of a slot's holders one can stay where it is, and those that are away have a slot: the others must leave. */
  #asideFor(refs: number, away: number): number {
    return Math.max(0, refs - away - 1);
  }

  #expectFree(op: string): void {
    if (this.free > 0) return;
    throw new GatedDeltaError("out-of-memory", {
      op,
      expected: "a free slot",
      received: `a pool whose ${this.capacity} slots are in use`,
    });
  }
}
