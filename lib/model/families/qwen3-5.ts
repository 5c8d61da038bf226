/** Dense Qwen3.5 text models (transformers, `modeling_qwen3_5.py`, `configuration_qwen3_5.py`). */
import { lazily } from "../../arguments/schemas.ts";
import { parsed } from "../../checkpoint/config-errors.ts";
import type { Family } from "./family.ts";
import { parseQwen, qwenKeys, qwenLayers, qwenSettings } from "./qwen-layers.ts";
import type { QwenLayer } from "./qwen-layers.ts";

const schema = lazily(({ z }) => z.object(qwenKeys()));

export const qwen35: Family<QwenLayer> = {
  ...qwenLayers,
  name: "qwen3_5",
  title: "a dense Qwen3.5 text model",
  modelTypes: ["qwen3_5", "qwen3_5_text"],
  settings: { ...qwenSettings, output_gate_type: { harmless: "transformers' Qwen3.5 always has SiLU" } },

  parse(parts, place) {
    const data = parsed(schema(), parts[0], place);
    return { ...parseQwen(parts, data, place), family: "qwen3_5", intermediateSize: data.intermediate_size };
  },
};
