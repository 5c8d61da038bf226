/** Arguments about states that ops with a pool share. */
import type { Tensor } from "../tensor/tensor.ts";
import type { Indices } from "./indices.ts";
import type { LayerStates } from "./layer-states.ts";

/** Slots for states at chosen tokens. {@link PoolStep.checkpoints} has this type. */
export interface CheckpointArguments {
  /** `[sequences + 1]`, from 0, not decreasing: sequence s has the entries offsets[s] up to, not including, offsets[s + 1]. */
  readonly offsets: Indices;
  /** After how many of the sequence's tokens: 0..T, in any order. 0 is the state as it was read. */
  readonly tokens: Indices;
  /** The slot that each of these states is written to. */
  readonly slots: Indices;
}

/** Where states are read from, and which intermediate states are kept. "slot" is the shape of one of the pool's slots. */
export interface KeptStateArguments {
  /**
   * Read instead of `state`: `[sourceSlots, …slot]`, the dtype of `state`, contiguous. `readSlots` then index this tensor,
   * which must not overlap anything that is written. @default state
   */
  readonly source?: Tensor | undefined;
  /**
   * Written: `[K, sequences, …slot]`, the pool's dtype, contiguous. Entry j is the state after all but the last j
   * tokens, 0 being the final one; entries j ≥ T keep their contents.
   */
  readonly snapshots?: Tensor | undefined;
  /** `[sequences, K]`, row-major: the slots that these states are written to; −1 skips one. @default none */
  readonly snapshotSlots?: Indices | undefined;
  /** States at chosen tokens, written to slots. All slots that one op writes are distinct. @default none */
  readonly checkpoints?: CheckpointArguments | undefined;
}

/** The sequences of a batch, and their slots. */
export interface RaggedArguments {
  /** Row offsets `[sequences + 1]`, from 0, not decreasing, the last at most tokens; at most 1048576 sequences. @default [0, tokens]: one sequence */
  readonly cuSeqlens?: Indices | undefined;
  /** The slot that each sequence starts from; −1 starts from zero. @default 0, 1, 2, …; −1 without `state` and `source` */
  readonly readSlots?: Indices | undefined;
  /** The slot that each sequence's final state is written to, each at most once; −1 drops it. @default readSlots */
  readonly writeSlots?: Indices | undefined;
}

/** Arguments that both commits share. `cuSeqlens` and `readSlots` are those of the verified call. */
export interface CommitArguments extends RaggedArguments {
  /** How many of each sequence's tokens to apply, `[sequences]`: 0..T. */
  readonly counts: Indices;
  /** The layer's states in a pass over a {@link StatePool}, in place of `state` and the slots. */
  readonly states?: LayerStates | undefined;
}
