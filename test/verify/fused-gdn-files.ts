/**
 * `fused-gdn-*` files: q, k `[B,T,Hk,S]`, v, output_f64 `[B,T,Hv,S]`, g `[B,T,Hv]` or (KDA) `[B,T,Hv,S]`, beta
 * `[B,T,Hv]`, cache_before, cache_after_f64 `[slots,Hv,S,S]`, with several snapshots snapshots_before, snapshots_f64
 * `[K,B,Hv,S,S]`, and ids `[B]` for the op that takes them. Heads are tiled and decays are logarithms, as in ggml.
 */

import type { Device } from "../../lib/device/device.ts";
import { gatedDelta } from "../../lib/ops/gated-delta.ts";
import { gatedDeltaNetInplace, gatedDeltaNetInplaceIds } from "../../lib/ops/ggml.ts";
import type { Op } from "../../lib/ops/op.ts";
import type { Tensor } from "../../lib/tensor/tensor.ts";
import { readIds, slotsOf, untouched, type Ids } from "./ids.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import type { FileKind, OpFile } from "./op-file.ts";
import type { Report } from "../../lib/cli/verify/report.ts";
import { mostCalls } from "../../lib/cli/verify/schedule.ts";

/** One file's inputs and references. */
export interface FusedGdnCase extends Ids {
  readonly sequences: number;
  readonly tokens: number;
  readonly keyHeads: number;
  readonly valueHeads: number;
  readonly dim: number;
  readonly slots: number;
  readonly kda: boolean;
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
  readonly gate: Float32Array;
  readonly beta: Float32Array;
  readonly before: Float32Array;
  readonly after: Float64Array;
  readonly output: Float64Array;
  readonly snapshotsBefore: Float32Array | undefined;
  readonly snapshots: Float64Array | undefined;
}

/** The tensors of a case, from which each way of running it makes its ops. */
interface Tensors {
  readonly q: Tensor;
  readonly k: Tensor;
  readonly v: Tensor;
  readonly gate: Tensor;
  readonly beta: Tensor;
  readonly cache: Tensor;
  readonly snapshots: Tensor | undefined;
  readonly out: Tensor;
  /** Memory of the cache's shape, for states that go to a disjoint destination. */
  readonly apart: Tensor;
}

interface Result {
  readonly output: Float32Array;
  readonly cache: Float32Array;
  readonly snapshots: Float32Array | undefined;
}

/** The kind of these files. */
export const fusedGdnKind: FileKind = { prefix: "fused-gdn-", op: "gatedDeltaNetInplace", check };

function check(file: OpFile, device: Device, report: Report): void {
  const data = readFusedGdn(file);
  const base = run(device, data, fused(data));
  judge(report, data, "fused op", base);
  const compare = (way: string, make: (tensors: Tensors) => Op[], how: { apart?: boolean; snapshots?: boolean } = {}) => {
    const result = run(device, data, make, how.apart);
    judge(report, data, way, result, how.snapshots);
    report.equal(way, "output, bits of fused op", result.output, base.output, (array) => array);
    report.equal(way, "cache, bits of fused op", result.cache, base.cache, (array) => array);
    if (how.snapshots !== false && result.snapshots && base.snapshots) {
      report.equal(way, "snapshots, bits of fused op", result.snapshots, base.snapshots, (array) => array);
    }
  };
  compare("gatedDelta with slots", general(data));
  if (data.ids === undefined) {
    compare("destination apart", ({ cache, apart, ...rest }) => {
      return [gatedDeltaNetInplace({ ...rest, state: windowOf(data, cache), stateDst: windowOf(data, apart) })];
    }, { apart: true });
  }
  if (data.tokens > 1 && data.tokens <= mostCalls) compare("token by token", tokenByToken(data), { snapshots: false });
}

function fused(data: FusedGdnCase): (tensors: Tensors) => Op[] {
  const { ids, rsHead } = data;
  if (ids !== undefined) return ({ apart: _, ...rest }) => [gatedDeltaNetInplaceIds({ ...rest, ids, rsHead })];
  return ({ apart: _, cache, ...rest }) => {
    const state = windowOf(data, cache);
    return [gatedDeltaNetInplace({ ...rest, state, stateDst: state })];
  };
}

function windowOf({ rsHead, sequences }: FusedGdnCase, cache: Tensor): Tensor {
  return cache.slice(rsHead, rsHead + sequences);
}

/** The general op over the same tensors, as rows. */
function general(data: FusedGdnCase): (tensors: Tensors) => Op[] {
  const rows = data.sequences * data.tokens;
  const asRows = (tensor: Tensor) => tensor.reshape([rows, ...tensor.shape.slice(2)]);
  return ({ q, k, v, gate, beta, cache, snapshots, out }) => [
    gatedDelta({
      query: asRows(q), key: asRows(k), value: asRows(v), gate: asRows(gate), beta: asRows(beta), out: asRows(out),
      state: cache, snapshots, gateForm: "log", gateDims: data.kda ? "key" : "head", headMap: "tiled",
      cuSeqlens: Int32Array.from({ length: data.sequences + 1 }, (_, s) => s * data.tokens),
      ...slotsOf(data, data.sequences),
    }),
  ];
}

