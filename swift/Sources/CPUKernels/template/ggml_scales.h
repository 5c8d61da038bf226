/* The scales and minima of ggml's blocks as float32 (ggml.h): products of half floats and integers of up to eight bits, which are
 * exact. A call makes those of several blocks, of as many rows. */

/* Of a large block: scale j is at ggml_scale_at, and its minimum ggml_minimum_after that. Of several small blocks: the first has the
 * scales of all, each followed by its offset. */
#define ggml_is_in_eights(TYPE) ((TYPE) == GGML_Q4_K || (TYPE) == GGML_Q5_K)
#define ggml_scale_at(TYPE, J) (ggml_is_in_eights(TYPE) ? (J) + ((J) & 4) : ggml_has_minimum(TYPE) ? 2 * (J) : (J))
#define ggml_minimum_after(TYPE) (ggml_is_in_eights(TYPE) ? 4 : 1)
typedef struct block_scales {
  _Alignas(64) float numbers[2 * GD_LANES];
  _Alignas(64) int8_t bytes[256]; /* of types of ggml_has_bytes: q of each weight */
} block_scales;

/* A half float. One is converted as a number, not in all lanes: on Zen 4 a conversion of 16 takes twice the units. */
GD_INLINE float ggml_half(const uint8_t *at) {
  uint16_t half = *(const h1_memory *)at;
#if GD_WIDTH >= 8
  return _cvtsh_ss(half);
#else
  vh all;
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) all[l] = half;
  return f16_to_vf(all)[0];
#endif
}

/* Where the half floats of a block are, and how many. */
#define ggml_half_at(TYPE) \
  ((TYPE) == GGML_Q2_K ? 80 : (TYPE) == GGML_Q3_K ? 108 : (TYPE) == GGML_Q6_K ? 208 : 0)
#define ggml_halves(TYPE) (ggml_has_minimum(TYPE) || ggml_has_offset(TYPE) ? 2 : 1)
enum { GGML_ROWS = 4 }; /* the most blocks whose scales are made at a time */

/* The half floats of blocks `apart` bytes apart. Those of four are put together in integer registers, where compilers must not
 * see what they are: they would do it in vectors, whose units limit a product. */
GD_INLINE void ggml_halves_of(const uint8_t *block, int64_t apart, int rows, float *out, uint32_t type) {
  const uint8_t *at = block + ggml_half_at(type);
#if GD_WIDTH >= 8
  uint64_t words[2];
  if (rows == 4 && ggml_halves(type) == 2 && type != GGML_Q5_1) {
    GD_UNROLL for (int r = 0; r < 2; r++) {
      const uint8_t *own = at + 2 * r * apart;
      words[r] = *(const u1_memory *)own | (uint64_t)*(const u1_memory *)(own + apart) << 32;
      __asm__("" : "+r"(words[r]));
    }
    *(ve_memory *)out = (ve)_mm256_cvtph_ps(_mm_set_epi64x((long long)words[1], (long long)words[0]));
    return;
  }
  if (rows == 4 && ggml_halves(type) == 1) {
    GD_UNROLL for (int r = 0; r < 2; r++) {
      const uint8_t *own = at + 2 * r * apart;
      words[r] = *(const h1_memory *)own | (uint64_t)*(const h1_memory *)(own + apart) << 16;
    }
    words[0] |= words[1] << 32;
    __asm__("" : "+r"(words[0]));
    *(v4_memory *)out = (v4)_mm_cvtph_ps(_mm_cvtsi64_si128((long long)words[0]));
    return;
  }
#endif
  GD_UNROLL for (int r = 0; r < rows; r++) {
    const uint8_t *own = at + r * apart;
    if (ggml_halves(type) == 1) {
      out[r] = ggml_half(own);
    } else {
#if GD_WIDTH >= 8
      _mm_storel_pi((__m64 *)(out + 2 * r), _mm_cvtph_ps(_mm_cvtsi32_si128((int)*(const u1_memory *)own)));
#else
      out[2 * r] = ggml_half(own);
      out[2 * r + 1] = ggml_half(own + 2);
#endif
    }
  }
}

/* Two numbers in alternate lanes. */
GD_INLINE vf ggml_turns(const float *two) {
  vf all;
#if GD_WIDTH == 16
  __asm__("vpbroadcastq %1, %0" : "=v"(all) : "m"(*(const u2_memory *)two));
#else
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) all[l] = two[l & 1];
#endif
  return all;
}

/* Sixteen numbers times a factor, or times the two that alternate between lanes. */
GD_INLINE void ggml_products(const ggml_floats *numbers, vf factor, float *out) {
  vf parts[GD_PARTS];
  __builtin_memcpy(parts, numbers, sizeof *numbers);
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(out, p * GD_WIDTH, GD_CPU_F32, parts[p] * factor);
}

/* The float32 of half of a power of two, by its biased exponent. */
GD_INLINE uint32_t ggml_half_of_power(uint32_t exponent) {
  return exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
}

typedef float ggml_floats_8 __attribute__((vector_size(32)));
typedef float ggml_floats_8_memory __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint8_t ggml_bytes_8 __attribute__((vector_size(8)));
typedef uint32_t ggml_words_8 __attribute__((vector_size(32)));
typedef int32_t ggml_integers_8 __attribute__((vector_size(32)));

