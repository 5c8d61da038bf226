/** Checks of the arguments of a layer's methods. */
import { membersOf } from "../arguments/members.ts";
import { BoundsError, describe } from "../errors.ts";
import { readElements } from "../ops/indices.ts";
import type { Indices } from "../ops/indices.ts";
import { asTensor } from "../tensor/expect.ts";
import { isTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";

const op = "GatedDeltaNet";

/** Checks that the last offset is the number of tokens, so that every row belongs to a sequence. */
export function expectEnd(name: string, cuSeqlens: Indices | undefined, tokens: number): void {
  if (cuSeqlens === undefined) return;
  const elements = readElements(name, "cuSeqlens", cuSeqlens);
  const end = (isTensor(elements) ? (elements as Tensor<"i32">).data : elements).at(-1);
  if (end === tokens) return;
  throw new BoundsError({ op: name, argument: "cuSeqlens", expected: `offsets that end in ${tokens}, the number of tokens`, received: describe(end) });
}

/** Copies named arguments, and refuses unknown names. */
export function asKnown<Arguments extends object>(name: string, args: Arguments, known: readonly PropertyKey[]): Arguments {
  return membersOf(name, args, known as readonly (keyof Arguments & string)[], { argument: "", expected: "an object of named arguments", kind: "the arguments" }) as Arguments;
}

/** Rows of a tensor argument. */
export function rowsOf(method: string, argument: string, tensor: Tensor): number {
  return asTensor(`${op}.${method}`, argument, tensor).shape[0] ?? 0;
}
