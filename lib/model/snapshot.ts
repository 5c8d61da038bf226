/**
 * Snapshots: a sequence's states, keys and values in JavaScript's memory, and the number of its tokens. A sequence made from a
 * snapshot, in the same model or another one with the same weights, continues with the same bits.
 */
import { DisposedError, ShapeError } from "../errors.ts";
import { turns } from "../turns.ts";
import type { StateKind } from "../ops/layer-states.ts";
import { kindsOf } from "../states/pool-shape.ts";
import type { StatePool } from "../states/state-pool.ts";
import { dtypes } from "../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { LanguageModel } from "./language-model.ts";
import { memoryOf } from "./model-memory.ts";
import type { PageList } from "./page-ledger.ts";
import type { PagePool } from "./page-pool.ts";
import { expectValid, sequenceParts } from "./sequence.ts";
import type { Sequence } from "./sequence.ts";

/** Elements of a tensor, as its dtype stores them. */
export interface Elements {
  readonly dtype: FloatDType;
  readonly data: ArrayOfDType[FloatDType];
}

/** Keys or values of a sequence, in parts of consecutive tokens. */
export interface TokenParts {
  readonly dtype: FloatDType;
  /** The elements of that many tokens, `[kvHeads, tokens, headDim]`. */
  readonly parts: readonly { readonly tokens: number; readonly data: ArrayOfDType[FloatDType] }[];
}

/** A sequence without a model. */
export interface SequenceSnapshot {
  readonly tokens: number;
  /** States of each Gated DeltaNet layer by kind; empty for a sequence without tokens, whose states are zeros. */
  readonly states: readonly Readonly<Partial<Record<StateKind, Elements>>>[];
  /** The keys and values of each attention layer, `[kvHeads, tokens, headDim]`, whole or in parts. */
  readonly pages: readonly { readonly keys: Elements | TokenParts; readonly values: Elements | TokenParts }[];
}

/** A snapshot without a copy: consecutive pieces of the model's memory. */
export interface SequenceViews {
  readonly tokens: number;
  /** States of each Gated DeltaNet layer by kind; empty for a sequence without tokens. */
  readonly states: readonly Readonly<Partial<Record<StateKind, Pieces>>>[];
  /** The keys and values of each attention layer, `[kvHeads, tokens, headDim]`. */
  readonly pages: readonly { readonly keys: Pieces; readonly values: Pieces }[];
}

/** Elements in several arrays of the model's memory. */
export interface Pieces {
  readonly dtype: FloatDType;
  readonly pieces: readonly ArrayOfDType[FloatDType][];
}

/**
 * Views of a sequence without a pending run, valid until it runs again or is disposed.
 *
 * @throws {GatedDeltaError} for a sequence that is invalid or was disposed.
 */
export function viewsOf(sequence: Sequence): SequenceViews {
  const op = "viewsOf";
  if (sequence.disposed) throw new DisposedError({ op, expected: "a sequence that is not disposed" });
  const parts = sequenceParts(sequence)!;
  expectValid(op, parts);
  const { pool, pages } = memoryOf(sequence.model);
  parts.verification?.leave();
  const { handle, list } = parts;
  const { slot } = handle;
  const states = slot < 0 ? [] : Array.from({ length: pool.layers }, (_, layer) => {
    const views = kindsOf(pool.shape).map((kind) => [kind, whole(slotOf(pool, layer, kind, slot))]);
    return Object.fromEntries(views) as Partial<Record<StateKind, Pieces>>;
  });
  const { pageTokens } = pages.ledger;
  return {
    tokens: list.tokens,
    states,
    pages: pages.layers.map(({ keys, values }) => ({ keys: inPages(keys, list, pageTokens), values: inPages(values, list, pageTokens) })),
  };
}

/** Takes a snapshot. Waits for pending work. */
export function snapshotOf(sequence: Sequence): SequenceSnapshot {
  if (!sequence.disposed) sequence.model.device.wait();
  const { tokens, states, pages } = viewsOf(sequence);
  return {
    tokens,
    states: states.map((kinds) => Object.fromEntries(Object.entries(kinds).map(([kind, pieces]) => [kind, joined(pieces)]))),
    pages: pages.map(({ keys, values }) => ({ keys: joined(keys), values: joined(values) })),
  };
}

/**
 * A new sequence from a snapshot of the same model or another one with the same weights. Waits for pending work.
 *
 * @throws {ShapeError} for a snapshot of other layers, sizes or dtypes; as `model.sequence` and `model.run` if states or
 *   pages run out.
 */
