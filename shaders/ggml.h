// ggml's block types: a row is blocks of 32 or 256 elements that hold all of their factors; MATRIX_VARIANT says which type.
// Layouts: ggml-common.h. Elements are those of dequantize_row_* in ggml-quants.c, each product and difference rounded
// separately: scale q, scale q + offset, or scale q - minimum. Where something is added, the product is exact (q has at most
// 5 bits, the scale 17), so one fma does both.
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

// The alignment, in bytes, of a row's blocks and their fields.
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

// The bits of a 16-bit number.
METAL_FUNC uint ggml_two(device const uchar* p) {
  if (ggml_alignment() == 1) return uint(p[0]) | uint(p[1]) << 8;
  return uint(*(device const ushort*)p);
}

// Types with runs of 32 bytes whose elements are neighbours.
METAL_FUNC bool ggml_has_runs() {
  return ggml_is(GDM_UNPACK_Q8_0) || ggml_is(GDM_UNPACK_Q2_K, GDM_UNPACK_Q3_K) || ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K) ||
         ggml_is(GDM_UNPACK_Q6_K);
}

// Whether rows begin at multiples of 8 bytes but fields do not: the whole vectors around a field are then in its row.
METAL_FUNC bool ggml_has_windows() { return ggml_alignment() == 2 && MATRIX_ALIGNMENT >= 3; }

// 32 bytes of a field that begins `place` bytes, an even number, after a multiple of 8: as vectors if it is aligned; the 40 bytes
// around it; or words from a multiple of four on, then the last two bytes. Here and below, branches choose values, not places: an
// array whose element a function constant chooses would be kept in memory.
METAL_FUNC void ggml_run(thread uint* words, device const uchar* p, uint place) {
  bool vectors = ggml_alignment() == 4 && ggml_bytes() % 16 == 0 && MATRIX_ALIGNMENT >= 4;
  bool odd = ggml_alignment() != 4 && place % 4 != 0;
  device const uchar* from = p - (ggml_has_windows() ? place % 8 : odd ? 2 : 0);
  GDM_UNROLL for (uint k = 0; k < 5; ++k) {
    uint2 two = uint2(0u);
    if (vectors) {
      uint4 four = ((device const uint4*)p)[min(k / 2, 1u)];
      two = k % 2 == 0 ? four.xy : four.zw;
    } else if (ggml_has_windows()) {
      if (k < 4 || place % 8 > 0) two = ((device const uint2*)from)[k];
    } else if (k < 4) {
      two = uint2(((device const uint*)from)[2 * k], ((device const uint*)from)[2 * k + 1]);
    } else if (ggml_alignment() != 4) {
      two.x = uint(((device const ushort*)p)[15]);
    }
    words[2 * k] = two.x;
    words[2 * k + 1] = two.y;
  }
}

// The eight words of such a run, in place of what was read.
METAL_FUNC void ggml_run_ready(thread uint* words, uint place) {
  bool later = ggml_has_windows() && (place & 4) != 0;
  bool between = ggml_alignment() != 4 && (place & 2) != 0;
  uint word = words[0];
  uint next = words[1];
  GDM_UNROLL for (uint k = 0; k < 8; ++k) {
    uint after = words[k + 2];
    uint here = later ? next : word;
    uint there = later ? after : next;
    words[k] = between ? here >> 16 | there << 16 : here;
    word = next;
    next = after;
  }
}

template <> struct MatrixRow<Ggml> {
  device const uchar* block;  // that the place is in
  uint within;                // the place in it
  uint bytes;                 // of the block after a multiple of 8; only the lowest three bits are valid
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
  ulong offset = (ulong(row) * (columns >> MATRIX_GROUP) + (at >> MATRIX_GROUP)) * ggml_bytes() + MATRIX_SHIFT;
  place.block = (device const uchar*)weight + offset;
  place.within = at & ((1u << MATRIX_GROUP) - 1);
  place.bytes = uint(offset);
}

// 256 elements are one block, or eight, whose bytes are a multiple of 8.
METAL_FUNC void matrix_move(thread MatrixRow<Ggml>& place, uint by) {
  uint bytes = (by >> MATRIX_GROUP) * ggml_bytes();
  place.block += bytes;
  if (MATRIX_GROUP != 5) place.bytes += bytes;
}

// The first 16 bytes of a block of 16 or more, of a type whose blocks begin at multiples of four.
METAL_FUNC uint4 ggml_head(device const uchar* block) {
  if (ggml_bytes() % 16 == 0 && MATRIX_ALIGNMENT >= 4) return *(device const uint4*)block;
  device const uint* words = (device const uint*)block;
  return uint4(words[0], words[1], words[2], words[3]);
}

