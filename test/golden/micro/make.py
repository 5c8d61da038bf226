"""Writes this folder's golden files: matrices in MLX's micro-scaled formats. Needs the PyPI package mlx; its CPU build is enough.

    pip install "mlx[cpu]==0.32.4" numpy && python make.py

A file a mode, with keys
  words, scales           every element in a row, with each scale of 4 bits, and some of 8 bits
  values                  f32, mx.dequantize of them
  matrix.words, .scales   mx.quantize of a random matrix [5, 256]
  x, out                  f32 [3, 256], and mx.quantized_matmul of it with the matrix, in float32
"""
import mlx.core as mx
import numpy as np

for mode, group, bits in (("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4)):
    random = np.random.default_rng(bits + group)
    if bits == 8:
        elements = np.arange(256, dtype=np.uint8)
    else:
        numbers = np.arange(group) % 16
        elements = (numbers[0::2] | numbers[1::2] << 4).astype(np.uint8)
    of = np.array([0, 1, 2, 63, 126, 127, 128, 246, 247, 248, 254, 255] if bits == 8 else range(256), dtype=np.uint8)
    words = mx.array(np.tile(elements, (len(of), 1)).view("<u4"))
    columns = words.shape[1] * 32 // bits
    scales = mx.array(np.repeat(of[:, None], columns // group, 1))
    how = {"group_size": group, "bits": bits, "mode": mode}
    values = mx.dequantize(words, scales, dtype=mx.float32, **how)
    matrix = mx.quantize(mx.array(random.standard_normal((5, 256), dtype=np.float32)), **how)
    x = mx.array(random.standard_normal((3, 256), dtype=np.float32))
    out = mx.quantized_matmul(x, *matrix, transpose=True, **how)
    tensors = {"words": words, "scales": scales, "values": values, "matrix.words": matrix[0], "matrix.scales": matrix[1], "x": x, "out": out}
    mx.save_safetensors(f"{mode}.safetensors", tensors, {"source": f"mlx {mx.__version__}", "mode": mode})
