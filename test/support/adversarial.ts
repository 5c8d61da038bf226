/**
 * The cases that break delta rule kernels, each by name. They use float32 throughout; results are compared with the
 * reference under `decayFormat: "f32"`, and their errors with `adversarialBound`.
 */
import type { CausalConv1dCase } from "../reference/causal-conv1d.ts";
import { largestDecay } from "../reference/gated-delta.ts";
import type { GatedDeltaCase } from "../reference/gated-delta.ts";
import { reference } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { cuSeqlensOf, fill } from "./cases.ts";
import { Random } from "./random.ts";

/**
 * The largest relRms allowed against float64 of an adversarial case, whose errors accumulate over the life of a state,
 * which `tokens` in a sequence and the largest decay limit. The reference must have its decays rounded to float32.
 */
export function adversarialBound(tokens: number, largestDecay: number): number {
  const life = largestDecay >= 1 ? Infinity : 1 / (1 - largestDecay);
  return 2e-6 + 4 * 2 ** -24 * Math.min(tokens, life);
}

export interface AdversarialCase {
  readonly name: string;
  readonly given: GatedDeltaCase;
  /** The largest relRms allowed, for out and state separately. */
  readonly bound: number;
}

/** Lengths around every block and chunk size in use. */
export const edgeLengths = [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65];

interface Options {
  readonly lengths: readonly number[];
  readonly keyHeads?: number;
  readonly ratio?: number;
  readonly keyDim?: number;
  readonly valueDim?: number;
  /** Log decay and beta of each token; defaults are random. */
  readonly gate?: (random: Random, token: number) => number;
  readonly beta?: (random: Random, token: number) => number;
  readonly slots?: number;
  readonly readSlots?: readonly number[];
  readonly writeSlots?: readonly number[];
  /** Changes inputs after they are made. */
  readonly edit?: (given: GatedDeltaCase, random: Random) => Partial<GatedDeltaCase>;
}

function build(name: string, options: Options): AdversarialCase {
  const random = new Random(name.length * 7919 + name.charCodeAt(0));
  const { lengths, keyHeads = 1, ratio = 2, keyDim = 32, valueDim = 32 } = options;
  const rows = cuSeqlensOf(lengths).at(-1)!;
  const valueHeads = keyHeads * ratio;
  const slots = options.slots ?? lengths.length;
  const perHead = (next: (random: Random, token: number) => number) => {
    let at = 0;
    return fill([rows, valueHeads], "f32", () => next(random, Math.floor(at++ / valueHeads)));
  };
  const normal = () => random.normal();
  const made: GatedDeltaCase = {
    query: fill([rows, keyHeads, keyDim], "f32", normal),
    key: fill([rows, keyHeads, keyDim], "f32", normal),
    value: fill([rows, valueHeads, valueDim], "f32", normal),
    gate: perHead(options.gate ?? ((r) => -Math.exp(r.uniform(-5, 1)))),
    beta: perHead(options.beta ?? ((r) => r.uniform())),
    state: fill([slots, valueHeads, valueDim, keyDim], "f32", () => random.normal() * 0.5),
    cuSeqlens: cuSeqlensOf(lengths),
    readSlots: options.readSlots,
    writeSlots: options.writeSlots,
    gateForm: "log",
    qkNorm: "l2",
  };
  const given = { ...made, ...options.edit?.(made, random) };
  const longest = lengths.reduce((most, length) => Math.max(most, length), 0);
  return { name, given, bound: adversarialBound(longest, largestDecay({ ...given, decayFormat: "f32" })) };
}

/** A tensor whose every row is the first row of the given one. */
function repeated(tensor: Reference): Reference {
  const [rows, ...rest] = tensor.shape;
  const size = rows === 0 ? 0 : tensor.data.length / rows!;
  return reference([rows!, ...rest], tensor.data.map((_, i) => tensor.data[i % size]!));
}

/** A tensor with zeros in the chosen rows. */
function zeroed(tensor: Reference, chosen: (row: number) => boolean): Reference {
  const size = tensor.data.length / tensor.shape[0]!;
  return reference(tensor.shape, tensor.data.map((value, i) => (chosen(Math.floor(i / size)) ? 0 : value)));
}

