/** Cases of the four fused ops: inputs as ggml's own tests draw them, run on a device and judged against float64. */
import { expect } from "bun:test";
import { gatedDeltaNetInplace, gatedDeltaNetInplaceIds, ssmConvUpdateInplace, ssmConvUpdateInplaceIds } from "../../lib/ggml.ts";
import type { Device, Tensor } from "../../lib/index.ts";
import { gatedDeltaNet, ssmConvUpdate } from "../reference/ggml.ts";
import type { GatedDeltaNetCase, SsmConvUpdateCase } from "../reference/ggml.ts";
import { sumOfSquares } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { relRms } from "../../lib/cli/verify/compare.ts";
import { fill } from "./cases.ts";
import { expectSameBits } from "./judge.ts";
import { Random } from "./random.ts";

/** ggml's measure, ‖x − ref‖₂² / ‖ref‖₂²: the square of {@link relRms}. */
export function nmse(x: ArrayLike<number>, ref: ArrayLike<number>): number {
  return relRms(x, ref) ** 2;
}

/** Largest ‖x − ref‖² / ‖ref‖², a thousandth of what ggml's own tests allow. */
export const mostNmse = 1e-10;

/** A case of the recurrence. */
export interface NetSpec {
  readonly keyHeads: number;
  readonly dim: number;
  readonly tokens: number;
  readonly sequences: number;
  /** Value heads for each key head. @default 1 */
  readonly repeat?: number;
  readonly kda?: boolean;
  /** Snapshots. @default none */
  readonly keep?: number;
  /** Slots of the cache, the slot that is written first, and those that are read. @default one per sequence, its own */
  readonly slots?: number;
  readonly rsHead?: number;
  readonly ids?: readonly number[];
  /** Gates near 0, where almost nothing is forgotten, instead of ggml's, where almost everything is. */
  readonly remember?: boolean;
}

const f32 = (shape: readonly number[], next: () => number): Reference => fill(shape, "f32", next);

/** Rows of length 1, as q and k are in ggml's tests. */
function unitRows(tensor: Reference): Reference {
  const size = tensor.shape.at(-1)!;
  for (let start = 0; start < tensor.data.length; start += size) {
    const row = tensor.data.subarray(start, start + size);
    const length = Math.max(Math.sqrt(sumOfSquares(row)), 1e-6);
    for (let i = 0; i < size; i++) row[i] = Math.fround(row[i]! / length);
  }
  return tensor;
}

/** The inputs of a case. */
export function buildNet(spec: NetSpec, seed = 1): GatedDeltaNetCase {
  const random = new Random(seed);
  const { keyHeads, dim, tokens, sequences, repeat = 1, slots = sequences, remember = false } = spec;
  const valueHeads = keyHeads * repeat;
  const uniform = (low: number, high: number) => () => random.uniform(low, high);
  const rows = [sequences, tokens];
  const symmetric = uniform(-1, 1);
  return {
    q: unitRows(f32([...rows, keyHeads, dim], symmetric)),
    k: unitRows(f32([...rows, keyHeads, dim], symmetric)),
    v: f32([...rows, valueHeads, dim], uniform(-0.3, 5)),
    gate: f32([...rows, valueHeads, ...(spec.kda ? [dim] : [])], remember ? uniform(-0.1, 0) : uniform(-20, -1e-4)),
    beta: f32([...rows, valueHeads], uniform(0, 1)),
    cache: f32([slots, valueHeads, dim, dim], symmetric),
    rsHead: spec.rsHead ?? 0,
    ...(spec.ids && { ids: spec.ids }),
    ...(spec.keep && { snapshots: f32([spec.keep, sequences, valueHeads, dim, dim], symmetric) }),
    decayFormat: "f32",
  };
}

/** The results of a run. */
export interface NetResult {
  readonly out: Float32Array<ArrayBuffer>;
  readonly cache: Float32Array<ArrayBuffer>;
  readonly snapshots: Float32Array<ArrayBuffer> | undefined;
}

