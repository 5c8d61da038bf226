/**
 * The gated delta rule (Yang, Kautz, Hatamizadeh: "Gated Delta Networks", arXiv 2412.06464, equation 10), one token
 * after the other as the formula reads. Per sequence and value head, with a state of Dv rows of Dk numbers:
 *
 *   S <- a S;  d = beta (v - S k);  S <- S + d k^T;  o = S q
 */
import { readSlot, sequencesOf, writeSlot } from "./batch.ts";
import type { BatchOptions } from "./batch.ts";
import { betas, decays } from "./gates.ts";
import type { BetaForm, GateOptions } from "./gates.ts";
import { keyHeadOf, normalised } from "./heads.ts";
import type { HeadMap, QkNorm } from "./heads.ts";
import { copyOf, dims, mapped, reference } from "./tensor.ts";
import type { Reference } from "./tensor.ts";

export interface GatedDeltaOptions extends GateOptions {
  readonly betaForm?: BetaForm | undefined;
  readonly headMap?: HeadMap | undefined;
  readonly qkNorm?: QkNorm | undefined;
  readonly qkNormEps?: number | undefined;
  readonly scale?: number | undefined;
}

export interface GatedDeltaCase extends GatedDeltaOptions, BatchOptions {
  /** `[tokens, Hk, Dk]` */
  readonly query: Reference;
  readonly key: Reference;
  /** `[tokens, Hv, Dv]` */
  readonly value: Reference;
  /** `[tokens, Hv]` or `[tokens, Hv, Dk]` */
  readonly gate: Reference;
  /** `[tokens, Hv]` */
  readonly beta: Reference;
  /** The pool before the op, `[slots, Hv, Dv, Dk]`; not changed. */
  readonly state?: Reference | undefined;
  /** The contents of `out` before the op: rows beyond the last sequence keep them. */
  readonly out?: Reference | undefined;
  /** `[K, n, Hv, Dv, Dk]` before the op: [j] becomes the state after all but j tokens, j below the sequence's length. */
  readonly snapshots?: Reference | undefined;
  /** `[n][K]`: the same, into slots; -1 skips. */
  readonly snapshotSlots?: readonly (readonly number[])[] | undefined;
  /** The state after the first `tokens` tokens of a sequence, into a slot. */
  readonly checkpoints?: readonly { readonly sequence: number; readonly tokens: number; readonly slot: number }[] | undefined;
}

export interface GatedDeltaResult {
  readonly out: Reference;
  /** The pool after the op. */
  readonly state: Reference | undefined;
  readonly snapshots: Reference | undefined;
  /**
   * For each number of `out` and `state`, the sum of the sizes of its summands. If a result is a small
   * difference of large numbers, no float32 arithmetic can be more accurate than the rounding of those numbers.
   */
  readonly sizes: { readonly out: Reference; readonly state: Reference | undefined };
}

