/** Drafts of several states that one pass verifies: each is ended by itself, but a layer's ops read all of them at once. */
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
  /** One a state, in the order of their rows. */
  readonly drafts: readonly Draft[];
  /** Tokens of all of them. */
  readonly tokens: number;
  readonly #rows: DraftRows;
  readonly #starts: Int32Array;

  /**
   * Opens a draft of `counts[i]` tokens for handle i, with records in rows of `memory`, of which as many are free.
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

  /** `[drafts + 1]`: the rows of each draft's tokens. */
  get cuSeqlens(): Int32Array {
    return this.#starts;
  }

  /** `[tokens, convChannels]`: where a layer's convolution reads all drafts' tokens. */
  convInput(layer: number): Tensor {
    const input = this.#rows.convInput(layer);
    if (input !== undefined) return input;
    const expected = "a pool that holds convolution states";
    throw new GatedDeltaError("invalid-argument", { op: "DraftGroup", expected, received: "one created with conv: false" });
  }

  /** The states of one of the pool's layers in all drafts, for one op over `convInput`, and one over what follows it. */
  layer(layer: number, convInput: Tensor): LayerStates {
    return new GroupLayer(this.drafts, { layer, convInput, rows: this.#rows, starts: this.#starts });
  }

  /** Leaves all drafts that are open: their states are what they were before. */
  [Symbol.dispose](): void {
    for (const draft of this.drafts) draft[Symbol.dispose]();
  }
}

/** The parts that all drafts of a group share. */
interface GroupParts {
  readonly layer: number;
  readonly convInput: Tensor;
  readonly rows: DraftRows;
  readonly starts: Int32Array;
}

class GroupLayer extends LayerStates {
  readonly #drafts: readonly Draft[];
  readonly #layers: readonly LayerStates[];
  readonly #parts: GroupParts;

  constructor(drafts: readonly Draft[], parts: GroupParts) {
    super();
    this.#drafts = drafts;
    this.#layers = drafts.map((draft) => draft.layer(parts.layer));
    this.#parts = parts;
  }

  [bind](use: StateUse): BoundStates {
    const { layer, convInput, rows, starts } = this.#parts;
    const conv = use.kinds.includes("conv");
    if (conv && use.x !== convInput) {
      throw new GatedDeltaError("invalid-argument", { op: use.op, argument: "x", expected: "the group's convInput", received: "another tensor" });
    }
    // Each draft notes what its commit needs; its own rows are a part of those that the op writes.
    const bound = this.#layers.map((own, i) => own[bind](conv ? { ...use, x: this.#drafts[i]!.convInput(layer) } : use));
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
