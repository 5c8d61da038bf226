/**
 * GGUF models small enough to be loaded thousands of times: two layers of random weights, one with floats of all three types, one with
 * matrices in ggml's block types.
 */
import { byteCharacters } from "../../lib/model/text/byte-level.ts";
import { encode } from "../../lib/tensor/dtype.ts";
import type { FloatDType } from "../../lib/tensor/dtype.ts";
import { ggmlFormats } from "../reference/gguf.ts";
import { blockNames, randomBlocks } from "./ggml.ts";
import type { BlockName } from "./ggml.ts";
import type { GgufTensorToWrite, GgufToWrite, GgufValue } from "./gguf-writer.ts";
import { Random } from "./random.ts";

const types = { f32: 0, f16: 1, bf16: 30 } as const;
const [heads, kvHeads, headDim, keyHeads, valueHeads, state] = [2, 1, 16, 1, 2, 16] as const;
const channels = (2 * keyHeads + valueHeads) * state;

/** All byte tokens, three control tokens, a user-defined, two merged and an unused one. */
export const tinyTokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", ...byteCharacters, "he", "hel", "<tool>", "[unused0]"];
const tokenTypes = tinyTokens.map((token) => (token.startsWith("<|") ? 3 : token === "<tool>" ? 4 : token === "[unused0]" ? 5 : 1));
const template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const u32 = (value: number): GgufValue => ({ type: "u32", value });
const text = (value: string): GgufValue => ({ type: "text", value });

/** Rows of 256 numbers fit every block type, those of 64 and 32 only some. */
const sizesOf = (blocks: boolean): { readonly hidden: number; readonly wide: number } => (blocks ? { hidden: 256, wide: 64 } : { hidden: 32, wide: 48 });

const valuesOf = ({ hidden, wide }: ReturnType<typeof sizesOf>): GgufToWrite["values"] => [
  ["general.architecture", text("qwen35")],
  ["qwen35.block_count", u32(2)],
  ["qwen35.context_length", u32(64)],
  ["qwen35.embedding_length", u32(hidden)],
  ["qwen35.feed_forward_length", u32(wide)],
  ["qwen35.attention.head_count", u32(heads)],
  ["qwen35.attention.head_count_kv", u32(kvHeads)],
  ["qwen35.attention.key_length", u32(headDim)],
  ["qwen35.attention.value_length", u32(headDim)],
  ["qwen35.attention.layer_norm_rms_epsilon", { type: "f32", value: 1e-6 }],
  ["qwen35.rope.freq_base", { type: "f32", value: 1e7 }],
  ["qwen35.rope.dimension_count", u32(8)],
  ["qwen35.ssm.conv_kernel", u32(4)],
  ["qwen35.ssm.state_size", u32(state)],
  ["qwen35.ssm.group_count", u32(keyHeads)],
  ["qwen35.ssm.time_step_rank", u32(valueHeads)],
  ["qwen35.ssm.inner_size", u32(valueHeads * state)],
  ["qwen35.full_attention_interval", u32(2)],
  ["tokenizer.ggml.model", text("gpt2")],
  ["tokenizer.ggml.pre", text("qwen35")],
  ["tokenizer.ggml.tokens", { type: "texts", value: tinyTokens }],
  ["tokenizer.ggml.token_type", { type: "i32s", value: tokenTypes }],
  ["tokenizer.ggml.merges", { type: "texts", value: ["h e", "he l"] }],
  ["tokenizer.ggml.eos_token_id", u32(2)],
  ["tokenizer.ggml.padding_token_id", u32(0)],
  ["tokenizer.ggml.add_bos_token", { type: "bool", value: false }],
  ["tokenizer.chat_template", text(template)],
];

const blockOf = (hidden: number): Readonly<Record<number, Readonly<Record<string, readonly number[]>>>> => ({
  0: {
    "attn_qkv.weight": [channels, hidden],
    "attn_gate.weight": [valueHeads * state, hidden],
    "ssm_alpha.weight": [valueHeads, hidden],
    "ssm_beta.weight": [valueHeads, hidden],
    "ssm_conv1d.weight": [channels, 4],
    "ssm_dt.bias": [valueHeads],
    ssm_a: [valueHeads],
    "ssm_norm.weight": [state],
    "ssm_out.weight": [hidden, valueHeads * state],
  },
  1: {
    "attn_q.weight": [2 * heads * headDim, hidden],
    "attn_k.weight": [kvHeads * headDim, hidden],
    "attn_v.weight": [kvHeads * headDim, hidden],
    "attn_output.weight": [hidden, heads * headDim],
    "attn_q_norm.weight": [headDim],
    "attn_k_norm.weight": [headDim],
  },
});

const commonOf = (hidden: number, wide: number): Readonly<Record<string, readonly number[]>> => ({
  "attn_norm.weight": [hidden],
  "post_attention_norm.weight": [hidden],
  "ffn_gate.weight": [wide, hidden],
  "ffn_up.weight": [wide, hidden],
  "ffn_down.weight": [hidden, wide],
});

/**
 * The model's parts.
 *
 * @param blocks whether matrices are in block types, each in a random type whose blocks fill its rows.
 */
export function tinyGguf(seed = 1, blocks = false): GgufToWrite {
  const random = new Random(seed);
  const { hidden, wide } = sizesOf(blocks);
  const tensor = (name: string, sizes: readonly number[]): GgufTensorToWrite => {
    const [rows = 0, columns = 0] = sizes;
    const formats = blocks && sizes.length === 2 ? blockNames.filter((one) => columns % ggmlFormats[one].elements === 0) : [];
    if (formats.length > 0) {
      const format = random.pick(formats) as BlockName;
      const { elements, type } = ggmlFormats[format];
      return { name, type, sizes, data: Uint8Array.from(randomBlocks(random, format, rows, columns / elements).bytes.data) };
    }
    const count = sizes.reduce((product, size) => product * size, 1);
    const dtype: FloatDType = sizes.length === 1 ? "f32" : random.pick(["f32", "f16", "bf16"]);
    const numbers = Float64Array.from({ length: count }, () => (name.endsWith("ssm_a") ? -Math.exp(random.normal()) : sizes.length === 1 ? 1 + random.normal() / 8 : random.normal() / 6));
    const { buffer, byteOffset, byteLength } = encode(dtype, numbers);
    return { name, type: types[dtype], sizes, data: new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength) };
  };
  const block = blockOf(hidden);
  const layers = [0, 1].flatMap((n) => Object.entries({ ...commonOf(hidden, wide), ...block[n] }).map(([name, sizes]) => tensor(`blk.${n}.${name}`, sizes)));
  return { values: valuesOf({ hidden, wide }), tensors: [tensor("token_embd.weight", [tinyTokens.length, hidden]), tensor("output_norm.weight", [hidden]), ...layers] };
}
