/**
 * Finds one Gated DeltaNet layer's tensors in a checkpoint and brings them to a device, each in the dtype it is stored in.
 *
 * Two forms are in circulation, told apart by their names (transformers, models/qwen3_5 and models/qwen3_next):
 *
 * | Qwen3.5 and later          | Qwen3-Next                       | rows                                    |
 * |----------------------------|----------------------------------|-----------------------------------------|
 * | `in_proj_qkv`, `in_proj_z` | `in_proj_qkvz`, per key head     | query Dk, key Dk, value r·Dv, z r·Dv    |
 * | `in_proj_b`, `in_proj_a`   | `in_proj_ba`, per key head       | b r, a r      (r = value heads a key head) |
 *
 * The interleaved rows are put in the split form's order while they are read, so that only one form runs.
 */

import type { Device } from "../device/device.ts";
import { dtypes, type FloatDType } from "../tensor/dtype.ts";
import { DTypeError, FileError, UnsupportedError } from "../errors.ts";
import { floatDType } from "../safetensors/dtypes.ts";
import type { TensorSource } from "../safetensors/source.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { convChannels, valueChannels, type LayerConfig } from "./config.ts";
import { splitBa, splitQkvz, type Gather } from "./interleaved.ts";

/** The device's copy of one layer's weights. */
export interface LayerWeights {
  /** `[conv channels, hidden]`: rows of query, key and value. */
  readonly qkv: Tensor;
  /** `[value channels, hidden]`. */
  readonly z: Tensor;
  /** `[value heads, hidden]`. */
  readonly b: Tensor;
  /** `[value heads, hidden]`. */
  readonly a: Tensor;
  /** `[conv channels, width]`. */
  readonly conv: Tensor;
  /** `[conv channels]`; no published checkpoint has one. */
  readonly convBias: Tensor | undefined;
  /** `[value heads]`. */
  readonly aLog: Tensor;
  /** `[value heads]`. */
  readonly dtBias: Tensor;
  /** `[value dim]`. */
  readonly norm: Tensor;
  /** `[hidden, value channels]`. */
  readonly out: Tensor;
}

const op = "GatedDeltaNet.load";

/** The prefixes of layer N's tensors in checkpoints; `layers.N.` alone is that of a file with one layer's weights. */
function prefixesOf(layer: number): string[] {
  return [
    `model.layers.${layer}.linear_attn.`,
    `model.language_model.layers.${layer}.linear_attn.`,
    `language_model.model.layers.${layer}.linear_attn.`,
    `layers.${layer}.linear_attn.`,
    `layers.${layer}.`,
  ];
}

/** The layers that a checkpoint has Gated DeltaNet weights for, ascending. */
export function gatedDeltaLayers(names: readonly string[]): number[] {
  const layers = new Set<number>();
  for (const name of names) {
    const match = /(?:^|\.)layers\.(\d{1,9})\.(?:linear_attn\.)?A_log$/.exec(name);
    const layer = Number(match?.[1]);
    if (match && prefixesOf(layer).some((prefix) => `${prefix}A_log` === name)) layers.add(layer);
  }
  return [...layers].sort((a, b) => a - b);
}

/**
 * Loads a layer's weights. On failure nothing stays allocated.
 *
 * @throws FileError where a tensor is missing or has another shape; DTypeError for a dtype other than F32, F16 and
 * BF16; UnsupportedError for quantised projections.
 */
