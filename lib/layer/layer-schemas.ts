/** The zod schemas of a layer's configuration and options. Loaded when a layer is: importing zod takes 13 ms. */

import { z } from "zod";
import { choice, integer, options } from "../arguments/schema-parts.ts";
import type { GatedDeltaNetOptions, LoadAllOptions } from "./layer-arguments.ts";

const size = (largest: number) => integer(1, largest);
const headDimText = "a multiple of 8 in 8..256";
const headDim = z.int(headDimText).min(8, headDimText).max(256, headDimText).multipleOf(8, headDimText);
const epsilonText = "a number in 0..1";
const text = z.string("a string");

/** The keys of a `config.json` that a layer reads. Limits far above any real model keep every product of sizes exact. */
export const configSchema = z.object({
  hidden_size: size(1 << 20),
  linear_num_key_heads: size(4096),
  linear_num_value_heads: size(4096),
  linear_key_head_dim: headDim,
  linear_value_head_dim: headDim,
  linear_conv_kernel_dim: integer(2, 9),
  rms_norm_eps: z.number(epsilonText).min(0, epsilonText).max(1, epsilonText).nullish(),
  hidden_act: text.nullish(),
  output_gate_type: text.nullish(),
  num_hidden_layers: size(1 << 16).nullish(),
  layer_types: z.array(text, "an array of strings").nullish(),
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
