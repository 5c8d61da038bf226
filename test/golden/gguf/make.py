"""Makes digests.json: what gguf-py dequantises random blocks to. Run with the PyPI package gguf.

    pip install "gguf==0.19.0" && python make.py

A line a type, by the lower-case name of ggml: the blocks, each byte random (so scales may be subnormal, infinite or NaN), and
the SHA-256 of their elements as float32, where every NaN is 0x7fc00000. Byte i of a type's blocks is byte i mod 4 of word
i div 4 of Marsaglia's xorshift with shifts 13, 17 and 5, begun with the type's number + 1.
"""
import hashlib
import json

import gguf
import numpy as np

names = "f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs mxfp4".split()


def words(seed, count):
    x = seed
    for _ in range(count):
        x ^= (x << 13) & 0xFFFFFFFF
        x ^= x >> 17
        x ^= (x << 5) & 0xFFFFFFFF
        yield x


digests = {}
for name in names:
    kind = gguf.GGMLQuantizationType[name.upper()]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = {1: 16384, 32: 4096, 256: 1024}[elements]
    data = np.fromiter(words(kind.value + 1, blocks * size // 4), dtype="<u4").view(np.uint8).reshape(blocks, size)
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(data, kind).astype("<f4", copy=True).ravel()
    values[np.isnan(values)] = np.uint32(0x7FC00000).view(np.float32)
    digests[name] = {"blocks": blocks, "sha256": hashlib.sha256(values.tobytes()).hexdigest()}
with open("digests.json", "w") as file:
    file.write("{\n" + ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in digests.items()) + "\n}\n")
