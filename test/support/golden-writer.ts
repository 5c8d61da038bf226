/**
 * Golden files of any shape and dtype, in the form of those in test/golden: inputs are random, references are computed by
 * test/reference.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { FloatDType } from "../../lib/tensor/dtype.ts";
import { encode } from "../../lib/tensor/dtype.ts";
import { fileDTypes, writeSafetensors } from "../../lib/checkpoint/safetensors.ts";
import type { TensorToWrite } from "../../lib/checkpoint/safetensors.ts";
import { causalConv1d } from "../reference/causal-conv1d.ts";
import { gatedDelta } from "../reference/gated-delta.ts";
import { gatedRmsNorm } from "../reference/gated-rms-norm.ts";
import { rounded } from "../reference/rounding.ts";
import { permute, reference, reshape } from "../reference/tensor.ts";
import type { Reference } from "../reference/tensor.ts";
import { scratch } from "./files.ts";
import { expectedOutput, prefixOf, randomWeights, tensorsOf } from "./layers.ts";
import type { RandomLayerConfig } from "./layers.ts";
import { Random } from "./random.ts";

/** The tensors and metadata, which a test may change before the file is written. */
export type Change = (tensors: Record<string, TensorToWrite>, metadata: Record<string, string>) => void;

const { newPath } = scratch();
const leaveIt: Change = () => {};

function write(name: string, tensors: Record<string, TensorToWrite>, metadata: Record<string, string>, change: Change): string {
  change(tensors, metadata);
  const folder = newPath("golden"); // a separate folder: a golden file's name begins with its kind
  mkdirSync(folder);
  const path = join(folder, name);
  writeSafetensors(path, tensors, metadata);
  return path;
}

function as(dtype: FloatDType, { shape, data }: Reference): TensorToWrite {
  return { dtype: fileDTypes[dtype], shape, data: encode(dtype, data) };
}

function f64({ shape, data }: Reference): TensorToWrite {
  return { dtype: "F64", shape, data };
}

/** Random numbers that a dtype holds. */
function normals(random: Random, dtype: FloatDType, shape: readonly number[], make = () => random.normal()): Reference {
  return rounded(dtype, { shape, data: reference(shape).data.map(make) });
}

/** `[B, T, …]` as packed rows, and back. */
const flat = (tensor: Reference) => reshape(tensor, [tensor.shape[0]! * tensor.shape[1]!, ...tensor.shape.slice(2)]);
const starts = (sequences: number, tokens: number) => Array.from({ length: sequences + 1 }, (_, i) => i * tokens);

/** A `gated-delta-` file. */
export function writeGatedDelta(
  { b = 2, t = 9, hk = 2, hv = 6, dk = 16, dv = 24, dtype = "f32" as FloatDType, norm = true },
  change = leaveIt,
): string {
  const random = new Random(b + t + hk + hv + dk + dv);
  const [q, k] = [0, 1].map(() => normals(random, dtype, [b, t, hk, dk]));
  const v = normals(random, dtype, [b, t, hv, dv]);
  const g = normals(random, "f32", [b, t, hv], () => -Math.exp(random.uniform(-6, 1)));
  const beta = normals(random, "f32", [b, t, hv], () => random.uniform(0.1, 0.9));
  const stateIn = normals(random, "f32", [b, hv, dk, dv]);
  if (!norm) for (const tensor of [q!, k!]) tensor.data.forEach((value, i) => (tensor.data[i] = value / 8));
  const { out, state } = gatedDelta({
    query: flat(q!),
    key: flat(k!),
    value: flat(v),
    gate: flat(g),
    beta: flat(beta),
    gateForm: "log",
    qkNorm: norm ? "l2" : "none",
    state: permute(stateIn, [0, 1, 3, 2]),
    cuSeqlens: starts(b, t),
  });
  const output = reshape(out, [b, t, hv, dv]);
  // Like another implementation's float32 results: the right numbers with different last bits.
  const peer = { ...output, data: output.data.map((value, i) => value * (1 + (i % 2 === 0 ? 1e-6 : -1e-6))) };
  const tensors = {
    q: as(dtype, q!),
    k: as(dtype, k!),
    v: as(dtype, v),
    g: as("f32", g),
    beta: as("f32", beta),
    state_in: as("f32", stateIn),
    output_f64: f64(output),
    state_out_f64: f64(permute(state!, [0, 1, 3, 2])),
    output_recurrent_f32: as("f32", peer),
  };
  return write("gated-delta-random.safetensors", tensors, {
    gate: "decay = exp(g)",
    heads: "k_head = v_head // (Hv/Hk)",
    q_scale: "Dk**-0.5",
    l2norm_eps: "1e-6",
    qk_l2norm: norm ? "True" : "False",
  }, change);
}

