/** The common part of steps and drafts: one pass over some states of a pool, and the `states` of its layers. */
import { types } from "node:util";
import { invalid, largestIndex } from "../arguments/checks.ts";
import { asArray } from "../arguments/reading.ts";
import { DisposedError, GatedDeltaError } from "../errors.ts";
import { LayerStates, admit, bind, encoded } from "../ops/layer-states.ts";
import type { BoundStates, StateUse } from "../ops/layer-states.ts";
import { isOp } from "../ops/op.ts";
import type { Op } from "../ops/op.ts";
import type { Recorder } from "../ops/recorder.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Coverage } from "./coverage.ts";
import type { LedgerStep, LedgerTrial, SlotLedger } from "./slot-ledger.ts";
import type { StatePool } from "./state-pool.ts";

/** One pass over some states. */
export interface StatePass {
  readonly name: "step" | "draft";
  readonly pool: StatePool;
  readonly ledger: SlotLedger;
  readonly entry: LedgerStep | LedgerTrial;
  readonly coverage: Coverage;
}

/** Whether a pass has not ended. */
export function isOpen({ entry, pool }: StatePass): boolean {
  return entry.open && !pool.disposed;
}

/** Throws for a pass that has ended. */
export function expectOpen(op: string, { name, pool, entry }: StatePass, argument?: string): void {
  if (pool.disposed) throw new DisposedError({ op, argument, expected: "a pool that is not disposed" });
  if (!entry.open) throw new GatedDeltaError("state", { op, argument, message: `the ${name} has ended` });
}

/** The tensors of a layer for an op. */
export function tensorsOf(pool: StatePool, layer: number, use: StateUse): { state?: Tensor; convState?: Tensor } {
  return {
    ...(use.kinds.includes("state") && { state: pool.state(layer) }),
    ...(use.kinds.includes("conv") && { convState: pool.conv(layer) }),
  };
}

/** The states of one layer in a pass. */
export abstract class PassLayer extends LayerStates {
  protected readonly pass: StatePass;
  protected readonly layer: number;

  constructor(pass: StatePass, layer: number) {
    super();
    this.pass = pass;
    this.layer = layer;
  }

  abstract override [bind](use: StateUse): BoundStates;

  [admit]({ op, kinds }: StateUse, recorder: Recorder): void {
    const { pass, layer } = this;
    expectOpen(op, pass, "states");
    if (recorder.planStates !== undefined) {
      const expected = "the states of a placeholder, of pool.placeholder(sequences), which takes the step of each replay";
      throw new GatedDeltaError("invalid-argument", { op, argument: "states", expected, received: `the states of a ${pass.name}` });
    }
    pass.coverage.expectUnwritten(op, { layer, kinds });
  }

  [encoded]({ op, kinds }: StateUse, recorder: Recorder): void {
    const { pass, layer } = this;
    recorder.join(pass.coverage);
    pass.coverage.encode(op, { layer, kinds });
  }
}

/**
 * Undoes an open pass; never throws. Its encoded ops can no longer be committed, and states that its work has overwritten
 * in place become invalid.
 */
export function undo({ entry, ledger, coverage, name }: StatePass): void {
  coverage.refuseCommit();
  // The verifying work of a draft writes no state.
  const overwrites = name === "step" && coverage.ran;
  ledger.undo(entry, overwrites ? new GatedDeltaError("state", { message: "its step was undone after its work had run" }) : undefined);
}

/** Throws if ops of the pass are encoded but not committed. */
export function expectNothingEncoded(op: string, { name, coverage }: StatePass): void {
  if (!coverage.pending) return;
  const message = `ops of this ${name} are encoded and not committed: call device.discard() first`;
  throw new GatedDeltaError("state", { op, message });
}

/** Calls the function that makes the ops of a pass. */
export function opsOf<Pass>(op: string, build: (pass: Pass) => readonly Op[], pass: Pass): readonly Op[] {
  if (typeof build !== "function") throw invalid(op, "build", "a function that returns ops", build);
  const result: unknown = build(pass);
  if (types.isPromise(result)) {
    result.catch(() => {}); // the error below is reported instead
    const expected = "a synchronous function";
    throw new GatedDeltaError("invalid-argument", { op, argument: "build", expected, received: "one that returns a promise" });
  }
  const ops = asArray(op, "build", "a function that returns an array of ops", result, largestIndex);
  const wrong = ops.findIndex((each) => !isOp(each));
  if (wrong >= 0) throw invalid(op, "build", "a function that returns an array of ops", ops[wrong]);
  return ops as Op[];
}
