import { GatedDeltaError, describe } from "./errors.ts";
import { causalConv1d } from "./ops/causal-conv1d.ts";
import type { CausalConv1dArguments } from "./ops/causal-conv1d.ts";
import { copySlots } from "./ops/copy-slots.ts";
import type { CopySlotsArguments } from "./ops/copy-slots.ts";
import { gatedDeltaStep } from "./ops/gated-delta-step.ts";
import type { GatedDeltaStepArguments } from "./ops/gated-delta-step.ts";
import { gatedDelta } from "./ops/gated-delta.ts";
import type { GatedDeltaArguments } from "./ops/gated-delta.ts";
import { gatedRmsNorm } from "./ops/gated-rms-norm.ts";
import type { GatedRmsNormArguments } from "./ops/gated-rms-norm.ts";
import { linear } from "./ops/linear.ts";
import type { LinearArguments } from "./ops/linear.ts";
import { isOp } from "./ops/op.ts";
import type { Op } from "./ops/op.ts";

/** What takes a pass's ops. */
interface Sink {
  encode(op: Op): void;
}

/**
 * Runs `build` with a pass that encodes into `sink`, and ends the pass.
 *
 * @throws {GatedDeltaError} for a `build` that returns a promise: what it does later would be lost.
 */
export function recordPass(sink: Sink, op: string, build: (pass: Pass) => void): void {
  if (typeof build !== "function") {
    throw new GatedDeltaError("invalid-argument", { op, expected: "a function that records a pass", received: describe(build) });
  }
  let open = true;
  const pass = new Pass((method, next) => {
    if (!open) throw new GatedDeltaError("state", { op: `pass.${method}`, message: "the pass is over" });
    sink.encode(next());
  });
  try {
    const result: unknown = build(pass);
    if (typeof (result as PromiseLike<unknown> | undefined)?.then === "function") {
      (result as PromiseLike<unknown>).then(undefined, () => {}); // its failure is not the one to report
      throw new GatedDeltaError("invalid-argument", { op, expected: "a synchronous function", received: "one that returns a promise" });
    }
  } finally {
    open = false;
  }
}

/**
 * Ops being recorded, in the callback of {@link Device.run} or {@link Device.plan}. They behave as if run in order;
 * each method is the op's function of the same name.
 */
export class Pass {
  readonly #add: (method: string, next: () => Op) => void;

  /** @internal */
  constructor(add: (method: string, next: () => Op) => void) {
    this.#add = add;
  }

  /** See {@link gatedDelta}. */
  gatedDelta(args: GatedDeltaArguments): void {
    this.#add("gatedDelta", () => gatedDelta(args));
  }

  /** See {@link causalConv1d}. */
  causalConv1d(args: CausalConv1dArguments): void {
    this.#add("causalConv1d", () => causalConv1d(args));
  }

  /** See {@link gatedRmsNorm}. */
  gatedRmsNorm(args: GatedRmsNormArguments): void {
    this.#add("gatedRmsNorm", () => gatedRmsNorm(args));
  }

  /** See {@link gatedDeltaStep}. */
  gatedDeltaStep(args: GatedDeltaStepArguments): void {
    this.#add("gatedDeltaStep", () => gatedDeltaStep(args));
  }

  /** See {@link linear}. */
  linear(args: LinearArguments): void {
    this.#add("linear", () => linear(args));
  }

  /** See {@link copySlots}. */
  copySlots(args: CopySlotsArguments): void {
    this.#add("copySlots", () => copySlots(args));
  }

  /** Adds an op that was made before. */
  encode(op: Op): void {
    this.#add("encode", () => {
      if (isOp(op)) return op;
      throw new GatedDeltaError("invalid-argument", { op: "pass.encode", expected: "an Op", received: describe(op) });
    });
  }
}
