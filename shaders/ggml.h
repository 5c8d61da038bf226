// ggml's types of blocks: a row is blocks of 32 or 256 elements that hold all of their factors; MATRIX_VARIANT says which type.
// Layouts: ggml-common.h. Elements are those of dequantize_row_* in ggml-quants.c, their products and differences rounded one
// by one: scale q, scale q + offset, or scale q - minimum.
#ifndef GATED_DELTA_SHADERS_GGML_H
#define GATED_DELTA_SHADERS_GGML_H

// Included by matrix.h, which has the primary templates.
struct Ggml {};

METAL_FUNC bool ggml_is(uint variant) { return MATRIX_VARIANT == variant; }
METAL_FUNC bool ggml_is(uint one, uint other) { return ggml_is(one) || ggml_is(other); }

// Bytes of a block.
METAL_FUNC uint ggml_bytes() {
  if (ggml_is(GDM_UNPACK_Q4_0, GDM_UNPACK_IQ4_NL)) return 18;
  if (ggml_is(GDM_UNPACK_Q4_1)) return 20;
  if (ggml_is(GDM_UNPACK_Q5_0)) return 22;
  if (ggml_is(GDM_UNPACK_Q5_1)) return 24;
  if (ggml_is(GDM_UNPACK_Q8_0)) return 34;
  if (ggml_is(GDM_UNPACK_Q2_K)) return 84;
  if (ggml_is(GDM_UNPACK_Q3_K)) return 110;
  if (ggml_is(GDM_UNPACK_Q4_K)) return 144;
  if (ggml_is(GDM_UNPACK_Q5_K)) return 176;
  if (ggml_is(GDM_UNPACK_Q6_K)) return 210;
  if (ggml_is(GDM_UNPACK_IQ4_XS)) return 136;
  return 17;
}

// Bytes at whose multiples a row's blocks and their fields begin.
METAL_FUNC uint ggml_alignment() {
  if (ggml_is(GDM_UNPACK_GGUF_MXFP4) || MATRIX_SHIFT % 2 != 0) return 1;
  return ggml_bytes() % 4 == 0 && MATRIX_SHIFT == 0 ? 4 : 2;
}

// Eight bytes of a field.
METAL_FUNC uint2 ggml_eight(device const uchar* p) {
  uint2 words = uint2(0u);
  if (ggml_alignment() == 4) {
    words.x = ((device const uint*)p)[0];
    words.y = ((device const uint*)p)[1];
  } else if (ggml_alignment() == 2) {
    device const ushort* h = (device const ushort*)p;
    words.x = uint(h[0]) | uint(h[1]) << 16;
    words.y = uint(h[2]) | uint(h[3]) << 16;
  } else {
    GDM_UNROLL for (uint j = 0; j < 8; ++j) words[j / 4] |= uint(p[j]) << (8 * (j % 4));
  }
  return words;
}

// The bits of a number of 16 bits.
METAL_FUNC uint ggml_two(device const uchar* p) {
  if (ggml_alignment() == 1) return uint(p[0]) | uint(p[1]) << 8;
  return uint(*(device const ushort*)p);
}

template <> struct MatrixRow<Ggml> {
  device const uchar* row;
  uint at;
};
template <> struct Raw<Ggml> {
  uint2 low;     // the bytes of eight elements
  uint2 high;    // those of more of their bits
  uint factors;  // two numbers of 16 bits: mostly a scale, and a minimum or an offset
  uint scale;    // the bytes with the scale and the minimum of a group
  uint at;       // the first element's number in its block
};

METAL_FUNC void matrix_place(thread MatrixRow<Ggml>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const uchar*)weight + (ulong(row) * (columns >> MATRIX_GROUP) * ggml_bytes() + MATRIX_SHIFT);
  place.at = at;
}

METAL_FUNC void matrix_move(thread MatrixRow<Ggml>& place, uint by) { place.at += by; }

// The two numbers of 16 bits.
METAL_FUNC uint ggml_factors(device const uchar* block) {
  if (ggml_is(GDM_UNPACK_GGUF_MXFP4)) return uint(block[0]);
  if (ggml_is(GDM_UNPACK_Q2_K)) return ggml_two(block + 80) | ggml_two(block + 82) << 16;
  if (ggml_is(GDM_UNPACK_Q3_K)) return ggml_two(block + 108);
  if (ggml_is(GDM_UNPACK_Q6_K)) return ggml_two(block + 208);
  return ggml_two(block) | ggml_two(block + 2) << 16;
}

