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
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { checkGates, checkRecurrence } from "./gates.ts";
import type { GateTensors, RecurrenceOptions } from "./gates.ts";
import { readIndices, sequencesOf } from "./indices.ts";
import type { Indices } from "./indices.ts";
import { checkKept, keptFields, packKept, readKept, withCounts } from "./kept-states.ts";
import type { KeptStateArguments } from "./kept-states.ts";
import { admit, bindStates, encoded, withDraft } from "./layer-states.ts";
import type { LayerStates, StateKind, StateUse } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { algorithms, gateDimsNames } from "./option-names.ts";
import type { Algorithm } from "./option-names.ts";
import { placeIndices, placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";
import { checkRecords, packRecords } from "./records.ts";
import type { DeltaRecords } from "./records.ts";

const op = "gatedDelta";

/** Arguments of {@link gatedDelta}. Dimensions are called tokens, keyHeads, valueHeads, keyDim, valueDim and slots. */
export interface GatedDeltaArguments extends RecurrenceOptions, GateTensors, KeptStateArguments {
  /** `[tokens, keyHeads, keyDim]`, f32, f16 or bf16: the activation dtype. keyDim is a multiple of 8 in 8..256. */
  readonly query: Tensor;
  /** `[tokens, keyHeads, keyDim]`, the activation dtype. */
  readonly key: Tensor;
  /** `[tokens, valueHeads, valueDim]`, the activation dtype. valueDim is as keyDim; valueHeads a multiple of keyHeads. */
  readonly value: Tensor;
  /** Written: `[tokens, valueHeads, valueDim]`, the activation dtype or f32. */
  readonly out: Tensor;
  /**
   * Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16, contiguous. Without it every
   * sequence starts from zero and drops its final state.
   */
  readonly state?: Tensor | undefined;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state`, the slots and what is kept on the way. */
  readonly states?: LayerStates | undefined;
  /** Row offsets `[sequences + 1]`, from 0, not decreasing, the last at most tokens. @default [0, tokens]: one sequence */
  readonly cuSeqlens?: Indices | undefined;
  /** The slot that each sequence starts from; −1 starts from zero. @default 0, 1, 2, …; −1 without `state` */
  readonly readSlots?: Indices | undefined;
  /** The slot that each sequence's final state goes to, each at most once; −1 drops it. @default readSlots */
  readonly writeSlots?: Indices | undefined;
  /**
   * Written: what {@link commitGatedDelta} needs to bring the states forward by as many of these tokens as turn out to
   * be right. Not with the chunked algorithm. @default none
   */
  readonly records?: DeltaRecords | undefined;
  /** @default "auto" */
  readonly algorithm?: Algorithm | undefined;
}

/**
 * The gated delta rule over a ragged batch. For each sequence and value head, with state S of valueDim rows of keyDim
 * and for each token in order:
 *
 *     S ← a S;   δ = β (v − S k);   S ← S + δ kᵀ;   out = S q
 *
 * with k and q normalised as `qkNorm` says and q scaled. (Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024; the
 * layouts are those of MLX and vLLM.) Arithmetic is float32; each output is rounded once, when it is stored.
 *
 * `query`, `key`, `value` and `out` may be strided views with free token and head strides, such as parts of one packed
 * convolution output; strides and offsets are multiples of 8 elements. `out` overlaps nothing.
 *
 * Every read sees the pool as it was before the op, so slots may be swapped, rotated or fanned out.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 * @example
 * device.run(gatedDelta({ query, key, value, gate, beta, state, out, gateForm: "log", qkNorm: "l2" }));
 * device.wait();
 */
export function gatedDelta(args: GatedDeltaArguments): Op {
  return makeOp(op, args, read, encode);
}

type Values = ReturnType<typeof read>;

const keyLayout = ["tokens", "keyHeads", "keyDim"];
const valueLayout = ["tokens", "valueHeads", "valueDim"];
const kinds: readonly StateKind[] = ["state"];
const stateLayout = ["slots", "valueHeads", "valueDim", "keyDim"];

function read(args: GatedDeltaArguments) {
  const {
    query: givenQuery,
    key: givenKey,
    value: givenValue,
    gate,
    beta,
    aLog,
    dtBias,
    state: rawState,
    states,
    out: givenOut,
    cuSeqlens: rawCuSeqlens,
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
    algorithm,
    source,
    snapshots,
    snapshotSlots: rawSnapshotSlots,
    checkpoints: rawCheckpoints,
    records: rawRecords,
  } = asArguments(op, args);

  const query = asTensor(op, "query", givenQuery);
  expectRank(op, "query", query, keyLayout);
  expectFloat(op, "query", query);
  const activation = query.dtype;
  const [tokens, keyHeads, keyDim] = query.shape as [number, number, number];

  const key = asTensor(op, "key", givenKey);
  expectShape(op, "key", key, query.shape, keyLayout);
  expectDType(op, "key", key, activation);

  const value = asTensor(op, "value", givenValue);
  expectRank(op, "value", value, valueLayout);
  const [, valueHeads, valueDim] = value.shape as [number, number, number];
  expectShape(op, "value", value, [tokens, valueHeads, valueDim], valueLayout);
  expectDType(op, "value", value, activation);

  const out = asTensor(op, "out", givenOut);
  expectShape(op, "out", out, value.shape, valueLayout);
  expectDType(op, "out", out, activation, "f32");
  expectContiguousRows(op, "query", query);
  expectContiguousRows(op, "key", key);
  expectContiguousRows(op, "value", value);
  expectContiguousRows(op, "out", out);

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
  const gates = checkGates(op, recurrence, activation, tokens, valueHeads, keyDim, "tokens", gate, beta, aLog, dtBias);

  const use: StateUse = {
    op, kinds, drafts: true, perKey: recurrence.gateDims === gateDimsNames.key, headMap: heads,
  };
  const raw = {
    state: rawState, readSlots: rawReadSlots, writeSlots: rawWriteSlots, source, snapshots,
    snapshotSlots: rawSnapshotSlots, checkpoints: rawCheckpoints, records: rawRecords,
  };
  const bound = states === undefined ? undefined : bindStates(states, use, raw);
  const { state: givenState, readSlots, writeSlots, snapshotSlots, checkpoints, records: givenRecords } = bound ?? raw;
  const cuSeqlens = withDraft(op, bound, rawCuSeqlens);
  const state = asOptionalTensor(op, "state", givenState);
  if (state !== undefined) checkState(op, state, valueHeads, valueDim, keyDim);
  const slotShape = [valueHeads, valueDim, keyDim];
  const kept = checkKept(op, state, slotShape, stateLayout.slice(1), source, snapshots, snapshotSlots, checkpoints);
  const records = checkRecords(op, givenRecords, {
    tokens, keyHeads, valueHeads, keyDim, valueDim, perKey: recurrence.gateDims === gateDimsNames.key,
  });
  return {
    tokens,
    keyHeads,
    valueHeads,
    keyDim,
    valueDim,
    recurrence,
    gates,
    algorithm: asChoice(op, "algorithm", algorithm, algorithms, "auto"),
    query,
    key,
    value,
    state,
    kept,
    records,
    out,
    cuSeqlens,
    readSlots,
    writeSlots,
    states,
    bound,
    use,
  };
}

/** Checks a pool of recurrent states. */
export function checkState(op: string, state: Tensor, valueHeads: number, valueDim: number, keyDim: number): void {
  expectRank(op, "state", state, stateLayout);
  expectShape(op, "state", state, [state.shape[0]!, valueHeads, valueDim, keyDim], stateLayout);
  expectFloat(op, "state", state);
  expectContiguous(op, "state", state);
}

const descriptor = new Descriptor("gd_gated_delta");

function encode(recorder: Recorder, values: Values): void {
  const cuSeqlens = readIndices(op, "cuSeqlens", values.cuSeqlens);
  const readSlots = readIndices(op, "readSlots", values.readSlots);
  const writeSlots = readIndices(op, "writeSlots", values.writeSlots);
  const keptIndices = readKept(op, values.kept);
  const sequences = sequencesOf(cuSeqlens, readSlots, writeSlots, 1);
  const kept = withCounts(op, sequences, values.kept.snapshots, keptIndices);
  const { recurrence, gates } = values;
  values.states?.[admit](values.use, recorder);
  // From here on nothing of the caller's runs: the descriptor and the index memory are shared by all calls.
  descriptor.u32("tokens", values.tokens);
  descriptor.u32("sequences", sequences);
  descriptor.u32("key_heads", values.keyHeads);
  descriptor.u32("value_heads", values.valueHeads);
  descriptor.u32("key_dim", values.keyDim);
  descriptor.u32("value_dim", values.valueDim);
  descriptor.u32("slots", values.state?.shape[0] ?? 0);
  descriptor.u32("gate_form", recurrence.gateForm);
  descriptor.u32("gate_dims", recurrence.gateDims);
  descriptor.u32("beta_form", recurrence.betaForm);
  descriptor.u32("head_map", recurrence.heads);
  descriptor.u32("qk_norm", recurrence.qkNorm);
  descriptor.u32("algorithm", values.algorithm);
  descriptor.f32("qk_norm_eps", recurrence.qkNormEps);
  descriptor.f32("scale", recurrence.scale);
  descriptor.f32("gate_bound", recurrence.gateBound);
  placeTensor(recorder, descriptor, "query", op, "query", values.query);
  placeTensor(recorder, descriptor, "key", op, "key", values.key);
  placeTensor(recorder, descriptor, "value", op, "value", values.value);
  placeTensor(recorder, descriptor, "gate", op, "gate", gates.gate);
  placeTensor(recorder, descriptor, "beta", op, "beta", gates.beta);
  placeTensor(recorder, descriptor, "a_log", op, "aLog", gates.aLog);
  placeTensor(recorder, descriptor, "dt_bias", op, "dtBias", gates.dtBias);
  placeTensor(recorder, descriptor, "state", op, "state", values.state, values.bound);
  placeTensor(recorder, descriptor, "out", op, "out", values.out);
  packKept(recorder, descriptor, op, values.kept, kept);
  packRecords(recorder, descriptor, op, values.records);
  placeIndices(recorder, descriptor, [
    ["cu_seqlens", cuSeqlens],
    ["read_slots", readSlots],
    ["write_slots", writeSlots],
    ...keptFields(kept),
  ]);
  descriptor.encode(recorder.target, op);
  values.states?.[encoded](values.use, recorder);
}
