/** Each setting that transformers or mlx-lm reads is computed, is harmless, or is refused unless its value is the one computed with. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { GatedDeltaError } from "../lib/index.ts";
import { mixerSettings, rotationSettings } from "../lib/checkpoint/config-settings.ts";
import type { Settings } from "../lib/checkpoint/config-settings.ts";
import { parseLayerConfig } from "../lib/checkpoint/mixer-config.ts";
import { kdaSchema, olmoSchema, qwenSchema } from "../lib/checkpoint/mixer-schemas.ts";
import { expertKeys, modelKeys } from "../lib/model/config-schemas.ts";
import { olmoHybrid } from "../lib/model/families/olmo-hybrid.ts";
import { qwen35 } from "../lib/model/families/qwen3-5.ts";
import { qwen35Moe } from "../lib/model/families/qwen3-5-moe.ts";
import { qwen3Next } from "../lib/model/families/qwen3-next.ts";
import { parseModelConfig } from "../lib/model/parse-config.ts";
import { thrownBy } from "./support/devices.ts";

type Config = Record<string, any>;
const place = { path: undefined, op: "load" };
const golden = (name: string): Config => JSON.parse(readFileSync(join(import.meta.dir, "golden", name, "config.json"), "utf8")) as Config;
const { head_dim: _, ...bailing } = golden("mixers/bailing_hybrid");
const model = golden("models/qwen3_5-bf16");
const text: Config = { ...model, model_type: "qwen3_5_text" };
const wrapped = (more: Config): Config => ({ model_type: "qwen3_5", text_config: text, ...more });
const parse = (config: Config) => parseModelConfig(config, place).config;
const modelSettings = qwen35.settings;

const mixers: [name: keyof typeof mixerSettings, config: Config][] = [
  ["qwen", model],
  ["olmo", golden("mixers/olmo_hybrid")],
  ["kimi", { ...golden("mixers/kimi_linear"), linear_attn_config: { num_heads: 4, head_dim: 32, short_conv_kernel_size: 4, kda_layers: [1] } }],
  ["glm", golden("mixers/glm5_next")["text_config"] as Config],
  ["bailing", { ...bailing, head_dim: 32 }],
];

/** A configuration in which a setting, which may be nested, has this value. */
function withSetting(config: Config, key: string, value: unknown): Config {
  const [first, second] = key.split(".") as [string, string?];
  return { ...config, [first]: second === undefined ? value : { ...(config[first] as object), [second]: value } };
}

/** Checks the effect of every setting of a table on a configuration that `parse` accepts. */
function check(settings: Settings, config: Config, parse: (config: Config) => unknown): void {
  const plain = parse(config);
  for (const [key, fate] of Object.entries(settings)) {
    if (fate === "computed") continue;
    if ("harmless" in fate) {
      let taken = 0;
      for (const value of [null, 3, 0.5, "zzz", true]) {
        try {
          expect(parse(withSetting(config, key, value))).toEqual(plain);
          taken++;
        } catch (error) {
          expect([key, (error as GatedDeltaError).code]).toEqual([key, "invalid-argument"]); // a value of another kind
        }
      }
      expect(taken).toBeGreaterThan(1);
      continue;
    }
    for (const value of [null, undefined, ...fate.only]) expect(parse(withSetting(config, key, value))).toEqual(plain);
    for (const value of ["zzz", 0.123, [], {}, !(fate.only[0] ?? true)]) {
      const { code, argument } = thrownBy(() => parse(withSetting(config, key, value)));
      expect([key, ["unsupported", "invalid-argument"].includes(code), argument?.endsWith(key)]).toEqual([key, true, true]);
    }
  }
}

