/** Which rows of logits and hidden states a batch requests, and the memory for them. */
import type { Tensor } from "../tensor/tensor.ts";
import type { Entry } from "./batch.ts";
import { bestOf } from "./best-memory.ts";
import type { BestRows, WantedBest } from "./best-memory.ts";
import type { WantedRows } from "./graph.ts";
import type { Piece } from "./passes.ts";
import type { ResultRows } from "./run-result.ts";
import type { BestLogits } from "./sampling/best-logits.ts";

/** The kinds of results. */
export type Kind = "logits" | "hidden";

/** The memory for a batch's results of one kind. */
export interface Destination {
  readonly memory: Tensor<"f32">;
  readonly width: number;
  /** Whether the memory is only for this run. */
  readonly temporary: boolean;
  /** For each entry, the first row of its results. */
  readonly starts: readonly number[];
}

/** The memory for all of a batch's results. */
export type Destinations = Readonly<Record<Kind, Destination | undefined>> & {
  /** For each entry, the memory for the largest of its logits. */
  readonly best: readonly (BestRows | undefined)[];
};

/** How many rows an entry requests. */
export function wantedRows(entry: Entry, kind: Kind): number {
  return entry[kind] === "none" ? 0 : entry[kind] === "last" ? 1 + entry.drafts : entry.tokens.length;
}

/** The rows of a pass with requested results, and the memory for the results. */
export function wantedOf(entries: readonly Entry[], pieces: readonly Piece[], cuSeqlens: Int32Array, kind: Kind, destinations: Destinations): WantedRows {
  const rows: number[] = [];
  const runs: { start: number; end: number }[] = [];
  const destination = destinations[kind];
  if (destination === undefined) return { rows, outs: [] };
  for (const [i, { entry, start, end }] of pieces.entries()) {
    const { [kind]: wanted, tokens, drafts } = entries[entry]!;
    const all = wanted === "all";
    if (!all && (wanted === "none" || end < tokens.length)) continue;
    const from = all ? start : end - 1 - drafts; // an entry with guesses is one piece
    for (let token = from; token < end; token++) rows.push(cuSeqlens[i]! + token - start);
    const to = destination.starts[entry]! + (all ? start : 0);
    const last = runs.at(-1);
    if (last?.end === to) last.end = to + end - from;
    else runs.push({ start: to, end: to + end - from });
  }
  return { rows, outs: runs.map(({ start, end }) => destination.memory.slice(start, end)) };
}

/** The rows of logits that a pass completes for entries that request the largest of them. */
export function wantedBest(entries: readonly Entry[], pieces: readonly Piece[], { logits, best }: Destinations): WantedBest[] {
  return pieces.flatMap(({ entry, end }) => {
    const rows = best[entry];
    if (logits === undefined || rows === undefined || end < entries[entry]!.tokens.length) return [];
    const start = logits.starts[entry]!;
    return [{ logits: logits.memory.slice(start, start + wantedRows(entries[entry]!, "logits")), rows }];
  });
}

/** The results of each entry. */
export function viewsOf(entries: readonly Entry[], destinations: Destinations): ResultRows[] {
  const view = (entry: Entry, i: number, kind: Kind): Float32Array | undefined => {
    const destination = destinations[kind];
    if (destination === undefined || entry[kind] === "none") return undefined;
    const { memory: { data }, width, starts } = destination;
    return data.subarray(starts[i]! * width, (starts[i]! + wantedRows(entry, kind)) * width);
  };
  const bestRows = (i: number): readonly BestLogits[] | undefined => destinations.best[i] && bestOf(destinations.best[i]);
  return entries.map((entry, i) => ({ logits: view(entry, i, "logits"), hidden: view(entry, i, "hidden"), best: bestRows(i) }));
}

/** Memory to free with the results. */
export function temporaryOf(destinations: Destinations): Tensor[] {
  return [destinations.logits, destinations.hidden].flatMap((destination) => (destination?.temporary ? [destination.memory] : []));
}
