/** Options of {@link StatePool}'s methods. */
import { asInteger, invalid, largestIndex } from "../arguments/checks.ts";
import { membersOf } from "../arguments/members.ts";
import { asArray } from "../arguments/reading.ts";
import { ShapeError } from "../errors.ts";
import type { FloatDType } from "../tensor/dtype.ts";

/** Options of {@link StatePool.create}. */
export interface StatePoolOptions {
  /** The most states at a time. Forks count like other states. */
  readonly slots: number;
  /** Number of Gated DeltaNet layers in the model. */
  readonly layers: number;
  /** Number of query and key heads. */
  readonly keyHeads: number;
  /** Number of value heads, a multiple of `keyHeads`. */
  readonly valueHeads: number;
  /** Elements of a query or key head: a multiple of 8 in 8..256. */
  readonly keyDim: number;
  /** Elements of a value head: a multiple of 8 in 8..256. */
  readonly valueDim: number;
  /**
   * Whether the pool holds convolution states as well as recurrent ones.
   * @default true
   */
  readonly conv?: boolean | undefined;
  /** Taps of the convolution, 2..9; needed unless `conv` is false. */
  readonly convWidth?: number | undefined;
  /** Channels of the convolution. @default 2·keyHeads·keyDim + valueHeads·valueDim */
  readonly convChannels?: number | undefined;
  /** Element type of the recurrent states. Arithmetic is float32 in any case. @default "f32" */
  readonly stateDtype?: FloatDType | undefined;
  /** Element type of the convolution's states: the activation dtype or f32. @default "f32" */
  readonly convDtype?: FloatDType | undefined;
}

/** Options of {@link StatePool.step}. */
export interface StepOptions {
  /**
   * Whether to overwrite no state, so that {@link PoolStep.abort} can undo work that has run. The step then takes a free slot
   * for each handle until it is done. @default false
   */
  readonly undoable?: boolean | undefined;
  /**
   * For each handle, the numbers of its tokens in this pass after which its state is kept: 0..T, in any order. Each state
   * takes a free slot. After {@link PoolStep.done} the states are {@link PoolStep.saved}.
   */
  readonly checkpoints?: readonly (readonly number[])[] | undefined;
}

/** Checks the options of a step, reading each once; {@link asPositions} checks the positions. */
export function asStepOptions(op: string, options: StepOptions): { readonly undoable: boolean; readonly checkpoints: unknown } {
  const expected = "{ undoable?, checkpoints? }";
  const { undoable = false, checkpoints } = membersOf(op, options, ["undoable", "checkpoints"], { expected });
  if (typeof undoable !== "boolean") throw invalid(op, "undoable", "a boolean", undoable);
  return { undoable, checkpoints };
}

/**
 * The checkpoints of a step: one list of positions for each handle. The ops check them against the number of tokens.
 *
 * @param most longer lists are refused unread.
 */
export function asPositions(op: string, value: unknown, count: number, most: number): readonly (readonly number[])[] {
  if (value === undefined) return [];
  const lists = asArray(op, "checkpoints", "an array of arrays of positions", value, most);
  if (lists.length !== count) {
    throw new ShapeError({ op, argument: "checkpoints", expected: `${count} lists, one for each handle`, received: `${lists.length}` });
  }
  return lists.map((list, i) => {
    const argument = `checkpoints[${i}]`;
    const positions = asArray(op, argument, "an array of positions", list, most);
    return positions.map((position) => asInteger(op, argument, position, 0, largestIndex));
  });
}