describe("settings", () => {
  test.each(mixers)("of %s's mixers", (name, config) => {
    check(mixerSettings[name], config, (changed) => parseLayerConfig(changed, 0, place));
  });

  test("of a dense text model, its own and those of what it is nested in", () => {
    check(modelSettings, text, parse);
    const refused = Object.entries(modelSettings).filter(([, fate]) => typeof fate === "object" && "only" in fate);
    expect(refused.length).toBeGreaterThan(10);
    for (const [key] of refused) expect(thrownBy(() => parse(wrapped({ [key]: "zzz" }))).argument).toBe(`config: ${key}`);
  });

  test("of a dense OLMo hybrid model", () => {
    check(olmoHybrid.settings, golden("models/olmo_hybrid"), parse);
  });

  test("of mixtures of experts", () => {
    check(qwen35Moe.settings, golden("models/qwen3_5_moe")["text_config"] as Config, parse);
    check(qwen3Next.settings, golden("models/qwen3_next"), parse);
  });

  test("of the output gates: Qwen3-Next's are SiLU", () => {
    const config = golden("models/qwen3_next");
    for (const output_gate_type of [null, "silu", "swish"]) expect(parse({ ...config, output_gate_type }).mixer.outputGate).toBe("silu");
    const { code, argument } = thrownBy(() => parse({ ...config, output_gate_type: "sigmoid" }));
    expect([code, argument]).toEqual(["unsupported", "config: output_gate_type"]);
  });

  test("that the parsers read are called computed, or have one value", () => {
    const read = (schema: () => { readonly shape: object }) => Object.keys(schema().shape);
    const known = (settings: Settings) => Object.keys(settings).flatMap((key) => [key, key.split(".")[0]!]);
    expect(known(modelSettings)).toEqual(expect.arrayContaining([...Object.keys(modelKeys()), ...read(qwenSchema)]));
    expect(known(mixerSettings.qwen)).toEqual(expect.arrayContaining(read(qwenSchema)));
    expect(known(mixerSettings.olmo)).toEqual(expect.arrayContaining(read(olmoSchema)));
    expect(known(olmoHybrid.settings)).toEqual(expect.arrayContaining([...Object.keys(modelKeys()), ...read(olmoSchema)]));
    expect(known(qwen3Next.settings)).toEqual(expect.arrayContaining([...Object.keys(modelKeys()), ...Object.keys(expertKeys()), ...read(qwenSchema)]));
    const { kimi, glm, bailing: other } = mixerSettings;
    expect([kimi, glm, other].flatMap(known)).toEqual(expect.arrayContaining(read(kdaSchema)));
  });

  test("carry reasons", () => {
    for (const settings of [modelSettings, qwen35Moe.settings, qwen3Next.settings, olmoHybrid.settings, rotationSettings, ...Object.values(mixerSettings)] as Settings[]) {
      for (const fate of Object.values(settings)) {
        if (fate !== "computed") expect(("only" in fate ? fate.why : fate.harmless).length).toBeGreaterThan(10);
      }
    }
  });
});

