"""Makes models/qwen3next-bf16/model.gguf of models/qwen3_next, by the rules of llama.cpp's converter (conversion/qwen.py).

    pip install "gguf==0.19.0" && python make_qwen3next.py ../models/qwen3_next ../models/qwen3next-bf16

Matrices stay in BF16, all else is F32, so that the model's expected.safetensors, which is copied, holds for the file. The projection
of queries, keys, values and z is split, that of b and a stays joined; norms but the mixers' are 1 + w; experts lie in one tensor.
"""
import json
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np

source, target = map(Path, sys.argv[1:3])
config = json.loads((source / "config.json").read_text())
tensors = {}
for file in sorted(source.glob("model-*.safetensors")):
    data = file.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "BF16"
        begin, end = entry["data_offsets"]
        bits = np.frombuffer(data[start + begin : start + end], dtype="<u2").astype(np.uint32) << 16
        tensors[name] = bits.view(np.float32).reshape(entry["shape"])

arch = "qwen3next"
target.mkdir(exist_ok=True)
writer = gguf.GGUFWriter(target / "model.gguf", arch)
heads, key_heads = config["linear_num_value_heads"], config["linear_num_key_heads"]
key_dim, value_dim = config["linear_key_head_dim"], config["linear_value_head_dim"]
for key, value in {
    "block_count": config["num_hidden_layers"],
    "context_length": config["max_position_embeddings"],
    "embedding_length": config["hidden_size"],
    "feed_forward_length": config["intermediate_size"],
    "attention.head_count": config["num_attention_heads"],
    "attention.head_count_kv": config["num_key_value_heads"],
    "attention.key_length": config["head_dim"],
    "attention.value_length": config["head_dim"],
    "rope.dimension_count": int(config["head_dim"] * config["rope_parameters"]["partial_rotary_factor"]),
    "ssm.conv_kernel": config["linear_conv_kernel_dim"],
    "ssm.state_size": key_dim,
    "ssm.group_count": key_heads,
    "ssm.time_step_rank": heads,
    "ssm.inner_size": heads * value_dim,
    "full_attention_interval": 4,
    "expert_count": config["num_experts"],
    "expert_used_count": config["num_experts_per_tok"],
    "expert_feed_forward_length": config["moe_intermediate_size"],
    "expert_shared_feed_forward_length": config["shared_expert_intermediate_size"],
}.items():
    writer.add_uint32(f"{arch}.{key}", value)
writer.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", config["rms_norm_eps"])
writer.add_float32(f"{arch}.rope.freq_base", config["rope_parameters"]["rope_theta"])

tokenizer = json.loads((source / "tokenizer.json").read_text())
ids = {**tokenizer["model"]["vocab"], **{token["content"]: token["id"] for token in tokenizer["added_tokens"]}}
tokens = [f"[PAD{i}]" for i in range(config["vocab_size"])]
types = [5] * len(tokens)
for token, i in ids.items():
    tokens[i], types[i] = token, 1
for token in tokenizer["added_tokens"]:
    types[token["id"]] = 3
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("qwen2")
writer.add_token_list(tokens)
writer.add_token_types(types)
writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
writer.add_eos_token_id(ids["<|im_end|>"])
writer.add_pad_token_id(ids["<|endoftext|>"])
writer.add_add_bos_token(False)
writer.add_chat_template(json.loads((source / "tokenizer_config.json").read_text())["chat_template"])


def write(name, values):
    if values.ndim < 2 or "conv1d" in name or name.endswith("ffn_gate_inp.weight"):
        writer.add_tensor(name, values.astype(np.float32))
    else:
        bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        writer.add_tensor(name, bits.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)


def norm(name):
    return tensors[name + ".weight"] + np.float32(1)


write("token_embd.weight", tensors["model.embed_tokens.weight"])
write("output_norm.weight", norm("model.norm"))
write("output.weight", tensors["lm_head.weight"])
for layer, kind in enumerate(config["layer_types"]):
    old, new = f"model.layers.{layer}.", f"blk.{layer}."
    write(new + "attn_norm.weight", norm(old + "input_layernorm"))
    write(new + "post_attention_norm.weight", norm(old + "post_attention_layernorm"))
    write(new + "ffn_gate_inp.weight", tensors[old + "mlp.gate.weight"])
    write(new + "ffn_gate_inp_shexp.weight", tensors[old + "mlp.shared_expert_gate.weight"][0])
    for part in ("gate", "up", "down"):
        experts = [tensors[f"{old}mlp.experts.{i}.{part}_proj.weight"] for i in range(config["num_experts"])]
        write(f"{new}ffn_{part}_exps.weight", np.stack(experts))
        write(f"{new}ffn_{part}_shexp.weight", tensors[f"{old}mlp.shared_expert.{part}_proj.weight"])
    if kind == "full_attention":
        for part, name in {"q": "q", "k": "k", "v": "v", "o": "output"}.items():
            write(f"{new}attn_{name}.weight", tensors[f"{old}self_attn.{part}_proj.weight"])
        for part in "qk":
            write(f"{new}attn_{part}_norm.weight", norm(f"{old}self_attn.{part}_norm"))
        continue
    mixer = {name[len(old + "linear_attn.") :]: values for name, values in tensors.items() if name.startswith(old + "linear_attn.")}
    ratio = heads // key_heads
    sizes = np.cumsum([key_dim, key_dim, ratio * value_dim])
    q, k, v, z = np.split(mixer["in_proj_qkvz.weight"].reshape(key_heads, -1, config["hidden_size"]), sizes, axis=1)
    rows = lambda part: part.reshape(-1, config["hidden_size"])
    write(new + "attn_qkv.weight", np.concatenate([rows(q), rows(k), rows(v)]))
    write(new + "attn_gate.weight", rows(z))
    write(new + "ssm_ba.weight", mixer["in_proj_ba.weight"])
    write(new + "ssm_conv1d.weight", mixer["conv1d.weight"].squeeze(1))
    write(new + "ssm_dt.bias", mixer["dt_bias"])
    write(new + "ssm_a", -np.exp(mixer["A_log"]))
    write(new + "ssm_norm.weight", mixer["norm.weight"])
    write(new + "ssm_out.weight", mixer["out_proj.weight"])
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
shutil.copyfile(source / "expected.safetensors", target / "expected.safetensors")
