/**
 * The common parts of Qwen3-Next, Qwen3.5 and their mixtures' text models (transformers, `modeling_qwen3_next.py`,
 * `modeling_qwen3_5.py`, `modeling_qwen3_5_moe.py`). Each layer:
 *
 *     h = h + mixing(norm(h))     a Gated DeltaNet, or attention with a gated output
 *     h = h + mlp(norm(h))        dense, or a mixture of experts
 */
import { lazily } from "../../arguments/schemas.ts";
import type { Checked } from "../../arguments/schemas.ts";
import { FileError } from "../../errors.ts";
import { configError, unsupportedValue } from "../../checkpoint/config-errors.ts";
import { isRecord } from "../../checkpoint/json.ts";
import type { ConfigPlace } from "../../checkpoint/config-errors.ts";
import { computed, modelSettings, refuseRotation } from "../../checkpoint/config-settings.ts";
import type { Settings } from "../../checkpoint/config-settings.ts";
import { sizes } from "../../checkpoint/mixer-schemas.ts";
import type { TensorLoader } from "../../checkpoint/tensor-loader.ts";
import type { WeightForm } from "../../native/options.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { modelKeys, rotation } from "../config-schemas.ts";
import type { AttentionConfig } from "../model-config.ts";
import type { AttentionWeights, Mlp } from "../model-weights.ts";
import { expectHeads, layersOf, tiedOf } from "./config-parts.ts";
import type { ConfigParts, Family, ParsedConfig } from "./family.ts";
import { attentionWeights, mlpWeights } from "./weights.ts";

/** Keys that all of these families read. */
export const qwenKeys = lazily(() => {
  const { heads, headDim, flag } = sizes();
  return { ...modelKeys(), num_key_value_heads: heads, head_dim: headDim.nullish(), attn_output_gate: flag, rope_scaling: rotation() };
});

const qwenSchema = lazily(({ z }) => z.object(qwenKeys()));

type Data = Checked<typeof qwenSchema>;

/** How these families treat settings. */
export const qwenSettings: Settings = {
  ...modelSettings,
  ...computed("full_attention_interval", "rope_scaling", "partial_rotary_factor"),
  attn_output_gate: { only: [true], why: "attention's output has a gate" },
};

/** The weights of a layer, except for those of its Gated DeltaNet. */
export interface QwenLayer {
  /** `[hidden]`: before the mixing. */
  readonly inputNorm: Tensor;
  /** `[hidden]`: before the MLP. */
  readonly postNorm: Tensor;
  readonly attention: AttentionWeights | undefined;
  readonly mlp: Mlp;
}

/** A configuration without the parts that its MLPs need. */
export function parseQwen(parts: ConfigParts, data: Omit<Data, "intermediate_size">, place: ConfigPlace): Omit<ParsedConfig, "family" | "intermediateSize" | "experts"> {
  const layers = layersOf(parts, data.num_hidden_layers, place);
  const { num_attention_heads: heads, num_key_value_heads: kvHeads } = data;
  expectHeads(heads, kvHeads, place);
  return {
    hiddenSize: data.hidden_size,
    vocabSize: data.vocab_size,
    normEps: data.rms_norm_eps ?? 1e-6,
    maxPositions: data.max_position_embeddings,
    attention: { heads, kvHeads, gated: true, norm: "head", ...rotationOf(parts, data, place) },
    ...layers,
    tied: tiedOf(parts),
  };
}

/** The weights and ops of a layer. */
export const qwenLayers: Pick<Family<QwenLayer>, "elsewhere" | "normForm" | "mixerPrefix" | "layer" | "ops"> = {
  elsewhere: /^(?:model\.|language_model\.)*(?:visual|vision_tower|mtp)\./,
  normForm,
  mixerPrefix: (_, prefix) => `${prefix}linear_attn.`,

  layer: (loader, prefix, config, type, index) => ({
    inputNorm: loader.tensor(`${prefix}input_layernorm.weight`, [config.hiddenSize]),
    postNorm: loader.tensor(`${prefix}post_attention_layernorm.weight`, [config.hiddenSize]),
    mlp: mlpWeights(loader, `${prefix}mlp.`, config, index),
    attention: type === "attention" ? attentionWeights(loader, `${prefix}self_attn.`, config) : undefined,
  }),

  ops({ inputNorm, postNorm, attention, mlp }, pass) {
    const { hidden, normed } = pass;
    const part = { x: normed, residual: hidden, out: hidden };
    return [
      pass.norm(hidden, inputNorm, normed),
      ...(attention === undefined ? pass.mix(part) : pass.attend(attention, part)),
      pass.norm(hidden, postNorm, normed),
      ...pass.mlp(mlp, part),
    ];
  },
};

