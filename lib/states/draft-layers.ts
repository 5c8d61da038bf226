/** The `states` of a draft's layers, for the ops that verify its tokens and the ops that commit the accepted ones. */
import { GatedDeltaError } from "../errors.ts";
import { admit, bind, encoded } from "../ops/layer-states.ts";
import type { BoundStates, StateUse } from "../ops/layer-states.ts";
import type { GateDims, HeadMap } from "../native/options.ts";
import type { Recorder } from "../ops/recorder.ts";
import type { DeltaRecords } from "../ops/recurrence-arguments.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { DraftRows } from "./draft-memory.ts";
import { PassLayer, expectOpen, tensorsOf } from "./pass-states.ts";
import type { StatePass } from "./pass-states.ts";

/** Records of a layer from the verification to the commit. */
interface LayerRecords {
  convInput: Tensor | undefined;
  /** Memory for each shape of gates that an op was made with. */
  readonly records: { [gateDims in GateDims]?: DeltaRecords };
  /** The op over the recurrence that was encoded last. */
  verified: { readonly gateDims: GateDims; readonly headMap: HeadMap | undefined } | undefined;
}

/** The pass of a draft. */
export interface DraftPass extends StatePass {
  /** Drafted tokens of each sequence. */
  readonly counts: readonly number[];
  /** `[sequences + 1]`: the first row of each sequence, and the end of the last. */
  readonly starts: Int32Array;
  readonly readSlots: Int32Array;
  /** −1 for each sequence: verifying stores no final state. */
  readonly writeSlots: Int32Array;
  /** `[sequences, K]`, K the largest number of tokens, for records of `snapshots`. */
  readonly snapshotSlots: Int32Array | undefined;
  readonly layers: readonly LayerRecords[];
  /** Memory for the layers' records. @default tensors of the draft's own */
  readonly rows: DraftRows | undefined;
}

/** The states of a layer while a draft is verified. */
export class DraftLayer extends PassLayer {
  declare protected readonly pass: DraftPass;

  [bind](use: StateUse): BoundStates {
    const { pass, layer } = this;
    const { op } = use;
    expectOpen(op, pass, "states");
    const { pool, readSlots, writeSlots, snapshotSlots, starts, layers } = pass;
    if (!use.drafts) {
      const message = "a draft keeps records, and only gatedDelta and causalConv1d write them";
      throw new GatedDeltaError("invalid-argument", { op, argument: "states", message });
    }
    const kept = layers[layer]!;
    const bound = { ...tensorsOf(pool, layer, use), readSlots, writeSlots, snapshotSlots, cuSeqlens: starts };
    if (use.kinds.includes("conv") && use.x !== kept.convInput) {
      const expected = `draft.convInput(${layer}), which the commit reads`;
      throw new GatedDeltaError("invalid-argument", { op, argument: "x", expected, received: "another tensor" });
    }
    if (!use.kinds.includes("state") || snapshotSlots !== undefined) return bound;
    return { ...bound, records: recordsOf(pass, layer, gateDimsOf(use)) };
  }

  override [encoded](use: StateUse, recorder: Recorder): void {
    super[encoded](use, recorder);
    if (!use.kinds.includes("state")) return;
    this.pass.layers[this.layer]!.verified = { gateDims: gateDimsOf(use), headMap: use.headMap };
  }
}

/** The states of a layer that a commit advances. */
export class CommitLayer extends PassLayer {
  declare protected readonly pass: DraftPass;
  readonly #writeSlots: Int32Array;

  constructor(pass: DraftPass, layer: number, writeSlots: Int32Array) {
    super(pass, layer);
    this.#writeSlots = writeSlots;
  }

  [bind](use: StateUse): BoundStates {
    const { pass, layer } = this;
    return { ...tensorsOf(pass.pool, layer, use), readSlots: pass.readSlots, writeSlots: this.#writeSlots };
  }

  override [admit](): void {}

  override [encoded](_use: StateUse, recorder: Recorder): void {
    recorder.join(this.pass.coverage);
    this.pass.coverage.encodeMore();
  }

  /** Input of the commit of the recurrence: the records of the verifying op, or empty ones if no token was verified. */
  committed(): { readonly records: DeltaRecords; readonly headMap: HeadMap | undefined } {
    const { gateDims, headMap } = this.pass.layers[this.layer]!.verified ?? { gateDims: "head", headMap: undefined };
    return { records: recordsOf(this.pass, this.layer, gateDims), headMap };
  }
}

function gateDimsOf({ perKey }: StateUse): GateDims {
  return perKey === true ? "key" : "head";
}

/** Memory for a layer's records. */
function recordsOf(pass: DraftPass, layer: number, gateDims: GateDims): DeltaRecords {
  return (pass.layers[layer]!.records[gateDims] ??= pass.rows?.records(layer) ?? newRecords(pass, gateDims));
}

/** Frozen, so that the commit reads the same tensors. */
function newRecords({ pool, starts }: DraftPass, gateDims: GateDims): DeltaRecords {
  const { keyHeads, valueHeads, keyDim, valueDim } = pool.shape;
  const { device } = pool;
  const tokens = starts.at(-1)!;
  return Object.freeze({
    key: device.tensor("f32", [tokens, keyHeads, keyDim]),
    delta: device.tensor("f32", [tokens, valueHeads, valueDim]),
    decay: device.tensor("f32", [tokens, valueHeads, ...(gateDims === "key" ? [keyDim] : [])]),
  });
}

/** `[counts + 1]`: the first row of each sequence, and the end of the last. */
export function startsOf(counts: readonly number[]): Int32Array {
  const starts = new Int32Array(counts.length + 1);
  for (const [i, count] of counts.entries()) starts[i + 1] = starts[i]! + count;
  return starts;
}

/** `[sequences, most]`: the slots of each sequence's snapshots, the newest first; then −1 for sequences with fewer. */
export function newestFirst(choices: readonly (readonly number[])[]): Int32Array {
  const most = choices.reduce((length, slots) => Math.max(length, slots.length), 0);
  const snapshotSlots = new Int32Array(choices.length * most).fill(-1);
  for (const [s, slots] of choices.entries()) {
    for (let age = 0; age < slots.length; age++) snapshotSlots[s * most + age] = slots[slots.length - 1 - age]!;
  }
  return snapshotSlots;
}
