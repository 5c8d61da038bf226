"""
Writes a GGUF file with a random model, to time llama.cpp: a mixture of experts of the shape that `random-model.ts --experts` has, or
with --dense one of Qwen3.5-0.8B's.

    python bench/model/llama.py FILE [--layers 8] [--dense] [--type q4_0|q8_0] [--tokenizer tokenizer.json]       needs `pip install gguf`

Matrices are random blocks with small scales, Q4_K, and with --dense in the types that llama.cpp's Q4_K_M gives them, or Q4_0 or Q8_0 throughout; vectors are float32.
Names: llama.cpp's converter (`src/models/qwen35.cpp`, `qwen35moe.cpp`).
"""
import argparse
import json
import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

parser = argparse.ArgumentParser()
parser.add_argument("file")
parser.add_argument("--layers", type=int)
parser.add_argument("--dense", action="store_true")
parser.add_argument("--tokenizer", help="a tokenizer.json with as many tokens")
parser.add_argument("--type", choices=["q4_k_m", "q4_0", "q8_0"], default="q4_k_m")
args = parser.parse_args()

VOCABULARY, INTERVAL = 248320, 4
KEY_HEADS, DIM, TAPS = 16, 128, 4
KV_HEADS, HEAD_DIM = 2, 256
HIDDEN, HEADS, VALUE_HEADS = (1024, 8, 16) if args.dense else (2048, 16, 32)
EXPERTS, USED, WIDE, SHARED = (0, 0, 3584, 0) if args.dense else (256, 8, 512, 512)
LAYERS = args.layers or (24 if args.dense else 8)
CHANNELS = (2 * KEY_HEADS + VALUE_HEADS) * DIM
VALUES = VALUE_HEADS * DIM

ARCHITECTURE = "qwen35" if args.dense else "qwen35moe"
writer = GGUFWriter(args.file, ARCHITECTURE)
numbers = np.random.default_rng(1)
data = []


TYPES = {0: GGMLQuantizationType.Q4_0, 8: GGMLQuantizationType.Q8_0, 4: GGMLQuantizationType.Q4_K, 5: GGMLQuantizationType.Q5_K, 6: GGMLQuantizationType.Q6_K}
BYTES = {0: 144, 8: 272, 4: 144, 5: 176, 6: 210}


def packed(name, *shape, bits=4):
    """A matrix in Q4_K, Q5_K or Q6_K: blocks of 256 numbers with the float16 scales of scales and of least values; or eight Q4_0 or Q8_0 blocks as one."""
    bits = {"q4_0": 0, "q8_0": 8}.get(args.type, bits)
    rows = int(np.prod(shape[:-1]))
    blocks = shape[-1] // 256

    def make():
        out = numbers.integers(0, 256, (rows, blocks, BYTES[bits]), dtype=np.uint8)
        if bits in (0, 8):
            out.reshape(rows, 8 * blocks, BYTES[bits] // 8)[:, :, :2].view(np.float16)[:] = np.float16(4e-3 if bits == 0 else 3e-4)
        elif bits == 6:
            out[:, :, 208:].view(np.float16)[:] = np.float16(3e-5)
        else:
            # The least values are such that numbers are about 0 on average: else activations grow until states have numbers too small for float32.
            out[:, :, :4].view(np.float16)[:] = np.array([2e-4, 2e-4 * (2**bits - 1) / 2], dtype=np.float16)
        return out.reshape(*shape[:-1], blocks * BYTES[bits])

    stored = (*shape[:-1], blocks * BYTES[bits])
    writer.add_tensor_info(name, stored, np.dtype(np.uint8), rows * blocks * BYTES[bits], TYPES[bits])
    data.append(make)


def more(layer):
    """The bits of tensors that Q4_K_M keeps larger in some layers (llama.cpp, `use_more_bits`)."""
    eighth = LAYERS // 8
    return 6 if args.dense and (layer < eighth or layer >= 7 * LAYERS // 8 or (layer - eighth) % 3 == 2) else 4


def plain(name, *shape, around=0.0, deviation=1.0):
    def make():
        return (around + deviation * numbers.standard_normal(shape)).astype(np.float32)

    writer.add_tensor_info(name, shape, np.dtype(np.float32), int(np.prod(shape)) * 4)
    data.append(make)


writer.add_block_count(LAYERS)
writer.add_context_length(40960)
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
writer.add_uint32(f"{ARCHITECTURE}.full_attention_interval", INTERVAL)
if args.dense:
    writer.add_feed_forward_length(WIDE)
else:
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(WIDE)
    writer.add_expert_shared_feed_forward_length(SHARED)
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("qwen35")
tokens = [f"t{i}" for i in range(VOCABULARY)]
types = [1] * VOCABULARY
merges = ["t 1"]
if args.tokenizer:
    with open(args.tokenizer, encoding="utf-8") as file:
        tokenizer = json.load(file)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tokenizer["model"]["merges"]]
    for token, id in tokenizer["model"]["vocab"].items():
        tokens[id] = token
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = 3
writer.add_token_list(tokens)
writer.add_token_types(types)
writer.add_token_merges(merges)
writer.add_eos_token_id(2)
writer.add_add_bos_token(False)

packed("token_embd.weight", VOCABULARY, HIDDEN, bits=6 if args.dense else 4)
plain("output_norm.weight", HIDDEN, around=1, deviation=0.1)
if not args.dense:
    packed("output.weight", VOCABULARY, HIDDEN)
for layer in range(LAYERS):
    at = f"blk.{layer}."
    plain(f"{at}attn_norm.weight", HIDDEN, around=1, deviation=0.1)
    plain(f"{at}post_attention_norm.weight", HIDDEN, around=1, deviation=0.1)
    if args.dense:
        packed(f"{at}ffn_gate.weight", WIDE, HIDDEN)
        packed(f"{at}ffn_up.weight", WIDE, HIDDEN)
        packed(f"{at}ffn_down.weight", HIDDEN, WIDE, bits=more(layer))
    else:
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
        packed(f"{at}attn_v.weight", KV_HEADS * HEAD_DIM, HIDDEN, bits=more(layer))
        packed(f"{at}attn_output.weight", HIDDEN, HEADS * HEAD_DIM)
        plain(f"{at}attn_q_norm.weight", HEAD_DIM, around=1, deviation=0.1)
        plain(f"{at}attn_k_norm.weight", HEAD_DIM, around=1, deviation=0.1)
        continue
    packed(f"{at}attn_qkv.weight", CHANNELS, HIDDEN, bits=5 if args.dense else 4)
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