// The two 16-bit numbers.
METAL_FUNC uint ggml_factors(device const uchar* block) {
  if (ggml_is(GDM_UNPACK_GGUF_MXFP4)) return uint(block[0]);
  if (ggml_is(GDM_UNPACK_Q2_K)) return ggml_two(block + 80) | ggml_two(block + 82) << 16;
  if (ggml_is(GDM_UNPACK_Q3_K)) return ggml_two(block + 108);
  if (ggml_is(GDM_UNPACK_Q6_K)) return ggml_two(block + 208);
  if (ggml_is(GDM_UNPACK_Q8_0) || ggml_is(GDM_UNPACK_Q4_0, GDM_UNPACK_IQ4_NL) || ggml_is(GDM_UNPACK_Q5_0)) return ggml_two(block);
  if (ggml_alignment() == 4) return *(device const uint*)block;
  return ggml_two(block) | ggml_two(block + 2) << 16;
}

// Scale and minimum of group j of eight, six bits each, eight apart; from the block's first 16 bytes.
METAL_FUNC uint2 ggml_head_scale(uint4 head, uint j) {
  // The last four groups have their low bits in the third word, and their high bits above those of the first four. Shifts and
  // masks, which do not change from block to block, replace a branch.
  uint own = j < 4 ? 63u : 48u;
  uint at = 8 * (j % 4) + (j < 4 ? 0 : 2);
  uint low = j < 4 ? 0u : 15u;
  uint both = head[3] >> (8 * (j % 4));
  return uint2((head[1] >> at & own) | (both & low), (head[2] >> at & own) | (both >> 4 & low));
}

// The bytes with the scale of element i's group, lowest first; for Q4_K and Q5_K, scale and minimum.
METAL_FUNC uint ggml_scale(device const uchar* block, uint i) {
  uint j = i / 16;
  if (ggml_is(GDM_UNPACK_Q2_K)) return uint(block[j]);
  if (ggml_is(GDM_UNPACK_Q3_K)) return uint(block[96 + j % 8]) | uint(block[104 + j % 4]) << 8;
  if (ggml_is(GDM_UNPACK_Q6_K)) return uint(block[192 + j]);
  j = i / 32;
  if (ggml_is(GDM_UNPACK_IQ4_XS)) return uint(block[4 + j / 2]);
  if (!ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K)) return 0;
  if (ggml_alignment() == 4) {
    uint2 both = ggml_head_scale(ggml_head(block), j);
    return both.x | both.y << 8;
  }
  if (j < 4) return (uint(block[4 + j]) & 63u) | (uint(block[8 + j]) & 63u) << 8;
  uint both = uint(block[8 + j]);
  return (both & 15u) | (uint(block[j]) & 192u) >> 2 | (both >> 4) << 8 | (uint(block[4 + j]) & 192u) << 6;
}

// Where the bytes of element i's run of 32 are, and the bytes with more of its bits.
METAL_FUNC uint ggml_low_run(uint i) {
  if (ggml_is(GDM_UNPACK_Q8_0)) return 2;
  if (ggml_is(GDM_UNPACK_Q2_K)) return 16 + i / 128 * 32;
  if (ggml_is(GDM_UNPACK_Q3_K)) return 32 + i / 128 * 32;
  if (ggml_is(GDM_UNPACK_Q4_K)) return 16 + i / 64 * 32;
  if (ggml_is(GDM_UNPACK_Q5_K)) return 48 + i / 64 * 32;
  return i / 128 * 64 + i / 32 % 2 * 32;
}
METAL_FUNC uint ggml_high_run(uint i) {
  return ggml_is(GDM_UNPACK_Q5_K) ? 16 : ggml_is(GDM_UNPACK_Q6_K) ? 128 + i / 128 * 32 : 0;
}
METAL_FUNC bool ggml_has_high_run() {
  return ggml_is(GDM_UNPACK_Q3_K, GDM_UNPACK_Q5_K) || ggml_is(GDM_UNPACK_Q6_K);
}

// Where the bytes of elements i .. i + 7 are.
METAL_FUNC uint ggml_low(uint i) {
  if (ggml_has_runs()) return ggml_low_run(i) + i % 32;
  if (ggml_is(GDM_UNPACK_IQ4_XS)) return 8 + i / 32 * 16 + i % 16;
  uint head = ggml_is(GDM_UNPACK_Q4_1) ? 4 : ggml_is(GDM_UNPACK_Q5_0) ? 6 : ggml_is(GDM_UNPACK_Q5_1) ? 8 : 2;
  return (ggml_is(GDM_UNPACK_GGUF_MXFP4) ? 1 : head) + i % 16;
}

