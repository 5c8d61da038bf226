import { asArguments, asChoice, asEpsilon, asInteger, invalid, largestIndex } from "../arguments/checks.ts";
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
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { checkConvState, checkConvWeights } from "./causal-conv1d.ts";
import { checkState } from "./gated-delta.ts";
import { checkGates, checkRecurrence } from "./gates.ts";
import type { GateTensors, RecurrenceOptions } from "./gates.ts";
import { readIndices, sequencesOf } from "./indices.ts";
import type { Indices } from "./indices.ts";
import { admit, bindStates, encoded } from "./layer-states.ts";
import type { LayerStates, StateKind, StateUse } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { convActivations, normActivations, normOrders } from "./option-names.ts";
import type { ConvActivation, NormActivation, NormOrder } from "./option-names.ts";
import { placeIndices, placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

const op = "gatedDeltaStep";

/** Arguments of {@link gatedDeltaStep}; those of its parts, with one token a sequence. */
export interface GatedDeltaStepArguments extends RecurrenceOptions, GateTensors {
  /**
   * `[sequences, channels]`, f32, f16 or bf16: the activation dtype. channels = 2·keyHeads·keyDim +
   * valueHeads·valueDim, laid out query ‖ key ‖ value.
   */
  readonly x: Tensor;
  /** Number of key heads, which the shape of `x` alone does not tell. */
  readonly keyHeads: number;
  /** `[channels, width]`, any float dtype, contiguous. width is 2..9. */
  readonly convWeight: Tensor;
  /** `[channels]`, any float dtype. @default none */
  readonly convBias?: Tensor | undefined;
  /** Read and written in place: `[slots, channels, width − 1]`, the activation dtype or f32; given exactly when `state` is. */
  readonly convState?: Tensor | undefined;
  /** Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16. */
  readonly state?: Tensor | undefined;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state`, `convState` and the slots. */
  readonly states?: LayerStates | undefined;
  /** `[sequences, valueHeads, valueDim]`, the activation dtype: the norm's gate. */
  readonly z: Tensor;
  /** `[valueDim]`, any float dtype. */
  readonly normWeight: Tensor;
  /** Written: `[sequences, valueHeads, valueDim]`, the activation dtype or f32. */
  readonly out: Tensor;
  /** The slot of both pools that each sequence starts from; −1 starts from zeros. @default 0, 1, 2, …; −1 without pools */
  readonly readSlots?: Indices | undefined;
  /** The slot of both pools that each sequence writes, each at most once; −1 writes none. @default readSlots */
  readonly writeSlots?: Indices | undefined;
  /** @default "silu" */
  readonly convActivation?: ConvActivation | undefined;
  /** @default "silu" */
  readonly normActivation?: NormActivation | undefined;
  /** @default "norm-then-gate" */
  readonly normOrder?: NormOrder | undefined;
  /** Epsilon of the gated norm. @default 1e-6 */
  readonly normEps?: number | undefined;
}

/**
 * One decode token of each sequence through the whole mixer core at once: {@link causalConv1d}, the gates, query and
 * key norm, {@link gatedDelta} and {@link gatedRmsNorm}, with the bits of that chain of ops. The convolution's output
 * is rounded to the activation dtype, as in the chain, and nothing else is before the final store.
 *
 * With read slot = write slot it is one dispatch and moves each state once.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 * @example
 * device.run(gatedDeltaStep({
 *   x, keyHeads: 16, convWeight, convState: pool.conv(0), gate: a, beta: b, aLog, dtBias, state: pool.state(0),
 *   z, normWeight, out, gateForm: "raw", betaForm: "sigmoid", qkNorm: "l2", readSlots, writeSlots,
 * }));
 */
export function gatedDeltaStep(args: GatedDeltaStepArguments): Op {
  return makeOp(op, args, read, encode);
}

type Values = ReturnType<typeof read>;

const xLayout = ["sequences", "channels"];
const kinds: readonly StateKind[] = ["state", "conv"];
const rowLayout = ["sequences", "valueHeads", "valueDim"];

function read(args: GatedDeltaStepArguments) {
  const {
    x: givenX,
    keyHeads: givenKeyHeads,
    convWeight: givenConvWeight,
    convBias: givenConvBias,
    convState: rawConvState,
    gate,
    beta,
    aLog,
    dtBias,
    state: rawState,
    states,
    z: givenZ,
    normWeight: givenNormWeight,
    out: givenOut,
    readSlots: rawReadSlots,
    writeSlots: rawWriteSlots,
    gateForm,
    gateDims,
    gateBound,
    betaForm,
    heads,
    qkNorm,
    qkNormEps,
    scale,
    convActivation,
    normActivation,
    normOrder,
    normEps,
  } = asArguments(op, args);

  const x = asTensor(op, "x", givenX);
  expectRank(op, "x", x, xLayout);
  expectFloat(op, "x", x);
  expectContiguousRows(op, "x", x);
  const activation = x.dtype;
  const [sequences, channels] = x.shape as [number, number];

  const z = asTensor(op, "z", givenZ);
  expectRank(op, "z", z, rowLayout);
  const [, valueHeads, valueDim] = z.shape as [number, number, number];
  expectShape(op, "z", z, [sequences, valueHeads, valueDim], rowLayout);
  expectDType(op, "z", z, activation);
  expectContiguousRows(op, "z", z);

  const out = asTensor(op, "out", givenOut);
  expectShape(op, "out", out, z.shape, rowLayout);
  expectDType(op, "out", out, activation, "f32");
  expectContiguousRows(op, "out", out);

  const keyHeads = asInteger(op, "keyHeads", givenKeyHeads, 1, largestIndex);
  const keyDim = (channels - valueHeads * valueDim) / (2 * keyHeads);
  if (!Number.isInteger(keyDim) || keyDim < 1) {
    throw new ShapeError({
      op,
      argument: "x",
      expected: `channels = 2 · ${keyHeads} · keyDim + ${valueHeads} · ${valueDim}`,
      received: `${channels} channels`,
    });
  }

  const convWeight = asTensor(op, "convWeight", givenConvWeight);
  const convBias = asOptionalTensor(op, "convBias", givenConvBias);
  const width = checkConvWeights(op, ["convWeight", "convBias"], convWeight, convBias, channels);

  const use: StateUse = { op, kinds, drafts: false, x };
  const raw = { state: rawState, convState: rawConvState, readSlots: rawReadSlots, writeSlots: rawWriteSlots };
  const bound = states === undefined ? undefined : bindStates(states, use, raw);
  const { state: givenState, convState: givenConvState, readSlots, writeSlots } = bound ?? raw;
  const state = asOptionalTensor(op, "state", givenState);
  const convState = asOptionalTensor(op, "convState", givenConvState);
  if (state !== undefined) checkState(op, state, valueHeads, valueDim, keyDim);
  if (convState !== undefined) checkConvState(op, "convState", convState, channels, width, activation);
  if (state?.shape[0] !== convState?.shape[0]) {
    const expected =
      state === undefined ? "nothing without state" : `a Tensor of ${state.shape[0]} slots, as state has`;
    if (convState === undefined || state === undefined) throw invalid(op, "convState", expected, convState);
    throw new ShapeError({ op, argument: "convState", expected, received: `${convState.shape[0]} slots` });
  }

  const normWeight = asTensor(op, "normWeight", givenNormWeight);
  expectShape(op, "normWeight", normWeight, [valueDim], ["valueDim"]);
  expectFloat(op, "normWeight", normWeight);
  expectContiguous(op, "normWeight", normWeight);

  const recurrence = checkRecurrence(
    op,
    keyDim,
    gateForm,
    gateDims,
    gateBound,
    betaForm,
    heads,
    qkNorm,
    qkNormEps,
    scale,
  );
  const gates = checkGates(
    op,
    recurrence,
    activation,
    sequences,
    valueHeads,
    keyDim,
    "sequences",
    gate,
    beta,
    aLog,
    dtBias,
  );
  return {
    sequences,
    keyHeads,
    valueHeads,
    keyDim,
    valueDim,
    recurrence,
    gates,
    width,
    convActivation: asChoice(op, "convActivation", convActivation, convActivations, "silu"),
    normActivation: asChoice(op, "normActivation", normActivation, normActivations, "silu"),
    normOrder: asChoice(op, "normOrder", normOrder, normOrders, "norm-then-gate"),
    normEps: asEpsilon(op, "normEps", normEps, 1e-6),
    x,
    convWeight,
    convBias,
    convState,
    state,
    z,
    normWeight,
    out,
    readSlots,
    writeSlots,
    states,
    bound,
    use,
  };
}

const descriptor = new Descriptor("gd_gated_delta_step");

function encode(recorder: Recorder, values: Values): void {
  const readSlots = readIndices(op, "readSlots", values.readSlots);
  const writeSlots = readIndices(op, "writeSlots", values.writeSlots);
  const { recurrence, gates } = values;
  values.states?.[admit](values.use, recorder);
  // From here on nothing of the caller's runs: the descriptor and the index memory are shared by all calls.
  descriptor.u32("sequences", sequencesOf(undefined, readSlots, writeSlots, values.sequences));
  descriptor.u32("key_heads", values.keyHeads);
  descriptor.u32("value_heads", values.valueHeads);
  descriptor.u32("key_dim", values.keyDim);
  descriptor.u32("value_dim", values.valueDim);
  descriptor.u32("width", values.width);
  descriptor.u32("slots", values.state?.shape[0] ?? 0);
  descriptor.u32("gate_form", recurrence.gateForm);
  descriptor.u32("gate_dims", recurrence.gateDims);
  descriptor.u32("beta_form", recurrence.betaForm);
  descriptor.u32("head_map", recurrence.heads);
  descriptor.u32("qk_norm", recurrence.qkNorm);
  descriptor.u32("conv_activation", values.convActivation);
  descriptor.u32("norm_activation", values.normActivation);
  descriptor.u32("norm_order", values.normOrder);
  descriptor.f32("qk_norm_eps", recurrence.qkNormEps);
  descriptor.f32("scale", recurrence.scale);
  descriptor.f32("gate_bound", recurrence.gateBound);
  descriptor.f32("norm_eps", values.normEps);
  placeTensor(recorder, descriptor, "x", op, "x", values.x);
  placeTensor(recorder, descriptor, "conv_weight", op, "convWeight", values.convWeight);
  placeTensor(recorder, descriptor, "conv_bias", op, "convBias", values.convBias);
  placeTensor(recorder, descriptor, "conv_state", op, "convState", values.convState, values.bound);
  placeTensor(recorder, descriptor, "gate", op, "gate", gates.gate);
  placeTensor(recorder, descriptor, "beta", op, "beta", gates.beta);
  placeTensor(recorder, descriptor, "a_log", op, "aLog", gates.aLog);
  placeTensor(recorder, descriptor, "dt_bias", op, "dtBias", gates.dtBias);
  placeTensor(recorder, descriptor, "state", op, "state", values.state, values.bound);
  placeTensor(recorder, descriptor, "z", op, "z", values.z);
  placeTensor(recorder, descriptor, "norm_weight", op, "normWeight", values.normWeight);
  placeTensor(recorder, descriptor, "out", op, "out", values.out);
  placeIndices(recorder, descriptor, [
    ["read_slots", readSlots],
    ["write_slots", writeSlots],
  ]);
  descriptor.encode(recorder.target, op);
  values.states?.[encoded](values.use, recorder);
}
