import { asInteger, invalid } from "../arguments/checks.ts";
import type { FloatDType } from "../tensor/dtype.ts";
import { DisposedError, GatedDeltaError, ShapeError } from "../errors.ts";
import { readElements } from "../ops/indices.ts";
import type { Indices } from "../ops/indices.ts";
import type { GateDims, HeadMap } from "../native/options.ts";
import type { DeltaRecords } from "../ops/recurrence-arguments.ts";
import type { LedgerStep, LedgerTrial, SlotLedger } from "./slot-ledger.ts";
import { setStep } from "./state-handle.ts";
import type { StateHandle } from "./state-handle.ts";
import type { StatePool } from "./state-pool.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { isTensor } from "../tensor/tensor.ts";

/** Options of {@link StatePool.verify}. */
export interface VerifyOptions {
  /**
   * How the way back is kept. `deltas`: (δ, key, decay) of each token, about 1 KB a token and head; a commit applies the
   * accepted ones. `snapshots`: the state after each token in a slot of its own; a commit only chooses one.
   * @default "deltas"
   */
  readonly records?: "deltas" | "snapshots" | undefined;
  /** As the ops that verify have it; for `deltas`. @default "head" */
  readonly gateDims?: GateDims | undefined;
  /** As the ops that verify have it; for `deltas`. @default "block" */
  readonly headMap?: HeadMap | undefined;
  /** The activation dtype, that of {@link PoolVerification.convInput}. @default "f32" */
  readonly activationDtype?: FloatDType | undefined;
}

/** {@link VerifyOptions}, checked. */
export type CheckedVerifyOptions = { readonly [K in keyof VerifyOptions]-?: NonNullable<VerifyOptions[K]> };

/** Opens a verification's public face. */
export let makeVerification: (
  pool: StatePool,
  ledger: SlotLedger,
  handles: readonly StateHandle[],
  counts: readonly number[],
  books: LedgerStep | LedgerTrial,
  options: CheckedVerifyOptions,
) => PoolVerification;

let making = false;

/** What a layer keeps between a verification and its commit. */
interface LayerRecords {
  convInput: Tensor | undefined;
  records: DeltaRecords | undefined;
}

/**
 * One forward pass over drafted tokens, of which it is not known yet how many are right. It writes no state: run every
 * layer's convolution and recurrence with the slots and records given here, then {@link commit} how many tokens of each
 * sequence are accepted. The states are then what as many single steps would have left, convolution included; with f32
 * states, to the bit.
 *
 * The convolution's record is its input, so its `x` must be {@link convInput}.
 */
export class PoolVerification implements Disposable {
  /** The states, in the order of the sequences. */
  readonly handles: readonly StateHandle[];
  /** `[sequences + 1]`: the rows of each sequence's tokens. */
  readonly cuSeqlens: Int32Array;
  /** The slot that each sequence reads; −1 for zeros. */
  readonly readSlots: Int32Array;
  /** −1 for each sequence: no final state is stored. */
  readonly writeSlots: Int32Array;
  /** `[sequences, K]`, K the largest number of tokens, for records of `snapshots`; else undefined. */
  readonly snapshotSlots: Int32Array | undefined;
  readonly #pool: StatePool;
  readonly #ledger: SlotLedger;
  readonly #books: LedgerStep | LedgerTrial;
  readonly #counts: readonly number[];
  readonly #starts: Int32Array;
  readonly #options: CheckedVerifyOptions;
  readonly #layers: LayerRecords[];

  private constructor(
    pool: StatePool,
    ledger: SlotLedger,
    handles: readonly StateHandle[],
    counts: readonly number[],
    books: LedgerStep | LedgerTrial,
    options: CheckedVerifyOptions,
  ) {
    if (!making) throw new GatedDeltaError("invalid-argument", { op: "PoolVerification", expected: "pool.verify(…)" });
    this.handles = handles;
    this.#starts = startsOf(counts);
    // Copies: what a caller writes into these arrays must not reach the commit.
    this.cuSeqlens = this.#starts.slice();
    this.readSlots = books.readSlots.slice();
    this.writeSlots = new Int32Array(handles.length).fill(-1);
    this.snapshotSlots = "choices" in books ? newestFirst(books.choices) : undefined;
    this.#pool = pool;
    this.#ledger = ledger;
    this.#books = books;
    this.#counts = counts;
    this.#options = options;
    this.#layers = Array.from({ length: pool.layers }, () => ({ convInput: undefined, records: undefined }));
    for (const handle of handles) setStep(handle, this);
    Object.freeze(this);
  }

  static {
    makeVerification = (...args) => {
      making = true;
      try {
        return new PoolVerification(...args);
      } finally {
        making = false;
      }
    };
  }

  /** Whether neither {@link commit} nor {@link abort} was called yet. */
  get open(): boolean {
    return this.#books.open && !this.#pool.disposed;
  }