METAL_FUNC void matrix_fetch(thread Raw<Ggml>& raw, thread const MatrixRow<Ggml>& from, uint ahead, uint at, uint columns) {
  uint column = from.within + ahead;
  uint i = column & ((1u << MATRIX_GROUP) - 1);
  device const uchar* block = from.block + ulong(column >> MATRIX_GROUP) * ggml_bytes();
  uint2 high = uint2(0u);
  if (ggml_has_high_run()) high = ggml_eight(block + ggml_high_run(i) + i % 32);
  if (ggml_is(GDM_UNPACK_Q5_0, GDM_UNPACK_Q5_1)) high.x = uint(block[(ggml_is(GDM_UNPACK_Q5_0) ? 2 : 4) + i / 8]);
  raw.at = i;
  raw.low = ggml_eight(block + ggml_low(i));
  raw.high = high;
  raw.scale = ggml_scale(block, i);
  raw.factors = ggml_factors(block);
}

METAL_FUNC float ggml_half(uint bits) { return float(as_type<half>(ushort(bits & 0xffffu))); }

// A number below 2^23: see packed_number in affine.h.
METAL_FUNC float ggml_small(uint number, uint unit) { return as_type<float>(number | unit) - as_type<float>(unit); }

// Scale of eight elements, and what is added to each: an offset, or a minimum with the other sign.
METAL_FUNC float2 ggml_group(thread const Raw<Ggml>& raw, uint unit) {
  float first = ggml_half(raw.factors);
  float second = ggml_half(raw.factors >> 16);
  uint bytes = raw.scale;
  if (ggml_is(GDM_UNPACK_GGUF_MXFP4)) {
    uint exponent = raw.factors;
    return float2(as_type<float>(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23), 0.0f);
  }
  if (ggml_is(GDM_UNPACK_Q2_K)) return float2(first * float(bytes & 15u), -(second * float(bytes >> 4)));
  if (ggml_is(GDM_UNPACK_Q3_K)) {
    uint j = raw.at / 16;
    uint low = bytes >> (j / 8 * 4) & 15u;
    return float2(first * float(int(low | (bytes >> (8 + j / 4 * 2) & 3u) << 4) - 32), 0.0f);
  }
  if (ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K)) {
    return float2(first * ggml_small(bytes & 255u, unit), -(second * ggml_small(bytes >> 8, unit)));
  }
  if (ggml_is(GDM_UNPACK_Q6_K)) return float2(first * float(int(bytes << 24) >> 24), 0.0f);
  if (ggml_is(GDM_UNPACK_IQ4_XS)) {
    uint j = raw.at / 32;
    uint six = (bytes >> (j % 2 * 4) & 15u) | (raw.factors >> (16 + 2 * j) & 3u) << 4;
    return float2(first * float(int(six) - 32), 0.0f);
  }
  return float2(first, second);
}

// The bits of a byte that belong to a number after ggml_numbers: the other bits may be anything.
METAL_FUNC uint ggml_own() {
  return ggml_is(GDM_UNPACK_Q4_0, GDM_UNPACK_Q4_1) || ggml_is(GDM_UNPACK_Q4_K) ? 15u : 255u;
}

// The position of a number's lowest bit in its byte: with the zeros of Q4_K, any position is exact.
METAL_FUNC uint ggml_up(uint i) { return ggml_is(GDM_UNPACK_Q4_K) ? i / 32 % 2 * 4 : 0; }

// Four elements' numbers, one per byte, signed or not.
METAL_FUNC uint ggml_numbers(uint low, uint high, uint i) {
  if (ggml_is(GDM_UNPACK_Q8_0)) return low ^ 0x80808080u;
  if (ggml_is(GDM_UNPACK_Q4_K)) return low;
  if (ggml_is(GDM_UNPACK_Q2_K, GDM_UNPACK_Q3_K)) {
    uint numbers = low >> (i / 32 % 4 * 2) & 0x03030303u;
    return ggml_is(GDM_UNPACK_Q2_K) ? numbers : numbers | (high >> (i / 32) & 0x01010101u) << 2;
  }
  uint turn = ggml_is(GDM_UNPACK_Q5_K) ? i / 32 : ggml_is(GDM_UNPACK_Q6_K) ? i / 64 : i / 16;
  uint numbers = low >> (turn % 2 * 4);
  if (ggml_own() == 15) return numbers;
  numbers &= 0x0f0f0f0fu;
  if (ggml_is(GDM_UNPACK_Q5_K)) return numbers | (high >> (i / 32) & 0x01010101u) << 4;
  if (ggml_is(GDM_UNPACK_Q6_K)) return numbers | (high >> (i / 32 % 4 * 2) & 0x03030303u) << 4;
  // Four bits, one per byte.
  if (ggml_is(GDM_UNPACK_Q5_0, GDM_UNPACK_Q5_1)) {
    return numbers | ((high & 1u) | (high & 2u) << 7 | (high & 4u) << 14 | (high & 8u) << 21) << 4;
  }
  return numbers;
}

