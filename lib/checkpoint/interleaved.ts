/**
 * Qwen3-Next stores its input projections per key head: query, key, then the values and the output gates of the value
 * heads that share it; likewise b and a (transformers, models/qwen3_next, `fix_query_key_value_ordering`). These lists
 * map each run of rows to its place in the split form.
 */

import { convChannels, valueChannels, type LayerConfig } from "./mixer-config.ts";

/** Rows of a stored projection that become rows of a weight. */
export interface Move {
  readonly from: number;
  readonly to: number;
  readonly rows: number;
}

/** A weight that is gathered from a stored projection: its number of rows and their sources. */
export interface Gather {
  readonly rows: number;
  readonly moves: readonly Move[];
}

/** `in_proj_qkvz` as the query | key | value projection and the projection of z. */
export function splitQkvz(config: LayerConfig): { readonly qkv: Gather; readonly z: Gather } {
  const { keyHeads, valueHeads, keyDim, valueDim } = config;
  const valueRows = (valueHeads / keyHeads) * valueDim;
  const block = 2 * keyDim + 2 * valueRows;
  const qkv: Move[] = [];
  const z: Move[] = [];
  for (let head = 0; head < keyHeads; head++) {
    const from = head * block;
    qkv.push({ from, to: head * keyDim, rows: keyDim });
    qkv.push({ from: from + keyDim, to: (keyHeads + head) * keyDim, rows: keyDim });
    qkv.push({ from: from + 2 * keyDim, to: 2 * keyHeads * keyDim + head * valueRows, rows: valueRows });
    z.push({ from: from + 2 * keyDim + valueRows, to: head * valueRows, rows: valueRows });
  }
  return { qkv: { rows: convChannels(config), moves: qkv }, z: { rows: valueChannels(config), moves: z } };
}

/** Parts of a matrix, one below another, as separate weights. */
export function splitRows(sizes: readonly number[]): readonly Gather[] {
  let from = 0;
  return sizes.map((rows) => ({ rows, moves: [{ from: (from += rows) - rows, to: 0, rows }] }));
}

/** `in_proj_ba` as the projections of b and a. */
export function splitBa({ keyHeads, valueHeads }: LayerConfig): { readonly b: Gather; readonly a: Gather } {
  const ratio = valueHeads / keyHeads;
  const every = (skip: number): Gather => ({
    rows: valueHeads,
    moves: Array.from({ length: keyHeads }, (_, head) => {
      return { from: 2 * ratio * head + skip, to: ratio * head, rows: ratio };
    }),
  });
  return { b: every(0), a: every(ratio) };
}
