// MLX's affine forms of B = 2, 3, 4, 5, 6 or 8 bits: a row is columns B / 8 bytes, a little-endian stream of B-bit numbers q;
// scales and biases [rows, columns >> MATRIX_GROUP] of MATRIX_DTYPE; element = fma(q, scale, bias) in float32. Eight
// neighbouring elements are B bytes, 32 are B words, and both are in one group.
#ifndef GATED_DELTA_SHADERS_AFFINE_H
#define GATED_DELTA_SHADERS_AFFINE_H

// Included by matrix.h, which has the primary templates.
template <uint B> struct Affine {};

// The scale or bias `group` places after one, in the 16-bit units of read_any; or a one-byte scale (micro.h), which may begin inside one.
METAL_FUNC device const ushort* matrix_scale(device const ushort* p, ulong group) {
  if (MATRIX_DTYPE == GDM_U8) return (device const ushort*)((device const uchar*)p + group);
  return p + group * (MATRIX_DTYPE == GDM_F32 ? 2 : 1);
}

// The bits of scale or bias i after one, SHIFT bytes into its units.
METAL_FUNC uint matrix_companion(device const ushort* p, uint i, uint shift) {
  if (MATRIX_DTYPE == GDM_F32) {
    device const uint* word = (device const uint*)p + i;
    return shift == 0 ? word[0] : word[0] >> (8 * shift) | word[1] << (32 - 8 * shift);
  }
  return shift == 0 ? uint(p[i]) : uint(p[i]) >> 8 | (uint(p[i + 1]) & 255u) << 8;
}
// The bits of the same number in float32.
METAL_FUNC uint matrix_companion_wide(uint bits) {
  if (MATRIX_DTYPE == GDM_F32) return bits;
  return MATRIX_DTYPE == GDM_F16 ? as_type<uint>(float(as_type<half>(ushort(bits)))) : bits << 16;
}

template <uint B> struct Raw<Affine<B>> {
  uint2 words;
  uint scale;  // as stored; from matrix_ready on in float32
  uint bias;
};
template <uint B> struct MatrixRow<Affine<B>> {
  device const uchar* row;
  device const ushort* scales;
  device const ushort* biases;
};

template <uint B>
METAL_FUNC void matrix_place(thread MatrixRow<Affine<B>>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const uchar*)weight + (ulong(row) * (columns / 8) + at / 8) * B;
  ulong group = ulong(row) * (columns >> MATRIX_GROUP) + (at >> MATRIX_GROUP);
  place.scales = matrix_scale(scales, group);
  place.biases = matrix_scale(biases, group);
}

template <uint B> METAL_FUNC void matrix_move(thread MatrixRow<Affine<B>>& place, uint by) {
  place.row += by / 8 * B;
  place.scales = matrix_scale(place.scales, by >> MATRIX_GROUP);
  place.biases = matrix_scale(place.biases, by >> MATRIX_GROUP);
}

template <uint B>
METAL_FUNC void matrix_fetch(thread Raw<Affine<B>>& raw, thread const MatrixRow<Affine<B>>& from, uint ahead, uint at,
                             uint columns) {
  device const uchar* p = from.row + ahead / 8 * B;
  raw.words = uint2(0u);
  if (MATRIX_SHIFT != 0) {
    GDM_UNROLL for (uint j = 0; j < B; ++j) raw.words[j / 4] |= uint(p[MATRIX_SHIFT + j]) << (8 * (j % 4));
  } else if (B == 4) {
    raw.words.x = *(device const uint*)p;
  } else if (B == 8) {
    raw.words.x = ((device const uint*)p)[0];
    raw.words.y = ((device const uint*)p)[1];
  } else if (B == 2) {
    raw.words.x = uint(*(device const ushort*)p);
  } else if (B == 6) {
    device const ushort* h = (device const ushort*)p;
    raw.words.x = uint(h[0]) | uint(h[1]) << 16;
    raw.words.y = uint(h[2]);
  } else {
    raw.words.x = uint(p[0]) | uint(p[1]) << 8 | uint(p[2]) << 16;
    if (B == 5) {
      raw.words.x |= uint(p[3]) << 24;
      raw.words.y = uint(p[4]);
    }
  }
  raw.scale = matrix_companion(from.scales, ahead >> MATRIX_GROUP, SCALES_SHIFT);
  raw.bias = matrix_companion(from.biases, ahead >> MATRIX_GROUP, BIASES_SHIFT);
}

