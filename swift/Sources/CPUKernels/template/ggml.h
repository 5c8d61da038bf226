/* ggml's block types, a family of block formats (matrix.h). Layouts: ggml-common.h; a weight is what dequantize_row_* of
 * ggml-quants.c gives: each product and difference is rounded separately. `type` is ggml's number and a constant.
 *
 * A weight is scale q, scale q + offset, or scale q - minimum, q an integer or an entry of a table. Each run of GD_LANES weights
 * has most of its bits at one place in as many neighbouring bytes. Where further bits are elsewhere, and where that is faster, the
 * integers of a block are first put together as bytes. Where q is one of 16 numbers, AVX-512 looks weights up in a table that is
 * made for each scale; where it has a fifth bit, in two. */

#include "ggml_types.h"

typedef uint8_t vb __attribute__((vector_size(GD_WIDTH)));
typedef uint8_t vb_memory __attribute__((vector_size(GD_WIDTH), aligned(1), may_alias));
typedef int8_t vsb __attribute__((vector_size(GD_WIDTH)));
typedef int8_t vsb_memory __attribute__((vector_size(GD_WIDTH), aligned(1), may_alias));
typedef uint8_t ggml_bytes __attribute__((vector_size(16)));
typedef int8_t ggml_signed_bytes __attribute__((vector_size(16)));
typedef int8_t ggml_signed_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t ggml_bytes_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t ggml_words __attribute__((vector_size(16)));
typedef uint32_t ggml_words_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef float ggml_floats __attribute__((vector_size(4 * GD_LANES)));

static const _Alignas(64) float ggml_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/* e2m1, doubled, as the scale is halved. */
static const _Alignas(64) float ggml_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const _Alignas(16) int8_t ggml_iq4_bytes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const _Alignas(16) int8_t ggml_e2m1_bytes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Whether weights are looked up in a vector of the 16 that a scale has. */
#define ggml_looks_up(TYPE) (GD_WIDTH == 16 && (TYPE) != GGML_Q8_0 && !ggml_has_bytes(TYPE))
/* Whether integers are put together as bytes, a whole block at a time. */
#define ggml_has_bytes(TYPE) \
  ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q3_K || (TYPE) == GGML_Q5_K || (TYPE) == GGML_Q6_K || \
   (GD_WIDTH < 16 && ((TYPE) == GGML_Q5_0 || (TYPE) == GGML_Q5_1 || (TYPE) == GGML_Q4_K)) || \
   (GD_WIDTH == 8 && ggml_has_table(TYPE)))
/* Where the bytes of four bits of a small block begin. */
#define ggml_offset(TYPE) \
  ((TYPE) == GGML_MXFP4 ? 1 : (TYPE) == GGML_Q4_1 ? 4 : (TYPE) == GGML_Q5_0 ? 6 : (TYPE) == GGML_Q5_1 ? 8 : 2)
/* Runs of a step: with more of them, more is constant, and there is more code. */
#define ggml_step(TYPE) \
  (!ggml_is_large(TYPE) || GD_WIDTH == 4 ? 2 : GD_WIDTH == 8 ? 4 : (TYPE) == GGML_Q5_K || (TYPE) == GGML_Q2_K ? 8 : 16)
/* Whether scales are made a block before they are used: they are not ready at once, and operations that wait for them take the
 * places of others. It is no gain with bytes, which are many, nor with Q5_1. */
#define ggml_ahead(TYPE) (GD_WIDTH == 16 && !ggml_has_bytes(TYPE) && (TYPE) != GGML_Q5_1)
/* The number of half floats at the beginning of a block if these are all its factors, else 0. */
#define ggml_halves_first(TYPE) \
  (ggml_is_large(TYPE) || (TYPE) == GGML_MXFP4 || ggml_has_bytes(TYPE) ? 0 : ggml_halves(TYPE))