// Number n of the table of IQ4_NL and IQ4_XS, or of e2m1 doubled, whose scale is halved: signed bytes.
METAL_FUNC float ggml_table(uint n) {
  bool e2m1 = ggml_is(GDM_UNPACK_GGUF_MXFP4);
  uint lower = n < 4 ? (e2m1 ? 0x03020100u : 0xbfad9881u) : (e2m1 ? 0x0c080604u : 0xf6eaddcfu);
  uint upper = n < 12 ? (e2m1 ? 0xfdfeff00u : 0x26190d01u) : (e2m1 ? 0xf4f8fafcu : 0x71594535u);
  return float(int((n < 8 ? lower : upper) << (24 - 8 * (n % 4))) >> 24);
}

// The number that stands for zero.
METAL_FUNC float ggml_middle() {
  if (ggml_is(GDM_UNPACK_Q8_0)) return 128.0f;
  if (ggml_is(GDM_UNPACK_Q6_K)) return 32.0f;
  if (ggml_is(GDM_UNPACK_Q5_0)) return 16.0f;
  if (ggml_is(GDM_UNPACK_Q4_0)) return 8.0f;
  return ggml_is(GDM_UNPACK_Q3_K) ? 4.0f : 0.0f;
}

// Number j of four, one per byte, `up` bits above the byte's lowest, in the bits of ggml_own that ggml_numbers leaves. No
// conversion: see packed_number in affine.h.
METAL_FUNC float ggml_number(uint numbers, uint j, uint up, uint unit) {
  uint position = 8 * (j % 2) + up;
  uint own = unit - (position << 23);
  uint word = j < 2 ? numbers : numbers >> 16;
  float zero = as_type<float>(own);
  if (ggml_middle() != 0.0f) zero += ggml_middle();
  return as_type<float>((word & (ggml_own() << position)) | own) - zero;
}

METAL_FUNC bool ggml_adds() {
  return ggml_is(GDM_UNPACK_Q4_1, GDM_UNPACK_Q5_1) || ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K) || ggml_is(GDM_UNPACK_Q2_K);
}
METAL_FUNC float ggml_element(float number, float2 group) {
  return ggml_adds() ? fma(number, group.x, group.y) : number * group.x;
}

METAL_FUNC void ggml_widen(thread Eight& v, thread const Raw<Ggml>& raw, float2 group, uint unit) {
  uint lower = ggml_numbers(raw.low.x, raw.high.x, raw.at);
  bool spread = ggml_is(GDM_UNPACK_Q5_0, GDM_UNPACK_Q5_1);
  bool table = ggml_is(GDM_UNPACK_IQ4_NL, GDM_UNPACK_IQ4_XS) || ggml_is(GDM_UNPACK_GGUF_MXFP4);
  uint upper = ggml_numbers(raw.low.y, spread ? raw.high.x >> 4 : raw.high.y, raw.at);
  uint up = ggml_up(raw.at);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    v.lower[j] = ggml_element(table ? ggml_table(lower >> (8 * j) & 255u) : ggml_number(lower, j, up, unit), group);
    v.upper[j] = ggml_element(table ? ggml_table(upper >> (8 * j) & 255u) : ggml_number(upper, j, up, unit), group);
  }
}

METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<Ggml>& raw, uint unit) {
  ggml_widen(v, raw, ggml_group(raw, unit), unit);
}

// For types with runs: until words_ready only what memory holds, since computing with it waits for the read.
template <> struct Words<Ggml> {
  Raw<Ggml> eight[4];  // for types without
  uint low[10];
  uint high[10];
  uint4 head;      // the block's first bytes, as ggml_head reads them, or its factors
  uint scales[2];  // of both groups
  uint place;    // of the block; only the lowest bits are valid
  float2 group[2];  // from words_ready on
};

