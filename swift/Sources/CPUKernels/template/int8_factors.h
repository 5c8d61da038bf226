/* Scales and offsets of packed weights as float32, for products with int8 activations: those that the exact kernels use. Those of a format
 * whose blocks hold none lie in tensors of their own (matrix.h). */

#define int8_ggml_has_offset(TYPE) (ggml_has_minimum(TYPE) || ggml_has_offset(TYPE))

static void int8_affine_factors(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *scales, float *offsets
) {
  int64_t shift = layout_of(matrix).shift;
  affine_scales(matrix, (row * matrix->columns + first) >> shift, count >> shift, scales, offsets);
}

/* Eight scales of a block of Q4_K or Q5_K, and as many offsets: its minima, negated. */
GD_INLINE void int8_eights(const uint8_t *block, float *scales, float *offsets, uint32_t type) {
#if GD_WIDTH == 16
  /* In one vector: lanes 0 to 3 and 8 to 11 are six bits of a byte after the half floats, the others four bits of one and the upper two of another (ggml_eights).
   * Of each lane's bytes the lowest, and zeros. */
  (void)type;
  const vu zeros = (vu){0} + 0xffffff00;
  const vu lower = zeros | (vu){4, 5, 6, 7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15};
  const vu upper = zeros | (vu){255, 255, 255, 255, 4, 5, 6, 7, 255, 255, 255, 255, 8, 9, 10, 11};
  const vu shifts = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4}, six = {63, 63, 63, 63, 15, 15, 15, 15, 63, 63, 63, 63, 15, 15, 15, 15};
  const vi halves = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
  const vf signs = {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
  __m128i own = int8_load_16(block);
  __m512i all = _mm512_broadcast_i32x4(own);
  vu numbers = ((vu)_mm512_shuffle_epi8(all, (__m512i)lower) >> shifts & six) | ((vu)_mm512_shuffle_epi8(all, (__m512i)upper) >> 2 & 0x30);
  vf factors = (vf)_mm512_permutexvar_ps((__m512i)halves, _mm512_castps128_ps512(_mm_cvtph_ps(own))) * signs;
  vf out = __builtin_convertvector((vi)numbers, vf) * factors;
  __builtin_memcpy(scales, &out, 32);
  __builtin_memcpy(offsets, (const float *)&out + 8, 32);
#else
  float halves[2], numbers[16];
  ggml_halves_of(block, 0, 1, halves, type);
  ggml_products_of(block, halves, numbers, type);
  GD_UNROLL for (int g = 0; g < 8; g += 4) {
    *(v4_memory *)(scales + g) = *(const v4_memory *)(numbers + 2 * g);
    *(v4_memory *)(offsets + g) = -*(const v4_memory *)(numbers + 2 * g + 4);
  }
#endif
}

#if GD_WIDTH == 16
/* The half floats of sixteen small blocks, number `first` of each: of each 64 bytes those that are there go to their lanes. */
GD_INLINE vf int8_sixteen_halves(const uint8_t *block, int bytes, int first) {
#define GD_AT(B, L) L * B / 2 % 32
  int8_h16 words = {GD_EACH_LANE(GD_AT, 18)};
  if (bytes == 20) words = (int8_h16){GD_EACH_LANE(GD_AT, 20)};
  if (bytes == 22) words = (int8_h16){GD_EACH_LANE(GD_AT, 22)};
  if (bytes == 24) words = (int8_h16){GD_EACH_LANE(GD_AT, 24)};
  if (bytes == 34) words = (int8_h16){GD_EACH_LANE(GD_AT, 34)};
#undef GD_AT
  __m512i at = _mm512_castsi256_si512((__m256i)(words + (uint16_t)first)), all = _mm512_setzero_si512();
  GD_UNROLL for (int i = 0; i < 16 * bytes; i += 64) {
    uint32_t there = 0;
    GD_UNROLL for (int l = 0; l < 16; l++) there |= (uint32_t)((l * bytes + 2 * first) / 64 == i / 64) << l;
    __m512i from = 16 * bytes - i < 64 ? _mm512_castsi256_si512(int8_load_32(block + i)) : _mm512_loadu_si512(block + i);
    all = _mm512_mask_permutexvar_epi16(all, there, at, from);
  }
  return (vf)_mm512_cvtph_ps(_mm512_castsi512_si256(all));
}

