/* ggml's types of blocks, a family of block formats (matrix.h). Layouts: ggml-common.h; a weight is what dequantize_row_* of
 * ggml-quants.c gives: its products and differences are rounded one by one. `type` is ggml's number and a constant.
 *
 * A weight is scale q, scale q + offset, or scale q - minimum, q a small integer or a number of a table. Each run of GD_LANES
 * weights is in as many neighbouring bytes, at one place in them; other bits of theirs may be in further bytes. Where q is one
 * of 16 or 32 numbers, AVX-512 looks weights up in a table that is made for each scale. */

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
typedef float ggml_floats __attribute__((vector_size(4 * GD_LANES)));

static const _Alignas(64) uint32_t ggml_lanes[GD_LANES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const _Alignas(64) float ggml_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/* e2m1, doubled, as the scale is halved. */
static const _Alignas(64) float ggml_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Whether blocks of 256 have scales of their own for ggml_group weights each; others have one scale for all 32. */
#define ggml_is_large(TYPE) ((TYPE) >= GGML_Q2_K && (TYPE) != GGML_IQ4_NL && (TYPE) != GGML_MXFP4)
#define ggml_has_table(TYPE) ((TYPE) == GGML_IQ4_NL || (TYPE) == GGML_IQ4_XS || (TYPE) == GGML_MXFP4)
#define ggml_has_minimum(TYPE) ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q4_K || (TYPE) == GGML_Q5_K)
#define ggml_has_offset(TYPE) ((TYPE) == GGML_Q4_1 || (TYPE) == GGML_Q5_1)
#define ggml_has_five(TYPE) ((TYPE) == GGML_Q5_0 || (TYPE) == GGML_Q5_1 || (TYPE) == GGML_Q5_K)
/* Whether q has 16 or 32 values, for which a vector or two suffice. */
#define ggml_looks_up(TYPE) (GD_WIDTH == 16 && (TYPE) != GGML_Q8_0 && (TYPE) != GGML_Q6_K)
/* q is this much less than its number without sign. */
#define ggml_middle(TYPE) \
  ((TYPE) == GGML_Q4_0 ? 8 : (TYPE) == GGML_Q5_0 ? 16 : (TYPE) == GGML_Q3_K ? 4 : (TYPE) == GGML_Q6_K ? 32 : 0)

/* Runs that share a scale, and runs of a step: the more, the more is constant, and the more code there is. */
#define ggml_group(TYPE) ((TYPE) == GGML_Q2_K || (TYPE) == GGML_Q3_K || (TYPE) == GGML_Q6_K ? 1 : 2)
#define ggml_step(TYPE) (!ggml_is_large(TYPE) || GD_WIDTH == 4 ? 2 : ggml_group(TYPE) == 1 && GD_WIDTH == 16 ? 8 : 4)

GD_INLINE vf ggml_half(const uint8_t *at) {
  uint16_t half = *(const h1_memory *)at;
  vh all;
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) all[l] = half;
  return f16_to_vf(all);
}

/* Scales of a large block, and its minima. */
typedef struct block_scales {
  _Alignas(64) ggml_floats scales, minima;
} block_scales;

GD_INLINE void ggml_scales(const uint8_t *block, block_scales *out, uint32_t type) {
  const u1_memory *words = (const u1_memory *)block;
  if (type == GGML_Q2_K) {
    ggml_bytes both = *(const ggml_bytes_memory *)block;
    out->scales = __builtin_convertvector(both & 15, ggml_floats) * ggml_half(block + 80)[0];
    out->minima = __builtin_convertvector(both >> 4, ggml_floats) * ggml_half(block + 82)[0];
  } else if (type == GGML_Q3_K) {
    uint32_t low = words[24], high = words[25], upper = words[26], four = 0x0f0f0f0f, two = 0x30303030;
    ggml_words six = {
      (low & four) | (upper << 4 & two), (high & four) | (upper << 2 & two), (low >> 4 & four) | (upper & two),
      (high >> 4 & four) | (upper >> 2 & two)};
    ggml_signed_bytes scales = (ggml_signed_bytes)six - 32;
    out->scales = __builtin_convertvector(scales, ggml_floats) * ggml_half(block + 108)[0];
  } else if (type == GGML_Q4_K || type == GGML_Q5_K) {
    uint32_t scales = words[1], minima = words[2], last = words[3], four = 0x0f0f0f0f, two = 0x30303030;
    uint32_t six = 0x3f3f3f3f;
    ggml_words all = {
      scales & six, (last & four) | (scales >> 2 & two), minima & six, (last >> 4 & four) | (minima >> 2 & two)};
    ggml_floats numbers = __builtin_convertvector((ggml_bytes)all, ggml_floats);
    out->scales = numbers * ggml_half(block)[0];
    numbers = __builtin_shufflevector(numbers, numbers, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15);
    out->minima = numbers * ggml_half(block + 2)[0];
  } else if (type == GGML_Q6_K) {
    ggml_signed_bytes scales = *(const ggml_signed_memory *)(block + 192);
    out->scales = __builtin_convertvector(scales, ggml_floats) * ggml_half(block + 208)[0];
  } else if (type == GGML_IQ4_XS) {
    uint32_t upper = *(const h1_memory *)(block + 2), low = words[1];
    int8_t six[16] = {0};
    GD_UNROLL for (int j = 0; j < 8; j++) six[j] = (int8_t)((low >> 4 * j & 15) | (upper >> 2 * j & 3) << 4) - 32;
    ggml_signed_bytes scales = *(const ggml_signed_memory *)six;
    out->scales = __builtin_convertvector(scales, ggml_floats) * ggml_half(block)[0];
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
    group.low = splat_memory((const float *)&scales->scales + g);
    if (ggml_has_minimum(type)) group.high = splat_memory((const float *)&scales->minima + g);
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
    factors table = {.low = ggml_weights(numbers, group, type)};
    if (ggml_has_five(type)) table.high = ggml_weights(numbers + splat(16.0f), group, type);
    return table;
  }
#endif
  return group;
}

