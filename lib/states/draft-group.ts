/** Drafts of several states that one pass verifies. Each draft ends on its own, but a layer's ops take all of them at once. */
import { GatedDeltaError } from "../errors.ts";
import { LayerStates, admit, bind, encoded } from "../ops/layer-states.ts";
import type { BoundStates, StateUse } from "../ops/layer-states.ts";
import type { Recorder } from "../ops/recorder.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { Draft } from "./draft.ts";
import { startsOf } from "./draft-layers.ts";
import type { DraftMemory, DraftRows } from "./draft-memory.ts";
import type { StateHandle } from "./state-handle.ts";
import { openDraft } from "./state-pool.ts";
import type { StatePool } from "./state-pool.ts";

export class DraftGroup implements Disposable {
  readonly pool: StatePool;
  /** One for each state, in the order of their rows. */
  readonly drafts: readonly Draft[];
  /** Number of tokens of all drafts. */
  readonly tokens: number;
  readonly #rows: DraftRows;
  readonly #starts: Int32Array;

  /**
   * Opens a draft of `counts[i]` tokens for handle i, with records in rows of `memory`, which has enough free ones.
   *
   * @throws {GatedDeltaError} as `pool.draft`; no draft is open then.
   */
  constructor(pool: StatePool, memory: DraftMemory, handles: readonly StateHandle[], counts: readonly number[]) {
    const { all, pieces } = memory.take(counts);
    const drafts: Draft[] = [];
    try {
      for (const [i, handle] of handles.entries()) drafts.push(openDraft(pool, handle, counts[i]!, pieces[i]!));
    } catch (error) {
      for (const draft of drafts) draft[Symbol.dispose]();
      for (const rows of pieces) rows.release();
      throw error;
    }
    this.pool = pool;
    this.drafts = drafts;
    this.#rows = all;
    this.#starts = startsOf(counts);
    this.tokens = this.#starts.at(-1)!;
  }

  /** `[drafts + 1]`: the first row of each draft's tokens, and the end of the last. */
  get cuSeqlens(): Int32Array {
    return this.#starts;
  }

  /** `[tokens, convChannels]`: the input of a layer's convolution, of all drafts. */
  convInput(layer: number): Tensor {
    const input = this.#rows.convInput(layer);
    if (input !== undefined) return input;
    const expected = "a pool that holds convolution states";
    throw new GatedDeltaError("invalid-argument", { op: "DraftGroup", expected, received: "one created with conv: false" });
  }

  /** The states of one of the pool's layers in all drafts: for the convolution over `convInput`, and the recurrence. */
  layer(layer: number, convInput: Tensor): LayerStates {
    return new GroupLayer(this.drafts, { layer, convInput, rows: this.#rows, starts: this.#starts });
  }

  /** Undoes all open drafts: their states are unchanged. */
  [Symbol.dispose](): void {
    for (const draft of this.drafts) draft[Symbol.dispose]();
  }
}

/** A layer, and its memory for all drafts of a group. */
interface GroupMemory {
  readonly layer: number;
  readonly convInput: Tensor;
  readonly rows: DraftRows;
  readonly starts: Int32Array;
}

class GroupLayer extends LayerStates {
  readonly #drafts: readonly Draft[];
  readonly #layers: readonly LayerStates[];
  readonly #memory: GroupMemory;

  constructor(drafts: readonly Draft[], memory: GroupMemory) {
    super();
    this.#drafts = drafts;
    this.#layers = drafts.map((draft) => draft.layer(memory.layer));
    this.#memory = memory;
  }

  [bind](use: StateUse): BoundStates {
    const { layer, convInput, rows, starts } = this.#memory;
    const conv = use.kinds.includes("conv");
    if (conv && use.x !== convInput) {
      throw new GatedDeltaError("invalid-argument", { op: use.op, argument: "x", expected: "the group's convInput", received: "another tensor" });
    }
    // Each draft keeps its own rows of the records that the op writes, for its commit.
    const bound = this.#layers.map((states, i) => states[bind](conv ? { ...use, x: this.#drafts[i]!.convInput(layer) } : use));
    const { state, convState } = bound[0]!;
    return {
      state,
      convState,
      readSlots: Int32Array.from(bound, ({ readSlots }) => readSlots[0]!),
      writeSlots: new Int32Array(bound.length).fill(-1),
      cuSeqlens: starts,
      ...(use.kinds.includes("state") && { records: rows.records(layer) }),
    };
  }

  [admit](use: StateUse, recorder: Recorder): void {
    for (const layer of this.#layers) layer[admit](use, recorder);
  }

  [encoded](use: StateUse, recorder: Recorder): void {
    for (const layer of this.#layers) layer[encoded](use, recorder);
  }
}
