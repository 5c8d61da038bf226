/** The zod schemas of a layer's configuration and options. Loaded when a layer is: importing zod takes 13 ms. */

import { z } from "zod";
import { choice, integer, options } from "../arguments/schema-parts.ts";
import type { GatedDeltaNetOptions, LoadAllOptions } from "./layer-arguments.ts";

const size = (largest: number) => z.number().int().min(1).max(largest);
const headDim = z.number().int().min(8).max(256).multipleOf(8);

/** The keys of a `config.json` that a layer reads. Limits far above any real model keep every product of sizes exact. */
export const configSchema = z.object({
  hidden_size: size(1 << 20),
  linear_num_key_heads: size(4096),
  linear_num_value_heads: size(4096),
  linear_key_head_dim: headDim,
  linear_value_head_dim: headDim,
  linear_conv_kernel_dim: z.number().int().min(2).max(9),
  rms_norm_eps: z.number().min(0).max(1).nullish(),
  hidden_act: z.string().nullish(),
  output_gate_type: z.string().nullish(),
  num_hidden_layers: size(1 << 16).nullish(),
  layer_types: z.array(z.string()).nullish(),
  full_attention_interval: size(1 << 16).nullish(),
});

const index = integer(0, 65535);

const common = {
  config: z.union([z.string(), z.looseObject({})], "a path or an object").optional(),
  dtype: choice("f32", "f16", "bf16").optional(),
};

/** {@link LoadAllOptions} */
export const loadAllOptions = options<LoadAllOptions>()(common);

/** {@link GatedDeltaNetOptions} */
export const loadOptions = options<GatedDeltaNetOptions>()({
  layer: index,
  poolLayer: index.optional(),
  ...common,
});
