// A matrix [rows, columns] as projection and embedding read it: of floats, or in MLX's affine form.
//
// Of floats W: contiguous, rows of `columns` elements. Packed, B = MATRIX_BITS = 2, 3, 4, 5, 6 or 8: a row is
// columns B / 8 bytes, a little-endian stream of B-bit numbers q; scales and biases [rows, columns >> MATRIX_GROUP] of
// MATRIX_DTYPE; element = fma(q, scale, bias) in float32. Eight neighbouring elements are B bytes, and in one group.
//
// Reading is in two steps, so that many reads are asked for before the first is used: Raw is what memory holds.
// Function constants: ALIGNED_ROWS (of floats: columns are a multiple of 8 and rows begin at multiples of 16 bytes),
// MATRIX_BITS, MATRIX_GROUP, MATRIX_DTYPE (these three of packed ones only).
#ifndef GATED_DELTA_SHADERS_MATRIX_H
#define GATED_DELTA_SHADERS_MATRIX_H

#include "storage.h"

// For a template parameter W: not floats.
struct Packed {};

// Elements at .. at + 7; those from `columns` on are zeros.
struct Eight {
  float4 lower;
  float4 upper;
};

// Scale or bias `group` after one, in the 16-bit units of read_any.
METAL_FUNC device const ushort* matrix_scale(device const ushort* p, ulong group) {
  return p + group * (MATRIX_DTYPE == GDM_F32 ? 2 : 1);
}

// Of floats.
template <typename W> struct Raw {
  typename Vec4<W>::type lower;
  typename Vec4<W>::type upper;
};
template <> struct Raw<Packed> {
  uint2 words;
  float scale;
  float bias;
};

// A place in a row, a multiple of 8.
template <typename W> struct MatrixRow {
  device const W* row;
};
template <> struct MatrixRow<Packed> {
  device const uchar* row;
  device const ushort* scales;
  device const ushort* biases;
};

template <typename W>
METAL_FUNC void matrix_place(thread MatrixRow<W>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const W*)weight + (ulong(row) * columns + at);
}
METAL_FUNC void matrix_place(thread MatrixRow<Packed>& place, device const ushort* weight, device const ushort* scales,
                             device const ushort* biases, uint row, uint at, uint columns) {
  place.row = (device const uchar*)weight + (ulong(row) * (columns / 8) + at / 8) * MATRIX_BITS;
  ulong group = ulong(row) * (columns >> MATRIX_GROUP) + (at >> MATRIX_GROUP);
  place.scales = matrix_scale(scales, group);
  place.biases = matrix_scale(biases, group);
}

// On by a multiple of 256.
template <typename W> METAL_FUNC void matrix_move(thread MatrixRow<W>& place, uint by) { place.row += by; }
METAL_FUNC void matrix_move(thread MatrixRow<Packed>& place, uint by) {
  place.row += by / 8 * MATRIX_BITS;
  place.scales = matrix_scale(place.scales, by >> MATRIX_GROUP);
  place.biases = matrix_scale(place.biases, by >> MATRIX_GROUP);
}

// The eight elements `ahead` of a place, a multiple of 256; their column is `at`, below `columns`.
template <typename W>
METAL_FUNC void matrix_fetch(thread Raw<W>& raw, thread const MatrixRow<W>& from, uint ahead, uint at, uint columns) {
  typedef typename Vec4<W>::type W4;
  if (ALIGNED_ROWS) {
    raw.lower = *(device const W4*)(from.row + ahead);
    raw.upper = *(device const W4*)(from.row + ahead + 4);
    return;
  }
  raw.lower = W4(W(0.0f));
  raw.upper = W4(W(0.0f));
  GDM_UNROLL for (uint j = 0; j < 4; ++j) {
    if (at + j < columns) raw.lower[j] = from.row[ahead + j];
    if (at + 4 + j < columns) raw.upper[j] = from.row[ahead + 4 + j];
  }
}
METAL_FUNC void matrix_fetch(thread Raw<Packed>& raw, thread const MatrixRow<Packed>& from, uint ahead, uint at,
                             uint columns) {
  device const uchar* p = from.row + ahead / 8 * MATRIX_BITS;
  raw.words = uint2(0u);
  if (MATRIX_BITS == 4) {
    raw.words.x = *(device const uint*)p;
  } else if (MATRIX_BITS == 8) {
    raw.words.x = ((device const uint*)p)[0];
    raw.words.y = ((device const uint*)p)[1];
  } else if (MATRIX_BITS == 2) {
    raw.words.x = uint(*(device const ushort*)p);
  } else if (MATRIX_BITS == 6) {
    device const ushort* h = (device const ushort*)p;
    raw.words.x = uint(h[0]) | uint(h[1]) << 16;
    raw.words.y = uint(h[2]);
  } else {
    raw.words.x = uint(p[0]) | uint(p[1]) << 8 | uint(p[2]) << 16;
    if (MATRIX_BITS == 5) {
      raw.words.x |= uint(p[3]) << 24;
      raw.words.y = uint(p[4]);
    }
  }
  raw.scale = read_any(from.scales, ahead >> MATRIX_GROUP, MATRIX_DTYPE);
  raw.bias = read_any(from.biases, ahead >> MATRIX_GROUP, MATRIX_DTYPE);
}

