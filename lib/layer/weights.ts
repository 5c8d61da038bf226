/**
 * The weights of one Gated DeltaNet layer, found in a checkpoint by name and kept in their stored dtype. Checkpoints have
 * three forms (transformers, models/qwen3_5, models/qwen3_next, models/olmo_hybrid and
 * models/kimi_linear):
 *
 * | Qwen3.5 and later          | Qwen3-Next                 | separate: OLMo, Kimi, GLM, Bailing             |
 * |----------------------------|----------------------------|------------------------------------------------|
 * | `in_proj_qkv`              | `in_proj_qkvz`, by head    | `q_proj`, `k_proj`, `v_proj`                   |
 * | `in_proj_z`                | of it                      | `g_proj`, or `g_b_proj` of `g_a_proj`          |
 * | `in_proj_a`                | of `in_proj_ba`, by head   | `a_proj`; `f_proj`, or `f_b_proj` of `f_a_proj` |
 * | `in_proj_b`                | of `in_proj_ba`            | `b_proj`                                       |
 * | `conv1d`                   | `conv1d`                   | `q_conv1d`, `k_conv1d`, `v_conv1d`             |
 * | `norm`, `out_proj`         | `norm`, `out_proj`         | `o_norm`, `o_proj` (Bailing: `dense`)          |
 *
 * GGUF files have `in_proj_qkv`, `in_proj_z` and, for Qwen3-Next, `in_proj_ba`; and `ssm_a`, which is -exp(A_log).
 *
 * mlx-lm renames Kimi's convolutions to `q_conv.conv`, `k_conv.conv` and `v_conv.conv` (mlx_lm/models/kimi_linear.py, `sanitize`).
 *
 * Qwen3-Next's interleaved rows are reordered to the joint form while they are read. Any projection may be quantised: see
 * {@link Matrix}.
 */

import { FileError, UnsupportedError } from "../errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { convChannels, gateChannels, valueChannels, type LayerConfig } from "../checkpoint/mixer-config.ts";
import { splitBa, splitQkvz } from "../checkpoint/interleaved.ts";
import type { Matrix } from "../checkpoint/matrix.ts";
import { supportedWeights } from "../checkpoint/quantization.ts";
import { placeIn } from "../checkpoint/source.ts";
import type { TensorLoader } from "../checkpoint/tensor-loader.ts";

/** A projection of the hidden states: one matrix, or the product of two low-rank ones. */
export interface Projection {
  /** `[outFeatures, hidden]`, or `[outFeatures, rank]` with `down`. */
  readonly matrix: Matrix;
  /** `[rank, hidden]`: applied before `matrix`. */
  readonly down?: Matrix;
}

/** The device's copy of one layer's weights. */
export interface LayerWeights {
  /** Rows of query, key and value `[conv channels, hidden]`: in one matrix, or in three, one after another. */
  readonly qkv: readonly Matrix[];
  /** `[value channels, hidden]`. */
  readonly z: Projection;
  /** `[value heads, hidden]`, or `[value heads · key dim, hidden]` if each key dimension has a gate. */
  readonly a: Projection;
  /** `[value heads, hidden]`. */
  readonly b: Matrix;
  /** `[conv channels, width]`. */
  readonly conv: Tensor;
  /** `[conv channels]`; no published checkpoint has one. */
  readonly convBias: Tensor | undefined;
  /** `[value heads]`: A_log, or -exp(A_log) as GGUF files have it. */
  readonly aLog: Tensor;
  readonly aLogForm: "raw" | "raw-ssm";
  /** `[value heads]`, or `[value heads, key dim]`. */
  readonly dtBias: Tensor;
  /** `[value dim]`. */
  readonly norm: Tensor;
  /** `[hidden, value channels]`. */
  readonly out: Matrix;
}

/** Rows of a low-rank projection's first matrix; undefined for other projections. */
export function rankOf({ down }: Projection): number | undefined {
  return down?.weight.shape[0];
}

