/* ggml's types of blocks, a family of block formats (matrix.h). Layouts: ggml-common.h; a weight is what dequantize_row_* of
 * ggml-quants.c gives: its products and differences are rounded one by one. `type` is ggml's number and a constant.
 *
 * A weight is scale q, scale q + offset, or scale q - minimum, q an integer or an entry of a table. Each run of GD_LANES weights
 * has most of its bits at one place in as many neighbouring bytes. Where further bits are elsewhere, and where that is faster, the
 * integers of a block are first put together as bytes. Where q is one of 16 numbers, AVX-512 looks weights up in a table that is
 * made for each scale. */

enum {
  GGML_Q4_0 = 2, GGML_Q4_1 = 3, GGML_Q5_0 = 6, GGML_Q5_1 = 7, GGML_Q8_0 = 8, GGML_Q2_K = 10, GGML_Q3_K = 11, GGML_Q4_K = 12,
  GGML_Q5_K = 13, GGML_Q6_K = 14, GGML_IQ4_NL = 20, GGML_IQ4_XS = 23, GGML_MXFP4 = 39
};

typedef uint8_t vb __attribute__((vector_size(GD_WIDTH)));
typedef uint8_t vb_memory __attribute__((vector_size(GD_WIDTH), aligned(1), may_alias));
typedef int8_t vsb_memory __attribute__((vector_size(GD_WIDTH), aligned(1), may_alias));
typedef uint8_t ggml_bytes __attribute__((vector_size(16)));
typedef int8_t ggml_signed_bytes __attribute__((vector_size(16)));
typedef int8_t ggml_signed_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t ggml_bytes_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint32_t ggml_words __attribute__((vector_size(16)));
typedef uint32_t ggml_words_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef float ggml_floats __attribute__((vector_size(4 * GD_LANES)));

static const _Alignas(64) uint32_t ggml_lanes[GD_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const _Alignas(64) float ggml_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/* e2m1, doubled, as the scale is halved. */
static const _Alignas(64) float ggml_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const _Alignas(16) int8_t ggml_iq4_bytes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const _Alignas(16) int8_t ggml_e2m1_bytes[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Whether blocks of 256 have scales of their own for ggml_group weights each; others have one scale for all 32. */
#define ggml_is_large(TYPE) ((TYPE) >= GGML_Q2_K && (TYPE) != GGML_IQ4_NL && (TYPE) != GGML_MXFP4)
#define ggml_has_table(TYPE) ((TYPE) == GGML_IQ4_NL || (TYPE) == GGML_IQ4_XS || (TYPE) == GGML_MXFP4)
#define ggml_has_minimum(TYPE) ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q4_K || (TYPE) == GGML_Q5_K)
#define ggml_has_offset(TYPE) ((TYPE) == GGML_Q4_1 || (TYPE) == GGML_Q5_1)
#define ggml_has_five(TYPE) ((TYPE) == GGML_Q5_0 || (TYPE) == GGML_Q5_1 || (TYPE) == GGML_Q5_K)
/* Whether weights are looked up in a vector of the 16 that a scale has. */
#define ggml_looks_up(TYPE) (GD_WIDTH == 16 && (TYPE) != GGML_Q8_0 && !ggml_has_bytes(TYPE))
/* Whether integers are put together as bytes, a whole block at a time. */
#define ggml_has_bytes(TYPE) \
  ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q3_K || (TYPE) == GGML_Q5_K || (TYPE) == GGML_Q6_K || \
   (TYPE) == GGML_Q5_0 || (TYPE) == GGML_Q5_1 || (GD_WIDTH < 16 && (TYPE) == GGML_Q4_K) || \
   (GD_WIDTH == 8 && ggml_has_table(TYPE)))
/* Where the bytes of four bits of a small block begin. */
#define ggml_offset(TYPE) \
  ((TYPE) == GGML_MXFP4 ? 1 : (TYPE) == GGML_Q4_1 ? 4 : (TYPE) == GGML_Q5_0 ? 6 : (TYPE) == GGML_Q5_1 ? 8 : 2)
/* q is this much less than its number without sign. */
#define ggml_middle(TYPE) \
  ((TYPE) == GGML_Q4_0 ? 8 : (TYPE) == GGML_Q5_0 ? 16 : (TYPE) == GGML_Q3_K ? 4 : (TYPE) == GGML_Q6_K ? 32 : 0)

/* Runs that share a scale, and runs of a step: with more of them more is constant, and there is more code. */
#define ggml_group(TYPE) ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q3_K || (TYPE) == GGML_Q6_K ? 1 : 2)
#define ggml_step(TYPE) (!ggml_is_large(TYPE) || GD_WIDTH == 4 ? 2 : GD_WIDTH == 8 ? 4 : 8)

GD_INLINE vf ggml_half(const uint8_t *at) {
  uint16_t half = *(const h1_memory *)at;
  vh all;
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) all[l] = half;
  return f16_to_vf(all);
}

