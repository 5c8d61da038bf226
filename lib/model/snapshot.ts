/**
 * What a sequence is, in memory of JavaScript's: its states, keys and values, and how many tokens they stand for. A
 * sequence that is made of it, in the same model or in another one of the same weights, goes on with the same bits.
 */
import { DisposedError, ShapeError } from "../errors.ts";
import type { StateKind } from "../ops/layer-states.ts";
import { kindsOf } from "../states/pool-shape.ts";
import type { StatePool } from "../states/state-pool.ts";
import { dtypes } from "../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { LanguageModel } from "./language-model.ts";
import { memoryOf } from "./model-memory.ts";
import type { PageLedger, PageList } from "./page-ledger.ts";
import type { PagePool } from "./page-pool.ts";
import { expectValid, sequenceParts } from "./sequence.ts";
import type { Sequence } from "./sequence.ts";

/** Elements of a tensor, as its dtype stores them. */
export interface Elements {
  readonly dtype: FloatDType;
  readonly data: ArrayOfDType[FloatDType];
}

/** A sequence without a model. */
export interface SequenceSnapshot {
  readonly tokens: number;
  /** Of each Gated DeltaNet layer, its states by kind; empty where the sequence has no tokens, which reads as zeros. */
  readonly states: readonly Readonly<Partial<Record<StateKind, Elements>>>[];
  /** Of each attention layer, `[kvHeads, tokens, headDim]`. */
  readonly pages: readonly { readonly keys: Elements; readonly values: Elements }[];
}

/** Copies what a sequence is. Waits for pending work. */
export function snapshotOf(sequence: Sequence): SequenceSnapshot {
  const op = "snapshotOf";
  if (sequence.disposed) throw new DisposedError({ op, expected: "a sequence that is not disposed" });
  const { model } = sequence;
  const parts = sequenceParts(sequence)!;
  model.device.wait();
  expectValid(op, parts);
  const { pool, pages } = memoryOf(model);
  const { handle, list } = parts;
  const { slot } = handle;
  const states = slot < 0 ? [] : Array.from({ length: pool.layers }, (_, layer) => {
    const copies = kindsOf(pool.shape).map((kind) => [kind, elementsOf(slotOf(pool, layer, kind, slot))]);
    return Object.fromEntries(copies) as Partial<Record<StateKind, Elements>>;
  });
  const { pageTokens } = pages.ledger;
  return {
    tokens: list.tokens,
    states,
    pages: pages.layers.map(({ keys, values }) => ({
      keys: gathered(keys, list, pageTokens),
      values: gathered(values, list, pageTokens),
    })),
  };
}

/**
 * A new sequence that is what a snapshot says, of the same model or another one of the same weights. Waits for pending work.
 *
 * @throws {ShapeError} for a snapshot of other layers, sizes or dtypes; as `model.sequence` and `model.run` where states or
 *   pages run out.
 */
export function sequenceFrom(model: LanguageModel, snapshot: SequenceSnapshot): Sequence {
  const sequence = model.sequence();
  try {
    model.device.wait();
    fill(sequence, snapshot);
    return sequence;
  } catch (error) {
    sequence[Symbol.dispose]();
    throw error;
  }
}

/** Throws where {@link sequenceFrom} would refuse a snapshot. */
export function expectSnapshot(op: string, model: LanguageModel, snapshot: SequenceSnapshot): void {
  const { pool, pages } = memoryOf(model);
  expectFits(op, snapshot, pool, pages);
}