/**
 * Looks up a layer's weights; the loader reads them.
 *
 * @param prefix the prefix of the mixer's names.
 * @throws {FileError} if a tensor is missing or has another shape; {@link DTypeError} for a dtype other than F32, F16
 * and BF16; {@link UnsupportedError} for tensors that this mixer does not have, and for quantisations other than MLX's.
 */
export function planWeights(loader: TensorLoader, prefix: string, config: LayerConfig): LayerWeights {
  const weights = config.projections === "separate" ? separateWeights(loader, prefix, config) : jointWeights(loader, prefix, config);
  refuseUnknown(loader, prefix);
  return weights;
}

function jointWeights(loader: TensorLoader, prefix: string, config: LayerConfig): LayerWeights {
  const { source, op } = loader;
  const { hiddenSize: hidden, valueHeads, valueDim, convWidth } = config;
  const channels = convChannels(config);
  const values = valueChannels(config);
  const ssm = source.has(`${prefix}ssm_a`);
  return {
    ...queries(),
    ...gates(),
    conv: loader.tensor(`${prefix}conv1d.weight`, ...convShapes(channels, convWidth)),
    convBias: source.has(`${prefix}conv1d.bias`) ? loader.tensor(`${prefix}conv1d.bias`, [channels]) : undefined,
    aLog: loader.tensor(prefix + (ssm ? "ssm_a" : "A_log"), [valueHeads]),
    aLogForm: ssm ? "raw-ssm" : "raw",
    dtBias: loader.tensor(`${prefix}dt_bias`, [valueHeads]),
    norm: loader.tensor(`${prefix}norm.weight`, [valueDim]),
    out: loader.matrix(`${prefix}out_proj`, hidden, values),
  };

  function queries(): Pick<LayerWeights, "qkv" | "z"> {
    const interleaved = `${prefix}in_proj_qkvz`;
    if (!source.has(`${interleaved}.weight`)) {
      return { qkv: [loader.matrix(`${prefix}in_proj_qkv`, channels, hidden)], z: { matrix: loader.matrix(`${prefix}in_proj_z`, values, hidden) } };
    }
    if (source.has(`${prefix}in_proj_qkv.weight`)) {
      const received = "both in_proj_qkv and in_proj_qkvz";
      throw new FileError(source.path, { op, expected: "either split or interleaved projections", received });
    }
    const { qkv, z } = splitQkvz(config);
    return { qkv: [loader.gathered(interleaved, channels + values, hidden, qkv)], z: { matrix: loader.gathered(interleaved, channels + values, hidden, z) } };
  }

  function gates(): Pick<LayerWeights, "b" | "a"> {
    // GGUF files of Qwen3-Next join only these two.
    const interleaved = `${prefix}in_proj_ba`;
    if (source.has(`${prefix}in_proj_b.weight`) || !source.has(`${interleaved}.weight`)) {
      return { b: loader.matrix(`${prefix}in_proj_b`, valueHeads, hidden), a: { matrix: loader.matrix(`${prefix}in_proj_a`, valueHeads, hidden) } };
    }
    const { b, a } = splitBa(config);
    return { b: loader.gathered(interleaved, 2 * valueHeads, hidden, b), a: { matrix: loader.gathered(interleaved, 2 * valueHeads, hidden, a) } };
  }
}

