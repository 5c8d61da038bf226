import { asInteger, invalid } from "../arguments/checks.ts";
import { expectMaker, maker } from "../arguments/made.ts";
import type { Maker } from "../arguments/made.ts";
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
import type { DraftPass } from "./draft-layers.ts";
import type { DraftRows } from "./draft-memory.ts";
import { finishByStep } from "./trial-step.ts";
import { expectNothingEncoded, expectOpen, isOpen, opsOf, undo } from "./pass-states.ts";
import { kindsOf } from "./pool-shape.ts";
import type { LedgerStep, LedgerTrial, SlotLedger } from "./slot-ledger.ts";
import { setStep } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import type { StatePool } from "./state-pool.ts";

/** Options of {@link StatePool.draft}. */
export interface DraftOptions {
  /**
   * The records for the commit. `deltas`: (δ, key, decay) of each token, about 1 KB per token and head; the commit applies
   * those of accepted tokens. `snapshots`: the state after each token, in a slot of its own; the commit chooses one.
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

/**
 * One forward pass that verifies drafted tokens. It writes no state: give each layer's ops `states: draft.layer(i)`,
 * {@link run} them, then {@link commit} the number of accepted tokens of each sequence. The states, including those of the
 * convolution, are then the same as after that number of single steps; with f32 states, bit for bit.
 *
 * The convolution's record is its input, so `x` must be {@link convInput}. Disposal (`using`) undoes an open draft.
 */
export class Draft implements Disposable {
  /** The states, in the order of the sequences. */
  readonly handles: readonly StateHandle[];
  readonly #pass: DraftPass;
  readonly #layers: LayerStates[] = [];

  private constructor(by: Maker, handles: readonly StateHandle[], pass: DraftPass) {
    expectMaker(by, "Draft", "pool.draft(…)");
    this.handles = handles;
    this.#pass = pass;
    for (const handle of handles) setStep(handle, this);
    Object.freeze(this);
  }

  static {
    makeDraft = (pool, ledger, handles, counts, entry, rows) => {
      const starts = startsOf(counts);
      const pass: DraftPass = {
        name: "draft",
        pool,
        ledger,
        entry,
        counts,
        starts,
        coverage: new Coverage("draft", pool.layers, kindsOf(pool.shape), starts.at(-1)! > 0),
        readSlots: entry.readSlots,
        writeSlots: new Int32Array(handles.length).fill(-1),
        // With records in rows of a DraftMemory, the trial has no choices.
        snapshotSlots: "choices" in entry && rows === undefined ? newestFirst(entry.choices) : undefined,
        layers: Array.from({ length: pool.layers }, () => ({ convInput: undefined, records: {}, verified: undefined })),
        rows,
      };
      entry.undo = () => {
        undo(pass);
        freeRecords(pass);
      };
      return new Draft(maker, handles, pass);
    };
    isDraft = (value): value is Draft => typeof value === "object" && value !== null && #pass in value;
  }

  /** The pool of the states. */
  get pool(): StatePool {
    return this.#pass.pool;
  }