/** A `causal-conv-` file. */
export function writeCausalConv(
  { b = 2, c = 37, t = 12, k = 4, dtype = "f32" as FloatDType, bias = false, silu = true },
  change = leaveIt,
): string {
  const random = new Random(b + c + t + k);
  const x = normals(random, dtype, [b, c, t]);
  const weight = normals(random, dtype, [c, k]);
  const biases = normals(random, dtype, [c]);
  const stateIn = normals(random, dtype, [b, c, k - 1]);
  const { out, state } = causalConv1d({
    x: flat(permute(x, [0, 2, 1])),
    weight,
    bias: bias ? biases : undefined,
    state: stateIn,
    cuSeqlens: starts(b, t),
    activation: silu ? "silu" : "none",
  });
  const tensors = {
    x: as(dtype, x),
    weight: as(dtype, weight),
    ...(bias ? { bias: as(dtype, biases) } : {}),
    state_in: as(dtype, stateIn),
    state_out: as(dtype, state!),
    y_f64: f64(permute(reshape(out, [b, t, c]), [0, 2, 1])),
  };
  return write("causal-conv-random.safetensors", tensors, { layout: "x,y [B,C,T]", ...(silu ? {} : { silu: "False" }) }, change);
}

/** A `gated-rmsnorm-` file. */
export function writeGatedRmsNorm(
  { rows = 5, n = 100, dtype = "f32" as FloatDType, eps = 1e-6, activation = "silu" as "silu" | "sigmoid" },
  change = leaveIt,
): string {
  const random = new Random(rows + n);
  const y = normals(random, "f32", [rows, n]);
  const z = normals(random, dtype, [rows, n]);
  const weight = normals(random, dtype, [n]);
  const out = gatedRmsNorm({ x: y, z, weight, eps, activation });
  const tensors = { y: as("f32", y), z: as(dtype, z), weight: as(dtype, weight), out_f64: f64(out) };
  const formula = `w * y * rsqrt(mean(y^2)+eps) * ${activation}(z)`;
  return write("gated-rmsnorm-random.safetensors", tensors, { formula, eps: String(eps) }, change);
}

/** A `layer-` file. */
export function writeLayerCase(
  config: RandomLayerConfig,
  { b = 2, prefill = 6, steps = 3, dtype = "f32" as FloatDType, prefix = prefixOf(0) },
  change = leaveIt,
): string {
  const random = new Random(b + prefill + steps);
  const weights = randomWeights(random, config, dtype);
  const tokens = prefill + steps;
  const hidden = normals(random, dtype, [b, tokens, config.hidden_size]);
  const output = expectedOutput(config, weights, flat(hidden), starts(b, tokens));
  const tensors = {
    ...tensorsOf(weights, dtype, prefix),
    hidden_states: as(dtype, hidden),
    output_f32: as("f32", reshape(output, [b, tokens, config.hidden_size])),
  };
  const metadata = { config: JSON.stringify(config), prefill_tokens: String(prefill), decode_steps: String(steps) };
  return write("layer-random.safetensors", tensors, metadata, change);
}