/** Every adversarial case of the gated delta rule except the longest. */
export function gatedDeltaAdversarial(): AdversarialCase[] {
  const almostOne = (r: Random) => -(2 ** -r.uniform(8, 20));
  return [
    build("identical keys, beta and decay near 1", {
      lengths: [65, 33],
      gate: almostOne,
      beta: (r) => 1 - 2 ** -r.uniform(6, 20),
      edit: ({ key }) => ({ key: repeated(key) }),
    }),
    build("identical keys, beta and decay exactly 1", {
      lengths: [64],
      gate: () => 0,
      beta: () => 1,
      edit: ({ key }) => ({ key: repeated(key) }),
    }),
    build("alternating opposite keys", {
      lengths: [65],
      gate: almostOne,
      beta: () => 1,
      edit: ({ key }) => {
        const same = repeated(key);
        const size = same.data.length / 65;
        return { key: reference(same.shape, same.data.map((x, i) => (Math.floor(i / size) % 2 === 0 ? x : -x))) };
      },
    }),
    build("decay 0 at single tokens", {
      lengths: [33, 17],
      gate: (_, token) => (token % 5 === 2 ? -Infinity : -0.01),
    }),
    build("decay 0 at every token", { lengths: [17], gate: () => -Infinity }),
    build("decay 0 given as such", {
      lengths: [17, 8],
      edit: ({ gate }) => ({ gateForm: "decay", gate: reference(gate.shape, gate.data.map((g, i) => (i % 3 === 0 ? 0 : Math.fround(Math.exp(g))))) }),
    }),
    build("decays so small that a product of them is 0", { lengths: [65], gate: (_, token) => (token % 2 === 0 ? -80 : -1e-3) }),
    build("strong and mild decays mixed", { lengths: [63], gate: (r) => (r.uniform() < 0.2 ? -40 : -1e-4) }),
    build("zero keys, queries and values", {
      lengths: [16, 9],
      edit: ({ key, query, value }) => ({
        key: zeroed(key, (row) => row % 3 === 0),
        query: zeroed(query, (row) => row % 4 === 1),
        value: zeroed(value, (row) => row % 5 === 2),
      }),
    }),
    build("all rows zero", {
      lengths: [9],
      edit: ({ key, query, value }) => ({ key: zeroed(key, () => true), query: zeroed(query, () => true), value: zeroed(value, () => true) }),
    }),
    build("tiny keys, where eps decides", {
      lengths: [17],
      edit: ({ key }) => ({ key: reference(key.shape, key.data.map((x) => Math.fround(x * 1e-4))) }),
    }),
    build("beta 0 and beta 1 alternating", { lengths: [33], beta: (_, token) => token % 2 }),
    build("beta up to 2", { lengths: [33], beta: (r) => r.uniform(1, 2) }),
    ...edgeLengths.map((length) => build(`${length} tokens`, { lengths: [length, 3], ratio: 1, keyDim: 64, valueDim: 16 })),
    build("every edge length in one batch", { lengths: edgeLengths, keyDim: 8, valueDim: 8 }),
    build("three value heads to a key head, block", { lengths: [9, 5], keyHeads: 2, ratio: 3 }),
    build("three value heads to a key head, tiled", { lengths: [9, 5], keyHeads: 2, ratio: 3, edit: () => ({ headMap: "tiled" }) }),
    build("swapped slots", { lengths: [5, 8], readSlots: [1, 0], writeSlots: [0, 1] }),
    build("rotated slots", { lengths: [3, 1, 0, 7], readSlots: [1, 2, 3, 0], writeSlots: [0, 1, 2, 3] }),
    build("a chain: each reads what the one before it writes", { lengths: [4, 4, 4], slots: 4, readSlots: [0, 1, 2], writeSlots: [1, 2, 3] }),
    build("forks of one slot, itself among those written", { lengths: [2, 9, 1], slots: 4, readSlots: [2, 2, 2], writeSlots: [0, 2, 3] }),
    build("fresh and dropped states", {
      lengths: [7, 0, 16, 0],
      slots: 5,
      readSlots: [-1, -1, 4, 3],
      writeSlots: [4, 2, -1, -1],
      edit: ({ state }) => ({ state: reference(state!.shape, state!.data.map((x, i) => (i < state!.data.length / 5 ? NaN : x))) }),
    }),
    build("gates per key dimension, some 0", {
      lengths: [17, 8],
      edit: ({ gate, query }, random) => ({
        gate: fill([...gate.shape, query.shape[2]!], "f32", () => (random.uniform() < 0.1 ? -Infinity : -Math.exp(random.uniform(-8, 2)))),
      }),
    }),
    build("the largest heads", { lengths: [9], ratio: 1, keyDim: 256, valueDim: 256 }),
    build("the smallest heads", { lengths: [65], ratio: 1, keyDim: 8, valueDim: 8 }),
  ];
}

/** More tokens than 16 bits can count: one sequence of 32768 and a short one after it. */
export function longSequence(): AdversarialCase {
  return build("more tokens than a signed 16-bit number counts", { lengths: [32768, 3], ratio: 1, keyDim: 8, valueDim: 8 });
}

/** Convolutions whose sequences are shorter than their memory, and hazards of slots. */
export function convAdversarial(): { name: string; given: CausalConv1dCase }[] {
  const channels = 6;
  const make = (width: number, lengths: number[], slots: number, readSlots: number[], writeSlots: number[]) => {
    const random = new Random(width * 31 + lengths.length);
    const normal = () => random.normal();
    const cuSeqlens = cuSeqlensOf(lengths);
    return {
      x: fill([cuSeqlens.at(-1)!, channels], "f32", normal),
      weight: fill([channels, width], "f32", normal),
      state: fill([slots, channels, width - 1], "f32", normal),
      cuSeqlens,
      readSlots,
      writeSlots,
    };
  };
  const widths = [2, 3, 4, 5, 6, 7, 8, 9];
  return [
    ...widths.map((width) => {
      const lengths = Array.from({ length: width + 2 }, (_, length) => length);
      const slots = lengths.map((_, s) => s);
      return { name: `width ${width}: 0 to ${width + 1} tokens`, given: make(width, lengths, lengths.length, slots, slots) };
    }),
    { name: "swapped slots", given: make(4, [1, 5], 2, [1, 0], [0, 1]) },
    { name: "rotated slots, one empty", given: make(4, [2, 0, 1], 3, [2, 0, 1], [0, 1, 2]) },
    { name: "forks of one slot", given: make(4, [1, 1, 1], 4, [1, 1, 1], [0, 1, 3]) },
    { name: "fresh and dropped states", given: make(5, [2, 0, 3], 3, [-1, -1, 2], [2, 0, -1]) },
    { name: "more tokens than a signed 16-bit number counts", given: make(3, [32769, 1], 2, [0, 1], [0, 1]) },
  ];
}
