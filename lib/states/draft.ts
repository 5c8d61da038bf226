import { asInteger, invalid } from "../arguments/checks.ts";
import { runPass } from "../device/device.ts";
import { GatedDeltaError, ShapeError } from "../errors.ts";
import { readElements } from "../ops/indices.ts";
import type { Indices } from "../ops/indices.ts";
import type { LayerStates, StateKind } from "../ops/layer-states.ts";
import type { Op } from "../ops/op.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { isTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { Coverage } from "./coverage.ts";
import { CommitLayer, DraftLayer, newestFirst, startsOf } from "./draft-layers.ts";
import type { DraftParts } from "./draft-layers.ts";
import type { DraftRows } from "./draft-memory.ts";
import { finishByStep } from "./trial-step.ts";
import { expectNothingEncoded, expectOpen, isOpen, leave, opsOf } from "./pass-states.ts";
import { kindsOf } from "./pool-shape.ts";
import type { LedgerStep, LedgerTrial, SlotLedger } from "./slot-ledger.ts";
import { setStep } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import type { StatePool } from "./state-pool.ts";

/** Options of {@link StatePool.draft}. */
export interface DraftOptions {
  /**
   * What is kept for the commit. `deltas`: (δ, key, decay) of each token, about 1 KB a token and head; a commit applies the
   * accepted ones. `snapshots`: the state after each token in a slot of its own; a commit only chooses one.
   * @default "deltas"
   */
  readonly records?: "deltas" | "snapshots" | undefined;
}

/** Opens a draft. */
export let makeDraft: (
  pool: StatePool,
  ledger: SlotLedger,
  handles: readonly StateHandle[],
  counts: readonly number[],
  entry: LedgerStep | LedgerTrial,
  rows?: DraftRows,
) => Draft;

/** Whether a value is a {@link Draft}. */
export let isDraft: (value: unknown) => value is Draft;

let making = false;

/**
 * One forward pass over drafted tokens, of which it is not known yet how many are right. It writes no state: give each
 * layer's ops `states: draft.layer(i)`, {@link run} them, then {@link commit} how many tokens of each sequence are
 * accepted. The states are then what as many single steps would have left, convolution included; with f32 states, to
 * the bit.
 *
 * The convolution's record is its input, so its `x` must be {@link convInput}.
 */
export class Draft implements Disposable {
  /** The states, in the order of the sequences. */
  readonly handles: readonly StateHandle[];
  readonly #parts: DraftParts;
  readonly #layers: LayerStates[] = [];

  private constructor(handles: readonly StateHandle[], parts: DraftParts) {
    if (!making) throw new GatedDeltaError("invalid-argument", { op: "Draft", expected: "pool.draft(…)" });
    this.handles = handles;
    this.#parts = parts;
    for (const handle of handles) setStep(handle, this);
    Object.freeze(this);
  }

  static {
    makeDraft = (pool, ledger, handles, counts, entry, rows) => {
      const starts = startsOf(counts);
      const parts: DraftParts = {
        name: "draft",
        pool,
        ledger,
        entry,
        counts,
        starts,
        coverage: new Coverage("draft", pool.layers, kindsOf(pool.shape), starts.at(-1)! > 0),
        readSlots: entry.readSlots,
        writeSlots: new Int32Array(handles.length).fill(-1),
        // Records in memory of their own take no slot before the commit: their trial has no choices.
        snapshotSlots: "choices" in entry && rows === undefined ? newestFirst(entry.choices) : undefined,
        layers: Array.from({ length: pool.layers }, () => ({ convInput: undefined, records: undefined, headMap: undefined })),
        rows,
      };
      entry.collected = () => {
        parts.coverage.leave();
        rows?.release();
      };
      making = true;
      try {
        return new Draft(handles, parts);
      } finally {
        making = false;
      }
    };
    isDraft = (value): value is Draft => typeof value === "object" && value !== null && #parts in value;
  }

  /** The pool whose states these are. */
  get pool(): StatePool {
    return this.#parts.pool;
  }