/* The scales of a block of sixteen groups, and what is added. */
GD_INLINE void int8_sixteens_factors(const uint8_t *block, vf *scales, vf *offsets, uint32_t type) {
  __m128i numbers, low_half = _mm_set1_epi8(0x0f);
  if (type == GGML_Q2_K) {
    numbers = int8_load_16(block);
    vi minima = (vi)_mm512_cvtepu8_epi32(_mm_and_si128(_mm_srli_epi16(numbers, 4), low_half));
    *offsets = -(__builtin_convertvector(minima, vf) * splat(ggml_half(block + 82)));
    numbers = _mm_and_si128(numbers, low_half);
  } else if (type == GGML_Q3_K) {
    /* Four bits each in halves of eight bytes, and two above these in four bytes. */
    __m128i lower = _mm_loadl_epi64((const __m128i *)(block + 96)), upper = _mm_set1_epi32((int)*(const u1_memory *)(block + 104));
    lower = _mm_srlv_epi32(_mm_unpacklo_epi64(lower, lower), _mm_setr_epi32(0, 0, 4, 4));
    upper = _mm_and_si128(_mm_srlv_epi32(upper, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(0x03));
    numbers = _mm_or_si128(_mm_and_si128(lower, low_half), _mm_slli_epi16(upper, 4));
    numbers = _mm_sub_epi8(numbers, _mm_set1_epi8(32));
  } else {
    numbers = int8_load_16(block + 192);
  }
  float own = ggml_half(block + (type == GGML_Q2_K ? 80 : type == GGML_Q3_K ? 108 : 208));
  *scales = __builtin_convertvector((vi)_mm512_cvtepi8_epi32(numbers), vf) * splat(own);
}
#endif

#if defined(GD_DOT_AVX512VNNI)
/* Half floats of small blocks, sixteen blocks at a time. For Intel's processors, which gather fast. */
GD_INLINE void int8_gathered(const uint8_t *block, int64_t blocks, float *scales, float *offsets, uint32_t type, int bytes) {
  const vi places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t at = 0; at < blocks; at += 16, block += 16 * bytes) {
    if (bytes == 18 && blocks - at >= 16) {
      store(scales, at, GD_CPU_F32, int8_sixteen_halves(block, 18, 0));
      continue;
    }
    __mmask16 there = (__mmask16)((1u << least(16, blocks - at)) - 1);
    vi both = (vi)_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), there, (__m512i)(places * bytes), block, 1);
    _mm512_mask_storeu_ps(scales + at, there, _mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)both)));
    if (ggml_has_offset(type)) _mm512_mask_storeu_ps(offsets + at, there, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)both, 16))));
  }
}
#endif

GD_INLINE void int8_ggml_factors(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *scales, float *offsets, uint32_t type,
  int elements, int bytes
) {
  const uint8_t *block = (const uint8_t *)matrix_row(matrix, row) + first / elements * bytes;
  int64_t blocks = count / elements;
  if (type == GGML_MXFP4) {
    for (int64_t b = 0; b < blocks; b++) {
      uint32_t bits = ggml_half_of_power(block[b * bytes]);
      __builtin_memcpy(&scales[b], &bits, 4);
    }
  } else if (!ggml_is_large(type)) {
#if defined(GD_DOT_AMX)
    int8_gathered(block, blocks, scales, offsets, type, bytes);
#else
#if defined(GD_DOT_AVX512VNNI)
    if (gd_cpu_asks_by_pages) return int8_gathered(block, blocks, scales, offsets, type, bytes);
#endif
    uint16_t halves[2][INT8_SEGMENT / 32];
    for (int64_t at = 0; at < blocks; at += INT8_SEGMENT / 32) {
      int64_t part = least(INT8_SEGMENT / 32, blocks - at);
      for (int64_t b = 0; b < part; b++, block += bytes) {
        halves[0][b] = *(const h1_memory *)block;
        if (ggml_has_offset(type)) halves[1][b] = *(const h1_memory *)(block + 2);
      }
      convert(halves[0], 0, GD_CPU_F16, scales, at, GD_CPU_F32, part);
      if (ggml_has_offset(type)) convert(halves[1], 0, GD_CPU_F16, offsets, at, GD_CPU_F32, part);
    }
#endif
  } else {
    int groups = 256 / GD_LANES / ggml_group(type);
    for (int64_t b = 0; b < blocks; b++, block += bytes, scales += groups, offsets += groups) {
      block_scales own;
      if (ggml_is_in_eights(type)) {
        int8_eights(block, scales, offsets, type);
        continue;
      }
#if GD_WIDTH == 16
      if (groups == 16) {
        vf all, added;
        int8_sixteens_factors(block, &all, &added, type);
        store(scales, 0, GD_CPU_F32, all);
        if (ggml_has_minimum(type)) store(offsets, 0, GD_CPU_F32, added);
        continue;
      }
#endif
      ggml_factors_of(block, &own, type);
      if (!ggml_has_minimum(type)) {
        __builtin_memcpy(scales, own.numbers, (size_t)groups * sizeof *scales);
        continue;
      }
      GD_UNROLL for (int g = 0; g < groups; g++) {
        scales[g] = own.numbers[2 * g];
        offsets[g] = -own.numbers[2 * g + 1];
      }
    }
  }
}

static void int8_micro_factors(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *scales, float *offsets
) {
  int64_t shift = layout_of(matrix).shift, groups = count >> shift;
  micro_scales(matrix, (row * matrix->columns + first) >> shift, groups, scales, offsets);
  for (int64_t g = 0; g < groups; g++) scales[g] *= 0.5f;
}