typedef uint8_t ggml_many __attribute__((vector_size(32)));
typedef uint8_t ggml_many_memory __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint8_t ggml_four __attribute__((vector_size(4)));
typedef uint8_t ggml_four_memory __attribute__((vector_size(4), aligned(1), may_alias));
#define GGML_EIGHT(X) X, X, X, X, X, X, X, X
#define GGML_BITS 1, 2, 4, 8, 16, 32, 64, 128

/* The numbers, without sign, of the weights of a small block, and of two runs of a large one. */
GD_INLINE void ggml_small(const uint8_t *block, ggml_many *out, uint32_t type) {
  int offset = ggml_offset(type);
  ggml_bytes bytes = *(const ggml_bytes_memory *)(block + offset), low = bytes & 15, high = bytes >> 4;
  ggml_many q = __builtin_shufflevector(
    low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    31);
  *out = q;
  if (!ggml_has_five(type)) return;
  ggml_four four = *(const ggml_four_memory *)(block + offset - 4);
  ggml_many fifth = __builtin_shufflevector(four, four, GGML_EIGHT(0), GGML_EIGHT(1), GGML_EIGHT(2), GGML_EIGHT(3));
  ggml_many bits = {GGML_BITS, GGML_BITS, GGML_BITS, GGML_BITS};
  *out |= (ggml_many)((fifth & bits) != 0) & 16;
}
GD_INLINE void ggml_two_runs(const uint8_t *block, int run, ggml_many *out, uint32_t type) {
#define GGML_32(AT) (*(const ggml_many_memory *)(block + (AT)))
  if (type == GGML_IQ4_XS) {
    ggml_small(block + 6 + 8 * run, out, GGML_IQ4_NL);
  } else if (type == GGML_Q2_K || type == GGML_Q3_K) {
    ggml_many low = GGML_32((type == GGML_Q2_K ? 16 : 32) + 32 * (run >> 3)) >> (run >> 1 & 3) * 2 & 3;
    *out = type == GGML_Q2_K ? low : low | (GGML_32(0) >> (run >> 1) & 1) << 2;
  } else if (type == GGML_Q4_K || type == GGML_Q5_K) {
    ggml_many low = GGML_32((type == GGML_Q4_K ? 16 : 48) + 32 * (run >> 2)) >> (run >> 1 & 1) * 4 & 15;
    *out = type == GGML_Q4_K ? low : low | (GGML_32(16) >> (run >> 1) & 1) << 4;
  } else {
    ggml_many low = GGML_32(64 * (run >> 3) + 16 * (run & 3)) >> (run >> 2 & 1) * 4 & 15;
    *out = low | (GGML_32(128 + 32 * (run >> 3)) >> (run >> 1 & 3) * 2 & 3) << 4;
  }
#undef GGML_32
}

/* Whether the integers of a block are put together 64 at a time: for Q6_K four times as large, for Q5_K in another order. */
#define ggml_in_halves(TYPE) (GD_WIDTH == 16 && ((TYPE) == GGML_Q6_K || (TYPE) == GGML_Q5_K))
#if GD_WIDTH == 16
/* The integers of Q6_K and Q5_K. In half of a block, 64 bytes have the low and the high four bits of two times 64 of them: for Q6_K in
 * order, for Q5_K those of groups 0 and 2, and of groups 1 and 3. Further bits of each byte are one rotation away. */