/** The op on plain numbers. */
export function gatedDelta(given: GatedDeltaCase): GatedDeltaResult {
  const [tokens, keyHeads, keyDim] = dims(given.query, 3) as [number, number, number];
  const [, valueHeads, valueDim] = dims(given.value, 3) as [number, number, number];
  const before = given.state;
  const state = before && copyOf(before);
  const out = given.out ? copyOf(given.out) : reference([tokens, valueHeads, valueDim]);
  const snapshots = given.snapshots && copyOf(given.snapshots);
  const sizes = { out: reference(out.shape), state: before && copyOf(before) };
  const stateSize = valueHeads * valueDim * keyDim;
  const decay = decays(given.gate, given);
  const beta = betas(given.beta, given.betaForm ?? "given");
  const sequences = sequencesOf(given, tokens, before !== undefined);

  for (const [s, sequence] of sequences.entries()) {
    // Every read sees the pool as it was before the op: `before`, never `state`.
    const S = before ? readSlot(before.data, sequence.readSlot, stateSize) : new Float64Array(stateSize);
    const sizeOfS = mapped(S, Math.abs);
    const length = sequence.end - sequence.start;
    const keep = (done: number) => {
      for (const checkpoint of given.checkpoints ?? []) {
        if (checkpoint.sequence === s && checkpoint.tokens === done) writeSlot(state!.data, checkpoint.slot, S);
      }
      const age = length - done;
      if (done > 0 && snapshots && age < snapshots.shape[0]!) snapshots.data.set(S, (age * sequences.length + s) * stateSize);
      if (done > 0) writeSlot(state?.data ?? S, given.snapshotSlots?.[s]?.[age] ?? -1, S);
    };
    keep(0);
    for (let t = sequence.start; t < sequence.end; t++) {
      token(S, sizeOfS, t);
      keep(t - sequence.start + 1);
    }
    if (state) writeSlot(state.data, sequence.writeSlot, S);
    if (sizes.state) writeSlot(sizes.state.data, sequence.writeSlot, sizeOfS);
  }
  return { out, state, snapshots, sizes };

  /** One token through all heads of one sequence's state. */
  function token(S: Float64Array, sizeOfS: Float64Array, t: number): void {
    const norm = given.qkNorm ?? "none";
    const eps = given.qkNormEps ?? 1e-6;
    const scale = given.scale ?? keyDim ** -0.5;
    const rowOf = (tensor: Reference, head: number, width: number) => {
      const heads = tensor.shape[1]!;
      return tensor.data.subarray((t * heads + head) * width, (t * heads + head + 1) * width);
    };
    for (let hv = 0; hv < valueHeads; hv++) {
      const hk = keyHeadOf(hv, keyHeads, valueHeads, given.headMap ?? "block");
      const q = normalised(rowOf(given.query, hk, keyDim), norm, eps, scale);
      const k = normalised(rowOf(given.key, hk, keyDim), norm, eps);
      const v = rowOf(given.value, hv, valueDim);
      const b = beta.data[t * valueHeads + hv]!;
      const perKey = decay.shape.length === 3;
      const gate = perKey ? rowOf(decay, hv, keyDim) : undefined;
      const a = perKey ? 0 : decay.data[t * valueHeads + hv]!;
      const row: Row = { S, sizeOfS, start: 0, a, gate, q, k };
      for (let dv = 0; dv < valueDim; dv++) {
        row.start = (hv * valueDim + dv) * keyDim;
        const at = (t * valueHeads + hv) * valueDim + dv;
        [out.data[at], sizes.out.data[at]] = update(row, b, v[dv]!);
      }
    }
  }
}

/** A row of a head's state, and one token's operands. */
interface Row {
  readonly S: Float64Array;
  readonly sizeOfS: Float64Array;
  start: number;
  /** The decay of all keys, if `gate` does not hold one for each. */
  readonly a: number;
  readonly gate: Float64Array | undefined;
  readonly q: Float64Array;
  readonly k: Float64Array;
}

/** One token through a row of the state: its output, and the output's size. A separate function, which is compiled once for all cases. */
function update({ S, sizeOfS, start, a, gate, q, k }: Row, b: number, v: number): readonly [number, number] {
  const keyDim = k.length;
  let remembered = 0;
  let rememberedSize = 0;
  for (let d = 0; d < keyDim; d++) {
    const decayed = S[start + d]! * (gate === undefined ? a : gate[d]!);
    const product = decayed * k[d]!;
    S[start + d] = decayed;
    remembered += product;
    rememberedSize += Math.abs(product);
  }
  const delta = b * (v - remembered);
  const deltaSize = Math.abs(b) * (Math.abs(v) + rememberedSize);
  let o = 0;
  let oSize = 0;
  for (let d = 0; d < keyDim; d++) {
    const at = start + d;
    // The rounding error of an older, larger sum remains, reduced by the decay.
    const older = sizeOfS[at]! * (gate === undefined ? a : gate[d]!);
    const newer = Math.abs(S[at]!) + deltaSize * Math.abs(k[d]!);
    const size = Math.max(older, newer);
    const updated = S[at]! + delta * k[d]!;
    sizeOfS[at] = size;
    S[at] = updated;
    o += updated * q[d]!;
    oSize += size * Math.abs(q[d]!);
  }
  return [o, oSize];
}

/** The largest decay of a case, on which its error bound depends. */
export function largestDecay(given: GatedDeltaCase): number {
  return decays(given.gate, given).data.reduce((most, a) => Math.max(most, a), 0);
}
