/**
 * A sequence as bytes, in parts: its states, and the keys and values of consecutive tokens. Sequences with a common prefix have
 * the same keys and values for it, so that these parts are stored once.
 *
 * States are in the order of the layers, and within a layer in the order of `kindsOf`. Keys and values of tokens are in the order of
 * the attention layers, `[kvHeads, tokens, headDim]` first of the keys, then of the values. Numbers are little-endian in the dtype
 * in which the model keeps them.
 */
import { dtypeOf, kindsOf, rowShape } from "../states/pool-shape.ts";
import type { StateKind } from "../states/pool-shape.ts";
import { dtypes } from "../tensor/dtype.ts";
import type { ArrayOfDType, FloatDType } from "../tensor/dtype.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { LanguageModel } from "./language-model.ts";
import { memoryOf } from "./model-memory.ts";
import { expectValid, sequenceParts } from "./sequence.ts";
import type { Sequence } from "./sequence.ts";
import { viewsOf } from "./snapshot.ts";
import type { Elements, SequenceSnapshot, TokenParts } from "./snapshot.ts";

/** The sizes of a model's parts, in bytes. */
export interface PartSizes {
  /** The states of a sequence. */
  readonly state: number;
  /** The keys and values of one token. */
  readonly token: number;
}

/** The bytes of the keys and values of a model's tokens `from .. to - 1`, or of the states of its first tokens. */
export function partSizes(model: LanguageModel): PartSizes {
  const { pool, pages } = memoryOf(model);
  const states = kindsOf(pool.shape).reduce((sum, kind) => sum + stateLength(model, kind) * dtypes[dtypeOf(pool.shape, kind)].bytes, 0);
  const token = pages.layers.reduce((sum, { keys, values }) => sum + rowBytes(keys) + rowBytes(values), 0);
  return { state: pool.layers * states, token };
}

/** The dtypes in which a model keeps states, keys and values, as text: parts can be the same only if this text is. */
export function partForm(model: LanguageModel): string {
  const { pool, pages } = memoryOf(model);
  const dtype = pages.layers[0]?.keys.dtype ?? "none";
  return `${model.dtype} ${pool.shape.stateDtype} ${pool.shape.convDtype} ${dtype}`;
}

/**
 * Copies a sequence's states, some of them with each step of the generator. When a step begins, the sequence must be valid, not empty,
 * without a pending run, and not disposed.
 */
export function* copyState(sequence: Sequence, into: Uint8Array): Generator<void, void, void> {
  let at = 0;
  for (const kinds of viewsOf(sequence).states) {
    for (const kind of kindsOf(memoryOf(sequence.model).pool.shape)) {
      for (const piece of kinds[kind]!.pieces) {
        into.set(bytesOf(piece), at);
        at += piece.byteLength;
      }
    }
    yield;
  }
}

/** Copies the keys and values of a sequence's tokens `from .. to - 1`, like {@link copyState}. */
export function* copyTokens(sequence: Sequence, from: number, to: number, into: Uint8Array): Generator<void, void, void> {
  const parts = sequenceParts(sequence)!;
  expectValid("copyTokens", parts);
  const { pages } = memoryOf(sequence.model);
  const { pageTokens } = pages.ledger;
  let at = 0;
  for (const { keys, values } of pages.layers) {
    for (const tensor of [keys, values]) {
      const bytes = bytesOf(tensor.data as ArrayBufferView);
      const [, kvHeads = 0] = tensor.shape;
      const row = rowBytes(tensor) / kvHeads;
      for (let head = 0; head < kvHeads; head++) {
        for (let token = from; token < to; ) {
          const page = Math.floor(token / pageTokens);
          const end = Math.min(to, (page + 1) * pageTokens);
          const first = (parts.list.pages[page]! * kvHeads + head) * pageTokens + (token - page * pageTokens);
          into.set(bytes.subarray(first * row, (first + end - token) * row), at);
          at += (end - token) * row;
          token = end;
        }
      }
      yield;
    }
  }
}

/** Keys and values of consecutive tokens, as {@link copyTokens} writes them, at a multiple of 4 bytes. */
export interface TokenBytes {
  readonly tokens: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A snapshot of parts, without a copy. The states are those of {@link copyState}, at a multiple of 4 bytes. */
export function snapshotOfParts(model: LanguageModel, state: Uint8Array<ArrayBuffer>, parts: readonly TokenBytes[]): SequenceSnapshot {
  const { pool, pages } = memoryOf(model);
  let at = 0;
  const states = Array.from({ length: pool.layers }, () => {
    const kinds: Partial<Record<StateKind, Elements>> = {};
    for (const kind of kindsOf(pool.shape)) {
      const dtype = dtypeOf(pool.shape, kind);
      const length = stateLength(model, kind);
      kinds[kind] = { dtype, data: viewOf(dtype, state, at, length) };
      at += length * dtypes[dtype].bytes;
    }
    return kinds;
  });
  const places = parts.map(() => 0);
  const next = (tensor: Tensor): TokenParts => {
    const dtype = tensor.dtype as FloatDType;
    const elements = parts.map(({ tokens, bytes }, i) => {
      const size = tokens * rowBytes(tensor);
      places[i]! += size;
      return { tokens, data: viewOf(dtype, bytes, places[i]! - size, size / dtypes[dtype].bytes) };
    });
    return { dtype, parts: elements };
  };
  const tokens = parts.reduce((sum, part) => sum + part.tokens, 0);
  return { tokens, states, pages: pages.layers.map(({ keys, values }) => ({ keys: next(keys), values: next(values) })) };
}

function viewOf(dtype: FloatDType, { buffer, byteOffset }: Uint8Array<ArrayBuffer>, at: number, length: number): ArrayOfDType[FloatDType] {
  return dtypes[dtype].view(buffer, byteOffset + at, length) as ArrayOfDType[FloatDType];
}

/** Elements of one layer's state of a kind. */
function stateLength(model: LanguageModel, kind: StateKind): number {
  return rowShape(memoryOf(model).pool.shape, kind).reduce((product, size) => product * size, 1);
}

/** Bytes of one token in a tensor of pages. */
function rowBytes({ dtype, shape: [, kvHeads = 0, , headDim = 0] }: Tensor): number {
  return kvHeads * headDim * dtypes[dtype].bytes;
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