GD_INLINE void ggml_halves_of_integers(const uint8_t *block, int8_t *out, uint32_t type) {
  __m512i upper = _mm512_setzero_si512();
  GD_UNROLL for (int h = 0; h < 2; h++) {
    __m512i four = _mm512_loadu_si512(block + (type == GGML_Q6_K ? 0 : 48) + 64 * h);
    if (type == GGML_Q6_K || h == 0) {
      upper = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(block + (type == GGML_Q6_K ? 128 + 32 * h : 16))));
    }
    GD_UNROLL for (int high = 0; high < 2; high++) {
      __m512i q;
      if (type == GGML_Q6_K) {
        /* Two bits from 4 high on in bytes of columns 0 to 31, from 2 more on in those of 32 to 63, go to the top. */
        __m512i top = high ? _mm512_sllv_epi16(upper, _mm512_inserti64x4(_mm512_set1_epi16(2), _mm256_setzero_si256(), 1))
                           : _mm512_sllv_epi16(upper, _mm512_inserti64x4(_mm512_set1_epi16(6), _mm256_set1_epi16(4), 1));
        __m512i low = high ? _mm512_srli_epi16(four, 2) : _mm512_slli_epi16(four, 2);
        q = _mm512_ternarylogic_epi32(_mm512_set1_epi8(0x3c), low, top, 0xca);
        q = _mm512_ternarylogic_epi32(q, _mm512_set1_epi8((char)0xfc), _mm512_set1_epi8((char)0x80), 0x6a);
      } else {
        int bit = 4 * h + high;
        __m512i places = _mm512_inserti64x4(_mm512_set1_epi32((4 - bit) & 31), _mm256_set1_epi32((2 - bit) & 31), 1);
        q = _mm512_and_si512(high ? _mm512_srli_epi16(four, 4) : four, _mm512_set1_epi8(0x0f));
        q = _mm512_ternarylogic_epi32(q, _mm512_rolv_epi32(upper, places), _mm512_set1_epi8(0x10), 0xf8);
      }
      _mm512_store_si512(out + 128 * h + 64 * high, q);
    }
  }
}
#endif
/* Where the integers of a run are. */
GD_INLINE int64_t ggml_place(int64_t run, uint32_t type) {
  if (type != GGML_Q5_K || !ggml_in_halves(type)) return run * GD_LANES;
  int64_t group = run >> 1;
  return ((group & 4) + (group & 1) * 2 + (group >> 1 & 1)) * 32 + (run & 1) * GD_LANES;
}

/* The integers of all weights of a block. */
GD_INLINE void ggml_integers(const uint8_t *block, int8_t *out, uint32_t type) {
#if GD_WIDTH == 16
  if (ggml_in_halves(type)) return ggml_halves_of_integers(block, out, type);
#endif
  for (int i = 0; i < (ggml_is_large(type) ? 256 : 32); i += 32) {
    ggml_many q;
    if (ggml_is_large(type)) ggml_two_runs(block, i / GD_LANES, &q, type);
    else ggml_small(block, &q, type);
#if GD_WIDTH == 8
    if (ggml_has_table(type)) {
      const __m128i *table = (const __m128i *)(type == GGML_MXFP4 ? ggml_e2m1_bytes : ggml_iq4_bytes);
      q = (ggml_many)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(*table), (__m256i)q);
    }
#endif
    *(ggml_many_memory *)(out + i) = q - (uint8_t)ggml_middle(type);
  }
}

#include "ggml_scales.h"

/* Weights of numbers as floats. A product with a minimum or an offset has at most 22 bits, which float32 holds: so it may be a
 * part of a fused multiply-add. */
GD_INLINE vf ggml_weights(vf q, factors group, uint32_t type) {
  if (ggml_has_minimum(type)) return fma_vf(q, group.low, -group.high);
  if (ggml_has_offset(type)) return fma_vf(q, group.low, group.high);
  return q * group.low;
}

/* The scale and minimum at `scale`, or a table of their weights. */
GD_INLINE factors ggml_factors_at(const float *scale, uint32_t type) {
  factors group = {.low = splat_memory(scale)};
  /* The second number of a table can be an operand in memory. */
  int next = ggml_has_minimum(type) ? ggml_minimum_after(type) : 1;
  int is_operand = ggml_looks_up(type) && !ggml_has_five(type);
  if (ggml_halves(type) == 2) group.high = is_operand ? splat(scale[next]) : splat_memory(scale + next);
#if GD_WIDTH == 16
  if (ggml_has_five(type) && ggml_looks_up(type)) {
    vf numbers = *(const vf *)affine_table - splat(ggml_middle(type));
    return (factors){.low = ggml_weights(numbers, group, type), .high = ggml_weights(numbers + splat(16), group, type)};
  }
  if (ggml_looks_up(type)) {
    vf numbers = *(const vf *)(ggml_has_table(type) ? type == GGML_MXFP4 ? ggml_e2m1 : ggml_iq4 : affine_table);
    if (!ggml_has_table(type)) numbers -= splat(ggml_middle(type));
    return (factors){.low = ggml_weights(numbers, group, type)};
  }
#endif
  return group;
}

