/**
 * Dense OLMo hybrid models (transformers, `modeling_olmo_hybrid.py`, `configuration_olmo_hybrid.py`). A layer with a Gated DeltaNet:
 *
 *     h = h + mixer(norm(h))
 *     h = h + mlp(norm(h))
 *
 * A layer with attention, whose queries and keys are normed over all heads of a token, and rotated unless `rope_theta` is null:
 *
 *     h = h + norm(attention(h))
 *     h = h + norm(mlp(h))
 */
import { lazily } from "../../arguments/schemas.ts";
import type { Checked } from "../../arguments/schemas.ts";
import { configError, parsed, unsupportedValue } from "../../checkpoint/config-errors.ts";
import type { ConfigPlace } from "../../checkpoint/config-errors.ts";
import { modelSettings, ofOthers, refuseRotation } from "../../checkpoint/config-settings.ts";
import { headDimText, sizes } from "../../checkpoint/mixer-schemas.ts";
import type { TensorLoader } from "../../checkpoint/tensor-loader.ts";
import { add } from "../../ops/functions.ts";
import type { Op } from "../../ops/op.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { modelKeys } from "../config-schemas.ts";
import type { AttentionWeights, Mlp } from "../model-weights.ts";
import { expectHeads, layersOf, tiedOf } from "./config-parts.ts";
import type { ConfigParts, Family, LayerPass, PartTensors } from "./family.ts";
import { attentionWeights, denseMlp } from "./weights.ts";

const schema = lazily(({ z }) => {
  const { heads, headDim } = sizes();
  return z.object({ ...modelKeys(), num_key_value_heads: heads.nullish(), head_dim: headDim.nullish() });
});

type Data = Checked<typeof schema>;

/** The weights of a layer, except for those of its Gated DeltaNet. */
export interface OlmoHybridLayer {
  /** `[hidden]`: before the Gated DeltaNet, or after attention. */
  readonly mixingNorm: Tensor;
  /** `[hidden]`: before the MLP, or after it in a layer with attention. */
  readonly mlpNorm: Tensor;
  readonly attention: AttentionWeights | undefined;
  readonly mlp: Mlp;
}

export const olmoHybrid: Family<OlmoHybridLayer> = {
  name: "olmo_hybrid",
  title: "a dense OLMo hybrid model",
  modelTypes: ["olmo_hybrid"],
  elsewhere: /^(?:model\.)?mtp\./,

  settings: {
    ...modelSettings,
    partial_rotary_factor: { only: [1], why: "transformers always turns whole heads" },
    rope_scaling: ofOthers(),
    rope_traditional: { only: [false], why: "halves of a head turn together; mlx-lm reads it" },
    attn_output_gate: ofOthers(false),
    linear_use_gate: { only: [true], why: "the mixers' norm has a gate" },
    clip_qkv: ofOthers(),
    linear_value_head_order: ofOthers("block"),
    linear_allow_neg_eigval: "computed",
  },

  parse(parts, place) {
    const data = parsed(schema(), parts[0], place);
    const layers = layersOf(parts, data.num_hidden_layers, place);
    const queryHeads = data.num_attention_heads;
    const kvHeads = data.num_key_value_heads ?? queryHeads;
    expectHeads(queryHeads, kvHeads, place);
    const length = data.head_dim ?? Math.floor(data.hidden_size / queryHeads);
    if (!sizes().headDim.safeParse(length).success) {
      throw configError(place, "num_attention_heads", `heads whose length, hidden_size / num_attention_heads, is ${headDimText}`, String(length));
    }
    const ropeTheta = thetaOf(parts, data, place);
    return {
      family: "olmo_hybrid",
      hiddenSize: data.hidden_size,
      intermediateSize: data.intermediate_size,
      vocabSize: data.vocab_size,
      normEps: data.rms_norm_eps ?? 1e-6,
      maxPositions: data.max_position_embeddings,
      attention: { heads: queryHeads, kvHeads, headDim: length, gated: false, norm: "projection", rotaryDim: ropeTheta === undefined ? 0 : length, ropeTheta },
      ...layers,
      tied: tiedOf(parts),
    };
  },

  normForm: async () => "weight",

  // mlx-lm has the same name for mixers and attention (mlx_lm/models/olmo_hybrid.py, `sanitize`).
  mixerPrefix: (source, prefix) => prefix + (source.has(`${prefix}mixer.A_log`) ? "mixer." : "linear_attn."),

  layer(loader, prefix, config, type) {
    const mlp = denseMlp(loader, `${prefix}mlp.`, config.hiddenSize, config.intermediateSize);
    const norm = (...names: [string, string?]) => normOf(loader, prefix, names, config.hiddenSize);
    if (type === "gatedDelta") {
      return {
        mixingNorm: norm("attention_layer_norm", "input_layernorm"),
        mlpNorm: norm("feedforward_layer_norm", "post_attention_layernorm"),
        mlp,
        attention: undefined,
      };
    }
    const attention = loader.source.has(`${prefix}mixer.q_norm.weight`) ? "mixer." : "self_attn.";
    return {
      // transformers 5.23 also renames this one when it saves a model (`conversion_mapping.py`).
      mixingNorm: norm("post_attention_layernorm", "feedforward_layer_norm"),
      mlpNorm: norm("post_feedforward_layernorm"),
      mlp,
      attention: attentionWeights(loader, prefix + attention, config),
    };
  },

  ops({ mixingNorm, mlpNorm, attention, mlp }, pass) {
    if (attention === undefined) return [...normedBefore(pass, mixingNorm, (part) => pass.mix(part)), ...normedBefore(pass, mlpNorm, (part) => pass.mlp(mlp, part))];
    return [...normedAfter(pass, mixingNorm, (part) => pass.attend(attention, part)), ...normedAfter(pass, mlpNorm, (part) => pass.mlp(mlp, part))];
  },
};

function normedBefore({ hidden, normed, norm }: LayerPass, weight: Tensor, part: (tensors: PartTensors) => Op[]): Op[] {
  return [norm(hidden, weight, normed), ...part({ x: normed, residual: hidden, out: hidden })];
}

function normedAfter({ hidden, normed, spare, norm }: LayerPass, weight: Tensor, part: (tensors: PartTensors) => Op[]): Op[] {
  return [...part({ x: hidden, out: spare }), norm(spare, weight, normed), add({ a: hidden, b: normed, out: hidden })];
}

/** A norm, under its name in released checkpoints or another one. */
function normOf(loader: TensorLoader, prefix: string, [name, other = name]: readonly [string, string?], hidden: number): Tensor {
  const [first, second] = [name, other].map((norm) => `${prefix}${norm}.weight`) as [string, string];
  return loader.tensor(!loader.source.has(first) && loader.source.has(second) ? second : first, [hidden]);
}

/** The rotation's base; undefined if nothing is rotated, as in released models whose base is null. */
function thetaOf([root]: ConfigParts, data: Data, place: ConfigPlace): number | undefined {
  const rotation = data.rope_parameters ?? {};
  refuseRotation(root["rope_parameters"] ?? {}, place, "rope_parameters");
  const factor = rotation.partial_rotary_factor ?? 1;
  if (factor !== 1) throw unsupportedValue(place, "rope_parameters.partial_rotary_factor", "1 (transformers always rotates whole heads)", factor);
  const theta = "rope_theta" in rotation ? rotation.rope_theta : data.rope_theta;
  if (theta === null || typeof theta === "number") return theta ?? undefined;
  throw configError(place, "rope_parameters.rope_theta", "a number above 1, or null for no rotation", "none");
}
