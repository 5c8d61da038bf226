/**
 * `fused-conv-*` files: x, y_f64 `[B,C]`, weight `[C,K]`, cache_before and cache_after `[cells,C,K-1]`, oldest first, and
 * ids `[B]` for the op that takes them. The cache is a copy of inputs, so it is compared by its bytes.
 */

import type { Device } from "../../lib/device/device.ts";
import { causalConv1d } from "../../lib/ops/causal-conv1d.ts";
import type { Op } from "../../lib/ops/op.ts";
import { ssmConvUpdateInplace, ssmConvUpdateInplaceIds } from "../../lib/ops/ggml.ts";
import type { Tensor } from "../../lib/tensor/tensor.ts";
import { readIds, slotsOf, type Ids } from "./ids.ts";
import { bounds } from "../../lib/cli/verify/compare.ts";
import type { FileKind, OpFile } from "./op-file.ts";
import type { Report } from "../../lib/cli/verify/report.ts";

/** One file's inputs and references. */
export interface FusedConvCase extends Ids {
  readonly sequences: number;
  readonly channels: number;
  readonly width: number;
  readonly cells: number;
  readonly x: Float32Array;
  readonly weight: Float32Array;
  readonly before: Float32Array;
  readonly after: Float32Array;
  readonly y: Float64Array;
  readonly silu: boolean;
}

/** The tensors of a case, from which each way of running it makes its op. */
interface Tensors {
  readonly x: Tensor;
  readonly weight: Tensor;
  readonly cache: Tensor;
  readonly out: Tensor;
  /** Memory of the cache's shape, for states that go to a disjoint destination. */
  readonly apart: Tensor;
}

/** The kind of these files. */
export const fusedConvKind: FileKind = { prefix: "fused-conv-", op: "ssmConvUpdateInplace", check };

function check(file: OpFile, device: Device, report: Report): void {
  const data = readFusedConv(file);
  const base = run(device, data, fused(data));
  judge(report, data, "fused op", base);
  const compare = (way: string, make: (tensors: Tensors) => Op, apart = false) => {
    const result = run(device, data, make, apart);
    judge(report, data, way, result);
    report.equal(way, "output, bits of fused op", result.output, base.output, (array) => array);
  };
  compare("causalConv1d with slots", ({ x, weight, cache, out }) => {
    return causalConv1d({ x, weight, state: cache, out, ...batchOf(data) });
  });
  if (data.ids === undefined) {
    compare("destination apart", ({ x, weight, cache, out, apart }) => {
      return ssmConvUpdateInplace({ convStates: windowOf(data, cache), convStateDst: windowOf(data, apart), weight, x, silu: data.silu, out });
    }, true);
  }
}

function fused(data: FusedConvCase): (tensors: Tensors) => Op {
  const { ids, rsHead, silu } = data;
  if (ids !== undefined) return ({ x, weight, cache, out }) => ssmConvUpdateInplaceIds({ convCache: cache, ids, rsHead, weight, x, silu, out });
  return ({ x, weight, cache, out }) => {
    const convStates = windowOf(data, cache);
    return ssmConvUpdateInplace({ convStates, convStateDst: convStates, weight, x, silu, out });
  };
}

function windowOf({ rsHead, sequences }: FusedConvCase, cache: Tensor): Tensor {
  return cache.slice(rsHead, rsHead + sequences);
}

function batchOf(data: FusedConvCase) {
  const activation = data.silu ? ("silu" as const) : ("none" as const);
  const cuSeqlens = Int32Array.from({ length: data.sequences + 1 }, (_, s) => s);
  return { activation, cuSeqlens, ...slotsOf(data, data.sequences) };
}

function judge(report: Report, data: FusedConvCase, way: string, result: { output: Float32Array; cache: Float32Array }): void {
  report.near(way, "output", result.output, data.y, bounds.f32);
  report.equal(way, "cache", result.cache, data.after, (array) => array);
}

/** Reads a file's case. */
export function readFusedConv(file: OpFile): FusedConvCase {
  const x = file.float32("x", ["B", "C"]);
  const weight = file.float32("weight", ["C", "K"]);
  const before = file.float32("cache_before", ["cells", "C", "K-1"]);
  const withIds = file.option("op", [[/^ssm_conv_update_inplace$/, false], [/^ssm_conv_update_inplace_ids$/, true]], file.source.has("ids"));
  const cells = file.size("cells");
  return {
    sequences: file.size("B"),
    channels: file.size("C"),
    width: file.size("K"),
    cells,
    x,
    weight,
    before,
    after: file.float32("cache_after", ["cells", "C", "K-1"]),
    y: file.reference("y_f64", ["B", "C"]),
    silu: file.flag("silu", true),
    ...readIds(file, withIds, cells),
  };
}

/** @param apart whether the states go to the other memory, which is then compared in place of the cache. */
function run(device: Device, data: FusedConvCase, make: (tensors: Tensors) => Op, apart = false): { output: Float32Array; cache: Float32Array } {
  const { sequences, channels, width, cells } = data;
  using x = device.tensorFrom("f32", [sequences, channels], data.x);
  using weight = device.tensorFrom("f32", [channels, width], data.weight);
  using cache = device.tensorFrom("f32", [cells, channels, width - 1], data.before);
  using other = device.tensorFrom("f32", [cells, channels, width - 1], data.before);
  using out = device.tensor("f32", [sequences, channels]);
  device.run(make({ x, weight, cache, out, apart: other }));
  device.wait();
  return { output: out.data.slice(), cache: (apart ? other : cache).data.slice() };
}