  /** Whether neither {@link commit} nor {@link abort} was called yet. */
  get open(): boolean {
    return isOpen(this.#parts);
  }

  /** `[sequences + 1]`: the rows of each sequence's tokens; a copy. */
  get cuSeqlens(): Int32Array {
    return this.#parts.starts.slice();
  }

  /**
   * The states of one of the pool's layers, for the `states` of its ops.
   *
   * @throws {BoundsError} for a layer that the pool does not have.
   */
  layer(layer: number): LayerStates {
    const op = "draft.layer";
    expectOpen(op, this.#parts);
    const index = asInteger(op, "layer", layer, 0, this.#parts.pool.layers - 1);
    return (this.#layers[index] ??= new DraftLayer(this.#parts, index));
  }

  /**
   * `[tokens, convChannels]`: where a layer's projections put the convolution's input.
   *
   * @param dtype the activation dtype. @default the pool's `convDtype`
   * @throws {GatedDeltaError} where the layer's input was made in another dtype, or the pool holds no convolution states.
   */
  convInput<D extends FloatDType>(layer: number, dtype?: D): Tensor<D> {
    const op = "draft.convInput";
    const { pool, layers, starts, rows } = this.#parts;
    expectOpen(op, this.#parts);
    const index = asInteger(op, "layer", layer, 0, layers.length - 1);
    const records = layers[index]!;
    pool.conv(layer); // throws where the pool has none
    const { convChannels, convDtype } = pool.shape;
    const input = (records.convInput ??= rows?.convInput(index) ?? pool.device.tensor(dtype ?? convDtype, [starts.at(-1)!, convChannels]));
    if (dtype !== undefined && input.dtype !== dtype) throw invalid(op, "dtype", `${input.dtype}, as before`, dtype);
    return input as Tensor<D>;
  }

  /**
   * Runs the ops of a forward pass over the drafted tokens as one submission.
   *
   * @param build returns them, all layers' in order; its argument is this draft.
   * @returns the submission's ticket.
   * @throws {GatedDeltaError} of code `state` where a layer is missing, by layer and kind; nothing has run then.
   */
  run(build: (draft: Draft) => readonly Op[]): number {
    const op = "draft.run";
    expectOpen(op, this.#parts);
    const { pool, coverage } = this.#parts;
    const ops = opsOf(op, build, this);
    coverage.requireWhole();
    return pool.device[runPass](op, coverage, ops);
  }

  /**
   * Ends the draft: each state is what the first `accepted[s]` of its tokens make of it. The verifying ops must have
   * been committed to the device; ops for the states are run where there are any.
   *
   * @param accepted one a sequence, 0..T.
   * @returns the ticket of the last commit.
   * @throws {GatedDeltaError} for counts outside that, where a layer was not verified, by layer and kind, or where the
   *   verifying work has failed: the draft stays open.
   */
  commit(accepted: Indices): number {
    const op = "draft.commit";
    const { pool, ledger, entry, coverage, snapshotSlots } = this.#parts;
    expectOpen(op, this.#parts);
    const counts = this.#asCounts(op, accepted);
    coverage.expectComplete(op, true);
    const { failure } = coverage.outcome;
    if (failure !== undefined) {
      const message = `the work that verified this draft has failed (${failure.message}): abort() it`;
      throw new GatedDeltaError("state", { op, message, cause: failure });
    }
    if (!("choices" in entry)) {
      this.#runCommits(counts, entry.writeSlots);
      ledger.finish(entry, coverage.outcome);
    } else if (snapshotSlots !== undefined) {
      ledger.finishTrial(entry, counts, coverage.outcome);
    } else {
      finishByStep(op, ledger, entry, coverage.outcome, (writeSlots) => this.#runCommits(counts, writeSlots));
    }
    this.#end();
    return pool.device.lastTicket;
  }

  /**
   * Drops the draft: every state is what it was before.
   *
   * @throws {GatedDeltaError} of code `state` where ops of it are encoded and not committed; the draft stays open.
   */
  abort(): void {
    const op = "draft.abort";
    expectOpen(op, this.#parts);
    expectNothingEncoded(op, this.#parts);
    this.#parts.ledger.abort(this.#parts.entry);
    this.#end();
  }

  /** Leaves the draft, if it is open: every state is what it was before. Never throws. */
  [Symbol.dispose](): void {
    if (!this.open) return;
    leave(this.#parts);
    this.#end();
  }

  /** Applies the accepted tokens to the states, in all layers as one submission. */
  #runCommits(counts: readonly number[], writeSlots: Int32Array): void {
    const { pool, starts, layers } = this.#parts;
    const kinds: readonly StateKind[] = kindsOf(pool.shape);
    // Where no token was drafted the ops may not have been run; a state of zeros is stored all the same.
    pool.device.run((pass) => {
      for (const [layer, kept] of layers.entries()) {
        const states = new CommitLayer(this.#parts, layer, writeSlots);
        const common = { cuSeqlens: starts, counts, states };
        if (kinds.includes("conv")) pass.commitCausalConv1d({ x: this.convInput(layer), ...common });
        const records = kept.records ?? states.noRecords();
        pass.commitGatedDelta({ records, headMap: kept.headMap, ...common });
      }
    });
  }

  #asCounts(op: string, accepted: Indices): number[] {
    if (accepted === undefined) throw invalid(op, "accepted", "one number a sequence", accepted);
    const elements = readElements(op, "accepted", accepted);
    const counts = [...(isTensor(elements) ? (elements as Tensor<"i32">).data : elements)];
    const most = this.#parts.counts;
    if (counts.length !== most.length) {
      const expected = `${most.length} numbers, one a sequence`;
      throw new ShapeError({ op, argument: "accepted", expected, received: `${counts.length}` });
    }
    return counts.map((count, i) => asInteger(op, `accepted[${i}]`, count, 0, most[i]!));
  }

  #end(): void {
    for (const handle of this.handles) setStep(handle, undefined);
    const { layers, rows } = this.#parts;
    rows?.release();
    if (rows !== undefined) return; // the tensors are views of memory that stays
    for (const { convInput, records } of layers) {
      for (const tensor of [convInput, records?.key, records?.delta, records?.decay]) tensor?.[Symbol.dispose]();
    }
  }
}