/* Scales and minima of Q4_K and Q5_K: four and four of them, twice. */
GD_INLINE void ggml_eights(const uint8_t *block, const float *halves, float *out) {
  uint64_t first = *(const u2_memory *)(block + 4), last = *(const u1_memory *)(block + 12);
  uint64_t words[2] = {
    first & 0x3f3f3f3f3f3f3f3f,
    ((last | last << 28) & 0x0f0f0f0f0f0f0f0f) | (first >> 2 & 0x3030303030303030)};
#if GD_WIDTH == 16
  __asm__("" : "+m"(words)); /* read by the instruction that widens them */
#endif
#if GD_WIDTH >= 8
  ggml_floats_8 factors = (ggml_floats_8)_mm256_blend_ps(_mm256_broadcast_ss(halves), _mm256_broadcast_ss(halves + 1), 0xf0);
#else
  ggml_floats_8 factors = {halves[0], halves[0], halves[0], halves[0], halves[1], halves[1], halves[1], halves[1]};
#endif
  GD_UNROLL for (int i = 0; i < 2; i++) {
    ggml_bytes_8 bytes;
    __builtin_memcpy(&bytes, &words[i], sizeof bytes);
    *(ggml_floats_8_memory *)(out + 8 * i) = __builtin_convertvector(bytes, ggml_floats_8) * factors;
  }
}

/* Scales of IQ4_XS: four bits of each at 4 j, two more at 2 j of another word. */
GD_INLINE void ggml_sixes(const uint8_t *block, float factor, float *out) {
  ggml_words_8 low = *(const u1_memory *)(block + 4) - (ggml_words_8){0}, j = {0, 1, 2, 3, 4, 5, 6, 7};
  ggml_words_8 upper = (uint32_t)*(const h1_memory *)(block + 2) - (ggml_words_8){0};
  ggml_integers_8 six = (ggml_integers_8)((low >> 4 * j & 15) | (upper >> 2 * j & 3) << 4) - 32;
  *(ggml_floats_8_memory *)out = __builtin_convertvector(six, ggml_floats_8) * factor;
}

/* The scales and minima of a large block, from its half floats. */
GD_INLINE void ggml_products_of(const uint8_t *block, const float *halves, float *out, uint32_t type) {
  ggml_floats floats;
  if (type == GGML_Q2_K) {
    ggml_bytes both = *(const ggml_bytes_memory *)block, scales = both & 15, minima = both >> 4;
    ggml_bytes first = __builtin_shufflevector(scales, minima, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    ggml_bytes last = __builtin_shufflevector(scales, minima, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    vf factors = ggml_turns(halves);
    floats = __builtin_convertvector(first, ggml_floats);
    ggml_products(&floats, factors, out);
    floats = __builtin_convertvector(last, ggml_floats);
    ggml_products(&floats, factors, out + GD_LANES);
  } else if (type == GGML_Q3_K) {
    ggml_words words = *(const ggml_words_memory *)(block + 92);
    ggml_words low = __builtin_shufflevector(words, words, 1, 2, 1, 2) >> (ggml_words){0, 0, 4, 4} & 0x0f0f0f0f;
    ggml_words upper = __builtin_shufflevector(words, words, 3, 3, 3, 3) >> (ggml_words){0, 2, 4, 6} & 0x03030303;
    ggml_signed_bytes scales = (ggml_signed_bytes)(low | upper << 4) - 32;
    floats = __builtin_convertvector(scales, ggml_floats);
    ggml_products(&floats, splat_memory(halves), out);
  } else if (type == GGML_Q6_K) {
    ggml_signed_bytes scales = *(const ggml_signed_memory *)(block + 192);
    floats = __builtin_convertvector(scales, ggml_floats);
    ggml_products(&floats, splat_memory(halves), out);
  } else if (type == GGML_IQ4_XS) {
    ggml_sixes(block, *halves, out);
  } else {
    ggml_eights(block, halves, out);
  }
}

/* The scales and minima of a large block, scale j at 2 j and minimum j after it if it has minima. */
GD_INLINE void ggml_factors_of(const uint8_t *block, block_scales *out, uint32_t type) {
  float halves[2];
  ggml_halves_of(block, 0, 1, halves, type);
  ggml_products_of(block, halves, out->numbers, type);
  if (!ggml_is_in_eights(type)) return;
  ggml_floats all = *(const ggml_floats *)out->numbers;
  *(ggml_floats *)out->numbers = __builtin_shufflevector(all, all, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
}

/* The scales and minima of `rows` blocks, `apart` bytes apart. */
GD_INLINE void ggml_scales(const uint8_t *block, int64_t apart, int rows, block_scales *out, uint32_t type) {
  if (type == GGML_MXFP4) {
    GD_UNROLL for (int r = 0; r < rows; r++) {
      uint32_t bits = ggml_half_of_power(block[r * apart]);
      __builtin_memcpy(&out->numbers[r], &bits, sizeof bits);
    }
  } else if (!ggml_is_large(type)) {
    ggml_halves_of(block, apart, rows, out->numbers, type);
  } else {
    float halves[2 * GGML_ROWS];
    ggml_halves_of(block, apart, rows, halves, type);
    if (type == GGML_Q6_K && ggml_in_halves(type)) {
      GD_UNROLL for (int r = 0; r < rows; r++) halves[r] *= 0.25f;
    }
#if GD_WIDTH == 16
    if (rows > 1) __asm__("" : "+m"(halves)); /* loads put them into all lanes */
#endif
    GD_UNROLL for (int r = 0; r < rows; r++) {
      ggml_products_of(block + r * apart, halves + ggml_halves(type) * r, out[r].numbers, type);
    }
  }
  if (!ggml_has_bytes(type)) return;
  GD_UNROLL for (int r = 0; r < rows; r++) ggml_integers(block + r * apart, out[r].bytes, type);
}