function separateWeights(loader: TensorLoader, prefix: string, config: LayerConfig): LayerWeights {
  const { source, op } = loader;
  const { hiddenSize: hidden, keyHeads, keyDim, valueHeads, valueDim, convWidth } = config;
  const keys = keyHeads * keyDim;
  const values = valueChannels(config);
  const perKey = config.gateDims === "key";
  const heads: [Shape, ...Shape[]] = [[valueHeads], [1, 1, valueHeads, 1], [valueHeads, 1]];
  const gates: [Shape, ...Shape[]] = perKey ? [[valueHeads, keyDim], [valueHeads * keyDim]] : [[valueHeads]];
  const convolution = source.has(`${prefix}q_conv.conv.weight`) ? "conv.conv" : "conv1d";
  const convolutions = ["q", "k", "v"].map((name) => `${prefix}${name}_${convolution}.weight`);
  const widths = [keys, keys, values];
  const chunks = chunksOf(convChannels(config));
  const inChunks = convolutions.every((name, i) => source.has(name) && source.info(name).shape[0] === chunks[i]);
  return {
    qkv: ["q", "k", "v"].map((name, i) => loader.matrix(`${prefix}${name}_proj`, widths[i] ?? 0, hidden)),
    z: projection("g", values),
    a: perKey ? projection("f", gateChannels(config)) : { matrix: loader.matrix(`${prefix}a_proj`, valueHeads, hidden) },
    b: loader.matrix(`${prefix}b_proj`, valueHeads, hidden),
    conv: loader.stacked(convolutions, (inChunks ? chunks : widths).map((channels) => convShapes(channels, convWidth))),
    convBias: undefined,
    aLog: loader.tensor(`${prefix}A_log`, ...heads),
    aLogForm: "raw",
    dtBias: loader.tensor(`${prefix}dt_bias`, ...gates),
    norm: loader.tensor(`${prefix}o_norm.weight`, [valueDim]),
    out: loader.matrix(prefix + (source.has(`${prefix}dense.weight`) ? "dense" : "o_proj"), hidden, values),
  };

  /** A full or low-rank projection. */
  function projection(name: "f" | "g", rows: number): Projection {
    const first = `${prefix}${name}_a_proj`;
    if (!source.has(`${first}.weight`)) return { matrix: loader.matrix(`${prefix}${name}_proj`, rows, hidden) };
    // The rank is the number of rows, in any stored form; in transformers' models it is the length of a head.
    const [rank = 0] = source.info(`${first}.weight`).shape;
    if (rank < 1 || rank > mostRank) {
      const expected = `${first}.weight of 1..${mostRank} rows`;
      throw new FileError(source.path, { op, expected, received: String(rank) });
    }
    return { down: loader.matrix(first, rank, hidden), matrix: loader.matrix(`${prefix}${name}_b_proj`, rows, rank) };
  }
}

/**
 * The parts in which transformers saves OLMo's joint convolution (`conversion_mapping.py`), regardless of the sizes of its queries, keys
 * and values: those of `torch.chunk`, two of equal size and a rest that is not longer.
 */
function chunksOf(channels: number): number[] {
  const most = Math.ceil(channels / 3);
  return [most, most, channels - 2 * most];
}

type Shape = readonly number[];

/** Far above the rank of any model. */
const mostRank = 1 << 16;

/** The stored shapes of a convolution's weight: PyTorch's, the same without the middle dimension, and mlx-lm's. */
function convShapes(channels: number, width: number): [Shape, ...Shape[]] {
  return [[channels, width], [channels, 1, width], [channels, width, 1]];
}

/**
 * Refuses tensors that no part of the mixer uses, because results without them would be silently wrong. In a file of
 * one layer without a name for the mixer, tensors of other modules are ignored.
 */
function refuseUnknown(loader: TensorLoader, prefix: string): void {
  const { source, op } = loader;
  const names = source.namesWithPrefix(prefix);
  const moduleOf = (name: string) => name.slice(prefix.length).split(".", 1)[0] ?? "";
  const modules = /\.(?:linear_attn|self_attn|attention|mixer)\.$/.test(prefix)
    ? undefined
    : new Set(names.filter((name) => loader.wants(name)).map(moduleOf));
  for (const name of names) {
    if (loader.wants(name) || (modules && !modules.has(moduleOf(name)) && !moduleOf(name).startsWith("in_proj_"))) continue;
    throw new UnsupportedError({
      op,
      argument: placeIn(source, name),
      expected: `the tensors of this mixer, with ${supportedWeights}`,
      received: "one that it does not have, such as a bias or another scheme of quantisation",
    });
  }
}
