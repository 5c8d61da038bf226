import { asArguments } from "../arguments/checks.ts";
import { asTensor, expectRank } from "../tensor/expect.ts";
import { ShapeError } from "../errors.ts";
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { asHead, checkF32, checkNet, stateLayout } from "./ggml.ts";
import type { CheckedNet, GatedDeltaNetArguments } from "./ggml.ts";
import { notIndices, readIndices } from "./indices.ts";
import type { IndexData, Indices } from "./indices.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { placeIndices, placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

/** Arguments of {@link gatedDeltaNetInplace}. */
export interface GatedDeltaNetInplaceArguments extends GatedDeltaNetArguments {
  /** Read: `[B, Hv, S(value), S(key)]`, f32, contiguous. */
  readonly state: Tensor;
  /** Written: as `state`, either the same range of memory or one that shares nothing with it. */
  readonly stateDst: Tensor;
}

/** Arguments of {@link gatedDeltaNetInplaceIds}. */
export interface GatedDeltaNetInplaceIdsArguments extends GatedDeltaNetArguments {
  /** Read and written: `[slots, Hv, S(value), S(key)]`, f32, contiguous. */
  readonly cache: Tensor;
  /** `[B]`: the slot that each sequence reads; −1 starts from zero, by store, so that a slot's old NaN can't survive. */
  readonly ids: Indices;
  /** Sequence s writes slot rsHead + s. */
  readonly rsHead: number;
}

/**
 * ggml's gated delta rule that updates its states in place: {@link gatedDelta} with tiled heads, the gate as a logarithm,
 * β given, no normalisation and outputs scaled by 1/√S. State s of `state` becomes state s of `stateDst`.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other, a partial overlap of `state` and `stateDst` among
 *   them; nothing is written then.
 * @example
 * device.run(gatedDeltaNetInplace({ q, k, v, gate, beta, state, stateDst: state, out }));
 */
export function gatedDeltaNetInplace(args: GatedDeltaNetInplaceArguments): Op {
  return makeOp("gatedDeltaNetInplace", args, readInplace, encodeInplace);
}

/**
 * {@link gatedDeltaNetInplace} over a cache: sequence s reads slot ids[s] and writes slot rsHead + s. Every read sees the
 * cache as it was before the op, so ids may swap, rotate or fan out, inside the written slots or outside.
 *
 * @throws {GatedDeltaError} of code `range` for an id or `rsHead` outside the cache; nothing is written then.
 * @example
 * device.run(gatedDeltaNetInplaceIds({ q, k, v, gate, beta, cache, ids: [1, 0], rsHead: 0, out })); // swap
 */
export function gatedDeltaNetInplaceIds(args: GatedDeltaNetInplaceIdsArguments): Op {
  return makeOp("gatedDeltaNetInplaceIds", args, readIds, encodeIds);
}

function readInplace(args: GatedDeltaNetInplaceArguments) {
  const op = "gatedDeltaNetInplace";
  const { q, k, v, gate, beta, snapshots, out, state: givenState, stateDst: givenDst } = asArguments(op, args);
  const net = checkNet(op, q, k, v, gate, beta, snapshots, out);
  const shape = [net.sequences, net.valueHeads, net.dim, net.dim];
  const state = asTensor(op, "state", givenState);
  checkF32(op, "state", state, shape, ["B", ...stateLayout]);
  const stateDst = asTensor(op, "stateDst", givenDst);
  checkF32(op, "stateDst", stateDst, shape, ["B", ...stateLayout]);
  return { net, state, stateDst };
}

function readIds(args: GatedDeltaNetInplaceIdsArguments) {
  const op = "gatedDeltaNetInplaceIds";
  const { q, k, v, gate, beta, snapshots, out, cache: givenCache, ids, rsHead: givenHead } = asArguments(op, args);
  const net = checkNet(op, q, k, v, gate, beta, snapshots, out);
  const cache = asTensor(op, "cache", givenCache);
  expectRank(op, "cache", cache, ["slots", ...stateLayout]);
  const slots = cache.shape[0]!;
  checkF32(op, "cache", cache, [slots, net.valueHeads, net.dim, net.dim], ["slots", ...stateLayout]);
  const rsHead = asHead(op, givenHead, net.sequences, slots);
  expectRoom(op, "cache", slots, net.sequences);
  if (ids === undefined) throw notIndices(op, "ids", ids);
  return { net, cache, slots, ids, rsHead };
}

/** Checks that a cache has a slot for each sequence. */
export function expectRoom(op: string, argument: string, slots: number, sequences: number): void {
  if (slots >= sequences) return;
  throw new ShapeError({ op, argument, expected: `at least ${sequences} slots, one a sequence`, received: `${slots}` });
}

/** Reads the ids of an op, one a sequence. */
export function readIdsOf(op: string, source: Indices, sequences: number): IndexData {
  const ids = readIndices(op, "ids", source)!;
  if (ids.count === sequences) return ids;
  throw new ShapeError({ op, argument: "ids", expected: `${sequences} ids, one a sequence`, received: `${ids.count}` });
}

const inplace = new Descriptor("gd_gated_delta_net_inplace");
const withIds = new Descriptor("gd_gated_delta_net_inplace_ids");

function encodeInplace(recorder: Recorder, { net, state, stateDst }: ReturnType<typeof readInplace>): void {
  const op = "gatedDeltaNetInplace";
  pack(recorder, inplace, op, net);
  placeTensor(recorder, inplace, "state", op, "state", state);
  placeTensor(recorder, inplace, "state_dst", op, "stateDst", stateDst);
  inplace.encode(recorder.target, op);
}

function encodeIds(recorder: Recorder, { net, cache, slots, ids: source, rsHead }: ReturnType<typeof readIds>): void {
  const op = "gatedDeltaNetInplaceIds";
  const ids = readIdsOf(op, source, net.sequences);
  // From here on nothing of the caller's runs: the descriptor and the index memory are shared by all calls.
  pack(recorder, withIds, op, net);
  withIds.u32("slots", slots);
  withIds.i32("rs_head", rsHead);
  placeTensor(recorder, withIds, "cache", op, "cache", cache);
  placeIndices(recorder, withIds, [["ids", ids]]);
  withIds.encode(recorder.target, op);
}

function pack(recorder: Recorder, descriptor: typeof inplace | typeof withIds, op: string, net: CheckedNet): void {
  const common = descriptor as typeof inplace; // these fields have the same names in both
  common.u32("sequences", net.sequences);
  common.u32("tokens", net.tokens);
  common.u32("key_heads", net.keyHeads);
  common.u32("value_heads", net.valueHeads);
  common.u32("dim", net.dim);
  common.u32("gate_dims", net.gateDims);
  common.u32("snapshot_count", net.snapshots?.shape[0] ?? 0);
  placeTensor(recorder, common, "query", op, "q", net.query);
  placeTensor(recorder, common, "key", op, "k", net.key);
  placeTensor(recorder, common, "value", op, "v", net.value);
  placeTensor(recorder, common, "gate", op, "gate", net.gate);
  placeTensor(recorder, common, "beta", op, "beta", net.beta);
  placeTensor(recorder, common, "snapshots", op, "snapshots", net.snapshots);
  placeTensor(recorder, common, "out", op, "out", net.out);
}
