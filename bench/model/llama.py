"""
Writes a GGUF file with a random mixture of experts, to time llama.cpp on the shape that `random-model.ts --experts` has.

    python bench/model/llama.py FILE [--layers 8]       needs `pip install gguf`

Matrices are random Q4_K blocks with small scales, vectors float32, under the names that llama.cpp's converter gives (`src/models/qwen35moe.cpp`).
"""
import argparse
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--layers", type=int, default=8)
args = parser.parse_args()

HIDDEN, VOCABULARY, INTERVAL = 2048, 248320, 4
HEADS, KV_HEADS, HEAD_DIM = 16, 2, 256
KEY_HEADS, VALUE_HEADS, DIM, TAPS = 16, 32, 128, 4
EXPERTS, USED, WIDE, SHARED = 256, 8, 512, 512
CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * DIM
VALUES = VALUE_HEADS * DIM

writer = GGUFWriter(args.file, "qwen35moe")
numbers = np.random.default_rng(1)
data = []


def packed(name, *shape):
    """A matrix in Q4_K: blocks of 256 numbers in 144 bytes, which begin with the float16 scale of scales and of least values."""
    rows = int(np.prod(shape[:-1]))
    blocks = shape[-1] // 256

    def make():
        out = numbers.integers(0, 256, (rows, blocks, 144), dtype=np.uint8)
        out[:, :, :4].view(np.float16)[:] = np.array([2e-4, 1e-3], dtype=np.float16)
        return out.reshape(*shape[:-1], blocks * 144)

    stored = (*shape[:-1], blocks * 144)
    writer.add_tensor_info(name, stored, np.dtype(np.uint8), rows * blocks * 144, GGMLQuantizationType.Q4_K)
    data.append(make)


def plain(name, *shape, around=0.0, deviation=1.0):
    def make():
        return (around + deviation * numbers.standard_normal(shape)).astype(np.float32)

    writer.add_tensor_info(name, shape, np.dtype(np.float32), int(np.prod(shape)) * 4)
    data.append(make)


writer.add_block_count(args.layers)
writer.add_context_length(4096)
writer.add_embedding_length(HIDDEN)
writer.add_head_count(HEADS)
writer.add_head_count_kv(KV_HEADS)
writer.add_key_length(HEAD_DIM)
writer.add_value_length(HEAD_DIM)
writer.add_layer_norm_rms_eps(1e-6)
writer.add_rope_freq_base(1e7)
writer.add_rope_dimension_count(64)
writer.add_rope_dimension_sections([11, 11, 10, 0])
writer.add_ssm_conv_kernel(TAPS)
writer.add_ssm_state_size(DIM)
writer.add_ssm_group_count(KEY_HEADS)
writer.add_ssm_time_step_rank(VALUE_HEADS)
writer.add_ssm_inner_size(VALUES)
writer.add_uint32("qwen35moe.full_attention_interval", INTERVAL)
writer.add_expert_count(EXPERTS)
writer.add_expert_used_count(USED)
writer.add_expert_feed_forward_length(WIDE)
writer.add_expert_shared_feed_forward_length(SHARED)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("qwen35")
writer.add_token_list([f"t{i}" for i in range(VOCABULARY)])
writer.add_token_types([1] * VOCABULARY)
writer.add_token_merges(["t 1"])
writer.add_eos_token_id(2)
writer.add_add_bos_token(False)

packed("token_embd.weight", VOCABULARY, HIDDEN)
plain("output_norm.weight", HIDDEN, around=1, deviation=0.1)
packed("output.weight", VOCABULARY, HIDDEN)
for layer in range(args.layers):
    at = f"blk.{layer}."
    plain(f"{at}attn_norm.weight", HIDDEN, around=1, deviation=0.1)
    plain(f"{at}post_attention_norm.weight", HIDDEN, around=1, deviation=0.1)
    plain(f"{at}ffn_gate_inp.weight", EXPERTS, HIDDEN, deviation=HIDDEN**-0.5)
    packed(f"{at}ffn_gate_exps.weight", EXPERTS, WIDE, HIDDEN)
    packed(f"{at}ffn_up_exps.weight", EXPERTS, WIDE, HIDDEN)
    packed(f"{at}ffn_down_exps.weight", EXPERTS, HIDDEN, WIDE)
    plain(f"{at}ffn_gate_inp_shexp.weight", HIDDEN, deviation=HIDDEN**-0.5)
    packed(f"{at}ffn_gate_shexp.weight", SHARED, HIDDEN)
    packed(f"{at}ffn_up_shexp.weight", SHARED, HIDDEN)
    packed(f"{at}ffn_down_shexp.weight", HIDDEN, SHARED)
    if (layer + 1) % INTERVAL == 0:
        packed(f"{at}attn_q.weight", 2 * HEADS * HEAD_DIM, HIDDEN)
        packed(f"{at}attn_k.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        packed(f"{at}attn_v.weight", KV_HEADS * HEAD_DIM, HIDDEN)
        packed(f"{at}attn_output.weight", HIDDEN, HEADS * HEAD_DIM)
        plain(f"{at}attn_q_norm.weight", HEAD_DIM, around=1, deviation=0.1)
        plain(f"{at}attn_k_norm.weight", HEAD_DIM, around=1, deviation=0.1)
        continue
    packed(f"{at}attn_qkv.weight", CHANNELS, HIDDEN)
    packed(f"{at}attn_gate.weight", VALUES, HIDDEN)
    plain(f"{at}ssm_alpha.weight", VALUE_HEADS, HIDDEN, deviation=HIDDEN**-0.5)
    plain(f"{at}ssm_beta.weight", VALUE_HEADS, HIDDEN, deviation=HIDDEN**-0.5)
    plain(f"{at}ssm_conv1d.weight", CHANNELS, TAPS, deviation=0.5)
    plain(f"{at}ssm_dt.bias", VALUE_HEADS)
    plain(f"{at}ssm_a", VALUE_HEADS, around=-1, deviation=0.1)
    plain(f"{at}ssm_norm.weight", DIM, around=1, deviation=0.1)
    packed(f"{at}ssm_out.weight", HIDDEN, VALUES)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_ti_data_to_file()
for make in data:
    writer.write_tensor_data(make())
writer.close()
