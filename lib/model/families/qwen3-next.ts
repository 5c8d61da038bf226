/**
 * Qwen3-Next (transformers, `modeling_qwen3_next.py`, `configuration_qwen3_next.py`): each `decoder_sparse_step`-th layer has experts,
 * except for those in `mlp_only_layers`.
 */
import { lazily } from "../../arguments/schemas.ts";
import { configError, parsed } from "../../checkpoint/config-errors.ts";
import { computed } from "../../checkpoint/config-settings.ts";
import { expertKeys } from "../config-schemas.ts";
import { expertsOf } from "./config-parts.ts";
import type { Family } from "./family.ts";
import { parseQwen, qwenKeys, qwenLayers, qwenSettings } from "./qwen-layers.ts";
import type { QwenLayer } from "./qwen-layers.ts";

const schema = lazily(({ z, integer }) => {
  const keys = qwenKeys();
  return z.object({
    ...keys,
    ...expertKeys(),
    intermediate_size: keys.intermediate_size.nullish(),
    norm_topk_prob: z.boolean("true or false").nullish(),
    decoder_sparse_step: integer(1, 1 << 16).nullish(),
    mlp_only_layers: z.array(integer(0, 1 << 16), "an array of layers").nullish(),
  });
});

export const qwen3Next: Family<QwenLayer> = {
  ...qwenLayers,
  name: "qwen3_next",
  title: "a Qwen3-Next model",
  modelTypes: ["qwen3_next"],

  settings: {
    ...qwenSettings,
    ...computed("num_experts", "num_experts_per_tok", "moe_intermediate_size", "shared_expert_intermediate_size"),
    ...computed("norm_topk_prob", "decoder_sparse_step", "mlp_only_layers"),
    output_gate_type: { only: ["silu", "swish"], why: "transformers and mlx-lm always have SiLU; vLLM reads it" },
  },

  parse(parts, place) {
    const data = parsed(schema(), parts[0], place);
    const model = parseQwen(parts, data, place);
    const step = data.decoder_sparse_step ?? 1;
    const sparse = model.layers.map((_, layer) => (layer + 1) % step === 0 && data.mlp_only_layers?.includes(layer) !== true);
    const dense = sparse.includes(false);
    if (dense && typeof data.intermediate_size !== "number") {
      throw configError(place, "intermediate_size", "the width of the layers without experts", "none");
    }
    const experts = expertsOf(data, data.norm_topk_prob ?? true, sparse.flatMap((has, layer) => (has ? [layer] : [])), place);
    return { ...model, family: "qwen3_next", intermediateSize: dense ? data.intermediate_size ?? 0 : 0, experts };
  },
};
