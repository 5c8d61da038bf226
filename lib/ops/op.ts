import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
import { reading, throws } from "../arguments/reading.ts";
import { GatedDeltaError } from "../errors.ts";
import { opKinds } from "./op-kind.ts";
import type { OpKind, OpName } from "./op-kind.ts";
import { readArguments } from "./read-arguments.ts";
import type { Values } from "./read-arguments.ts";
import { encodeValues } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

/** Whether a value is an {@link Op}. */
export let isOp: (value: unknown) => value is Op;

/** Encodes an op. */
export let encodeOp: (op: Op, recorder: Recorder) => void;

/** Reads the arguments, each once, and makes an op. */
export let makeOp: (name: OpName, args: object) => Op;

/**
 * One operation with its arguments, as `gatedDelta(…)` and the other op functions return it and {@link Device.run} takes
 * it. The names and types of its arguments are checked when it is made. Shapes, dtypes, memory and index data are checked
 * when it is encoded, which is also when index data is read. An op may be run any number of times.
 */
export class Op {
  /** The op's public name, such as `gatedDelta`. */
  readonly name: string;
  readonly #values: Values;

  private constructor(by: Maker, name: OpName, values: Values) {
    expectMaker(by, "Op", "gatedDelta(…) or another op's function");
    this.name = name;
    this.#values = values;
    Object.freeze(this);
  }

  static {
    isOp = (value): value is Op => typeof value === "object" && value !== null && #values in value;
    encodeOp = (op, recorder) => encodeValues(recorder, opKinds[op.name as OpName], op.#values);
    makeOp = (name, args) => {
      const values = readNamed(opKinds[name], args);
      return new Op(maker, name, values);
    };
  }
}

/** Reads the arguments; the error of a getter or a proxy names the argument. */
function readNamed(kind: OpKind, args: object): Values {
  try {
    return readArguments(kind, args);
  } catch (error) {
    if (error instanceof GatedDeltaError) throw error;
    const thrower = kind.arguments.find(({ key }) => throws(() => (args as Readonly<Record<string, unknown>>)[key]));
    return reading(kind.name, thrower?.name ?? "", () => {
      throw error;
    });
  }
}
