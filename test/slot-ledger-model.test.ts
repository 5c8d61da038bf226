/** The accounts of slots against a plain model: every history of calls, with what each holder must contain. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Outcome } from "../lib/states/content.ts";
import { SlotLedger } from "../lib/states/slot-ledger.ts";
import type { Holder, LedgerStep } from "../lib/states/slot-ledger.ts";
import { thrownBy } from "./support/devices.ts";

const op = "test";

/** The expected contents of holders and the contents of slots, as distinct numbers. */
class Model {
  readonly ledger: SlotLedger;
  readonly #slots: number[];
  readonly holders: { readonly holder: Holder; content: number }[] = [];
  readonly steps: {
    readonly entry: LedgerStep;
    readonly members: number[];
    readonly written: number[];
    ran: boolean;
  }[] = [];
  #next = 1;

  constructor(capacity: number) {
    this.ledger = new SlotLedger(capacity);
    this.#slots = Array(capacity).fill(NaN); // memory before anything is stored
  }

  get live() {
    return this.holders.filter(({ holder }) => holder.live);
  }

  get idle() {
    return this.live.filter(({ holder }) => holder.step === undefined);
  }

  contentOf(holder: Holder): number {
    return holder.fresh ? 0 : this.#slots[holder.slot]!;
  }

  allocate(): void {
    this.holders.push({ holder: this.ledger.allocate(op), content: 0 });
  }

  fork(from: { holder: Holder; content: number }): void {
    this.holders.push({ holder: this.ledger.fork(op, from.holder), content: from.content });
  }

  begin(members: readonly { holder: Holder; content: number }[], undoable: boolean): void {
    const before = members.map(({ holder }) => this.contentOf(holder));
    const entry = this.ledger.begin(
      op,
      members.map(({ holder }) => holder),
      undoable,
    );
    expect([...entry.readSlots].map((slot) => (slot < 0 ? 0 : this.#slots[slot]!))).toEqual(before);
    expect(new Set(entry.writeSlots).size).toBe(members.length);
    for (const [i, { holder }] of members.entries()) {
      // No holder outside the step has or reads a slot that it writes.
      const others = this.live.filter((other) => !members.includes(other as never));
      for (const other of others) expect(other.holder.slot).not.toBe(entry.writeSlots[i]!);
      for (const { entry: open } of this.steps) {
        expect(open.readSlots.includes(entry.writeSlots[i]!) || open.writeSlots.includes(entry.writeSlots[i]!)).toBe(
          false,
        );
      }
      expect(holder.step).toBe(entry);
    }
    const written = members.map(() => this.#next++);
    this.steps.push({
      entry,
      members: members.map((member) => this.holders.indexOf(member as never)),
      written,
      ran: false,
    });
  }

  /** Runs a step's ops. */
  run(step: Model["steps"][number]): void {
    for (const [i, slot] of step.entry.writeSlots.entries()) this.#slots[slot] = step.written[i]!;
    step.ran = true;
  }

  finish(step: Model["steps"][number]): void {
    if (!step.ran) this.run(step);
    this.ledger.finish(step.entry, new Outcome());
    for (const [i, member] of step.members.entries()) this.holders[member]!.content = step.written[i]!;
    this.steps.splice(this.steps.indexOf(step), 1);
  }

  abort(step: Model["steps"][number]): void {
    this.ledger.undo(step.entry);
    this.steps.splice(this.steps.indexOf(step), 1);
  }

  check(): void {
    for (const { holder, content } of this.idle) expect(this.contentOf(holder)).toBe(content);
    expect(this.ledger.free).toBeGreaterThanOrEqual(0);
    if (this.steps.length === 0) expect(this.ledger.free).toBe(this.ledger.capacity - this.live.length);
  }
}

describe("slots against a plain model", () => {
  test("any history keeps every content, wastes no slot, and fails only when it must", () => {
    const command = fc.record({
      kind: fc.constantFrom(
        "allocate",
        "fork",
        "fork",
        "fork",
        "fork",
        "free",
        "zero",
        "begin",
        "begin",
        "run",
        "finish",
        "finish",
        "abort",
        "one",
        "one",
      ),
      a: fc.nat(1000),
      b: fc.nat(1000),
      undoable: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 9 }),
        fc.array(command, { minLength: 40, maxLength: 120 }),
        (capacity, commands) => {
          const model = new Model(capacity);
          const pick = <T>(items: readonly T[], by: number): T | undefined => items[by % Math.max(items.length, 1)];
          const quiet = () => model.steps.length === 0;
          for (const { kind, a, b, undoable } of commands) {
            const holder = pick(model.idle, a);
            const step = pick(model.steps, a);
            const { free } = model.ledger;
            if (kind === "allocate") {
              if (free > 0) model.allocate();
              else expect(thrownBy(() => model.allocate()).code).toBe("out-of-memory");
            } else if (kind === "fork" && holder) {
              if (free > 0) model.fork(holder);
              else expect(thrownBy(() => model.fork(holder)).code).toBe("out-of-memory");
            } else if (kind === "free" && holder) {
              model.ledger.release(op, holder.holder);
            } else if (kind === "zero" && holder) {
              const zero = () => {
                model.ledger.zero(op, holder.holder);
                holder.content = 0;
              };
              if (quiet()) zero();
              else attempt(zero, ["state"]);
            } else if (kind === "begin" && holder) {
              const members = model.idle.filter((_, i) => (b >> (i % 10)) & 1 || i === a % model.idle.length);
              const begin = () => model.begin(members, undoable);
              // Alone, a step that may write in place never fails: what it can need was set aside.
              if (quiet() && !undoable) begin();
              else attempt(begin, undoable ? ["state", "range"] : ["state"]);
            } else if (kind === "run" && step && !step.entry.overwrites) {
              model.run(step);
            } else if (kind === "finish" && step) {
              model.finish(step);
            } else if (kind === "abort" && step && !(step.ran && step.entry.overwrites)) {
              model.abort(step);
            } else if (kind === "one" && holder && quiet()) {
              // Of states that share, one at a time steps without fail too.
              model.begin([holder], false);
              model.finish(model.steps[0]!);
            }
            model.check();
          }
          while (model.steps.length > 0) model.abort(model.steps.find(({ ran, entry }) => !(ran && entry.overwrites))!);
          for (const { holder } of model.live) model.ledger.release(op, holder);
          expect(model.ledger.free).toBe(capacity);
        },
      ),
      { numRuns: 500 },
    );
  });
});

/** Does something that may be refused, with nothing but these codes. */
function attempt(run: () => void, codes: readonly string[]): void {
  try {
    run();
  } catch (error) {
    expect(codes).toContain((error as { code?: string }).code!);
  }
}