METAL_FUNC bool ggml_reads_runs() { return ggml_has_runs() && ggml_alignment() != 1; }
// Types whose factors, scales and minima are in the first 16 bytes, and read as words.
METAL_FUNC bool ggml_has_head() { return ggml_is(GDM_UNPACK_Q4_K, GDM_UNPACK_Q5_K) && ggml_alignment() == 4; }

// Scale and minimum are the same for all 32, or for each half of them.
METAL_FUNC uint ggml_group_of(uint c) {
  return ggml_is(GDM_UNPACK_Q2_K, GDM_UNPACK_Q3_K) || ggml_is(GDM_UNPACK_Q6_K) ? c / 2 * 2 : 0;
}

METAL_FUNC void words_fetch(thread Words<Ggml>& words, thread const MatrixRow<Ggml>& from, uint ahead) {
  if (!ggml_reads_runs()) {
    GDM_UNROLL for (uint c = 0; c < 4; ++c) matrix_fetch(words.eight[c], from, ahead + 8 * c, 0, 0);
    return;
  }
  uint i = from.within;
  uint before = (ahead >> MATRIX_GROUP) * ggml_bytes();
  device const uchar* block = from.block + before;
  words.place = MATRIX_GROUP == 5 ? from.bytes : from.bytes + before;
  ggml_run(words.low, block + ggml_low_run(i), words.place + ggml_low_run(i));
  if (ggml_has_high_run()) ggml_run(words.high, block + ggml_high_run(i), words.place + ggml_high_run(i));
  if (ggml_has_head()) {
    words.head = ggml_head(block);
  } else {
    words.head.x = ggml_factors(block);
    words.scales[0] = ggml_scale(block, i);
    if (ggml_group_of(2) == 2) words.scales[1] = ggml_scale(block, i + 16);
  }
}

// The scale and the minimum of group j of a block with a head.
METAL_FUNC float2 ggml_head_group(uint4 head, uint j, uint unit) {
  uint2 both = ggml_head_scale(head, j);
  return float2(ggml_half(head.x) * ggml_small(both.x, unit), -(ggml_half(head.x >> 16) * ggml_small(both.y, unit)));
}

METAL_FUNC void words_ready(thread Words<Ggml>& words, thread const MatrixRow<Ggml>& from, uint unit) {
  if (!ggml_reads_runs()) return;
  ggml_run_ready(words.low, words.place + ggml_low_run(from.within));
  if (ggml_has_high_run()) ggml_run_ready(words.high, words.place + ggml_high_run(from.within));
  Raw<Ggml> raw;
  raw.factors = words.head.x;
  GDM_UNROLL for (uint k = 0; k < 2; ++k) {
    if (k == 1 && ggml_group_of(2) == 0) return;
    raw.at = MATRIX_GROUP == 5 ? 0 : from.within + 16 * k;
    raw.scale = words.scales[k];
    words.group[k] = ggml_has_head() ? ggml_head_group(words.head, from.within / 32, unit) : ggml_group(raw, unit);
  }
}

// `first` is known where this is called, so that what a group's elements share is computed once.
METAL_FUNC void words_widen(thread Eight& v, thread const Words<Ggml>& words, thread const MatrixRow<Ggml>& from, uint first,
                            uint unit) {
  if (!ggml_reads_runs()) {
    Raw<Ggml> raw = words.eight[first / 8];
    // The two halves of 32 have their numbers in different bits.
    uint same = ggml_is(GDM_UNPACK_IQ4_XS) ? first / 16 * 2 : ggml_group_of(first / 8);
    raw.at = MATRIX_GROUP == 5 ? first : from.within + 8 * same;
    raw.scale = first < 16 || ggml_group_of(2) == 0 ? words.eight[0].scale : words.eight[2].scale;
    raw.factors = words.eight[0].factors;
    matrix_widen(v, raw, unit);
    return;
  }
  uint c = first / 8;
  Raw<Ggml> raw;
  raw.low = uint2(words.low[2 * c], words.low[2 * c + 1]);
  raw.high = ggml_has_high_run() ? uint2(words.high[2 * c], words.high[2 * c + 1]) : uint2(0u);
  raw.at = MATRIX_GROUP == 5 ? first : from.within + 8 * ggml_group_of(c);
  // No index that a function constant decides: the array would stay in memory until the constant is known.
  ggml_widen(v, raw, c < 2 || ggml_group_of(2) == 0 ? words.group[0] : words.group[1], unit);
}

#endif
