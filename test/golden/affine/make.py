"""Makes the files beside it: matrices quantised by MLX. Run with the PyPI package mlx (the CPU build will do).

    pip install "mlx[cpu]==0.32.4" numpy && python make.py

A file a number of bits. For each group size g and dtype d of the scales, keys `g<g>.<d>.` and
  words, scales, biases   mx.quantize of a random matrix [5, 256] of that dtype
  q                       the numbers of the stream: mx.dequantize with scales of 1 and biases of 0
  x, out                  f32 [3, 256], and mx.quantized_matmul of it with the matrix, in float32
"""
import mlx.core as mx
import numpy as np

dtypes = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
for bits in (2, 3, 4, 5, 6, 8):
    random = np.random.default_rng(bits)
    tensors = {}
    for index, group in enumerate((32, 64, 128)):
        name = list(dtypes)[(bits + index) % 3]
        matrix = mx.array(random.standard_normal((5, 256), dtype=np.float32)).astype(dtypes[name])
        words, scales, biases = mx.quantize(matrix, group_size=group, bits=bits)
        ones = mx.ones(scales.shape, dtype=mx.float32)
        q = mx.dequantize(words, ones, 0 * ones, group_size=group, bits=bits)
        x = mx.array(random.standard_normal((3, 256), dtype=np.float32))
        wide = (words, scales.astype(mx.float32), biases.astype(mx.float32))
        out = mx.quantized_matmul(x, *wide, transpose=True, group_size=group, bits=bits)
        key = f"g{group}.{name}."
        tensors |= {key + "words": words, key + "scales": scales, key + "biases": biases}
        tensors |= {key + "q": q.astype(mx.uint8), key + "x": x, key + "out": out}
    mx.save_safetensors(f"affine-{bits}.safetensors", tensors, {"source": f"mlx {mx.__version__}", "bits": str(bits)})