// The number at a bit of a word and, where it ends in that, the next; the position is a constant where this is called.
// Bits that stand below position 23 become the mantissa of a float whose unit is their lowest position: an AND-OR and an
// exact subtraction, not a shift and a conversion. Those that end above it are moved down by 16 first. `unit` is
// GDM_PROJECT_UNIT: where it is an argument of the dispatch it stays in a register, and AND and OR are one operation.
METAL_FUNC float packed_number(uint word, uint next, uint position, uint unit) {
  uint mask = (1u << MATRIX_BITS) - 1;
  if (position + MATRIX_BITS > 32) {
    word = word >> position | next << (32 - position);
    position = 0;
  } else if (position + MATRIX_BITS > 23) {
    word >>= 16;
    position -= 16;
  }
  uint own = unit - (position << 23);
  return as_type<float>((word & (mask << position)) | own) - as_type<float>(own);
}

template <typename W> METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<W>& raw, uint unit) {
  v.lower = Vec4<W>::widen(raw.lower);
  v.upper = Vec4<W>::widen(raw.upper);
}
METAL_FUNC void matrix_widen(thread Eight& v, thread const Raw<Packed>& raw, uint unit) {
  float4 q[2];
  GDM_UNROLL for (uint j = 0; j < 8; ++j) {
    uint bit = MATRIX_BITS * j;
    q[j / 4][j % 4] = packed_number(bit < 32 ? raw.words.x : raw.words.y, raw.words.y, bit % 32, unit);
  }
  v.lower = fma(q[0], float4(raw.scale), float4(raw.bias));
  v.upper = fma(q[1], float4(raw.scale), float4(raw.bias));
}

METAL_FUNC float chain4(float sum, float4 a, float4 b) {
  sum = fma(a.x, b.x, sum);
  sum = fma(a.y, b.y, sum);
  sum = fma(a.z, b.z, sum);
  return fma(a.w, b.w, sum);
}

// Past the last column nothing is added: a product with padding would make NaN of an infinite neighbour.
METAL_FUNC float chain8(float sum, thread const Eight& a, thread const Eight& b, uint at, uint columns) {
  if (ALIGNED_ROWS || at + 8 <= columns) return chain4(chain4(sum, a.lower, b.lower), a.upper, b.upper);
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + j < columns ? fma(a.lower[j], b.lower[j], sum) : sum;
  GDM_UNROLL for (uint j = 0; j < 4; ++j) sum = at + 4 + j < columns ? fma(a.upper[j], b.upper[j], sum) : sum;
  return sum;
}

// One output with what is added to it in float32, rounded once. GDM_RESIDUAL_*; `residual` [rows, outputs] with a row
// stride, or out itself, which is not bound twice.
template <typename T>
METAL_FUNC void project_store(device T* out, device const T* residual, constant GDMProject& params, uint row,
                              uint output, float total) {
  ulong at = ulong(row) * params.outRowStride + output;
  if (params.residual == GDM_RESIDUAL_OUT) {
    total = total + read_wide((device const T*)out, at, OUT_F32);
  } else if (params.residual != GDM_RESIDUAL_NONE) {
    total = total + read_wide(residual, ulong(row) * params.residualRowStride + output,
                              params.residual == GDM_RESIDUAL_F32);
  }
  write_wide(out, at, total, OUT_F32);
}

#endif
