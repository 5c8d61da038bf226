import { GatedDeltaError } from "../errors.ts";
import { reading } from "../arguments/reading.ts";
import type { Recorder } from "./recorder.ts";

/** Whether a value is an {@link Op}. */
export let isOp: (value: unknown) => value is Op;

/** Encodes an op. */
export let encodeOp: (op: Op, recorder: Recorder) => void;

/** Checks arguments and makes an op of them: `read` looks at every argument once, `encode` packs what it returned. */
export let makeOp: <Arguments, Values>(
  name: string,
  args: Arguments,
  read: (args: Arguments) => Values,
  encode: (recorder: Recorder, values: Values) => void,
) => Op;

let makingOp = false;

/**
 * One operation with its arguments: what `gatedDelta(…)` and the other ops return and what {@link Device.run} takes.
 * Its arguments were read and checked when it was made, index data apart, which are read when it is encoded. An op
 * may be run any number of times.
 */
export class Op {
  /** The op's public name, such as `gatedDelta`. */
  readonly name: string;
  readonly #values: unknown;
  readonly #encode: (recorder: Recorder, values: never) => void;

  private constructor(name: string, values: unknown, encode: (recorder: Recorder, values: never) => void) {
    if (!makingOp) {
      throw new GatedDeltaError("invalid-argument", { op: "Op", expected: "gatedDelta(…) or another op's function" });
    }
    this.name = name;
    this.#values = values;
    this.#encode = encode;
    Object.freeze(this);
  }

  static {
    isOp = (value): value is Op => typeof value === "object" && value !== null && #values in value;
    encodeOp = (op, recorder) => op.#encode(recorder, op.#values as never);
    makeOp = (name, args, read, encode) => {
      const values = reading(name, "", () => read(args));
      makingOp = true;
      try {
        return new Op(name, values, encode);
      } finally {
        makingOp = false;
      }
    };
  }
}
