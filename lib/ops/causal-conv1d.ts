import { asArguments, asChoice } from "../arguments/checks.ts";
import {
  asOptionalTensor,
  asTensor,
  expectContiguous,
  expectContiguousRows,
  expectDType,
  expectFloat,
  expectRank,
  expectShape,
} from "../tensor/expect.ts";
import { ShapeError } from "../errors.ts";
import type { DType } from "../tensor/dtype.ts";
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { readIndices, sequencesOf } from "./indices.ts";
import type { Indices } from "./indices.ts";
import { checkKept, keptFields, packKept, readKept, withCounts } from "./kept-states.ts";
import type { KeptStateArguments } from "./kept-states.ts";
import { admit, bindStates, encoded, withDraft } from "./layer-states.ts";
import type { LayerStates, StateKind, StateUse } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { convActivations } from "./option-names.ts";
import type { ConvActivation } from "./option-names.ts";
import { placeIndices, placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

const op = "causalConv1d";

/** Arguments of {@link causalConv1d}. Dimensions are called tokens, channels, width and slots. */
export interface CausalConv1dArguments extends KeptStateArguments {
  /** `[tokens, channels]`, f32, f16 or bf16: the activation dtype. */
  readonly x: Tensor;
  /** `[channels, width]`, any float dtype, contiguous, oldest tap first. width is 2..9. */
  readonly weight: Tensor;
  /** `[channels]`, any float dtype. @default none */
  readonly bias?: Tensor | undefined;
  /**
   * Read and written in place: `[slots, channels, width − 1]`, the activation dtype or f32, contiguous, oldest first.
   * Without it every sequence starts from zeros and drops its final state.
   */
  readonly state?: Tensor | undefined;
  /** Written: `[tokens, channels]`, the activation dtype or f32. */
  readonly out: Tensor;
  /** Applied to each sum. @default "silu" */
  readonly activation?: ConvActivation | undefined;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state`, the slots and what is kept on the way. */
  readonly states?: LayerStates | undefined;
  /** Row offsets `[sequences + 1]`, from 0, not decreasing, the last at most tokens. @default [0, tokens]: one sequence */
  readonly cuSeqlens?: Indices | undefined;
  /** The slot that each sequence starts from; −1 starts from zeros. @default 0, 1, 2, …; −1 without `state` */
  readonly readSlots?: Indices | undefined;
  /** The slot that each sequence's final state goes to, each at most once; −1 drops it. @default readSlots */
  readonly writeSlots?: Indices | undefined;
}

/**
 * Causal depthwise convolution over time: for each sequence, token t and channel c,
 *
 *     out[t, c] = act(bias[c] + Σⱼ weight[c, j] · x[t − width + 1 + j, c])
 *
 * where rows before the sequence's first come from its state. The new state is the last width − 1 rows of
 * (old state ‖ x), however short the sequence. This is `causal_conv1d` of the Mamba and Qwen3-Next implementations.
 *
 * `x` and `out` may be strided views with a free token stride; `out` overlaps nothing. Every read sees the pool as it
 * was before the op.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 * @example
 * device.run(causalConv1d({ x, weight, state, out })); // one sequence, slot 0, SiLU
 */
export function causalConv1d(args: CausalConv1dArguments): Op {
  return makeOp(op, args, read, encode);
}

type Values = ReturnType<typeof read>;

const rowLayout = ["tokens", "channels"];
const weightLayout = ["channels", "width"];
const kinds: readonly StateKind[] = ["conv"];
const stateLayout = ["slots", "channels", "width - 1"];

function read(args: CausalConv1dArguments) {
  const {
    x: givenX,
    weight: givenWeight,
    bias: givenBias,
    state: rawState,
    out: givenOut,
    activation,
    cuSeqlens: rawCuSeqlens,
    readSlots: rawReadSlots,
    writeSlots: rawWriteSlots,
    source,
    snapshots,
    snapshotSlots: rawSnapshotSlots,
    checkpoints: rawCheckpoints,
    states,
  } = asArguments(op, args);
  const x = asTensor(op, "x", givenX);
  expectRank(op, "x", x, rowLayout);
  expectFloat(op, "x", x);
  expectContiguousRows(op, "x", x);
  const [tokens, channels] = x.shape as [number, number];

  const weight = asTensor(op, "weight", givenWeight);
  const bias = asOptionalTensor(op, "bias", givenBias);
  const width = checkConvWeights(op, ["weight", "bias"], weight, bias, channels);

  const use: StateUse = { op, kinds, drafts: true, x };
  const raw = {
    state: rawState, readSlots: rawReadSlots, writeSlots: rawWriteSlots, source, snapshots,
    snapshotSlots: rawSnapshotSlots, checkpoints: rawCheckpoints,
  };
  const bound = states === undefined ? undefined : bindStates(states, use, raw);
  const { readSlots, writeSlots, snapshotSlots, checkpoints } = bound ?? raw;
  const cuSeqlens = withDraft(op, bound, rawCuSeqlens);
  const state = asOptionalTensor(op, "state", bound === undefined ? rawState : bound.convState);
  if (state !== undefined) checkConvState(op, "state", state, channels, width, x.dtype);

  const slotShape = [channels, width - 1];
  const kept = checkKept(op, state, slotShape, stateLayout.slice(1), source, snapshots, snapshotSlots, checkpoints);
  if (state === undefined) {
    // Where there is no pool to compare with, the dtypes are the pool's own rule.
    if (kept.source !== undefined) expectDType(op, "source", kept.source, x.dtype, "f32");
    if (kept.snapshots !== undefined) expectDType(op, "snapshots", kept.snapshots, x.dtype, "f32");
  }

  const out = asTensor(op, "out", givenOut);
  expectShape(op, "out", out, x.shape, rowLayout);
  expectDType(op, "out", out, x.dtype, "f32");
  expectContiguousRows(op, "out", out);
  return {
    tokens,
    channels,
    width,
    activation: asChoice(op, "activation", activation, convActivations, "silu"),
    x,
    weight,
    bias,
    state,
    kept,
    out,
    cuSeqlens,
    readSlots,
    writeSlots,
    states,
    bound,
    use,
  };
}

/** Checks a convolution's weight and bias; returns the width. */
export function checkConvWeights(
  op: string,
  [weightName, biasName]: readonly [string, string],
  weight: Tensor,
  bias: Tensor | undefined,
  channels: number,
): number {
  expectRank(op, weightName, weight, weightLayout);
  const width = weight.shape[1]!;
  expectShape(op, weightName, weight, [channels, width], weightLayout);
  if (width < 2 || width > 9) {
    throw new ShapeError({ op, argument: weightName, expected: "a width of 2..9", received: `${width}` });
  }
  expectFloat(op, weightName, weight);
  expectContiguous(op, weightName, weight);
  if (bias !== undefined) {
    expectShape(op, biasName, bias, [channels], ["channels"]);
    expectFloat(op, biasName, bias);
    expectContiguous(op, biasName, bias);
  }
  return width;
}

/** Checks a pool of convolution states. */
export function checkConvState(
  op: string,
  argument: string,
  state: Tensor,
  channels: number,
  width: number,
  activation: DType,
): void {
  expectRank(op, argument, state, stateLayout);
  expectShape(op, argument, state, [state.shape[0]!, channels, width - 1], stateLayout);
  expectDType(op, argument, state, activation, "f32");
  expectContiguous(op, argument, state);
}

const descriptor = new Descriptor("gd_causal_conv1d");

function encode(recorder: Recorder, values: Values): void {
  const cuSeqlens = readIndices(op, "cuSeqlens", values.cuSeqlens);
  const readSlots = readIndices(op, "readSlots", values.readSlots);
  const writeSlots = readIndices(op, "writeSlots", values.writeSlots);
  const keptIndices = readKept(op, values.kept);
  const sequences = sequencesOf(cuSeqlens, readSlots, writeSlots, 1);
  const kept = withCounts(op, sequences, values.kept.snapshots, keptIndices);
  values.states?.[admit](values.use, recorder);
  // From here on nothing of the caller's runs: the descriptor and the index memory are shared by all calls.
  descriptor.u32("tokens", values.tokens);
  descriptor.u32("sequences", sequences);
  descriptor.u32("channels", values.channels);
  descriptor.u32("width", values.width);
  descriptor.u32("slots", values.state?.shape[0] ?? 0);
  descriptor.u32("activation", values.activation);
  placeTensor(recorder, descriptor, "x", op, "x", values.x);
  placeTensor(recorder, descriptor, "weight", op, "weight", values.weight);
  placeTensor(recorder, descriptor, "bias", op, "bias", values.bias);
  placeTensor(recorder, descriptor, "state", op, "state", values.state, values.bound);
  placeTensor(recorder, descriptor, "out", op, "out", values.out);
  packKept(recorder, descriptor, op, values.kept, kept);
  placeIndices(recorder, descriptor, [
    ["cu_seqlens", cuSeqlens],
    ["read_slots", readSlots],
    ["write_slots", writeSlots],
    ...keptFields(kept),
  ]);
  descriptor.encode(recorder.target, op);
  values.states?.[encoded](values.use, recorder);
}
