// MLX's micro-scaled forms of floats of B = 4 or 8 bits, E2M1 or E4M3: a row is columns B / 8 bytes, as in affine.h; scales
// [rows, columns >> MATRIX_GROUP] of one byte: for 32 columns the exponent of a power of two (E8M0), for 16 columns E4M3. Element =
// float times scale in float32. Definition: MLX, `mlx/backend/metal/kernels/fp_quantized.h`, `fp4.h` and `fp8.h`; there the largest
// exponent is infinity, not NaN.
#ifndef GATED_DELTA_SHADERS_MICRO_H
#define GATED_DELTA_SHADERS_MICRO_H

// Included by matrix.h, which has the primary templates.
template <uint B> struct Micro {};

// By way of half floats, whose subnormal numbers a GPU keeps.
METAL_FUNC float micro_e4m3(uint bits) {
  uint size = bits & 127u;
  uint half_bits = size << 7 | (size == 127u ? 0x4000u : 0u) | (bits & 128u) << 8;
  return float(as_type<half>(ushort(half_bits))) * 256.0f;
}
METAL_FUNC float micro_e2m1(uint bits) {
  return float(as_type<half>(ushort((bits & 7u) << 9 | (bits & 8u) << 12))) * 16384.0f;
}

// MLX's nvfp4 is the form whose groups have 16 columns.
METAL_FUNC bool micro_is_fine() { return MATRIX_GROUP == 4; }

METAL_FUNC float micro_scale(uint byte) {
  if (micro_is_fine()) return micro_e4m3(byte);
  return as_type<float>(byte == 0 ? 0x00400000u : byte << 23);
}

// N neighbouring words, at a multiple of their size after the matrix's beginning.
template <uint N> METAL_FUNC void micro_words(thread uint* words, device const uchar* row) {
  device const uint* p = (device const uint*)row;
  if (MATRIX_SHIFT != 0) {
    uint word = p[0];
    GDM_UNROLL for (uint i = 0; i < N; ++i) {
      uint next = p[i + 1];
      words[i] = word >> (8 * MATRIX_SHIFT) | next << (32 - 8 * MATRIX_SHIFT);
      word = next;
    }
  } else if (MATRIX_ALIGNMENT >= 4 && N % 4 == 0) {
    GDM_UNROLL for (uint i = 0; i < N / 4; ++i) {
      uint4 v = ((device const uint4*)p)[i];
      GDM_UNROLL for (uint j = 0; j < 4; ++j) words[4 * i + j] = v[j];
    }
  } else {
    GDM_UNROLL for (uint i = 0; i < N; ++i) words[i] = p[i];
  }
}

template <uint B> struct Raw<Micro<B>> {
  uint words[B / 4];
  uint scale;
};
template <uint B> struct MatrixRow<Micro<B>> {
  device const uchar* row;
  device const uchar* scales;
};

template <uint B>
METAL_FUNC void matrix_place(thread MatrixRow<Micro<B>>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const uchar*)weight + (ulong(row) * (columns / 8) + at / 8) * B;
  place.scales = (device const uchar*)scales + SCALES_SHIFT + (ulong(row) * (columns >> MATRIX_GROUP) + (at >> MATRIX_GROUP));
}

template <uint B> METAL_FUNC void matrix_move(thread MatrixRow<Micro<B>>& place, uint by) {
  place.row += by / 8 * B;
  place.scales += by >> MATRIX_GROUP;
}

template <uint B>
METAL_FUNC void matrix_fetch(thread Raw<Micro<B>>& raw, thread const MatrixRow<Micro<B>>& from, uint ahead, uint at,
                             uint columns) {
  micro_words<B / 4>(raw.words, from.row + ahead / 8 * B);
  raw.scale = uint(from.scales[ahead >> MATRIX_GROUP]);
}

// Element j of some words.
template <uint B> METAL_FUNC float micro_element(thread const uint* words, uint j) {
  if (B == 8) return micro_e4m3(words[j / 4] >> (8 * (j % 4)) & 255u);
  return micro_e2m1(words[j / 8] >> (4 * (j % 8)));
}

template <uint B> METAL_FUNC void micro_widen(thread Eight& v, thread const uint* words, uint first, float scale) {
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    v.lower[j] = micro_element<B>(words, first + j) * scale;
    v.upper[j] = micro_element<B>(words, first + 4 + j) * scale;
  }
}

template <uint B> METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<Micro<B>>& raw, uint unit) {
  micro_widen<B>(v, raw.words, 0, micro_scale(raw.scale));
}

template <uint B> struct Words<Micro<B>> {
  uint words[B];
  uint scales;  // one, or two for 16 columns each
};

template <uint B>
METAL_FUNC void words_fetch(thread Words<Micro<B>>& words, thread const MatrixRow<Micro<B>>& from, uint ahead) {
  micro_words<B>(words.words, from.row + ahead / 8 * B);
  device const uchar* scales = from.scales + (ahead >> MATRIX_GROUP);
  words.scales = uint(scales[0]);
  if (micro_is_fine()) words.scales |= uint(scales[1]) << 8;
}

template <uint B>
METAL_FUNC void words_widen(thread Eight& v, thread const Words<Micro<B>>& words, thread const MatrixRow<Micro<B>>&, uint first,
                            uint unit) {
  uint scale = micro_is_fine() && first >= 16 ? words.scales >> 8 : words.scales;
  micro_widen<B>(v, words.words, first, micro_scale(scale & 255u));
}

#endif
