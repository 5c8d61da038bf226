import { asArguments } from "../arguments/checks.ts";
import { asTensor, expectRank } from "../tensor/expect.ts";
import { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { expectRoom, readIdsOf } from "./ggml-delta.ts";
import { asHead, checkF32, checkUpdate } from "./ggml.ts";
import type { SsmConvUpdateArguments } from "./ggml.ts";
import { notIndices } from "./indices.ts";
import type { Indices } from "./indices.ts";
import { makeOp } from "./op.ts";
import type { Op } from "./op.ts";
import { placeIndices, placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

/** Arguments of {@link ssmConvUpdateInplace}. */
export interface SsmConvUpdateInplaceArguments extends SsmConvUpdateArguments {
  /** Read: `[B, C, K − 1]`, f32, contiguous, oldest first. */
  readonly convStates: Tensor;
  /** Written: as `convStates`, either the same range of memory or one that shares nothing with it. */
  readonly convStateDst: Tensor;
}

/** Arguments of {@link ssmConvUpdateInplaceIds}. */
export interface SsmConvUpdateInplaceIdsArguments extends SsmConvUpdateArguments {
  /** Read and written: `[cells, C, K − 1]`, f32, contiguous, oldest first. */
  readonly convCache: Tensor;
  /** `[B]`: the cell that each sequence reads; −1 starts from zeros, by store. */
  readonly ids: Indices;
  /** Sequence s writes cell rsHead + s. */
  readonly rsHead: number;
}

/**
 * One token of each sequence through the causal convolution, ggml's way: the taps in ascending order, then optionally
 * SiLU; the state drops its oldest column and takes x as its newest. {@link causalConv1d} with one token a sequence.
 *
 * @throws {GatedDeltaError} for arguments that do not fit each other, a partial overlap of `convStates` and
 *   `convStateDst` among them; nothing is written then.
 * @example
 * device.run(ssmConvUpdateInplace({ convStates, convStateDst: convStates, weight, x, silu: true, out }));
 */
export function ssmConvUpdateInplace(args: SsmConvUpdateInplaceArguments): Op {
  return makeOp("ssmConvUpdateInplace", args, readInplace, encodeInplace);
}

/**
 * {@link ssmConvUpdateInplace} over a cache: sequence s reads cell ids[s] and writes cell rsHead + s. Every read sees the
 * cache as it was before the op.
 *
 * @throws {GatedDeltaError} of code `range` for an id or `rsHead` outside the cache; nothing is written then.
 * @example
 * device.run(ssmConvUpdateInplaceIds({ convCache, ids: [2, 2], rsHead: 0, weight, x, silu: true, out })); // fan-out
 */
export function ssmConvUpdateInplaceIds(args: SsmConvUpdateInplaceIdsArguments): Op {
  return makeOp("ssmConvUpdateInplaceIds", args, readIds, encodeIds);
}

function readInplace(args: SsmConvUpdateInplaceArguments) {
  const op = "ssmConvUpdateInplace";
  const { weight, x, silu, out, convStates: givenStates, convStateDst: givenDst } = asArguments(op, args);
  const update = checkUpdate(op, weight, x, silu, out);
  const shape = [update.sequences, update.channels, update.width - 1];
  const convStates = asTensor(op, "convStates", givenStates);
  checkF32(op, "convStates", convStates, shape, ["B", "C", "K - 1"]);
  const convStateDst = asTensor(op, "convStateDst", givenDst);
  checkF32(op, "convStateDst", convStateDst, shape, ["B", "C", "K - 1"]);
  return { update, convStates, convStateDst };
}

function readIds(args: SsmConvUpdateInplaceIdsArguments) {
  const op = "ssmConvUpdateInplaceIds";
  const { weight, x, silu, out, convCache: givenCache, ids, rsHead: givenHead } = asArguments(op, args);
  const update = checkUpdate(op, weight, x, silu, out);
  const layout = ["cells", "C", "K - 1"];
  const convCache = asTensor(op, "convCache", givenCache);
  expectRank(op, "convCache", convCache, layout);
  const cells = convCache.shape[0]!;
  checkF32(op, "convCache", convCache, [cells, update.channels, update.width - 1], layout);
  const rsHead = asHead(op, givenHead, update.sequences, cells);
  expectRoom(op, "convCache", cells, update.sequences);
  if (ids === undefined) throw notIndices(op, "ids", ids);
  return { update, convCache, cells, ids, rsHead };
}

const inplace = new Descriptor("gd_ssm_conv_update_inplace");
const withIds = new Descriptor("gd_ssm_conv_update_inplace_ids");

function encodeInplace(recorder: Recorder, { update, convStates, convStateDst }: ReturnType<typeof readInplace>): void {
  const op = "ssmConvUpdateInplace";
  pack(recorder, inplace, op, update);
  placeTensor(recorder, inplace, "conv_states", op, "convStates", convStates);
  placeTensor(recorder, inplace, "conv_state_dst", op, "convStateDst", convStateDst);
  inplace.encode(recorder.target, op);
}

function encodeIds(recorder: Recorder, { update, convCache, cells, ids: source, rsHead }: ReturnType<typeof readIds>): void {
  const op = "ssmConvUpdateInplaceIds";
  const ids = readIdsOf(op, source, update.sequences);
  // From here on nothing of the caller's runs: the descriptor and the index memory are shared by all calls.
  pack(recorder, withIds, op, update);
  withIds.u32("cells", cells);
  withIds.i32("rs_head", rsHead);
  placeTensor(recorder, withIds, "conv_cache", op, "convCache", convCache);
  placeIndices(recorder, withIds, [["ids", ids]]);
  withIds.encode(recorder.target, op);
}

function pack(
  recorder: Recorder,
  descriptor: typeof inplace | typeof withIds,
  op: string,
  update: ReturnType<typeof checkUpdate>,
): void {
  const common = descriptor as typeof inplace; // these fields have the same names in both
  common.u32("sequences", update.sequences);
  common.u32("channels", update.channels);
  common.u32("width", update.width);
  common.u32("silu", update.silu);
  placeTensor(recorder, common, "weight", op, "weight", update.weight);
  placeTensor(recorder, common, "x", op, "x", update.x);
  placeTensor(recorder, common, "out", op, "out", update.out);
}