/* The factors of a run of row `row`. */
GD_INLINE factors ggml_factors(const block_scales *scales, int row, int64_t run, uint32_t type) {
  const float *small = &scales->numbers[ggml_halves(type) * row], *large = &scales[row].numbers[ggml_scale_at(type, run / ggml_group(type))];
  return ggml_factors_at(ggml_is_large(type) ? large : small, type);
}

/* GD_WIDTH bytes, one per lane. Compilers widen shifted bytes anew, although the widened ones could be shifted: for AVX-512 they
 * must not know what these are. */
GD_INLINE vu ggml_bytes_at(const uint8_t *at) {
  vu bytes = __builtin_convertvector(*(const vb_memory *)at, vu);
#if GD_WIDTH == 16
  __asm__("" : "+v"(bytes));
#endif
  return bytes;
}

/* Numbers of four bits of a part of a run; where they are looked up, with any bits above them. */
GD_INLINE vu ggml_numbers(const uint8_t *block, int64_t run, int part, uint32_t type) {
  const uint8_t *at = block + part * GD_WIDTH;
  uint32_t mask = ggml_looks_up(type) && (run != 0 || !ggml_has_five(type)) ? UINT32_MAX : 15;
  if (type == GGML_Q4_K) return ggml_bytes_at(at + 16 + 32 * (run >> 2) + 16 * (run & 1)) >> (uint32_t)(run >> 1 & 1) * 4 & mask;
  if (type == GGML_IQ4_XS) return ggml_bytes_at(at + 8 + 16 * (run >> 1)) >> (uint32_t)(run & 1) * 4 & mask;
  return ggml_bytes_at(at + ggml_offset(type)) >> (uint32_t)run * 4 & mask;
}

/* GD_WIDTH weights of a part of a run. */
GD_INLINE vf ggml_values(
  const uint8_t *block, const block_scales *scales, int64_t run, int part, factors group, uint32_t type
) {
  if (type == GGML_Q8_0 || ggml_has_bytes(type)) {
    const void *bytes = type == GGML_Q8_0 ? (const void *)(block + 2) : scales->bytes;
    int64_t place = type == GGML_Q8_0 ? run * GD_LANES : ggml_place(run, type);
    vsb_memory q = *(const vsb_memory *)((const char *)bytes + place + part * GD_WIDTH);
    return ggml_weights(__builtin_convertvector(__builtin_convertvector(q, vi), vf), group, type);
  }
  vu numbers = ggml_numbers(block, run, part, type);
#if GD_WIDTH == 16
  if (ggml_has_five(type) && ggml_looks_up(type)) {
    __mmask16 fifth = (__mmask16)*(const h1_memory *)(block + ggml_offset(type) - 4 + 2 * run);
    numbers = (vu)_mm512_mask_or_epi32((__m512i)numbers, fifth, (__m512i)numbers, _mm512_set1_epi32(16));
    return (vf)_mm512_permutex2var_ps((__m512)group.low, (__m512i)numbers, (__m512)group.high);
  }
  if (ggml_looks_up(type)) return sixteen_values(numbers, group.low);
#endif
  if (ggml_has_table(type)) {
    const float *table = type == GGML_MXFP4 ? ggml_e2m1 : ggml_iq4;
    vf q;
    GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) q[l] = table[numbers[l]];
    return q * group.low;
  }
  return ggml_weights(__builtin_convertvector((vi)numbers - ggml_middle(type), vf), group, type);
}
