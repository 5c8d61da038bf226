/**
 * The assignment of a pool's physical slots to states, without any tensor.
 *
 * Each holder (a logical state) has a slot with its content. Forks share a slot until they step. The ledger reserves as many
 * slots as a slot's holders can need when they step, so that a fork fails at once or never. In-place steps need no
 * slot: after every fork has stepped, n holders use n slots.
 *
 *     holders of slot p   refs[p]
 *     of these, away      away[p]    their open step writes to another slot, which becomes theirs when it is finished
 *     reserved            max(0, refs[p] − away[p] − 1)    one holder can keep the slot, the others must leave it
 */
import { BoundsError, GatedDeltaError } from "../errors.ts";
import { Outcome, lostContent, soundContent } from "./content.ts";
import { expectIdle, expectNext, expectUsable, stillRead, tooFew } from "./ledger-entries.ts";
import type { Holder, LedgerStep, LedgerTrial, SlotArrays, SlotLead } from "./ledger-entries.ts";

export type { Holder, LedgerStep, LedgerTrial, SlotArrays, SlotLead };

/** New arrays for the slots of a step. */
function slotArrays(holders: number): SlotArrays {
  return { readSlots: new Int32Array(holders), writeSlots: new Int32Array(holders) };
}

/** Accounts for `capacity` slots. A failing call changes nothing. */
export class SlotLedger {
  readonly capacity: number;
  /** Slots that hold nothing, reserved ones included. */
  readonly #unused: number[];
  readonly #refs: Int32Array;
  readonly #away: Int32Array;
  readonly #reserved: Int32Array;
  /** How often each slot was taken. */
  readonly #taken: number[];
  #totalReserved = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#unused = Array.from({ length: capacity }, (_, i) => capacity - 1 - i);
    this.#refs = new Int32Array(capacity);
    this.#away = new Int32Array(capacity);
    this.#reserved = new Int32Array(capacity);
    this.#taken = Array<number>(capacity).fill(0);
  }

  /** Number of slots that are neither in use nor reserved. */
  get free(): number {
    return this.#unused.length - this.#totalReserved;
  }

  /** A new holder, which reads as zeros until its first step. */
  allocate(op: string): Holder {
    this.#expectFree(op);
    return this.#freshHolder();
  }

  /** A new holder with content, which the caller writes into the holder's slot. */
  allocateFilled(op: string): Holder {
    const holder = this.allocate(op);
    holder.fresh = false;
    return holder;
  }

  /** The slot of a holder's content; −1 for zeros. Throws during a step, which is about to change the content. */
  slotToRead(op: string, holder: Holder, argument: string): number {
    expectUsable(op, holder, argument);
    return holder.fresh ? -1 : holder.slot;
  }

  /** Whether others hold the same slot. */
  isShared(holder: Holder): boolean {
    return this.#refs[holder.slot]! > 1;
  }

  /** Whether releasing a holder would free a slot: its own or a reserved one. */
  givesSlot(holder: Holder): boolean {
    const refs = this.#refs[holder.slot]!;
    return refs === 1 || this.#reservedFor(refs - 1, this.#away[holder.slot]!) < this.#reserved[holder.slot]!;
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

  /** Ends a holder; its content stays while others hold it. */
  release(op: string, holder: Holder): void {
    expectIdle(op, holder);
    holder.live = false;
    this.#leave(holder.slot);
  }

  /** Makes a holder read as zeros. */
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
   * @param undoable whether content must survive until the step is finished, so that nothing is written in place.
   * @param extras for each holder, the number of slots for checkpoints.
   * @param arrays memory for the slots. @default new arrays
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
        expectNext(op, holders, i);
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
        this.#restore(step, i);
        throw error;
      }
    }
    const extra = extras.reduce((sum, count) => sum + count, 0);
    if (extra > this.free) {
      const { free } = this;
      this.#restore(step, holders.length);
      throw tooFew(op, "checkpoints", extra, free);
    }
    step.extraSlots = extras.map((count) => Array.from({ length: count }, () => this.#take()));
    return step;
  }

  /**
   * Ends a step: the written states become the content of its holders.
   *
   * @returns for each holder of the step, the holders of its checkpoints.
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

  /**
   * Undoes a step or trial: everything is as before {@link begin} or {@link beginTrial}.
   *
   * @param lost why states that the step overwrites in place are lost; undefined if nothing was written. In a full pool a
   *   shared slot can be overwritten; then all its holders are in the step, and lose their state.
   */
  undo(pass: LedgerStep | LedgerTrial, lost?: Error): void {
    if ("choices" in pass) return this.finishTrial(pass, pass.holders.map(() => 0), new Outcome());
    this.#unused.push(...pass.extraSlots.flat());
    this.#restore(pass, pass.holders.length);
    if (lost === undefined) return;
    const overwritten = new Set(pass.holders.flatMap(({ fresh, slot }, i) => (!fresh && pass.writeSlots[i] === slot ? [slot] : [])));
    for (const holder of pass.holders) if (!holder.fresh && overwritten.has(holder.slot)) holder.content = lostContent(lost);
  }

  /** Opens a trial with `counts[i]` slots for holder i. */
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
        expectNext(op, holders, i);
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

  /** Ends a trial: moves each holder to its choice `chosen[i]`, counted from 1; 0 keeps its slot. */
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

  /**
   * Chooses slots that a step of some holders may write before it counts, without taking them; undefined if there are too few, or
   * a holder shares its slot, has none, or is in a step.
   */
  lead(holders: readonly Holder[]): SlotLead[] | undefined {
    if (this.#unused.length < holders.length) return undefined;
    if (!holders.every((holder) => this.#leads(holder))) return undefined;
    // Slots are taken from the end of the list, so those at its beginning stay unused the longest.
    return holders.map((holder, i) => {
      const to = this.#unused[i]!;
      return { holder, from: holder.slot, to, content: holder.content, taken: this.#taken[to]! };
    });
  }

  /** Whether a holder has the content that it had when its lead was chosen, and the slot was not taken since. */
  canFollow({ holder, content, from, to, taken }: SlotLead): boolean {
    return this.#leads(holder) && holder.slot === from && holder.content === content && this.#refs[to] === 0 &&
      this.#taken[to] === taken && this.#unused.includes(to);
  }

  /** Moves a holder to the slot of its lead, which was written meanwhile. Its old slot becomes unused instead. */
  follow({ holder, from, to, content }: SlotLead, outcome: Outcome): void {
    this.#unused[this.#unused.indexOf(to)] = from;
    this.#taken[to]!++;
    this.#refs[from] = 0;
    this.#refs[to] = 1;
    holder.slot = to;
    holder.content = outcome.contentFrom(content);
  }

  #leads({ live, fresh, step, slot, content }: Holder): boolean {
    return live && !fresh && step === undefined && this.#refs[slot] === 1 && content.failure === undefined;
  }

  /** Returns the first `count` holders of a step to their slots. */
  #restore(step: LedgerStep, count: number): void {
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

  /** Whether a holder with content steps in place; throws if it can neither do so nor get another slot. */
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
    // The pool is full. Ops read everything before they write, so a slot that only this step reads may be overwritten.
    const others = step.holders.filter((other) => other !== holder && other.live && other.slot === slot);
    if (others.length === this.#refs[slot]! - 1) return true;
    throw stillRead(op);
  }

  /** Whether a holder of a slot can get another one, reserved or free. */
  #canPart(slot: number): boolean {
    return this.#reserved[slot]! > 0 || this.free > 0;
  }

  #freshHolder(): Holder {
    const slot = this.#take();
    this.#refs[slot] = 1;
    return { slot, fresh: true, content: soundContent(), step: undefined, live: true };
  }

  #take(): number {
    const slot = this.#unused.pop()!;
    this.#taken[slot]!++;
    return slot;
  }

  #leave(slot: number): void {
    if (--this.#refs[slot]! === 0) this.#unused.push(slot);
    this.#settle(slot);
  }

  /** Reserves the slots that the holders of a slot can need. */
  #settle(slot: number): void {
    const needed = this.#reservedFor(this.#refs[slot]!, this.#away[slot]!);
    this.#totalReserved += needed - this.#reserved[slot]!;
    this.#reserved[slot] = needed;
  }

  /** One holder of a slot can keep it, and holders that are away have another one: the others need a slot each. */
  #reservedFor(refs: number, away: number): number {
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