// The bytes with the scale of the group that element i is in, lowest first.
METAL_FUNC uint ggml_scale(device const uchar* block, uint i) {
  uint j = i / 16;
  if (ggml_is(GDM_UNPACK_Q2_K)) return uint(block[j]);
  if (ggml_is(GDM_UNPACK_Q3_K)) return uint(block[96 + j % 8]) | uint(block[104 + j % 4]) << 8;
  if (ggml_is(GDM_UNPACK_Q6_K)) return uint(block[192 + j]);
  j = i / 32;
  if (ggml_is(GDM_UNPACK_IQ4_XS)) return uint(block[4 + j / 2]);
  if (!ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K)) return 0;
  if (j < 4) return uint(block[4 + j]) | uint(block[8 + j]) << 8;
  return uint(block[8 + j]) | uint(block[4 + j]) << 8 | uint(block[j]) << 16;
}

METAL_FUNC void matrix_fetch(thread Raw<Ggml>& raw, thread const MatrixRow<Ggml>& from, uint ahead, uint at, uint columns) {
  uint column = from.at + ahead;
  uint i = column & ((1u << MATRIX_GROUP) - 1);
  device const uchar* block = from.row + ulong(column >> MATRIX_GROUP) * ggml_bytes();
  raw.at = i;
  raw.high = uint2(0u);
  raw.scale = ggml_scale(block, i);
  raw.factors = ggml_factors(block);
  if (ggml_is(GDM_UNPACK_Q2_K)) {
    raw.low = ggml_eight(block + 16 + i / 128 * 32 + i % 32);
  } else if (ggml_is(GDM_UNPACK_Q3_K)) {
    raw.low = ggml_eight(block + 32 + i / 128 * 32 + i % 32);
    raw.high = ggml_eight(block + i % 32);
  } else if (ggml_is(GDM_UNPACK_Q4_K)) {
    raw.low = ggml_eight(block + 16 + i / 64 * 32 + i % 32);
  } else if (ggml_is(GDM_UNPACK_Q5_K)) {
    raw.low = ggml_eight(block + 48 + i / 64 * 32 + i % 32);
    raw.high = ggml_eight(block + 16 + i % 32);
  } else if (ggml_is(GDM_UNPACK_Q6_K)) {
    raw.low = ggml_eight(block + i / 128 * 64 + i % 64);
    raw.high = ggml_eight(block + 128 + i / 128 * 32 + i % 32);
  } else if (ggml_is(GDM_UNPACK_IQ4_XS)) {
    raw.low = ggml_eight(block + 8 + i / 32 * 16 + i % 16);
  } else if (ggml_is(GDM_UNPACK_Q8_0)) {
    raw.low = ggml_eight(block + 2 + i);
  } else if (ggml_is(GDM_UNPACK_Q4_1)) {
    raw.low = ggml_eight(block + 4 + i % 16);
  } else if (ggml_is(GDM_UNPACK_Q5_0)) {
    raw.low = ggml_eight(block + 6 + i % 16);
    raw.high.x = uint(block[2 + i / 8]);
  } else if (ggml_is(GDM_UNPACK_Q5_1)) {
    raw.low = ggml_eight(block + 8 + i % 16);
    raw.high.x = uint(block[4 + i / 8]);
  } else {
    raw.low = ggml_eight(block + (ggml_is(GDM_UNPACK_GGUF_MXFP4) ? 1 : 2) + i % 16);
  }
}

METAL_FUNC float ggml_half(uint bits) { return float(as_type<half>(ushort(bits & 0xffffu))); }

// Scale and minimum, or offset, of eight elements.
METAL_FUNC float2 ggml_group(thread const Raw<Ggml>& raw) {
  float first = ggml_half(raw.factors);
  float second = ggml_half(raw.factors >> 16);
  uint bytes = raw.scale;
  if (ggml_is(GDM_UNPACK_GGUF_MXFP4)) {
    uint exponent = raw.factors;
    return float2(as_type<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23), 0.0f);
  }
  if (ggml_is(GDM_UNPACK_Q2_K)) return float2(first * float(bytes & 15u), second * float(bytes >> 4));
  if (ggml_is(GDM_UNPACK_Q3_K)) {
    uint j = raw.at / 16;
    uint low = bytes >> (j / 8 * 4) & 15u;
    return float2(first * float(int(low | (bytes >> (8 + j / 4 * 2) & 3u) << 4) - 32), 0.0f);
  }
  if (ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K)) {
    uint scale = bytes & 63u;
    uint minimum = bytes >> 8 & 63u;
    if (raw.at >= 128) {
      scale = (bytes & 15u) | (bytes >> 22 & 3u) << 4;
      minimum = (bytes >> 4 & 15u) | (bytes >> 14 & 3u) << 4;
    }
    return float2(first * float(scale), second * float(minimum));
  }
  if (ggml_is(GDM_UNPACK_Q6_K)) return float2(first * float(int(bytes << 24) >> 24), 0.0f);
  if (ggml_is(GDM_UNPACK_IQ4_XS)) {
    uint j = raw.at / 32;
    uint six = (bytes >> (j % 2 * 4) & 15u) | (raw.factors >> (16 + 2 * j) & 3u) << 4;
    return float2(first * float(int(six) - 32), 0.0f);
  }
  return float2(first, second);
}

