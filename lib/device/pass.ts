import { types } from "node:util";
import { GatedDeltaError, describe } from "../errors.ts";
import { causalConv1d } from "../ops/causal-conv1d.ts";
import type { CausalConv1dArguments } from "../ops/causal-conv1d.ts";
import { commitCausalConv1d, commitGatedDelta } from "../ops/commit.ts";
import type { CommitCausalConv1dArguments, CommitGatedDeltaArguments } from "../ops/commit.ts";
import { copySlots } from "../ops/copy-slots.ts";
import type { CopySlotsArguments } from "../ops/copy-slots.ts";
import { gatedDeltaStep } from "../ops/gated-delta-step.ts";
import type { GatedDeltaStepArguments } from "../ops/gated-delta-step.ts";
import { gatedDelta } from "../ops/gated-delta.ts";
import type { GatedDeltaArguments } from "../ops/gated-delta.ts";
import { gatedRmsNorm } from "../ops/gated-rms-norm.ts";
import type { GatedRmsNormArguments } from "../ops/gated-rms-norm.ts";
import { linear } from "../ops/linear.ts";
import type { LinearArguments } from "../ops/linear.ts";
import { isOp } from "../ops/op.ts";
import type { Op } from "../ops/op.ts";
import {
  gatedDeltaNetInplace,
  gatedDeltaNetInplaceIds,
  ssmConvUpdateInplace,
  ssmConvUpdateInplaceIds,
} from "../ops/ggml.ts";
import type {
  GatedDeltaNetInplaceArguments,
  GatedDeltaNetInplaceIdsArguments,
  SsmConvUpdateInplaceArguments,
  SsmConvUpdateInplaceIdsArguments,
} from "../ops/ggml.ts";

/** What takes a pass's ops. */
interface Sink {
  encode(op: Op): void;
}

/** The ops' functions by their names. */
const functions = {
  gatedDelta,
  causalConv1d,
  gatedRmsNorm,
  gatedDeltaStep,
  linear,
  copySlots,
  commitGatedDelta,
  commitCausalConv1d,
  gatedDeltaNetInplace,
  gatedDeltaNetInplaceIds,
  ssmConvUpdateInplace,
  ssmConvUpdateInplaceIds,
};

/** The name of an op's function, which is also that of the pass's method. */
type OpName = keyof typeof functions;

/**
 * Runs `build` with a pass that encodes into `sink`, and ends the pass.
 *
 * @throws {GatedDeltaError} for a `build` that returns a promise: what it does later would be lost.
 */
export function recordPass(sink: Sink, op: string, build: (pass: Pass) => void): void {
  if (typeof build !== "function") {
    throw new GatedDeltaError("invalid-argument", {
      op,
      expected: "a function that records a pass",
      received: describe(build),
    });
  }
  let open = true;
  const pass = new Pass((name, args) => {
    if (!open) throw new GatedDeltaError("state", { op: `pass.${name}`, message: "the pass is over" });
    if (name === "encode") sink.encode(args as Op);
    else sink.encode(functions[name](args as never));
  });
  try {
    const result: unknown = build(pass);
    if (types.isPromise(result)) {
      result.catch(() => {}); // its failure is not the one to report
      throw new GatedDeltaError("invalid-argument", {
        op,
        expected: "a synchronous function",
        received: "one that returns a promise",
      });
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
  readonly #add: (name: OpName | "encode", args: unknown) => void;

  /** @internal */
  constructor(add: (name: OpName | "encode", args: unknown) => void) {
    this.#add = add;
  }

  /** See {@link gatedDelta}. */
  gatedDelta(args: GatedDeltaArguments): void {
    this.#add("gatedDelta", args);
  }

  /** See {@link causalConv1d}. */
  causalConv1d(args: CausalConv1dArguments): void {
    this.#add("causalConv1d", args);
  }

  /** See {@link gatedRmsNorm}. */
  gatedRmsNorm(args: GatedRmsNormArguments): void {
    this.#add("gatedRmsNorm", args);
  }

  /** See {@link gatedDeltaStep}. */
  gatedDeltaStep(args: GatedDeltaStepArguments): void {
    this.#add("gatedDeltaStep", args);
  }

  /** See {@link linear}. */
  linear(args: LinearArguments): void {
    this.#add("linear", args);
  }

  /** See {@link copySlots}. */
  copySlots(args: CopySlotsArguments): void {
    this.#add("copySlots", args);
  }

  /** See {@link commitGatedDelta}. */
  commitGatedDelta(args: CommitGatedDeltaArguments): void {
    this.#add("commitGatedDelta", args);
  }

  /** See {@link commitCausalConv1d}. */
  commitCausalConv1d(args: CommitCausalConv1dArguments): void {
    this.#add("commitCausalConv1d", args);
  }

  /** See {@link gatedDeltaNetInplace}. */
  gatedDeltaNetInplace(args: GatedDeltaNetInplaceArguments): void {
    this.#add("gatedDeltaNetInplace", args);
  }

  /** See {@link gatedDeltaNetInplaceIds}. */
  gatedDeltaNetInplaceIds(args: GatedDeltaNetInplaceIdsArguments): void {
    this.#add("gatedDeltaNetInplaceIds", args);
  }

  /** See {@link ssmConvUpdateInplace}. */
  ssmConvUpdateInplace(args: SsmConvUpdateInplaceArguments): void {
    this.#add("ssmConvUpdateInplace", args);
  }

  /** See {@link ssmConvUpdateInplaceIds}. */
  ssmConvUpdateInplaceIds(args: SsmConvUpdateInplaceIdsArguments): void {
    this.#add("ssmConvUpdateInplaceIds", args);
  }

  /** Adds an op that was made before. */
  encode(op: Op): void {
    if (!isOp(op)) {
      throw new GatedDeltaError("invalid-argument", { op: "pass.encode", expected: "an Op", received: describe(op) });
    }
    this.#add("encode", op);
  }
}
