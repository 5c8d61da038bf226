/**
 * Configurations of mixers with a decay for each key dimension (KDA): Kimi Linear, GLM-5-next and Bailing hybrid, under
 * transformers' names (`linear_num_heads`, `linear_head_dim`, `linear_conv_kernel_dim`) and those of the released
 * folders (`linear_attn_config`; Bailing's `num_attention_heads`, `head_dim`, `short_conv_kernel_size`). Sources:
 * transformers, `configuration_kimi_linear.py`, `configuration_glm5_next.py`, `configuration_bailing_hybrid.py`.
 *
 * Query, key and value have the same heads. The convolution's activation is SiLU and the norm's gate a sigmoid in all
 * of them.
 */

import type { Checked } from "../arguments/schemas.ts";
import { configError, parsed, unsupportedValue } from "./config-errors.ts";
import type { ConfigOf, ConfigPlace } from "./config-errors.ts";
import { mixerSettings, refuseSettings } from "./config-settings.ts";
import { kdaSchema } from "./mixer-schemas.ts";

/** An architecture with KDA layers. */
export type KdaArchitecture = "kimi" | "glm" | "bailing";

type Data = Checked<typeof kdaSchema>;

/** The bound of configurations that enable one without giving its value. */
const usualBound = -5;

/** The architecture of a `model_type`. Kimi K3's text model calls itself `kimi_linear`. */
export function kdaArchitecture(type: string): KdaArchitecture | undefined {
  if (/^kimi_linear(?:_text)?$/.test(type)) return "kimi";
  if (/^glm5_next(?:_text)?$/.test(type)) return "glm";
  return type === "bailing_hybrid" ? "bailing" : undefined;
}

/** Reads the configuration of such a model. */
export function parseKda(architecture: KdaArchitecture, root: object, place: ConfigPlace): ConfigOf {
  const data = parsed(kdaSchema(), root, place);
  const nested = data.linear_attn_config;
  const bailing = architecture === "bailing";
  refuseSettings(mixerSettings[architecture], root, place);
  const heads = nested?.num_heads ?? data.linear_num_heads ?? (bailing ? data.num_attention_heads : undefined);
  const dim = nested?.head_dim ?? data.linear_head_dim ?? (bailing ? data.head_dim : undefined);
  const width = nested?.short_conv_kernel_size ?? data.linear_conv_kernel_dim ?? (bailing ? data.short_conv_kernel_size : undefined);
  if (typeof heads !== "number") throw missing("linear_num_heads", bailing ? "num_attention_heads" : "linear_attn_config.num_heads");
  if (typeof dim !== "number") throw missing("linear_head_dim", bailing ? "head_dim" : "linear_attn_config.head_dim");
  if (typeof width !== "number") {
    throw missing("linear_conv_kernel_dim", `${bailing ? "" : "linear_attn_config."}short_conv_kernel_size`);
  }
  if (dim % 8 !== 0 || dim < 8 || dim > 256) throw configError(place, "head_dim", "a multiple of 8 in 8..256", String(dim));
  return {
    config: {
      hiddenSize: data.hidden_size,
      keyHeads: heads,
      valueHeads: heads,
      keyDim: dim,
      valueDim: dim,
      convWidth: width,
      normEps: data.rms_norm_eps ?? (bailing ? 1e-6 : 1e-5),
      outputGate: "sigmoid",
      gateDims: "key",
      gateBound: boundOf(architecture, data, place),
      betaForm: "sigmoid",
      projections: "separate",
    },
    layers: data.layer_types?.length ?? data.num_hidden_layers ?? undefined,
    typeOf: (layer) => typeOf(architecture, data, layer),
  };

  function missing(key: string, other: string) {
    return configError(place, key, `a size, here or as ${other}`, "none");
  }
}

/** The bound of the decay, or undefined. Each architecture has its own keys for it. */
function boundOf(architecture: KdaArchitecture, data: Data, place: ConfigPlace): number | undefined {
  const nested = data.linear_attn_config;
  switch (architecture) {
    case "kimi": // none in Kimi Linear, -5 in Kimi K3
      return nested?.gate_lower_bound ?? undefined;
    case "bailing":
      return data.kda_safe_gate === false ? undefined : data.kda_lower_bound ?? usualBound;
    case "glm": {
      const bound = glmBound(data);
      // vLLM reads this key; transformers does not.
      const other = nested?.lower_bound ?? bound;
      if (other !== bound) throw unsupportedValue(place, "linear_attn_config.lower_bound", `the bound of the other keys, ${bound ?? "none"}`, other);
      return bound;
    }
  }
}

/** As transformers reads it (`configuration_glm5_next.py`). */
function glmBound({ linear_attn_config: nested, linear_lower_bound }: Data): number | undefined {
  const own = linear_lower_bound === undefined ? usualBound : linear_lower_bound;
  const given = nested?.gate_lower_bound === undefined ? own : nested.gate_lower_bound;
  if (given !== null) return given;
  // Nested settings turn null into the usual bound, unless their `safe_gate` is false or null.
  return nested && (nested.safe_gate === undefined || nested.safe_gate === true) ? usualBound : undefined;
}

function typeOf(architecture: KdaArchitecture, data: Data, layer: number): string | undefined {
  if (data.layer_types) return data.layer_types[layer];
  const listed = data.linear_attn_config?.kda_layers;
  // Released Kimi folders count layers from 1.
  if (architecture === "kimi" && listed) return listed.includes(layer + 1) ? "linear_attention" : "full_attention";
  const group = data.layer_group_size;
  if (architecture === "bailing" && typeof group === "number" && (layer + 1) % group === 0) return "full_attention";
  return "linear_attention";
}
