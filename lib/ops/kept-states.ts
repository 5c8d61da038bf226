/** What the ops with states share: where states are read from, and which states on the way are kept. */
import { invalid } from "../arguments/checks.ts";
import {
  asOptionalTensor,
  expectContiguous,
  expectDType,
  expectFloat,
  expectShape,
  expectRank,
} from "../tensor/expect.ts";
import { ShapeError } from "../errors.ts";
import type { Descriptor } from "../native/descriptor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { readIndices } from "./indices.ts";
import type { IndexData, Indices } from "./indices.ts";
import { placeTensor } from "./recorder.ts";
import type { Recorder } from "./recorder.ts";

/** Where states on the way go. {@link PoolStep.checkpoints} is one. */
export interface CheckpointArguments {
  /** `[sequences + 1]`, from 0, not decreasing: sequence s has the entries offsets[s] up to, not including, offsets[s + 1]. */
  readonly offsets: Indices;
  /** After how many of the sequence's tokens: 0..T, in any order. 0 is the state as it was read. */
  readonly tokens: Indices;
  /** The slot that the state then goes to. */
  readonly slots: Indices;
}

/** Arguments about states that ops with a pool of states share. "slot" is the shape of one of its slots. */
export interface KeptStateArguments {
  /**
   * Read instead of `state`: `[sourceSlots, …slot]` of its dtype, contiguous. `readSlots` then index this tensor, which
   * overlaps nothing that is written. @default state
   */
  readonly source?: Tensor | undefined;
  /**
   * Written: `[K, sequences, …slot]`, the pool's dtype, contiguous. Entry j is the state after all but the last j
   * tokens, 0 being the final one; entries of j ≥ T keep what they held.
   */
  readonly snapshots?: Tensor | undefined;
  /** `[sequences, K]`, row-major: the slots that the same states go to; −1 skips one. */
  readonly snapshotSlots?: Indices | undefined;
  /** States at chosen tokens, to slots. All slots that one op writes are distinct. */
  readonly checkpoints?: CheckpointArguments | undefined;
}

/** Checked arguments. */
export interface CheckedKept {
  readonly source: Tensor | undefined;
  readonly snapshots: Tensor | undefined;
  readonly snapshotSlots: Indices | undefined;
  readonly checkpoints: CheckpointArguments | undefined;
}

/** Checks these arguments, each of which was read once. `slotShape` is that of a slot of the pool. */
export function checkKept(
  op: string,
  state: Tensor | undefined,
  slotShape: readonly number[],
  slotLayout: readonly string[],
  givenSource: unknown,
  givenSnapshots: unknown,
  snapshotSlots: Indices | undefined,
  givenCheckpoints: unknown,
): CheckedKept {
  const source = asOptionalTensor(op, "source", givenSource);
  if (source !== undefined) checkStates(op, "source", source, ["sourceSlots"], slotShape, slotLayout, state);
  const snapshots = asOptionalTensor(op, "snapshots", givenSnapshots);
  const like = state ?? source;
  if (snapshots !== undefined) checkStates(op, "snapshots", snapshots, ["K", "sequences"], slotShape, slotLayout, like);
  const checkpoints = asCheckpoints(op, givenCheckpoints);
  for (const [argument, value] of [["snapshotSlots", snapshotSlots], ["checkpoints", checkpoints]] as const) {
    if (value !== undefined && state === undefined) throw invalid(op, argument, "nothing without state", value);
  }
  return { source, snapshots, snapshotSlots, checkpoints };
}

/** Checks a tensor of states: leading dimensions of any length, then a slot's. */
function checkStates(
  op: string,
  argument: string,
  tensor: Tensor,
  leading: readonly string[],
  slotShape: readonly number[],
  slotLayout: readonly string[],
  like: Tensor | undefined,
): void {
  const layout = [...leading, ...slotLayout];
  expectRank(op, argument, tensor, layout);
  expectShape(op, argument, tensor, [...tensor.shape.slice(0, leading.length), ...slotShape], layout);
  if (like === undefined) expectFloat(op, argument, tensor);
  else expectDType(op, argument, tensor, like.dtype);
  expectContiguous(op, argument, tensor);
}