/* Two of them, in turns. */
GD_INLINE vf ggml_halves(const uint8_t *at) {
  uint32_t two = *(const u1_memory *)at;
  uint32_t all[GD_WIDTH / 2];
  GD_UNROLL for (int l = 0; l < GD_WIDTH / 2; l++) all[l] = two;
  vh halves;
  __builtin_memcpy(&halves, all, sizeof halves);
  return f16_to_vf(halves);
}

/* Scales of a large block; where it has minima, scale j at 2 j, minimum j at 2 j + 1. */
typedef struct block_scales {
  _Alignas(64) float numbers[2 * GD_LANES];
  _Alignas(64) int8_t bytes[256]; /* of types of ggml_has_bytes: q of each weight */
} block_scales;

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

/* The integers of all weights of a block. */
GD_INLINE void ggml_integers(const uint8_t *block, int8_t *out, uint32_t type) {
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

/* Sixteen numbers by a factor, or by the two that lanes have in turns. */
GD_INLINE void ggml_products(const ggml_floats *numbers, vf factor, float *out) {
  vf parts[GD_PARTS];
  __builtin_memcpy(parts, numbers, sizeof *numbers);
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(out, p * GD_WIDTH, GD_CPU_F32, parts[p] * factor);
}

GD_INLINE void ggml_scales(const uint8_t *block, block_scales *out, uint32_t type) {
  ggml_floats floats;
  if (ggml_has_bytes(type)) ggml_integers(block, out->bytes, type);
  if (type == GGML_Q2_K) {
    ggml_bytes both = *(const ggml_bytes_memory *)block, scales = both & 15, minima = both >> 4;
    ggml_bytes first = __builtin_shufflevector(scales, minima, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    ggml_bytes last = __builtin_shufflevector(scales, minima, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    vf factors = ggml_halves(block + 80);
    floats = __builtin_convertvector(first, ggml_floats);
    ggml_products(&floats, factors, out->numbers);
    floats = __builtin_convertvector(last, ggml_floats);
    ggml_products(&floats, factors, out->numbers + GD_LANES);
  } else if (type == GGML_Q3_K) {
    ggml_words words = *(const ggml_words_memory *)(block + 92);
    ggml_words low = __builtin_shufflevector(words, words, 1, 2, 1, 2) >> (ggml_words){0, 0, 4, 4} & 0x0f0f0f0f;
    ggml_words upper = __builtin_shufflevector(words, words, 3, 3, 3, 3) >> (ggml_words){0, 2, 4, 6} & 0x03030303;
    ggml_signed_bytes scales = (ggml_signed_bytes)(low | upper << 4) - 32;
    floats = __builtin_convertvector(scales, ggml_floats);
    ggml_products(&floats, ggml_half(block + 108), out->numbers);
  } else if (type == GGML_Q4_K || type == GGML_Q5_K) {
    ggml_words words = *(const ggml_words_memory *)block;
    ggml_words low = __builtin_shufflevector(words, words, 1, 3, 2, 3) >> (ggml_words){0, 0, 0, 4};
    ggml_words upper = __builtin_shufflevector(words, words, 1, 1, 2, 2) >> 2;
    low &= (ggml_words){0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f};
    low |= upper & (ggml_words){0, 0x30303030, 0, 0x30303030};
    ggml_bytes pairs = (ggml_bytes)low;
    pairs = __builtin_shufflevector(pairs, pairs, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    floats = __builtin_convertvector(pairs, ggml_floats);
    ggml_products(&floats, ggml_halves(block), out->numbers);
  } else if (type == GGML_Q6_K) {
    ggml_signed_bytes scales = *(const ggml_signed_memory *)(block + 192);
    floats = __builtin_convertvector(scales, ggml_floats);
    ggml_products(&floats, ggml_half(block + 208), out->numbers);
  } else if (type == GGML_IQ4_XS) {
    uint32_t low = *(const u1_memory *)(block + 4), upper = *(const h1_memory *)(block + 2);
    vf factor = ggml_half(block);
    for (int p = 0; p < (GD_PARTS + 1) / 2; p++) {
      vu j = *(const vu *)&ggml_lanes[p * GD_WIDTH] & 7;
      vi six = (vi)(((low - (vu){0}) >> 4 * j & 15) | ((upper - (vu){0}) >> 2 * j & 3) << 4) - 32;
      store(out->numbers, p * GD_WIDTH, GD_CPU_F32, __builtin_convertvector(six, vf) * factor);
    }
  }
}

/* Weights of numbers as floats. */
GD_INLINE vf ggml_weights(vf q, factors group, uint32_t type) {
  if (ggml_has_minimum(type)) return q * group.low - group.high;
  if (ggml_has_offset(type)) return q * group.low + group.high;
  return q * group.low;
}

/* The scale and minimum of a run, or a table of its weights. */
GD_INLINE factors ggml_factors(const uint8_t *block, const block_scales *scales, int64_t run, uint32_t type) {
  factors group = {0};
  if (ggml_is_large(type)) {
    int64_t g = run / ggml_group(type);
    group.low = splat_memory(&scales->numbers[ggml_has_minimum(type) ? 2 * g : g]);
    if (ggml_has_minimum(type)) group.high = splat_memory(&scales->numbers[2 * g + 1]);
  } else if (type == GGML_MXFP4) {
    uint32_t exponent = block[0];
    uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
    group.low = (vf)(bits - (vu){0});
  } else {
    group.low = ggml_half(block);
    if (ggml_has_offset(type)) group.high = ggml_half(block + 2);
  }
#if GD_WIDTH == 16
  if (ggml_looks_up(type)) {
    vf numbers = *(const vf *)(ggml_has_table(type) ? type == GGML_MXFP4 ? ggml_e2m1 : ggml_iq4 : affine_table);
    if (!ggml_has_table(type)) numbers -= splat(ggml_middle(type));
    return (factors){.low = ggml_weights(numbers, group, type)};
  }
#endif
  return group;
}

/* GD_WIDTH bytes, one a lane. */
GD_INLINE vu ggml_bytes_at(const uint8_t *at) { return __builtin_convertvector(*(const vb_memory *)at, vu); }

/* Numbers of four bits of a part of a run; where they are looked up, with any bits above them. */
GD_INLINE vu ggml_numbers(const uint8_t *block, int64_t run, int part, uint32_t type) {
  const uint8_t *at = block + part * GD_WIDTH;
  uint32_t mask = ggml_looks_up(type) ? UINT32_MAX : 15;
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
    vsb_memory q = *(const vsb_memory *)((const char *)bytes + run * GD_LANES + part * GD_WIDTH);
    return ggml_weights(__builtin_convertvector(__builtin_convertvector(q, vi), vf), group, type);
  }
  vu numbers = ggml_numbers(block, run, part, type);
#if GD_WIDTH == 16
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
