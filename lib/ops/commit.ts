/** The commits of a verified draft: the accepted tokens' records, applied to the states that were verified. */
import { asArguments, asChoice, invalid } from "../arguments/checks.ts";
import { asTensor, expectContiguousRows, expectFloat, expectRank } from "../tensor/expect.ts";
import { ShapeError } from "../errors.ts";
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { checkConvState } from "./causal-conv1d.ts";
import { checkState } from "./gated-delta.ts";
import { readIndices, notIndices, sequencesOf } from "./indices.ts";
import type { IndexData, Indices } from "./indices.ts";
import { admit, bindStates, encoded } from "./layer-states.ts";
import type { LayerStates, StateUse } from "./layer-states.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { gateDimsNames, headMaps } from "./option-names.ts";
import type { HeadMap } from "./option-names.ts";
import { placeIndices, placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";
import { checkRecords, packRecords } from "./records.ts";
import type { DeltaRecords } from "./records.ts";

/** Arguments that both commits share. */
export interface CommitArguments {
  /** How many of each sequence's tokens to apply, `[sequences]`: 0..T. */
  readonly counts: Indices;
  /** The verified call's. @default [0, tokens]: one sequence */
  readonly cuSeqlens?: Indices | undefined;
  /** The slots that the verified call read; −1 starts from zero. @default 0, 1, 2, … */
  readonly readSlots?: Indices | undefined;
  /** The slot that each sequence's state goes to, each at most once; −1 drops it. @default readSlots */
  readonly writeSlots?: Indices | undefined;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state` and the slots. */
  readonly states?: LayerStates | undefined;
}

/** Arguments of {@link commitGatedDelta}. */
export interface CommitGatedDeltaArguments extends CommitArguments {
  /** What {@link gatedDelta} kept. */
  readonly records: DeltaRecords;
  /** Read and written in place: `[slots, valueHeads, valueDim, keyDim]`, f32, f16 or bf16, contiguous. */
  readonly state?: Tensor | undefined;
  /** As in the verified call. @default "block" */
  readonly heads?: HeadMap | undefined;
}

/** Arguments of {@link commitCausalConv1d}. */
export interface CommitCausalConv1dArguments extends CommitArguments {
  /** `[tokens, channels]`: the verified call's input, as it was. */
  readonly x: Tensor;
  /** Read and written in place: `[slots, channels, width − 1]`, x's dtype or f32, contiguous, oldest first. */
  readonly state?: Tensor | undefined;
}

const rowLayout = ["tokens", "channels"];
const keyLayout = ["tokens", "keyHeads", "keyDim"];
const valueLayout = ["tokens", "valueHeads", "valueDim"];

/**
 * Brings states forward by the first `counts[s]` tokens of each sequence, from the records that a {@link gatedDelta} over
 * the same tokens kept: S ← a S; S ← S + δ kᵀ. With f32 states the bits are those of as many decode steps.
 *
 * The verified call reads its slots and writes none (`writeSlots` of −1); this one reads the same slots.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 */
export function commitGatedDelta(args: CommitGatedDeltaArguments): Op {
  return makeOp("commitGatedDelta", args, readDelta, encodeDelta);
}

/**
 * The same for the convolution, whose record is its own input: the new state is the last width − 1 rows of (old state ‖
 * the first `counts[s]` rows of x).
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other; nothing is written then.
 */
export function commitCausalConv1d(args: CommitCausalConv1dArguments): Op {
  return makeOp("commitCausalConv1d", args, readConv, encodeConv);
}

function readDelta(args: CommitGatedDeltaArguments) {
  const op = "commitGatedDelta";
  const { records: given, state: rawState, heads, counts, cuSeqlens, readSlots: read, writeSlots: write, states } = asArguments(op, args);
  if (typeof given !== "object" || given === null) throw invalid(op, "records", "{ key, delta, decay }", given);
  const { key: givenKey, delta: givenDelta, decay: givenDecay } = given;
  const key = asTensor(op, "records.key", givenKey);
  expectRank(op, "records.key", key, keyLayout);
  const [tokens, keyHeads, keyDim] = key.shape as [number, number, number];
  const delta = asTensor(op, "records.delta", givenDelta);
  expectRank(op, "records.delta", delta, valueLayout);
  const [, valueHeads, valueDim] = delta.shape as [number, number, number];
  const decay = asTensor(op, "records.decay", givenDecay);
  const perKey = decay.shape.length === 3;
  const sizes = { tokens, keyHeads, valueHeads, keyDim, valueDim, perKey };
  const records = checkRecords(op, { key, delta, decay }, sizes);
  const use: StateUse = { op, kinds: ["state"], drafts: false };
  const raw = { state: rawState, readSlots: read, writeSlots: write };
  const bound = states === undefined ? undefined : bindStates(states, use, raw);
  const { state: givenState, readSlots, writeSlots } = bound ?? raw;
  const state = asTensor(op, "state", givenState);
  checkState(op, state, valueHeads, valueDim, keyDim);
  if (counts === undefined) throw notIndices(op, "counts", counts);
  return { ...sizes, records, state, heads: asChoice(op, "heads", heads, headMaps, "block"), counts, cuSeqlens, readSlots, writeSlots, states, bound, use };
}

function readConv(args: CommitCausalConv1dArguments) {
  const op = "commitCausalConv1d";
  const { x: givenX, state: rawState, counts, cuSeqlens, readSlots: read, writeSlots: write, states } = asArguments(op, args);
  const x = asTensor(op, "x", givenX);
  expectRank(op, "x", x, rowLayout);
  expectFloat(op, "x", x);
  expectContiguousRows(op, "x", x);
  const [tokens, channels] = x.shape as [number, number];
  const use: StateUse = { op, kinds: ["conv"], drafts: false };
  const raw = { state: rawState, readSlots: read, writeSlots: write };
  const bound = states === undefined ? undefined : bindStates(states, use, raw);
  const { readSlots, writeSlots } = bound ?? raw;
  const state = asTensor(op, "state", bound === undefined ? rawState : bound.convState);
  expectRank(op, "state", state, ["slots", "channels", "width - 1"]);
  const width = state.shape[2]! + 1;
  if (width < 2 || width > 9) {
    throw new ShapeError({ op, argument: "state", expected: "1..8 columns: a width of 2..9", received: `${width - 1}` });
  }
  checkConvState(op, "state", state, channels, width, x.dtype);
  if (counts === undefined) throw notIndices(op, "counts", counts);
  return { tokens, channels, width, x, state, counts, cuSeqlens, readSlots, writeSlots, states, bound, use };
}

/** Reads the index data of a commit and checks their counts. */
function readCommit(op: string, values: CommitArguments) {
  const counts = readIndices(op, "counts", values.counts)!;
  const cuSeqlens = readIndices(op, "cuSeqlens", values.cuSeqlens);
  const readSlots = readIndices(op, "readSlots", values.readSlots);
  const writeSlots = readIndices(op, "writeSlots", values.writeSlots);
  const sequences = sequencesOf(cuSeqlens, readSlots, writeSlots, 1);
  if (counts.count !== sequences) {
    throw new ShapeError({ op, argument: "counts", expected: `${sequences} counts, one a sequence`, received: `${counts.count}` });
  }
  const fields: readonly (readonly ["counts" | "cu_seqlens" | "read_slots" | "write_slots", IndexData | undefined])[] = [
    ["cu_seqlens", cuSeqlens],
    ["counts", counts],
    ["read_slots", readSlots],
    ["write_slots", writeSlots],
  ];
  return { sequences, fields };
}

const delta = new Descriptor("gd_commit_gated_delta");

function encodeDelta(recorder: Recorder, values: ReturnType<typeof readDelta>): void {
  const op = "commitGatedDelta";
  const { sequences, fields } = readCommit(op, values);
  values.states?.[admit](values.use, recorder);
  // From here on nothing of the caller's runs: the descriptor and the index memory are shared by all calls.
  delta.u32("tokens", values.tokens);
  delta.u32("sequences", sequences);
  delta.u32("key_heads", values.keyHeads);
  delta.u32("value_heads", values.valueHeads);
  delta.u32("key_dim", values.keyDim);
  delta.u32("value_dim", values.valueDim);
  delta.u32("slots", values.state.shape[0]!);
  delta.u32("gate_dims", values.perKey ? gateDimsNames.key : gateDimsNames.head);
  delta.u32("head_map", values.heads);
  packRecords(recorder, delta, op, values.records);
  placeTensor(recorder, delta, "state", op, "state", values.state, values.bound);
  placeIndices(recorder, delta, fields);
  delta.encode(recorder.target, op);
  values.states?.[encoded](values.use, recorder);
}

const conv = new Descriptor("gd_commit_causal_conv1d");

function encodeConv(recorder: Recorder, values: ReturnType<typeof readConv>): void {
  const op = "commitCausalConv1d";
  const { sequences, fields } = readCommit(op, values);
  values.states?.[admit](values.use, recorder);
  conv.u32("tokens", values.tokens);
  conv.u32("sequences", sequences);
  conv.u32("channels", values.channels);
  conv.u32("width", values.width);
  conv.u32("slots", values.state.shape[0]!);
  placeTensor(recorder, conv, "x", op, "x", values.x);
  placeTensor(recorder, conv, "state", op, "state", values.state, values.bound);
  placeIndices(recorder, conv, fields);
  conv.encode(recorder.target, op);
  values.states?.[encoded](values.use, recorder);
}