/** Runs a case through the op that its ids require. The caller puts NaN into the slots that an id of −1 would read. */
export function runNet(device: Device, given: GatedDeltaNetCase, apart = false): NetResult {
  using stack = new DisposableStack();
  const place = ({ shape, data }: Reference) => stack.use(device.tensorFrom("f32", shape, data));
  const cache = place(given.cache);
  const snapshots = given.snapshots && place(given.snapshots);
  const out = stack.use(device.tensor("f32", given.v.shape));
  out.data.fill(NaN);
  const { rsHead, ids } = given;
  const args = { q: place(given.q), k: place(given.k), v: place(given.v), gate: place(given.gate), beta: place(given.beta), snapshots, out };
  const state = cache.slice(rsHead, rsHead + given.q.shape[0]!);
  let written: Tensor<"f32"> = cache;
  if (ids !== undefined) {
    device.run(gatedDeltaNetInplaceIds({ ...args, cache, ids, rsHead }));
  } else if (apart) {
    written = place(given.cache);
    device.run(gatedDeltaNetInplace({ ...args, state, stateDst: written.slice(rsHead, rsHead + given.q.shape[0]!) }));
  } else {
    device.run(gatedDeltaNetInplace({ ...args, state, stateDst: state }));
  }
  device.wait();
  return { out: out.data.slice(), cache: written.data.slice(), snapshots: snapshots?.data.slice() };
}

/** Fails unless a run agrees with float64, judging output, states and snapshots separately. */
export function judgeNet(given: GatedDeltaNetCase, result: NetResult): void {
  const expected = gatedDeltaNet(given);
  expectClose("output", result.out, expected.out.data);
  expectClose("cache", result.cache, expected.cache.data);
  if (expected.snapshots && result.snapshots) expectClose("snapshots", result.snapshots, expected.snapshots.data);
}

/** A case of the convolution. */
export interface UpdateSpec {
  readonly width: number;
  readonly channels: number;
  readonly sequences: number;
  readonly cells?: number;
  readonly rsHead?: number;
  readonly ids?: readonly number[];
  readonly silu?: boolean;
}

/** The inputs of a case. */
export function buildUpdate(spec: UpdateSpec, seed = 1): SsmConvUpdateCase {
  const random = new Random(seed);
  const { width, channels, sequences, cells = sequences } = spec;
  const next = () => random.uniform(-1, 1);
  return {
    x: f32([sequences, channels], next),
    weight: f32([channels, width], next),
    cache: f32([cells, channels, width - 1], next),
    rsHead: spec.rsHead ?? 0,
    silu: spec.silu ?? true,
    ...(spec.ids && { ids: spec.ids }),
  };
}

/** Runs a case through the op that its ids require. */
export function runUpdate(device: Device, given: SsmConvUpdateCase, apart = false): { out: Float32Array<ArrayBuffer>; cache: Float32Array<ArrayBuffer> } {
  using stack = new DisposableStack();
  const place = ({ shape, data }: Reference) => stack.use(device.tensorFrom("f32", shape, data));
  const cache = place(given.cache);
  const out = stack.use(device.tensor("f32", given.x.shape));
  out.data.fill(NaN);
  const { rsHead, ids, silu } = given;
  const args = { weight: place(given.weight), x: place(given.x), silu, out };
  const window = (tensor: Tensor) => tensor.slice(rsHead, rsHead + given.x.shape[0]!);
  let written: Tensor<"f32"> = cache;
  if (ids !== undefined) {
    device.run(ssmConvUpdateInplaceIds({ ...args, convCache: cache, ids, rsHead }));
  } else if (apart) {
    written = place(given.cache);
    device.run(ssmConvUpdateInplace({ ...args, convStates: window(cache), convStateDst: window(written) }));
  } else {
    device.run(ssmConvUpdateInplace({ ...args, convStates: window(cache), convStateDst: window(cache) }));
  }
  device.wait();
  return { out: out.data.slice(), cache: written.data.slice() };
}

/** Fails unless the output is near float64's and the ring is a copy, to the bit. */
export function judgeUpdate(given: SsmConvUpdateCase, result: { out: Float32Array; cache: Float32Array }): void {
  const expected = ssmConvUpdate(given);
  expectClose("output", result.out, expected.out.data);
  expectSameBits("cache", result.cache, Float32Array.from(expected.cache.data));
}

/** Fails unless numbers are within {@link mostNmse} of a reference. */
export function expectClose(subject: string, numbers: ArrayLike<number>, expected: ArrayLike<number>): void {
  const error = nmse(numbers, expected);
  if (!(error <= mostNmse)) expect(`${subject}: NMSE ${error}`).toBe(`${subject}: NMSE at most ${mostNmse}`);
}