describe("rotations", () => {
  const own = { rope_type: "default", rope_theta: 1e6, partial_rotary_factor: 0.5 };
  const rotated = (more: Config): Config => ({ ...text, rope_parameters: own, ...more });
  const refused = (config: Config) => {
    const { code, argument } = thrownBy(() => parse(config));
    expect(code).toBe("unsupported");
    return argument;
  };
  const scaled = { factor: 4, original_max_position_embeddings: 1024 };
  const others: [type: string, more: Config][] = [
    ["yarn", scaled],
    ["linear", scaled],
    ["dynamic", scaled],
    ["llama3", { ...scaled, low_freq_factor: 1, high_freq_factor: 4 }],
    ["longrope", { short_factor: [1], long_factor: [2] }],
    ["proportional", {}],
    ["deepseek_yarn", scaled],
    ["mrope", { mrope_section: [11, 11, 10] }],
  ];

  test.each(others)("%s is refused, wherever it stands", (type, more) => {
    for (const name of ["rope_type", "type"]) {
      const rotation = { ...own, ...more, [name]: type };
      for (const key of ["rope_parameters", "rope_scaling"]) {
        expect(refused(rotated({ [key]: rotation }))).toBe(`config: ${key}.${name}`);
        expect(refused({ ...wrapped({ [key]: rotation }), text_config: rotated({}) })).toBe(`config: ${key}.${name}`);
      }
    }
  });

  test("whose members belong to others are refused", () => {
    for (const more of [{ factor: 4 }, { attention_factor: 0.9 }, { beta_fast: 32 }, { short_factor: [1] }, { mscale: 1 }, { full_attention: own }]) {
      const [member] = Object.keys(more);
      expect(refused(rotated({ rope_parameters: { ...own, ...more } }))).toBe(`config: rope_parameters.${member}`);
    }
  });

  test("that are said twice must be one", () => {
    const { attention } = parse(rotated({}));
    expect(attention).toMatchObject({ ropeTheta: 1e6, rotaryDim: attention.headDim / 2 });
    for (const rope_scaling of [null, {}, own, { ...own, factor: 1 }, { type: "default", rope_theta: 1e6, partial_rotary_factor: 0.5 }]) {
      expect(parse(rotated({ rope_scaling })).attention).toEqual(attention);
    }
    for (const change of [{ rope_theta: 1e7 }, { partial_rotary_factor: 0.25 }]) {
      expect(refused(rotated({ rope_scaling: { ...own, ...change } }))).toBe("config: rope_scaling");
      expect(refused({ ...wrapped({ rope_parameters: { ...own, ...change } }), text_config: rotated({}) })).toBe("config: rope_parameters");
    }
    expect(refused(rotated({ rope_scaling: { type: "default" } }))).toBe("config: rope_scaling");
    expect(parse(rotated({ rope_theta: 1e6, partial_rotary_factor: 0.5, rope_scaling: { type: "default" } })).attention).toEqual(attention);
  });

  test("of a whole model around the text model do not stand for the text model's own", () => {
    const { rope_parameters: _, ...unturned } = text;
    const around = (more: Config, inner: Config = {}): Config => ({ ...wrapped(more), text_config: { ...unturned, ...inner } });
    for (const key of ["rope_parameters", "rope_scaling"]) expect(refused(around({ [key]: own, rope_theta: 1e6 }))).toBe(`config: ${key}`);
    expect(refused(around({ rope_theta: 1e6 }))).toBe("config: rope_theta");
    expect(refused(around({ rope_theta: 1e6 }, { rope_parameters: { rope_type: "default" } }))).toBe("config: rope_theta");
    expect(refused(around({ rope_parameters: own }, { rope_theta: 1e6 }))).toBe("config: rope_parameters"); // a different fraction
    expect(parse(around({ rope_parameters: own }, { rope_parameters: own }))).toEqual(parse(rotated({})));
    expect(thrownBy(() => parse(around({}))).argument).toBe("config.rope_parameters.rope_theta");
    // Neither transformers nor mlx-lm reads these two here.
    expect(parse(around({ rope_theta: 1e7, partial_rotary_factor: null }, { rope_parameters: own }))).toEqual(parse(rotated({})));
  });

  test("of a fraction of null are refused: whole heads turn in transformers, and a quarter once it has saved the model", () => {
    const { partial_rotary_factor: _, ...whole } = own;
    for (const config of [text, golden("models/qwen3_next"), golden("models/qwen3_5_moe")["text_config"] as Config]) {
      const { rope_parameters: _, ...unturned } = config;
      for (const more of [{ rope_parameters: whole }, { rope_theta: 1e6 }, { rope_scaling: whole }, { rope_parameters: { ...whole, partial_rotary_factor: null } }, { rope_parameters: own, rope_scaling: whole }]) {
        expect(refused({ ...unturned, ...more, partial_rotary_factor: null })).toBe("config: partial_rotary_factor");
      }
    }
    expect(parse(rotated({ partial_rotary_factor: null }))).toEqual(parse(rotated({})));
  });

  test("of three positions are those of text", () => {
    const { attention } = parse(rotated({}));
    const more = { mrope_section: [11, 11, 10], mrope_interleaved: true };
    expect(parse(rotated({ rope_parameters: { ...own, ...more } })).attention).toEqual(attention);
  });
});