export function sequenceFrom(model: LanguageModel, snapshot: SequenceSnapshot): Sequence {
  const sequence = reserve(model, snapshot);
  try {
    model.device.wait();
    for (const copy of copiesInto(sequence, snapshot)) copy();
    return sequence;
  } catch (error) {
    sequence[Symbol.dispose]();
    throw error;
  }
}

/** A sequence that is being filled. */
export interface Filling {
  /** The sequence, with its state and pages. It must not run before {@link filled}; disposing it ends the filling. */
  readonly sequence: Sequence;
  /** Settles when the sequence has the snapshot's contents (true) or was disposed (false). */
  readonly filled: Promise<boolean>;
}

/** {@link sequenceFrom} in the background. State and pages are taken, or refused, at once. */
export function beginSequenceFrom(model: LanguageModel, snapshot: SequenceSnapshot): Filling {
  const sequence = reserve(model, snapshot);
  return { sequence, filled: fill(sequence, snapshot) };
}

async function fill(sequence: Sequence, snapshot: SequenceSnapshot): Promise<boolean> {
  await memoryOf(sequence.model).idle(); // pending work may still use freed pages and slots
  const turn = turns();
  try {
    for (const copy of copiesInto(sequence, snapshot)) {
      await turn();
      if (sequence.disposed) return false;
      copy();
    }
  } catch (error) {
    sequence[Symbol.dispose]();
    throw error;
  }
  return !sequence.disposed;
}

/** Throws if {@link sequenceFrom} would refuse a snapshot. */
export function expectSnapshot(op: string, model: LanguageModel, snapshot: SequenceSnapshot): void {
  const { pool, pages } = memoryOf(model);
  expectFits(op, snapshot, pool, pages);
}

/** A sequence with a snapshot's number of tokens, and a state and pages of undefined contents. */
function reserve(model: LanguageModel, snapshot: SequenceSnapshot): Sequence {
  const op = "sequenceFrom";
  const { pool, pages } = memoryOf(model);
  expectFits(op, snapshot, pool, pages);
  const sequence = model.sequence();
  try {
    const { handle, list } = sequenceParts(sequence)!;
    const { ledger } = pages;
    ledger.finish(ledger.begin(op, "snapshot", [list], [snapshot.tokens]));
    if (snapshot.states.length === 0) return sequence;
    const step = pool.step([handle]);
    for (let layer = 0; layer < pool.layers; layer++) for (const kind of kindsOf(pool.shape)) step.wrote(layer, kind);
    step.done();
    return sequence;
  } catch (error) {
    sequence[Symbol.dispose]();
    throw error;
  }
}

/** Bytes to copy at a time, which takes a few tenths of a millisecond. */
const copyBytes = 2 ** 20;

/** The copies that fill a reserved sequence, each of them short. */
function* copiesInto(sequence: Sequence, snapshot: SequenceSnapshot): Generator<() => void> {
  const { pool, pages } = memoryOf(sequence.model);
  const { handle, list } = sequenceParts(sequence)!;
  const copies = function* ({ data }: Elements, at: number, target: () => Numbers, to: number, length: number): Generator<() => void> {
    const source = data as Numbers;
    const most = copyBytes / source.BYTES_PER_ELEMENT;
    for (let done = 0; done < length; done += most) {
      const end = Math.min(length, done + most);
      yield () => target().set(source.subarray(at + done, at + end), to + done);
    }
  };
  for (const [layer, kinds] of snapshot.states.entries()) {
    for (const kind of kindsOf(pool.shape)) {
      const elements = kinds[kind]!;
      yield* copies(elements, 0, () => slotOf(pool, layer, kind, handle.slot).data as Numbers, 0, elements.data.length);
    }
  }
  const { pageTokens } = pages.ledger;
  for (const [i, { keys, values }] of pages.layers.entries()) {
    const stored = snapshot.pages[i]!;
    for (const [elements, tensor] of [[stored.keys, keys], [stored.values, values]] as const) {
      let first = 0;
      for (const { tokens, data } of partsOf(elements, list.tokens)) {
        const part = { dtype: elements.dtype, data };
        for (const { at, inPages, length } of runsOf(tensor, list, pageTokens, first, tokens)) yield* copies(part, at, () => tensor.data as Numbers, inPages, length);
        first += tokens;
      }
    }
  }
}

/** Typed arrays of one dtype: the sizes and dtypes for set() were checked. */
type Numbers = Float32Array;