function asCheckpoints(op: string, value: unknown): CheckpointArguments | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== "object" || value === null) throw invalid(op, "checkpoints", "{ offsets, tokens, slots }", value);
  const { offsets, tokens, slots } = value as CheckpointArguments;
  for (const [name, list] of Object.entries({ offsets, tokens, slots })) {
    if (list === undefined) throw invalid(op, `checkpoints.${name}`, "an Int32Array, an array of integers or an i32 tensor", list);
  }
  return { offsets, tokens, slots };
}

/** Index data of these arguments, as read at encode. */
export interface KeptIndices {
  readonly snapshotCount: number;
  readonly snapshotSlots: IndexData | undefined;
  readonly offsets: IndexData | undefined;
  readonly tokens: IndexData | undefined;
  readonly slots: IndexData | undefined;
}

/** Reads the index data. */
export function readKept(op: string, kept: CheckedKept): Omit<KeptIndices, "snapshotCount"> {
  const { checkpoints } = kept;
  return {
    snapshotSlots: readIndices(op, "snapshotSlots", kept.snapshotSlots),
    offsets: readIndices(op, "checkpoints.offsets", checkpoints?.offsets),
    tokens: readIndices(op, "checkpoints.tokens", checkpoints?.tokens),
    slots: readIndices(op, "checkpoints.slots", checkpoints?.slots),
  };
}

/** Checks the counts of the index data against the number of sequences. */
export function withCounts(
  op: string,
  sequences: number,
  snapshots: Tensor | undefined,
  indices: Omit<KeptIndices, "snapshotCount">,
): KeptIndices {
  const { snapshotSlots, offsets, tokens, slots } = indices;
  let snapshotCount = 0;
  if (snapshots !== undefined) {
    snapshotCount = snapshots.shape[0]!;
    if (snapshots.shape[1] !== sequences) {
      const expected = `[K, ${sequences}, …], one a sequence`;
      throw new ShapeError({ op, argument: "snapshots", expected, received: `[${snapshots.shape.join(", ")}]` });
    }
  } else if (snapshotSlots !== undefined && sequences > 0) {
    snapshotCount = Math.floor(snapshotSlots.count / sequences);
  }
  if (snapshotSlots !== undefined && snapshotSlots.count !== snapshotCount * sequences) {
    const expected = `${sequences} sequences · ${snapshots === undefined ? "K" : snapshotCount} slots`;
    throw new ShapeError({ op, argument: "snapshotSlots", expected, received: `${snapshotSlots.count}` });
  }
  if (offsets !== undefined && offsets.count !== sequences + 1) {
    const expected = `${sequences + 1} offsets, one more than sequences`;
    throw new ShapeError({ op, argument: offsets.argument, expected, received: `${offsets.count}` });
  }
  if (tokens !== undefined && slots !== undefined && tokens.count !== slots.count) {
    const expected = `${tokens.count} slots, as many as tokens`;
    throw new ShapeError({ op, argument: slots.argument, expected, received: `${slots.count}` });
  }
  return { ...indices, snapshotCount };
}

/** Packs counts and tensors; the index data go where the op places all of its own. */
export function packKept(
  recorder: Recorder,
  descriptor: Descriptor<"gd_gated_delta"> | Descriptor<"gd_causal_conv1d">,
  op: string,
  kept: CheckedKept,
  indices: KeptIndices,
): void {
  const common = descriptor as Descriptor<"gd_causal_conv1d">; // the fields have the same names in both
  common.u32("source_slots", kept.source?.shape[0] ?? 0);
  common.u32("snapshot_count", indices.snapshotCount);
  placeTensor(recorder, common, "source", op, "source", kept.source);
  placeTensor(recorder, common, "snapshots", op, "snapshots", kept.snapshots);
}

/** The index fields. */
export function keptFields({ snapshotSlots, offsets, tokens, slots }: KeptIndices) {
  return [
    ["snapshot_slots", snapshotSlots],
    ["checkpoint_offsets", offsets],
    ["checkpoint_tokens", tokens],
    ["checkpoint_slots", slots],
  ] as const;
}
