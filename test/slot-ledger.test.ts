import { describe, expect, test } from "bun:test";
import { Outcome } from "../lib/states/content.ts";
import { SlotLedger } from "../lib/states/slot-ledger.ts";
import type { Holder } from "../lib/states/slot-ledger.ts";
import { thrownBy } from "./support/devices.ts";

const op = "test";

/** A holder whose content was written once, and which therefore has a slot of its own. */
function stepped(ledger: SlotLedger, holder = ledger.allocate(op)): Holder {
  ledger.finish(ledger.begin(op, [holder], false), new Outcome());
  return holder;
}

describe("slots", () => {
  test("a new holder reads zeros and writes a slot of its own, and from then on works in place", () => {
    const ledger = new SlotLedger(2);
    const a = ledger.allocate(op);
    const b = ledger.allocate(op);
    expect(thrownBy(() => ledger.allocate(op)).code).toBe("out-of-memory");
    const first = ledger.begin(op, [a, b], false);
    expect([...first.readSlots]).toEqual([-1, -1]);
    expect([...first.writeSlots].sort()).toEqual([0, 1]);
    expect(first.overwrites).toBe(false);
    ledger.finish(first, new Outcome());
    const second = ledger.begin(op, [b, a], false);
    expect([...second.readSlots]).toEqual([...first.writeSlots].reverse());
    expect([...second.writeSlots]).toEqual([...second.readSlots]);
    expect(second.overwrites).toBe(true);
    ledger.finish(second, new Outcome());
    expect(ledger.free).toBe(0);
  });

  test("a fork shares until one of the two steps, whichever it is", () => {
    for (const who of [0, 1]) {
      const ledger = new SlotLedger(2);
      const parent = stepped(ledger);
      const child = ledger.fork(op, parent);
      expect([child.slot, ledger.free]).toEqual([parent.slot, 0]);
      const [first, second] = who ? [child, parent] : [parent, child];
      const step = ledger.begin(op, [first], false);
      expect(step.readSlots[0]).toBe(second.slot);
      expect(step.writeSlots[0]).not.toBe(second.slot);
      ledger.finish(step, new Outcome());
      const other = ledger.begin(op, [second], false);
      expect(other.writeSlots[0]).toBe(other.readSlots[0]!);
      ledger.finish(other, new Outcome());
      expect(parent.slot).not.toBe(child.slot);
    }
  });

  test("parent and children step in one batch", () => {
    for (const capacity of [4, 5]) {
      const ledger = new SlotLedger(capacity);
      const parent = stepped(ledger);
      const children = [ledger.fork(op, parent), ledger.fork(op, parent), ledger.fork(op, parent)];
      const shared = parent.slot;
      const step = ledger.begin(op, [parent, ...children], false);
      expect(new Set(step.writeSlots).size).toBe(4);
      expect([...step.readSlots]).toEqual(Array(4).fill(shared));
      // With a spare slot, none of them overwrites the slot that the others read; in a full pool, the last one does.
      expect(step.writeSlots.includes(shared)).toBe(capacity === 4);
      expect(step.overwrites).toBe(capacity === 4);
      ledger.finish(step, new Outcome());
      expect(ledger.free).toBe(capacity - 4);
    }
  });

  test("the parent may go first", () => {
    const ledger = new SlotLedger(3);
    const parent = stepped(ledger);
    const children = [ledger.fork(op, parent), ledger.fork(op, parent)];
    ledger.release(op, parent);
    expect(ledger.free).toBe(1);
    for (const child of children) stepped(ledger, child);
    for (const child of children) ledger.release(op, child);
    expect(ledger.free).toBe(3);
  });

  test("separate steps of two sharers do not overwrite what the other reads", () => {
    const ledger = new SlotLedger(2);
    const parent = stepped(ledger);
    const child = ledger.fork(op, parent);
    const first = ledger.begin(op, [parent], false);
    // The pool is full: the child has no third slot to write to while the parent's step reads.
    expect(thrownBy(() => ledger.begin(op, [child], false)).code).toBe("state");
    expect(thrownBy(() => ledger.zero(op, child)).code).toBe("state");
    ledger.finish(first, new Outcome());
    stepped(ledger, child);
  });

  test("an undoable step writes other slots than it reads", () => {
    const ledger = new SlotLedger(3);
    const [a, b] = [stepped(ledger), stepped(ledger)];
    expect(thrownBy(() => ledger.begin(op, [a, b], true)).code).toBe("range");
    expect([a.step, b.step, ledger.free]).toEqual([undefined, undefined, 1]);
    const step = ledger.begin(op, [a], true);
    expect(step.writeSlots[0]).not.toBe(a.slot);
    expect([step.overwrites, ledger.free]).toEqual([false, 0]);
    const kept = a.slot;
    ledger.undo(step);
    expect([a.slot, ledger.free]).toEqual([kept, 1]);
    ledger.finish(ledger.begin(op, [a], true), new Outcome());
    expect(a.slot).not.toBe(kept);
    expect(ledger.free).toBe(1);
  });

  test("a new holder needs no second slot to be undoable", () => {
    const ledger = new SlotLedger(1);
    const a = ledger.allocate(op);
    ledger.undo(ledger.begin(op, [a], true));
    const step = ledger.begin(op, [a], true);
    expect([step.readSlots[0], step.writeSlots[0]]).toEqual([-1, 0]);
  });

  test("what the ledger refuses", () => {
    const ledger = new SlotLedger(3);
    const a = stepped(ledger);
    const step = ledger.begin(op, [a], false);
    for (const use of [
      () => ledger.fork(op, a),
      () => ledger.release(op, a),
      () => ledger.zero(op, a),
      () => ledger.begin(op, [a], false),
    ]) {
      expect(thrownBy(use).code).toBe("state");
    }
    ledger.undo(step);
    const b = ledger.allocate(op);
    const twice = thrownBy(() => ledger.begin(op, [b, a, b], false));
    expect([twice.code, twice.argument]).toEqual(["state", "handles[2]"]);
    expect([a.step, b.step]).toEqual([undefined, undefined]);
    ledger.release(op, a);
    for (const use of [
      () => ledger.fork(op, a),
      () => ledger.release(op, a),
      () => ledger.zero(op, a),
      () => ledger.begin(op, [b, a], false),
    ]) {
      expect(thrownBy(use).code).toBe("disposed");
    }
    expect(b.step).toBeUndefined();
  });
});