function expectFits(op: string, { tokens, states, pages }: SequenceSnapshot, pool: StatePool, { layers }: PagePool): void {
  const fits = (elements: Elements | undefined, tensor: Tensor, length: number): boolean =>
    elements !== undefined && elements.dtype === tensor.dtype && elements.data.length === length;
  const stateFits = states.length === 0 || (states.length === pool.layers && states.every((kinds, layer) =>
    kindsOf(pool.shape).every((kind) => fits(kinds[kind], kind === "state" ? pool.state(layer) : pool.conv(layer), slotOf(pool, layer, kind, 0).size))));
  const allFit = (elements: Elements | TokenParts, tensor: Tensor, row: number): boolean => {
    const parts = partsOf(elements, tokens);
    return parts.reduce((sum, part) => sum + part.tokens, 0) === tokens && parts.every((part) => fits({ dtype: elements.dtype, data: part.data }, tensor, part.tokens * row));
  };
  const pagesFit = pages.length === layers.length && pages.every(({ keys, values }, i) => {
    const [, kvHeads, , headDim] = layers[i]!.keys.shape;
    const row = kvHeads! * headDim!;
    return allFit(keys, layers[i]!.keys, row) && allFit(values, layers[i]!.values, row);
  });
  if (stateFits && pagesFit) return;
  const expected = "a snapshot of a sequence of this model, with states and pages of the same dtypes";
  throw new ShapeError({ op, argument: "snapshot", expected, received: `one whose ${stateFits ? "pages" : "states"} differ` });
}

function slotOf(pool: StatePool, layer: number, kind: StateKind, slot: number): Tensor {
  return (kind === "state" ? pool.state(layer) : pool.conv(layer)).slice(slot, slot + 1);
}

function whole(tensor: Tensor): Pieces {
  return { dtype: tensor.dtype as FloatDType, pieces: [tensor.data as ArrayOfDType[FloatDType]] };
}

/** The rows of a list's tokens, head by head. */
function inPages(tensor: Tensor, list: PageList, pageTokens: number): Pieces {
  const data = tensor.data as Numbers;
  const runs = runsOf(tensor, list, pageTokens);
  return { dtype: tensor.dtype as FloatDType, pieces: Array.from(runs, ({ inPages: from, length }) => data.subarray(from, from + length)) };
}

/** A copy of all pieces in one array. */
function joined({ dtype, pieces }: Pieces): Elements {
  const data = dtypes[dtype].create(pieces.reduce((sum, { length }) => sum + length, 0)) as Numbers;
  let at = 0;
  for (const piece of pieces as readonly Numbers[]) {
    data.set(piece, at);
    at += piece.length;
  }
  return { dtype, data };
}

/** The parts of a sequence's keys or values. */
function partsOf(elements: Elements | TokenParts, tokens: number): TokenParts["parts"] {
  return "parts" in elements ? elements.parts : [{ tokens, data: elements.data }];
}

/** Keys or values as consecutive pieces of `[kvHeads, tokens, headDim]`. */
export function tokenPieces(elements: Elements | TokenParts, kvHeads: number): Pieces {
  if (!("parts" in elements)) return { dtype: elements.dtype, pieces: [elements.data] };
  const pieces = Array.from({ length: kvHeads }, (_, head) => elements.parts.map(({ data }) => data.subarray((head * data.length) / kvHeads, ((head + 1) * data.length) / kvHeads)));
  return { dtype: elements.dtype, pieces: pieces.flat() as ArrayOfDType[FloatDType][] };
}

/** Elements that are consecutive both in `[kvHeads, tokens, headDim]` and in the pages. */
interface Run {
  readonly at: number;
  readonly inPages: number;
  readonly length: number;
}

/** The elements of a list's tokens `first .. first + tokens - 1`, run by run. */
function* runsOf({ shape: [, kvHeads = 0, , headDim = 0] }: Tensor, { pages, tokens: all }: PageList, pageTokens: number, first = 0, tokens = all): Generator<Run> {
  for (let head = 0; head < kvHeads; head++) {
    for (let done = 0; done < tokens; ) {
      const inPage = (first + done) % pageTokens;
      const count = Math.min(pageTokens - inPage, tokens - done);
      const page = pages[Math.floor((first + done) / pageTokens)]!;
      yield { at: (head * tokens + done) * headDim, inPages: ((page * kvHeads + head) * pageTokens + inPage) * headDim, length: count * headDim };
      done += count;
    }
  }
}