template <uint B> METAL_FUNC void matrix_ready(thread Raw<Affine<B>>& raw) {
  raw.scale = matrix_companion_wide(raw.scale);
  raw.bias = matrix_companion_wide(raw.bias);
}

// The number at a bit position of a word, which may end in the next word; callers pass a constant position.
// Bits below position 23 become the mantissa of a float whose unit is their lowest position: an AND-OR and an exact
// subtraction, not a shift and a conversion. Bits that end above it are moved down by 16 first. `unit` is
// GDM_PROJECT_UNIT: as an argument of the dispatch it stays in a register, and AND and OR are one operation.
template <uint B> METAL_FUNC float packed_number(uint word, uint next, uint position, uint unit) {
  uint mask = (1u << B) - 1;
  if (position + B > 32) {
    word = word >> position | next << (32 - position);
    position = 0;
  } else if (position + B > 23) {
    word >>= 16;
    position -= 16;
  }
  uint own = unit - (position << 23);
  return as_type<float>((word & (mask << position)) | own) - as_type<float>(own);
}

template <uint B> METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<Affine<B>>& raw, uint unit) {
  float4 q[2];
  GDM_UNROLL for (uint j = 0; j < 8; ++j) {
    uint bit = B * j;
    q[j / 4][j % 4] = packed_number<B>(bit < 32 ? raw.words.x : raw.words.y, raw.words.y, bit % 32, unit);
  }
  float4 scale = float4(as_type<float>(raw.scale));
  float4 bias = float4(as_type<float>(raw.bias));
  v.lower = fma(q[0], scale, bias);
  v.upper = fma(q[1], scale, bias);
}

template <uint B> struct Words<Affine<B>> {
  uint word[B];
  uint scale;  // as stored; from words_ready on in float32
  uint bias;
};

template <uint B>
METAL_FUNC void words_fetch(thread Words<Affine<B>>& words, thread const MatrixRow<Affine<B>>& from, uint ahead) {
  device const uint* p = (device const uint*)(from.row + ahead / 8 * B);
  if (MATRIX_SHIFT != 0) {
    uint word = p[0];
    GDM_UNROLL for (uint i = 0; i < B; ++i) {
      uint next = p[i + 1];
      words.word[i] = word >> (8 * MATRIX_SHIFT) | next << (32 - 8 * MATRIX_SHIFT);
      word = next;
    }
  } else if (MATRIX_ALIGNMENT >= 4 && B % 4 == 0) {
    GDM_UNROLL for (uint i = 0; i < B / 4; ++i) {
      uint4 v = ((device const uint4*)p)[i];
      GDM_UNROLL for (uint j = 0; j < 4; ++j) words.word[4 * i + j] = v[j];
    }
  } else if (MATRIX_ALIGNMENT >= 3 && B % 2 == 0) {
    GDM_UNROLL for (uint i = 0; i < B / 2; ++i) {
      uint2 v = ((device const uint2*)p)[i];
      words.word[2 * i] = v.x;
      words.word[2 * i + 1] = v.y;
    }
  } else {
    GDM_UNROLL for (uint i = 0; i < B; ++i) words.word[i] = p[i];
  }
  words.scale = matrix_companion(from.scales, ahead >> MATRIX_GROUP, SCALES_SHIFT);
  words.bias = matrix_companion(from.biases, ahead >> MATRIX_GROUP, BIASES_SHIFT);
}

template <uint B> METAL_FUNC void words_ready(thread Words<Affine<B>>& words, thread const MatrixRow<Affine<B>>&, uint unit) {
  words.scale = matrix_companion_wide(words.scale);
  words.bias = matrix_companion_wide(words.bias);
}

// Elements first .. first + 7 of the 32.
template <uint B>
METAL_FUNC void words_widen(thread Eight& v, thread const Words<Affine<B>>& words, thread const MatrixRow<Affine<B>>&, uint first,
                            uint unit) {
  float4 q[2];
  GDM_UNROLL for (uint j = 0; j < 8; ++j) {
    uint bit = B * (first + j);
    uint at = bit / 32;
    q[j / 4][j % 4] = packed_number<B>(words.word[at], words.word[at < B - 1 ? at + 1 : at], bit % 32, unit);
  }
  float4 scale = float4(as_type<float>(words.scale));
  float4 bias = float4(as_type<float>(words.bias));
  v.lower = fma(q[0], scale, bias);
  v.upper = fma(q[1], scale, bias);
}

#endif
