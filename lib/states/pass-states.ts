/** What steps and drafts share: one pass over some states of a pool, and the `states` of its layers. */
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

/** Whether a pass can still be used. */
export function isOpen({ entry, pool }: StatePass): boolean {
  return entry.open && !pool.disposed;
}

/** Throws for a pass that is over. */
export function expectOpen(op: string, { name, pool, entry }: StatePass, argument?: string): void {
  if (pool.disposed) throw new DisposedError({ op, argument, expected: "a pool that is not disposed" });
  if (!entry.open) throw new GatedDeltaError("state", { op, argument, message: `the ${name} is over` });
}

/** The tensors of a layer that an op uses. */
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
      const expected = "the states of a placeholder: pool.placeholder(sequences) stands for the step of each replay";
      throw new GatedDeltaError("invalid-argument", { op, argument: "states", expected, received: `those of a ${pass.name}` });
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
 * Ends a pass that nobody finished: what its scope's end or its handle's disposal does. Ops that are encoded must not
 * be committed any more; states that work has written in place are lost.
 */
export function leave(pass: StatePass): void {
  const { entry, ledger, coverage, name } = pass;
  coverage.leave();
  // A draft writes no state before its commit.
  if (!coverage.ran || name === "draft" || "choices" in entry) {
    ledger.abort(entry);
    return;
  }
  const message = `the ${name} was left without done() after its work had run`;
  ledger.abandon(entry, new GatedDeltaError("state", { message }));
}

/** Throws where work of the pass is encoded: it would run without the pass. */
export function expectNothingEncoded(op: string, { name, coverage }: StatePass): void {
  if (!coverage.pending) return;
  const message = `ops of this ${name} are encoded: call device.discard() first, which drops them`;
  throw new GatedDeltaError("state", { op, message });
}

/** Runs the function that makes the ops of a pass. */
export function opsOf<Pass>(op: string, build: (pass: Pass) => readonly Op[], pass: Pass): readonly Op[] {
  if (typeof build !== "function") throw invalid(op, "build", "a function that returns ops", build);
  const result: unknown = build(pass);
  if (types.isPromise(result)) {
    result.catch(() => {}); // its failure is not the one to report
    const expected = "a synchronous function";
    throw new GatedDeltaError("invalid-argument", { op, argument: "build", expected, received: "one that returns a promise" });
  }
  const ops = asArray(op, "build", "a function that returns an array of ops", result, largestIndex);
  const odd = ops.find((each) => !isOp(each));
  if (odd !== undefined || ops.includes(undefined)) throw invalid(op, "build", "a function that returns an array of ops", odd);
  return ops as Op[];
}
