/**
 * Faults planted into the library, each of which random programs must find: each acts as if the protection that it removes
 * were missing or wrong. They replace methods of the library's prototypes until they are disposed of.
 */
import { StatePool } from "../../lib/index.ts";
import type { Device } from "../../lib/index.ts";
import { admit, bind } from "../../lib/ops/layer-states.ts";
import type { BoundStates, LayerStates, StateUse } from "../../lib/ops/layer-states.ts";
import { Coverage } from "../../lib/states/coverage.ts";
import type { StatePass } from "../../lib/states/pass-states.ts";
import { SlotLedger } from "../../lib/states/slot-ledger.ts";
import { replace } from "../support/replace.ts";
import type { Method } from "../support/replace.ts";

/** The `states` of a step's layer, including the protected members. */
type StepLayer = LayerStates & { readonly pass: StatePass & { entry: { open: boolean } }; readonly layer: number };

/** The prototype of the result of `step.layer(i)`. */
function layerPrototype(device: Device): object {
  using pool = StatePool.create(device, { slots: 1, layers: 1, keyHeads: 1, valueHeads: 1, keyDim: 8, valueDim: 8, conv: false });
  using step = pool.step([pool.allocate()]);
  return Object.getPrototypeOf(step.layer(0)) as object;
}

/** Changes the states that an op of a step is given. */
function rebind(device: Device, change: (bound: BoundStates, use: StateUse, layer: StepLayer) => BoundStates): Disposable {
  return replace(layerPrototype(device), bind, (original) => function (this: StepLayer, use: StateUse) {
    return change((original as (this: StepLayer, use: StateUse) => BoundStates).call(this, use), use, this);
  } as Method);
}

/** Runs a method as if the step were open. */
function asIfOpen(original: Method): Method {
  return function (this: StepLayer, ...args: never[]) {
    const { entry } = this.pass;
    const { open } = entry;
    entry.open = true;
    try {
      return (original as (this: StepLayer, ...args: never[]) => unknown).apply(this, args);
    } finally {
      entry.open = open;
    }
  } as Method;
}

/** Each fault by its description, and a function that plants it. */
export const planted: Readonly<Record<string, (device: Device) => Disposable>> = {
  "wrong slot: the last sequence of layer 1 writes the slot next to its own": (device) =>
    rebind(device, (bound, { kinds }, { layer, pass }) => {
      if (layer !== 1 || !kinds.includes("state") || bound.writeSlots.length === 0) return bound;
      const writeSlots = bound.writeSlots.slice();
      const last = writeSlots.length - 1;
      const next = (writeSlots[last]! + 1) % pass.pool.capacity;
      if (!writeSlots.includes(next)) writeSlots[last] = next;
      return { ...bound, writeSlots };
    }),
  "wrong slot: the first sequence reads the slot next to its own": (device) =>
    rebind(device, (bound, _use, { pass }) => {
      const readSlots = bound.readSlots.slice();
      if (readSlots.length > 0 && readSlots[0]! >= 0) readSlots[0] = (readSlots[0]! + 1) % pass.pool.capacity;
      return { ...bound, readSlots };
    }),
  "stale step: ops of a step that is over are made and encoded": (device) => {
    const prototype = layerPrototype(device);
    const stack = new DisposableStack();
    stack.use(replace(prototype, bind, asIfOpen));
    stack.use(replace(prototype, admit, asIfOpen));
    return stack;
  },
  "lost write: the convolution's op of layer 1 stores nothing and counts as written": (device) =>
    rebind(device, (bound, { kinds }, { layer }) =>
      layer === 1 && kinds.length === 1 && kinds[0] === "conv" ? { ...bound, writeSlots: bound.writeSlots.slice().fill(-1) } : bound),
  "lost write: checkpoints are not stored": (device) => rebind(device, (bound) => ({ ...bound, checkpoints: undefined })),
  "incomplete step: a layer that no op has written counts as written": () =>
    replace(Coverage.prototype, "expectComplete", () => function () {}),
  "second write: a layer is written twice": () => replace(Coverage.prototype, "expectUnwritten", () => function () {}),
  "lost failure: a pass is not told that its submission has failed": () =>
    replace(Coverage.prototype, "settled", (original) => function (this: Coverage) {
      (original as Coverage["settled"]).call(this, undefined);
    } as Method),
  "abandoned step: states that were written over stay valid": () =>
    replace(SlotLedger.prototype, "undo", (original) => function (this: SlotLedger, pass: never) {
      (original as SlotLedger["undo"]).call(this, pass);
    } as Method),
  "left step: its ops are committed all the same": () => replace(Coverage.prototype, "refuseCommit", () => function () {}),
  "shared slot: a fork's slot is written over": () =>
    replace(SlotLedger.prototype, "begin", (original) => function (this: SlotLedger, op: string, holders: never, _undoable: boolean, extras: never) {
      const step = (original as SlotLedger["begin"]).call(this, op, holders, false, extras);
      for (const [i, holder] of step.holders.entries()) if (!holder.fresh) step.writeSlots[i] = holder.slot;
      return step;
    } as Method),
  "lost slot: the slot of a freed state is not given back": () =>
    replace(SlotLedger.prototype, "release", () => function (_op: string, holder: { live: boolean }) {
      holder.live = false;
    } as Method),
  "lost content: an undoable step writes in place": () =>
    replace(SlotLedger.prototype, "begin", (original) => function (this: SlotLedger, op: string, holders: never, _undoable: boolean, ...rest: never[]) {
      return (original as (...args: unknown[]) => unknown).call(this, op, holders, false, ...rest);
    } as Method),
  "wrong choice: a draft keeps the state before its last accepted token": () =>
    replace(SlotLedger.prototype, "finishTrial", (original) => function (this: SlotLedger, trial: never, chosen: readonly number[], outcome: never) {
      (original as SlotLedger["finishTrial"]).call(this, trial, chosen.map((count) => (count > 1 ? count - 1 : count)), outcome);
    } as Method),
};