export function loadWeights(device: Device, source: TensorSource, layer: number, config: LayerConfig): LayerWeights {
  const prefix = findPrefix(source, layer);
  refuseUnknown(source, prefix);
  const { hiddenSize: hidden, valueHeads, valueDim, convWidth } = config;
  const channels = convChannels(config);
  const values = valueChannels(config);
  const made: Tensor[] = [];

  const make = (dtype: FloatDType, shape: readonly number[]): Tensor => {
    const tensor = device.tensor(dtype, [...shape]) as Tensor;
    made.push(tensor);
    return tensor;
  };
  /** A whole tensor; `shapes` are the ones it may be stored in, the first the one it gets. */
  const whole = (name: string, ...shapes: [readonly number[], ...(readonly number[])[]]): Tensor => {
    const dtype = check(source, prefix + name, shapes);
    const tensor = make(dtype, shapes[0]);
    source.readInto(prefix + name, bytesOf(tensor));
    return tensor;
  };
  /** A weight out of a tensor of interleaved rows. */
  const gathered = (name: string, storedRows: number, { rows, moves }: Gather): Tensor => {
    const dtype = check(source, prefix + name, [[storedRows, hidden]]);
    const tensor = make(dtype, [rows, hidden]);
    const bytes = bytesOf(tensor);
    const rowBytes = hidden * dtypes[dtype].bytes;
    for (const { from, to, rows: count } of moves) {
      source.readSlice(prefix + name, from * rowBytes, bytes.subarray(to * rowBytes, (to + count) * rowBytes));
    }
    return tensor;
  };

  try {
    return {
      ...projections(),
      conv: whole("conv1d.weight", [channels, convWidth], [channels, 1, convWidth]),
      convBias: source.has(`${prefix}conv1d.bias`) ? whole("conv1d.bias", [channels]) : undefined,
      aLog: whole("A_log", [valueHeads]),
      dtBias: whole("dt_bias", [valueHeads]),
      norm: whole("norm.weight", [valueDim]),
      out: whole("out_proj.weight", [hidden, values]),
    };
  } catch (error) {
    for (const tensor of made) tensor[Symbol.dispose]();
    throw error;
  }

  function projections(): Pick<LayerWeights, "qkv" | "z" | "b" | "a"> {
    if (!source.has(`${prefix}in_proj_qkvz.weight`)) {
      return {
        qkv: whole("in_proj_qkv.weight", [channels, hidden]),
        z: whole("in_proj_z.weight", [values, hidden]),
        b: whole("in_proj_b.weight", [valueHeads, hidden]),
        a: whole("in_proj_a.weight", [valueHeads, hidden]),
      };
    }
    const qkvz = splitQkvz(config);
    const ba = splitBa(config);
    return {
      qkv: gathered("in_proj_qkvz.weight", channels + values, qkvz.qkv),
      z: gathered("in_proj_qkvz.weight", channels + values, qkvz.z),
      b: gathered("in_proj_ba.weight", 2 * valueHeads, ba.b),
      a: gathered("in_proj_ba.weight", 2 * valueHeads, ba.a),
    };
  }
}

function findPrefix(source: TensorSource, layer: number): string {
  const found = prefixesOf(layer).filter((prefix) => source.has(`${prefix}A_log`));
  if (found.length === 1 && found[0] !== undefined) return found[0];
  const layers = gatedDeltaLayers(source.names);
  throw new FileError(source.path, {
    op,
    expected: `one set of Gated DeltaNet weights for layer ${layer}, such as model.layers.${layer}.linear_attn.A_log`,
    received:
      found.length > 1 ? `${found.length}: ${found.join(", ")}`
      : layers.length > 0 ? `weights of layers ${layers.slice(0, 9).join(", ")}${layers.length > 9 ? ", …" : ""}`
      : "none of any layer",
  });
}

/**
 * Refuses unknown tensors beside a projection, which change its meaning; scales of quantised weights are the usual case.
 * Results without them would be wrong without looking it.
 */
function refuseUnknown(source: TensorSource, prefix: string): void {
  const known = /^(?:in_proj_(?:qkv|qkvz|z|b|a|ba)\.weight|conv1d\.(?:weight|bias)|out_proj\.weight)$/;
  for (const name of source.namesWithPrefix(prefix)) {
    const rest = name.slice(prefix.length);
    if (/^(?:in_proj_|conv1d\.|out_proj\.)/.test(rest) && !known.test(rest)) {
      throw new UnsupportedError({
        op,
        argument: `${source.path}: ${name}`,
        expected: "plain f32, f16 or bf16 projections",
        received: "a tensor of another scheme, such as quantised weights or a projection's bias",
      });
    }
  }
  if (source.has(`${prefix}in_proj_qkvz.weight`) && source.has(`${prefix}in_proj_qkv.weight`)) {
    const received = "both in_proj_qkv and in_proj_qkvz";
    throw new FileError(source.path, { op, expected: "either split or interleaved projections", received });
  }
}

/** Checks that a tensor is there in one of the shapes, and gives its dtype. */
function check(source: TensorSource, name: string, shapes: readonly (readonly number[])[]): FloatDType {
  const { dtype, shape } = source.info(name);
  const text = (dims: readonly number[]) => `[${dims.join(", ")}]`;
  if (!shapes.some((allowed) => text(allowed) === text(shape))) {
    const expected = `${name} of shape ${shapes.map(text).join(" or ")}, as the configuration says`;
    throw new FileError(source.path, { op, expected, received: text(shape) });
  }
  const own = floatDType(dtype);
  if (own) return own;
  throw new DTypeError({ op, argument: `${source.path}: ${name}`, expected: "F32, F16 or BF16", received: dtype });
}

function bytesOf(tensor: Tensor): Uint8Array {
  return new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);
}