  /** `[tokens, convChannels]`, of the activation dtype: where a layer's projections put the convolution's input. */
  convInput(layer: number): Tensor {
    const records = this.#layer("verification.convInput", layer);
    const { convChannels } = this.#pool.shape;
    return (records.convInput ??= this.#pool.device.tensor(this.#options.activationDtype, [this.#tokens, convChannels]));
  }

  /** The `records` of a layer's {@link gatedDelta}; undefined for records of `snapshots`. */
  records(layer: number): DeltaRecords | undefined {
    const kept = this.#layer("verification.records", layer);
    if (this.#options.records === "snapshots") return undefined;
    if (kept.records === undefined) {
      const { keyHeads, valueHeads, keyDim, valueDim } = this.#pool.shape;
      const { device } = this.#pool;
      const perKey = this.#options.gateDims === "key" ? [keyDim] : [];
      // Frozen: the commit reads these tensors and frees them, and no other.
      kept.records = Object.freeze({
        key: device.tensor("f32", [this.#tokens, keyHeads, keyDim]),
        delta: device.tensor("f32", [this.#tokens, valueHeads, valueDim]),
        decay: device.tensor("f32", [this.#tokens, valueHeads, ...perKey]),
      });
    }
    return kept.records;
  }

  /**
   * Ends the verification: each state is what the first `accepted[s]` of its tokens make of it. The verifying ops must
   * have been committed to the device; ops for the states are run where there are any.
   *
   * @param accepted one a sequence, 0..T.
   * @returns the ticket of the last commit.
   * @throws {GatedDeltaError} for counts outside that, or where a layer never asked for its records: the verification
   *   stays open.
   */
  commit(accepted: Indices): number {
    const op = "verification.commit";
    this.#expectOpen(op);
    const counts = this.#asCounts(op, accepted);
    const { device } = this.#pool;
    if ("choices" in this.#books) {
      this.#ledger.finishTrial(this.#books, counts);
    } else {
      this.#runCommits(op, counts, this.#books);
      this.#ledger.finish(this.#books);
    }
    this.#end();
    return device.lastTicket;
  }

  /** Drops the verification: every state is what it was before. */
  abort(): void {
    this.#expectOpen("verification.abort");
    this.#ledger.abort(this.#books);
    this.#end();
  }

  /** {@link abort}, unless it is over. */
  [Symbol.dispose](): void {
    if (this.open) this.abort();
  }

  get #tokens(): number {
    return this.#starts.at(-1)!;
  }

  #runCommits(op: string, counts: readonly number[], { readSlots, writeSlots }: LedgerStep): void {
    if (this.#tokens === 0) {
      // Nothing was verified, but a state of zeros is to be stored all the same.
      for (let layer = 0; layer < this.#layers.length; layer++) void [this.convInput(layer), this.records(layer)];
    }
    const missing = this.#layers.findIndex(({ convInput, records }) => convInput === undefined || records === undefined);
    if (missing >= 0) {
      const message = `layer ${missing} was not verified: it asked for no convInput(${missing}) and records(${missing})`;
      throw new GatedDeltaError("state", { op, message });
    }
    const common = { cuSeqlens: this.#starts, counts, readSlots, writeSlots };
    this.#pool.device.run((pass) => {
      for (const [layer, { convInput, records }] of this.#layers.entries()) {
        pass.commitCausalConv1d({ x: convInput!, state: this.#pool.conv(layer), ...common });
        pass.commitGatedDelta({ records: records!, state: this.#pool.state(layer), headMap: this.#options.headMap, ...common });
      }
    });
  }

  #asCounts(op: string, accepted: Indices): number[] {
    if (accepted === undefined) throw invalid(op, "accepted", "one number a sequence", accepted);
    const elements = readElements(op, "accepted", accepted);
    const counts = [...(isTensor(elements) ? (elements as Tensor<"i32">).data : elements)];
    if (counts.length !== this.#counts.length) {
      const expected = `${this.#counts.length} numbers, one a sequence`;
      throw new ShapeError({ op, argument: "accepted", expected, received: `${counts.length}` });
    }
    return counts.map((count, i) => asInteger(op, `accepted[${i}]`, count, 0, this.#counts[i]!));
  }

  #layer(op: string, layer: number): LayerRecords {
    this.#expectOpen(op);
    return this.#layers[asInteger(op, "layer", layer, 0, this.#layers.length - 1)]!;
  }

  #end(): void {
    for (const handle of this.handles) setStep(handle, undefined);
    for (const { convInput, records } of this.#layers) {
      for (const tensor of [convInput, records?.key, records?.delta, records?.decay]) tensor?.[Symbol.dispose]();
    }
  }

  #expectOpen(op: string): void {
    if (this.#pool.disposed) throw new DisposedError({ op, expected: "a pool that is not disposed" });
    if (!this.#books.open) throw new GatedDeltaError("state", { op, message: "the verification is over" });
  }
}

/** Where each sequence's rows start, and where the last one's end. */
function startsOf(counts: readonly number[]): Int32Array {
  const starts = new Int32Array(counts.length + 1);
  for (const [i, count] of counts.entries()) starts[i + 1] = starts[i]! + count;
  return starts;
}

/** The slots of each sequence's states, newest first as snapshots are; −1 where a sequence is shorter than the longest. */
function newestFirst(choices: readonly (readonly number[])[]): Int32Array {
  const most = choices.reduce((length, slots) => Math.max(length, slots.length), 0);
  const snapshotSlots = new Int32Array(choices.length * most).fill(-1);
  for (const [s, slots] of choices.entries()) {
    for (let age = 0; age < slots.length; age++) snapshotSlots[s * most + age] = slots[slots.length - 1 - age]!;
  }
  return snapshotSlots;
}