// Four elements' numbers, one a byte, with a sign or not.
METAL_FUNC uint ggml_numbers(uint low, uint high, uint i) {
  if (ggml_is(GDM_UNPACK_Q8_0)) return low;
  if (ggml_is(GDM_UNPACK_Q2_K, GDM_UNPACK_Q3_K)) {
    uint numbers = low >> (i / 32 % 4 * 2) & 0x03030303u;
    return ggml_is(GDM_UNPACK_Q2_K) ? numbers : numbers | (high >> (i / 32) & 0x01010101u) << 2;
  }
  uint turn = ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K) ? i / 32 : ggml_is(GDM_UNPACK_Q6_K) ? i / 64 : i / 16;
  uint numbers = low >> (turn % 2 * 4) & 0x0f0f0f0fu;
  if (ggml_is(GDM_UNPACK_Q5_K)) return numbers | (high >> (i / 32) & 0x01010101u) << 4;
  if (ggml_is(GDM_UNPACK_Q6_K)) return numbers | (high >> (i / 32 % 4 * 2) & 0x03030303u) << 4;
  // Four bits, one a byte.
  if (ggml_is(GDM_UNPACK_Q5_0, GDM_UNPACK_Q5_1)) {
    return numbers | ((high & 1u) | (high & 2u) << 7 | (high & 4u) << 14 | (high & 8u) << 21) << 4;
  }
  return numbers;
}

// Number n of the table of IQ4_NL and IQ4_XS, or of e2m1 doubled, whose scale is halved: bytes with a sign.
METAL_FUNC float ggml_table(uint n) {
  bool e2m1 = ggml_is(GDM_UNPACK_GGUF_MXFP4);
  uint lower = n < 4 ? (e2m1 ? 0x03020100u : 0xbfad9881u) : (e2m1 ? 0x0c080604u : 0xf6eaddcfu);
  uint upper = n < 12 ? (e2m1 ? 0xfdfeff00u : 0x26190d01u) : (e2m1 ? 0xf4f8fafcu : 0x71594535u);
  return float(int((n < 8 ? lower : upper) << (24 - 8 * (n % 4))) >> 24);
}

METAL_FUNC float ggml_element(uint number, float2 group) {
  if (ggml_is(GDM_UNPACK_Q8_0)) return float(int(number << 24) >> 24) * group.x;
  if (ggml_is(GDM_UNPACK_IQ4_NL, GDM_UNPACK_IQ4_XS) || ggml_is(GDM_UNPACK_GGUF_MXFP4)) return ggml_table(number) * group.x;
  if (ggml_is(GDM_UNPACK_Q4_1, GDM_UNPACK_Q5_1)) return float(number) * group.x + group.y;
  if (ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K) || ggml_is(GDM_UNPACK_Q2_K)) return float(number) * group.x - group.y;
  int middle = ggml_is(GDM_UNPACK_Q4_0) ? 8 : ggml_is(GDM_UNPACK_Q5_0) ? 16 : ggml_is(GDM_UNPACK_Q3_K) ? 4 : 32;
  return float(int(number) - middle) * group.x;
}

METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<Ggml>& raw, uint unit) {
  float2 group = ggml_group(raw);
  uint lower = ggml_numbers(raw.low.x, raw.high.x, raw.at);
  bool spread = ggml_is(GDM_UNPACK_Q5_0, GDM_UNPACK_Q5_1);
  uint upper = ggml_numbers(raw.low.y, spread ? raw.high.x >> 4 : raw.high.y, raw.at);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    v.lower[j] = ggml_element(lower >> (8 * j) & 255u, group);
    v.upper[j] = ggml_element(upper >> (8 * j) & 255u, group);
  }
}

template <> struct Words<Ggml> {
  Raw<Ggml> eight[4];
};

METAL_FUNC void words_fetch(thread Words<Ggml>& words, thread const MatrixRow<Ggml>& from, uint ahead) {
  GDM_UNROLL for (uint c = 0; c < 4; ++c) matrix_fetch(words.eight[c], from, ahead + 8 * c, 0, 0);
}

METAL_FUNC void words_widen(thread Eight& v, thread const Words<Ggml>& words, uint first, uint unit) {
  matrix_widen(v, words.eight[first / 8], unit);
}

#endif