/**
 * The heads' length and rotation, which transformers reads from `rope_scaling` and mlx-lm from `rope_parameters`. Both read the text
 * model's own settings; the settings of the model around it have to agree.
 */
function rotationOf(parts: ConfigParts, data: Omit<Data, "intermediate_size">, place: ConfigPlace): Pick<AttentionConfig, "headDim" | "rotaryDim" | "ropeTheta"> {
  const headDim = data.head_dim ?? 256;
  const [own = [], ...around] = parts.map(rotationsIn);
  for (const [key, one] of [...own, ...around.flat()]) refuseRotation(one, place, key);
  const [[name, first] = ["rope_theta", {}] as Rotation, ...more] = own;
  const thetaOf = (one: Rotation[1]) => one.rope_theta ?? data.rope_theta;
  const factorOf = (one: Rotation[1]) => one.partial_rotary_factor ?? data.partial_rotary_factor ?? 0.25;
  const [theta, factor] = [thetaOf(first), factorOf(first)];
  if (typeof theta !== "number") throw withoutBase(parts, place);
  if (data.partial_rotary_factor === null && (own.length === 0 || own.some(([, one]) => typeof one.partial_rotary_factor !== "number"))) {
    // transformers turns whole heads, but leaves null out when it saves the model, and then turns a quarter.
    throw unsupportedValue(place, "partial_rotary_factor", "a number, or none for a quarter", null);
  }
  const other = [...more, ...around.flat()].find(([, one]) => thetaOf(one) !== theta || factorOf(one) !== factor);
  if (other) throw unsupportedValue(place, other[0], `the rotation of ${parts.length > 1 ? "text_config." : ""}${name}`, other[1]);
  const rotaryDim = Math.floor(headDim * (factor as number));
  if (rotaryDim % 2 !== 0) {
    throw configError(place, "rope_parameters.partial_rotary_factor", `a fraction that makes an even number of ${headDim} dimensions`, String(factor));
  }
  return { headDim, rotaryDim, ropeTheta: theta };
}

/** A rotation and its key. */
type Rotation = readonly [key: string, { readonly rope_theta?: unknown; readonly partial_rotary_factor?: unknown }];

/** The rotations that a part of a configuration contains. */
function rotationsIn(part: ConfigParts[number]): Rotation[] {
  const all = ["rope_parameters", "rope_scaling"].map((key) => [key, part[key]] as const);
  return all.filter(([, one]) => one !== undefined && one !== null && !(isRecord(one) && Object.keys(one).length === 0)) as Rotation[];
}

/** The error for a text model without a base: it names a rotation outside the text model, if there is one. */
function withoutBase([, ...around]: ConfigParts, place: ConfigPlace): Error {
  for (const part of around) {
    const key = ["rope_parameters", "rope_scaling", "rope_theta"].find((one) => part[one] !== undefined && part[one] !== null);
    if (key !== undefined) return unsupportedValue(place, key, "a rotation in text_config, which transformers reads alone", part[key]);
  }
  return configError(place, "rope_parameters.rope_theta", "a number above 1", "none");
}

/**
 * The stored form of norms: transformers stores a number to add to 1, mlx-lm the sum. mlx-lm adds 1 exactly when it moves the axes
 * of the convolutions (mlx_lm/models/qwen3_5.py, `sanitize`), so the axes show which form it is.
 */
async function normForm(
  { source, op }: TensorLoader,
  root: string,
  { layers, mixer: { convWidth } }: ParsedConfig,
  pause: () => Promise<void>,
): Promise<WeightForm> {
  const found = new Set<WeightForm>();
  for (const [layer, type] of layers.entries()) {
    const name = `${root}layers.${layer}.linear_attn.conv1d.weight`;
    if (type !== "gatedDelta" || !source.has(name)) continue;
    const { shape } = source.info(name);
    found.add(shape.length === 3 && shape[1] === convWidth && shape[2] === 1 ? "weight" : "one-plus-weight");
    await pause(); // each layer may be in another file, which has to be opened
  }
  const [form = "one-plus-weight", other] = found;
  if (other === undefined) return form;
  const expected = "conv1d.weight with its axes in one order in all layers";
  throw new FileError(source.path, { op, expected, received: "both that of transformers and that of mlx-lm" });
}