  /** Whether the draft has not ended yet. */
  get open(): boolean {
    return isOpen(this.#pass);
  }

  /** `[sequences + 1]`: the first row of each sequence's tokens, and the end of the last; a copy. */
  get cuSeqlens(): Int32Array {
    return this.#pass.starts.slice();
  }

  /**
   * The states of one of the pool's layers, for the `states` of its ops.
   *
   * @throws {BoundsError} for a layer that the pool does not have.
   */
  layer(layer: number): LayerStates {
    const op = "draft.layer";
    expectOpen(op, this.#pass);
    const index = asInteger(op, "layer", layer, 0, this.#pass.pool.layers - 1);
    return (this.#layers[index] ??= new DraftLayer(this.#pass, index));
  }

  /**
   * `[tokens, convChannels]`: the convolution's input in a layer, which the layer's projections write.
   *
   * @param dtype the activation dtype. @default the pool's `convDtype`
   * @throws {GatedDeltaError} if the layer's input exists in another dtype, or the pool holds no convolution states.
   */
  convInput<D extends FloatDType>(layer: number, dtype?: D): Tensor<D> {
    const op = "draft.convInput";
    const { pool, layers, starts, rows } = this.#pass;
    expectOpen(op, this.#pass);
    const index = asInteger(op, "layer", layer, 0, layers.length - 1);
    const records = layers[index]!;
    pool.conv(layer); // throws if the pool has none
    const { convChannels, convDtype } = pool.shape;
    const input = (records.convInput ??= rows?.convInput(index) ?? pool.device.tensor(dtype ?? convDtype, [starts.at(-1)!, convChannels]));
    if (dtype !== undefined && input.dtype !== dtype) throw invalid(op, "dtype", `${input.dtype}, as before`, dtype);
    return input as Tensor<D>;
  }

  /**
   * Runs the ops of a forward pass over the drafted tokens as one submission.
   *
   * @param build returns the ops of all layers in order; its argument is this draft.
   * @returns the submission's ticket.
   * @throws {GatedDeltaError} of code `state` if a layer is missing (the error names the layer and kind); nothing has run then.
   */
  run(build: (draft: Draft) => readonly Op[]): number {
    const op = "draft.run";
    expectOpen(op, this.#pass);
    const { pool, coverage } = this.#pass;
    const ops = opsOf(op, build, this);
    coverage.requireWhole();
    return pool.device[runPass](op, coverage, ops);
  }

  /**
   * Ends the draft: each state advances by the first `accepted[s]` of its tokens. The verifying ops must have been committed
   * to the device.
   *
   * @param accepted one number for each sequence, 0..T.
   * @returns the ticket of the device's last submission.
   * @throws {GatedDeltaError} for other numbers, if a layer was not verified (the error names the layer and kind), or if the
   *   verifying work has failed. The draft stays open.
   */
  commit(accepted: Indices): number {
    const op = "draft.commit";
    const { pool, ledger, entry, coverage, snapshotSlots } = this.#pass;
    expectOpen(op, this.#pass);
    const counts = this.#asCounts(op, accepted);
    expectOpen(op, this.#pass); // reading the numbers can run code of the caller
    coverage.expectComplete(op, true);
    const { failure } = coverage.outcome;
    if (failure !== undefined) {
      const message = `the verifying work of this draft has failed (${failure.message}): call abort()`;
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
    freeRecords(this.#pass);
    this.#releaseHandles();
    return pool.device.lastTicket;
  }

  /**
   * Undoes the draft: every state is unchanged.
   *
   * @throws {GatedDeltaError} of code `state` if ops of the draft are encoded but not committed; the draft stays open.
   */
  abort(): void {
    const op = "draft.abort";
    expectOpen(op, this.#pass);
    expectNothingEncoded(op, this.#pass);
    this[Symbol.dispose]();
  }

  /** Undoes the draft if it is open: every state is unchanged. Never throws. */
  [Symbol.dispose](): void {
    if (!this.open) return;
    this.#pass.entry.undo!();
    this.#releaseHandles();
  }

  /** Applies the accepted tokens to the states of all layers, as one submission. */
  #runCommits(counts: readonly number[], writeSlots: Int32Array): void {
    const { pool, starts } = this.#pass;
    const kinds: readonly StateKind[] = kindsOf(pool.shape);
    // Needed even without drafted tokens: their ops may not have run, and a state of zeros must be stored.
    pool.device.run((pass) => {
      for (let layer = 0; layer < pool.layers; layer++) {
        const states = new CommitLayer(this.#pass, layer, writeSlots);
        const common = { cuSeqlens: starts, counts, states };
        if (kinds.includes("conv")) pass.commitCausalConv1d({ x: this.convInput(layer), ...common });
        pass.commitGatedDelta({ ...states.committed(), ...common });
      }
    });
  }

  #asCounts(op: string, accepted: Indices): number[] {
    if (accepted === undefined) throw invalid(op, "accepted", "one number for each sequence", accepted);
    const elements = readElements(op, "accepted", accepted);
    const counts = [...(isTensor(elements) ? (elements as Tensor<"i32">).data : elements)];
    const most = this.#pass.counts;
    if (counts.length !== most.length) {
      const expected = `${most.length} numbers, one for each sequence`;
      throw new ShapeError({ op, argument: "accepted", expected, received: `${counts.length}` });
    }
    return counts.map((count, i) => asInteger(op, `accepted[${i}]`, count, 0, most[i]!));
  }

  #releaseHandles(): void {
    for (const handle of this.handles) setStep(handle, undefined);
  }
}

/** Gives back the memory of the layers' records. */
function freeRecords({ layers, rows }: DraftPass): void {
  if (rows !== undefined) return rows.release(); // the tensors are views of its memory
  for (const { convInput, records } of layers) {
    const tensors = Object.values(records).flatMap(({ key, delta, decay }) => [key, delta, decay]);
    for (const tensor of [convInput, ...tensors]) tensor?.[Symbol.dispose]();
  }
}