/* GD_WIDTH bytes, one a lane. */
GD_INLINE vu ggml_bytes_at(const uint8_t *at) { return __builtin_convertvector(*(const vb_memory *)at, vu); }

/* Numbers of a part of a run, without sign. */
GD_INLINE vu ggml_numbers(const uint8_t *block, int64_t run, int part, uint32_t type) {
  const uint8_t *at = block + part * GD_WIDTH;
  if (type == GGML_Q2_K) return ggml_bytes_at(at + 16 + 32 * (run >> 3) + 16 * (run & 1)) >> (uint32_t)(run >> 1 & 3) * 2 & 3;
  if (type == GGML_Q3_K) {
    vu low = ggml_bytes_at(at + 32 + 32 * (run >> 3) + 16 * (run & 1)) >> (uint32_t)(run >> 1 & 3) * 2 & 3;
    return low | (ggml_bytes_at(at + 16 * (run & 1)) >> (uint32_t)(run >> 1) & 1) << 2;
  }
  if (type == GGML_Q6_K) {
    vu low = ggml_bytes_at(at + 64 * (run >> 3) + 16 * (run & 3)) >> (uint32_t)(run >> 2 & 1) * 4 & 15;
    return low | (ggml_bytes_at(at + 128 + 32 * (run >> 3) + 16 * (run & 1)) >> (uint32_t)(run >> 1 & 3) * 2 & 3) << 4;
  }
  if (type == GGML_Q4_K || type == GGML_Q5_K) {
    vu low = ggml_bytes_at(at + (type == GGML_Q4_K ? 16 : 48) + 32 * (run >> 2) + 16 * (run & 1));
    low = low >> (uint32_t)(run >> 1 & 1) * 4 & 15;
    if (type == GGML_Q4_K) return low;
    return low | (ggml_bytes_at(at + 16 + 16 * (run & 1)) >> (uint32_t)(run >> 1) & 1) << 4;
  }
  if (type == GGML_IQ4_XS) return ggml_bytes_at(at + 8 + 16 * (run >> 1)) >> (uint32_t)(run & 1) * 4 & 15;
  int offset = type == GGML_MXFP4 ? 1 : type == GGML_Q4_1 ? 4 : type == GGML_Q5_0 ? 6 : type == GGML_Q5_1 ? 8 : 2;
  vu low = ggml_bytes_at(at + offset) >> (uint32_t)run * 4 & 15;
  if (!ggml_has_five(type)) return low;
  uint32_t fifth = *(const u1_memory *)(block + offset - 4) >> run * 16;
  vu lanes = *(const vu *)&ggml_lanes[part * GD_WIDTH];
  return low | ((fifth - (vu){0}) >> lanes & 1) << 4;
}

/* GD_WIDTH weights of a part of a run. */
GD_INLINE vf ggml_values(const uint8_t *block, int64_t run, int part, factors group, uint32_t type) {
  if (type == GGML_Q8_0) {
    const vsb_memory *bytes = (const vsb_memory *)(block + 2 + run * GD_LANES + part * GD_WIDTH);
    return __builtin_convertvector(__builtin_convertvector(*bytes, vi), vf) * group.low;
  }
  vu numbers = ggml_numbers(block, run, part, type);
#if GD_WIDTH == 16
  if (ggml_has_five(type)) return (vf)_mm512_permutex2var_ps((__m512)group.low, (__m512i)numbers, (__m512)group.high);
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
