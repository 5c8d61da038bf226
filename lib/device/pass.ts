import { types } from "node:util";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { GatedDeltaError, describe } from "../errors.ts";
import { isOp, makeOp } from "../ops/op.ts";
import type { OpName } from "../ops/op-kind.ts";
import type { Op } from "../ops/op.ts";
import { add, PassOps } from "./pass-ops.ts";

/** The target of a pass's ops. */
interface Sink {
  encode(op: Op): void;
}

/**
 * Runs `build` with a pass that encodes into `sink`, and ends the pass.
 *
 * @throws {GatedDeltaError} for a `build` that returns a promise: ops that it adds later would be lost.
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
  const pass = new Pass(maker, (name, args) => {
    if (!open) throw new GatedDeltaError("state", { op: `pass.${name}`, message: "the pass is over" });
    if (name === "encode") sink.encode(args as Op);
    else sink.encode(makeOp(name, args));
  });
  try {
    const result: unknown = build(pass);
    if (types.isPromise(result)) {
      result.catch(() => {}); // report the error below instead of this rejection
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
export class Pass extends PassOps {
  readonly #add: (name: OpName | "encode", args: object) => void;

  /** @internal */
  constructor(by: Maker, take: (name: OpName | "encode", args: object) => void) {
    super();
    expectMaker(by, "Pass", "device.run((pass) => …) or device.plan");
    this.#add = take;
  }

  /** @internal */
  [add](name: OpName, args: object): void {
    this.#add(name, args);
  }

  /**
   * Adds an existing op.
   *
   * @throws {GatedDeltaError} for a value that is not an op, and after the end of the pass; in a plan, that names the argument that does not fit.
   */
  encode(op: Op): void {
    if (!isOp(op)) {
      throw new GatedDeltaError("invalid-argument", { op: "pass.encode", expected: "an Op", received: describe(op) });
    }
    this.#add("encode", op);
  }
}
