/** Mixtures of experts of Qwen3.5 (transformers, `modeling_qwen3_5_moe.py`, `configuration_qwen3_5_moe.py`): each layer has experts. */
import { lazily } from "../../arguments/schemas.ts";
import { parsed } from "../../checkpoint/config-errors.ts";
import { computed } from "../../checkpoint/config-settings.ts";
import { expertKeys } from "../config-schemas.ts";
import { expertsOf } from "./config-parts.ts";
import type { Family } from "./family.ts";
import { parseQwen, qwenKeys, qwenLayers, qwenSettings } from "./qwen-layers.ts";
import type { QwenLayer } from "./qwen-layers.ts";

const schema = lazily(({ z }) => z.object({ ...qwenKeys(), ...expertKeys() }).omit({ intermediate_size: true }));

const everyLayer = { harmless: "each layer of these models has experts; neither program reads it" } as const;

export const qwen35Moe: Family<QwenLayer> = {
  ...qwenLayers,
  name: "qwen3_5_moe",
  title: "a Qwen3.5 mixture of experts",
  modelTypes: ["qwen3_5_moe", "qwen3_5_moe_text"],

  settings: {
    ...qwenSettings,
    ...computed("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size"),
    norm_topk_prob: { only: [true], why: "transformers always divides by the sum; mlx-lm reads it" },
    decoder_sparse_step: everyLayer,
    mlp_only_layers: everyLayer,
    intermediate_size: { harmless: "of dense MLPs, which these models do not have" },
    output_gate_type: { harmless: "transformers' Qwen3.5 always has SiLU" },
  },

  parse(parts, place) {
    const data = parsed(schema(), parts[0], place);
    const model = parseQwen(parts, data, place);
    const experts = expertsOf(data, true, model.layers.map((_, layer) => layer), place);
    return { ...model, family: "qwen3_5_moe", intermediateSize: 0, experts };
  },
};