/** Fills an empty sequence. No work is pending. */
function fill(sequence: Sequence, snapshot: SequenceSnapshot): void {
  const op = "sequenceFrom";
  const { pool, pages } = memoryOf(sequence.model);
  const { handle, list } = sequenceParts(sequence)!;
  expectFits(op, snapshot, pool, pages);
  const { ledger, layers } = pages;
  const pageStep = ledger.begin(op, "snapshot", [list], [snapshot.tokens]);
  ledger.finish(pageStep);
  for (const [i, { keys, values }] of layers.entries()) {
    scatter(snapshot.pages[i]!.keys, keys, list, ledger);
    scatter(snapshot.pages[i]!.values, values, list, ledger);
  }
  if (snapshot.states.length === 0) return;
  const step = pool.step([handle]);
  const slot = step.writeSlots[0]!;
  for (const [layer, kinds] of snapshot.states.entries()) {
    for (const kind of kindsOf(pool.shape)) {
      (slotOf(pool, layer, kind, slot).data as Numbers).set(kinds[kind]!.data as Numbers);
      step.wrote(layer, kind);
    }
  }
  step.done();
}

/** Typed arrays of one dtype, whichever it is: what set() takes is checked before. */
type Numbers = Float32Array;

function expectFits(op: string, { tokens, states, pages }: SequenceSnapshot, pool: StatePool, { layers }: PagePool): void {
  const fits = (elements: Elements | undefined, tensor: Tensor, length: number): boolean =>
    elements !== undefined && elements.dtype === tensor.dtype && elements.data.length === length;
  const stateFits = states.length === 0 || (states.length === pool.layers && states.every((kinds, layer) =>
    kindsOf(pool.shape).every((kind) => fits(kinds[kind], kind === "state" ? pool.state(layer) : pool.conv(layer), slotOf(pool, layer, kind, 0).size))));
  const pagesFit = pages.length === layers.length && pages.every(({ keys, values }, i) => {
    const [, kvHeads, , headDim] = layers[i]!.keys.shape;
    const length = kvHeads! * tokens * headDim!;
    return fits(keys, layers[i]!.keys, length) && fits(values, layers[i]!.values, length);
  });
  if (stateFits && pagesFit) return;
  const expected = "a snapshot of a sequence of this model, with states and pages of the same dtypes";
  throw new ShapeError({ op, argument: "snapshot", expected, received: `one whose ${stateFits ? "pages" : "states"} differ` });
}

function slotOf(pool: StatePool, layer: number, kind: StateKind, slot: number): Tensor {
  return (kind === "state" ? pool.state(layer) : pool.conv(layer)).slice(slot, slot + 1);
}

function elementsOf(tensor: Tensor): Elements {
  return { dtype: tensor.dtype as FloatDType, data: tensor.data.slice() as ArrayOfDType[FloatDType] };
}

/** The rows of a list's tokens, head by head. */
function gathered(tensor: Tensor, list: PageList, pageTokens: number): Elements {
  const [, kvHeads = 0, , headDim = 0] = tensor.shape;
  const source = tensor.data as Numbers;
  const dtype = tensor.dtype as FloatDType;
  const data = dtypes[dtype].create(kvHeads * list.tokens * headDim) as Numbers;
  eachRun(list, kvHeads, headDim, pageTokens, (at, from, length) => data.set(source.subarray(from, from + length), at));
  return { dtype, data };
}

function scatter({ data }: Elements, tensor: Tensor, list: PageList, { pageTokens }: PageLedger): void {
  const [, kvHeads = 0, , headDim = 0] = tensor.shape;
  const target = tensor.data as Numbers;
  eachRun(list, kvHeads, headDim, pageTokens, (at, to, length) => target.set((data as Numbers).subarray(at, at + length), to));
}

/** Calls `visit` for every run of elements that lies side by side both in `[kvHeads, tokens, headDim]` and in the pages. */
function eachRun(
  { pages, tokens }: PageList,
  kvHeads: number,
  headDim: number,
  pageTokens: number,
  visit: (at: number, inPages: number, length: number) => void,
): void {
  for (let head = 0; head < kvHeads; head++) {
    for (const [i, page] of pages.entries()) {
      const first = i * pageTokens;
      const count = Math.min(pageTokens, tokens - first);
      visit((head * tokens + first) * headDim, (page * kvHeads + head) * pageTokens * headDim, count * headDim);
    }
  }
}