/** One fused op per token: each later one reads the states that the one before wrote. */
function tokenByToken(data: FusedGdnCase): (tensors: Tensors) => Op[] {
  return ({ q, k, v, gate, beta, cache, out }) => Array.from({ length: data.tokens }, (_, t) => {
    const ids = t === 0 && data.ids ? data.ids : slotsOf(data, data.sequences).writeSlots;
    const one = (tensor: Tensor) => tensor.narrow(1, t, 1);
    const part = { q: one(q), k: one(k), v: one(v), gate: one(gate), beta: one(beta), out: one(out) };
    return gatedDeltaNetInplaceIds({ ...part, cache, ids, rsHead: data.rsHead });
  });
}

function judge(report: Report, data: FusedGdnCase, way: string, result: Result, withSnapshots = true): void {
  report.near(way, "output", result.output, data.output, bounds.f32);
  report.near(way, "cache", result.cache, data.after, bounds.f32);
  const { rsHead, sequences } = data;
  const rowSize = data.valueHeads * data.dim * data.dim;
  const rest = (cache: Float32Array) => untouched(cache, rowSize, rsHead, sequences);
  report.equal(way, "slots that nothing writes", rest(result.cache), rest(data.before), (array) => array);
  if (withSnapshots && data.snapshots && result.snapshots) {
    report.near(way, "snapshots", result.snapshots, data.snapshots, bounds.f32);
  }
}

/** Reads a file's case. */
export function readFusedGdn(file: OpFile): FusedGdnCase {
  const q = file.float32("q", ["B", "T", "Hk", "S"]);
  const k = file.float32("k", ["B", "T", "Hk", "S"]);
  const v = file.float32("v", ["B", "T", "Hv", "S"]);
  const kda = file.flag("kda", false);
  const stateShape = ["Hv", "S", "S"];
  const before = file.float32("cache_before", ["slots", ...stateShape]);
  const count = file.number("snapshots", 1, 1);
  if (!Number.isInteger(count)) throw file.bad('metadata "snapshots" to be a whole number', `${count}`);
  // ggml's one snapshot is the final state itself, which the cache has.
  const keeps = count > 1 || file.source.has("snapshots_f64");
  const withIds = file.option("op", [[/^gated_delta_net_inplace$/, false], [/^gated_delta_net_inplace_ids$/, true]], file.source.has("ids"));
  const slots = file.size("slots");
  return {
    sequences: file.size("B"),
    tokens: file.size("T"),
    keyHeads: file.size("Hk"),
    valueHeads: file.size("Hv"),
    dim: file.size("S"),
    slots,
    kda,
    q,
    k,
    v,
    gate: file.float32("g", kda ? ["B", "T", "Hv", "S"] : ["B", "T", "Hv"]),
    beta: file.float32("beta", ["B", "T", "Hv"]),
    before,
    after: file.reference("cache_after_f64", ["slots", ...stateShape]),
    output: file.reference("output_f64", ["B", "T", "Hv", "S"]),
    snapshotsBefore: keeps ? file.float32("snapshots_before", [count, "B", ...stateShape]) : undefined,
    snapshots: keeps ? file.reference("snapshots_f64", [count, "B", ...stateShape]) : undefined,
    ...readIds(file, withIds, slots),
  };
}

/** @param apart whether the states go to the other memory, which is then compared in place of the cache. */
function run(device: Device, data: FusedGdnCase, make: (tensors: Tensors) => Op[], apart = false): Result {
  const { sequences, tokens, keyHeads, valueHeads, dim, slots } = data;
  using stack = new DisposableStack();
  const place = (shape: readonly number[], source: Float32Array) => stack.use(device.tensorFrom("f32", shape, source));
  const stateShape = [valueHeads, dim, dim];
  const perHead = [sequences, tokens, valueHeads];
  const cache = place([slots, ...stateShape], data.before);
  const other = place([slots, ...stateShape], data.before);
  const { snapshotsBefore: kept } = data;
  const snapshotShape = [(kept?.length ?? 0) / Math.max(1, sequences * valueHeads * dim * dim), sequences, ...stateShape];
  const snapshots = kept && place(snapshotShape, kept);
  const out = stack.use(device.tensor("f32", [...perHead, dim]));
  const ops = make({
    q: place([sequences, tokens, keyHeads, dim], data.q),
    k: place([sequences, tokens, keyHeads, dim], data.k),
    v: place([...perHead, dim], data.v),
    gate: place(data.kda ? [...perHead, dim] : perHead, data.gate),
    beta: place(perHead, data.beta),
    cache,
    snapshots,
    out,
    apart: other,
  });
  device.run(...ops);
  device.wait();
  return { output: out.data.slice(), cache: (apart ? other : cache).data.slice(), snapshots: snapshots?.data.slice() };
}
