/* One row by weights of four and eight bits and by ggml's blocks, straight from them, with vectors of 16 lanes: sixteen groups at a time,
 * which are as many small blocks, two of eight groups, or one of sixteen. Scales go from where they are into the terms: put into memory first, for
 * all rows, those of ggml's blocks took longer than the products. x is in the order of int8_arrange, for groups of 16 in its own. */
#if GD_WIDTH == 16

/* int8_pairs_of for sums that 16 bits hold: one operation less. */
GD_INLINE vi int8_small_pairs(vi a, vi b) {
  return (vi)_mm512_madd_epi16(_mm512_packs_epi32((__m512i)a, (__m512i)b), _mm512_set1_epi16(1));
}

/* The totals of four vectors, of which 128 bits are a group: lane 4 l + k is that of group l of vector k. Pairs are added
 * in 16 bits if these hold the sum: of a lane's products of numbers up to 15, 31 or 63 by up to 127, then of twice as many. */
GD_INLINE vi int8_totals(const vi own[4], int8_block form) {
  int64_t sum = form.group / 4 * 127 * int8_most(form);
  vi a = sum < 32768 ? int8_small_pairs(own[0], own[1]) : int8_pairs_of(own[0], own[1]);
  vi b = sum < 32768 ? int8_small_pairs(own[2], own[3]) : int8_pairs_of(own[2], own[3]);
  return sum < 16384 ? int8_small_pairs(a, b) : int8_pairs_of(a, b);
}

/* Sums of lanes of four small blocks. */
GD_INLINE vi int8_four_blocks(const uint8_t *block, const int8_t *x, int8_block form) {
  if (int8_is_affine8(form)) return int8_four(block, x, form.group, 0);
  if (ggml_has_five(form.type)) {
    /* The fifth bits of a block are those of 16 low halves, then those of 16 high ones. */
    const uint8_t *at = block + ggml_offset(form.type) - 4;
    __m128i fifths = _mm_setr_epi32(
      (int)*(const u1_memory *)at, (int)*(const u1_memory *)(at + form.bytes), (int)*(const u1_memory *)(at + 2 * form.bytes),
      (int)*(const u1_memory *)(at + 3 * form.bytes));
    fifths = _mm_shuffle_epi8(fifths, _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    vi four = int8_of_four(at + 4, form.bytes);
    __m512i low = (__m512i)int8_low(four), high = (__m512i)int8_high(four), sixteen = _mm512_set1_epi8(16);
    low = _mm512_mask_add_epi8(low, (__mmask64)_mm_cvtsi128_si64(fifths), low, sixteen);
    high = _mm512_mask_add_epi8(high, (__mmask64)_mm_extract_epi64(fifths, 1), high, sixteen);
    vi sum = int8_add((vi){0}, int8_weights_of((vi)low, 1), load_vi(x), 1);
    return int8_add(sum, int8_weights_of((vi)high, 1), load_vi(x + 64), 1);
  }
  if (form.type != GGML_Q8_0) return int8_direct_four(block, x, form);
  vi two[2];
  GD_UNROLL for (int i = 0; i < 2; i++, block += 2 * form.bytes) {
    __m512i first = _mm512_castsi256_si512(int8_load_32(block + 2));
    two[i] = (vi)_mm512_inserti64x4(first, int8_load_32(block + form.bytes + 2), 1) ^ int8_repeat_4(0x80);
  }
  vi sum = int8_add((vi){0}, int8_weights_of(GD_FIRST_OF(two[0], two[1]), 0), load_vi(x), 0);
  return int8_add(sum, int8_weights_of(GD_SECOND_OF(two[0], two[1]), 0), load_vi(x + 64), 0);
}

/* The same of a block of eight groups: its even groups, and its odd ones. */
GD_INLINE void int8_eight_groups(const uint8_t *block, const int8_t *x, vi out[2], uint32_t type) {
  const uint8_t *bytes = block + (type == GGML_Q4_K ? 16 : 48);
  vi none = {0}, a = load_vi(bytes), b = load_vi(bytes + 64), numbers[2][2];
  vi halves[2] = {GD_FIRST_OF(a, b), GD_SECOND_OF(a, b)};
  GD_UNROLL for (int h = 0; h < 2; h++) {
    numbers[0][h] = int8_low(halves[h]);
    numbers[1][h] = int8_high(halves[h]);
    if (type == GGML_Q4_K) continue;
    /* The fifth bit of a number of group g is bit g of its byte here. */
    __m512i fifth = _mm512_broadcast_i32x4(int8_load_16(block + 16 + 16 * h));
    const __m512i even = (__m512i)(vi){4, 4, 4, 4, 2, 2, 2, 2, 0, 0, 0, 0, 30, 30, 30, 30};
    const __m512i odd = (__m512i)(vi){3, 3, 3, 3, 1, 1, 1, 1, 31, 31, 31, 31, 29, 29, 29, 29};
    numbers[0][h] |= (vi)_mm512_rolv_epi32(fifth, even) & int8_repeat_4(0x10);
    numbers[1][h] |= (vi)_mm512_rolv_epi32(fifth, odd) & int8_repeat_4(0x10);
  }
  GD_UNROLL for (int i = 0; i < 2; i++) {
    out[i] = int8_add(none, int8_weights_of(numbers[i][0], 1), load_vi(x + 128 * i), 1);
    out[i] = int8_add(out[i], int8_weights_of(numbers[i][1], 1), load_vi(x + 128 * i + 64), 1);
  }
}

/* The same of a block of sixteen groups: four of them after another. */
GD_INLINE void int8_sixteen_groups(const uint8_t *block, const int8_t *x, vi out[4], uint32_t type) {
  vi none = {0};
  if (type != GGML_Q6_K) {
    GD_UNROLL for (int v = 0; v < 4; v++) {
      /* 64 columns: two bits of each of 32 bytes, and the two above these. */
      __m512i two = _mm512_broadcast_i64x4(int8_load_32(block + (type == GGML_Q2_K ? 16 : 32) + 32 * (v / 2)));
      __m512i down = _mm512_inserti64x4(_mm512_set1_epi16((short)(4 * (v % 2))), _mm256_set1_epi16((short)(4 * (v % 2) + 2)), 1);
      vi numbers = (vi)_mm512_srlv_epi16(two, down) & int8_repeat_4(0x03);
      if (type == GGML_Q3_K) {
        /* The third bit of columns 32 k and on is bit k of 32 bytes. It goes to bit 2. */
        __m512i third = _mm512_broadcast_i64x4(int8_load_32(block));
        __m512i turn = _mm512_inserti64x4(_mm512_set1_epi32((2 - 2 * v) & 31), _mm256_set1_epi32((1 - 2 * v) & 31), 1);
        numbers |= (vi)_mm512_rolv_epi32(third, turn) & int8_repeat_4(0x04);
      }
      out[v] = int8_add(none, int8_weights_of(numbers, 1), load_vi(x + 64 * v), 1);
    }
    return;
  }
  GD_UNROLL for (int h = 0; h < 2; h++) {
    vi numbers[2];
    int8_six(block, h, numbers);
    out[2 * h] = int8_add(none, int8_weights_of(numbers[0], 1), load_vi(x + 128 * h), 1);
    out[2 * h + 1] = int8_add(none, int8_weights_of(numbers[1], 1), load_vi(x + 128 * h + 64), 1);
  }
}

/* The scales and minima of two blocks of eight groups. */
GD_INLINE void int8_eights_factors(const uint8_t *block, int bytes, vf *scales, vf *minima) {
  __m256i head = _mm256_inserti128_si256(_mm256_castsi128_si256(int8_load_16(block)), int8_load_16(block + bytes), 1);
  /* 32 bits each: two half floats; the first four scales and the first four minima, six bits of each byte; and four bits of the last
   * ones, whose two upper bits are above those six. */
  __m256i first = _mm256_and_si256(head, _mm256_set1_epi8(0x3f));
  __m256i lower = _mm256_srlv_epi32(_mm256_shuffle_epi32(head, 0xff), _mm256_setr_epi32(0, 0, 4, 0, 0, 0, 4, 0));
  __m256i upper = _mm256_and_si256(_mm256_srli_epi32(head, 2), _mm256_set1_epi8(0x30));
  __m256i last = _mm256_or_si256(_mm256_and_si256(lower, _mm256_set1_epi8(0x0f)), upper);
  __m256i of_scales = _mm256_permute4x64_epi64(_mm256_unpacklo_epi32(first, last), 0x0d);
  __m256i of_minima = _mm256_permute4x64_epi64(_mm256_unpackhi_epi32(first, last), 0x08);
  uint64_t halves = *(const u1_memory *)block | (uint64_t)*(const u1_memory *)(block + bytes) << 32;
  __m512 floats = _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi64_si128((long long)halves)));
  const vi turns = {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2};
  vi numbers = (vi)_mm512_cvtepu8_epi32(_mm256_castsi256_si128(of_scales));
  *scales = __builtin_convertvector(numbers, vf) * (vf)_mm512_permutexvar_ps((__m512i)turns, floats);
  numbers = (vi)_mm512_cvtepu8_epi32(_mm256_castsi256_si128(of_minima));
  *minima = __builtin_convertvector(numbers, vf) * (vf)_mm512_permutexvar_ps((__m512i)(turns + 1), floats);
}

/* The scales of two blocks of IQ4_XS: six bits, four of which are in halves of bytes, times the blocks' own. */
GD_INLINE vf int8_xs_factors(const uint8_t *block, int bytes) {
  const uint8_t *next = block + bytes;
  const vu by_4 = {0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28}, by_2 = by_4 >> 1;
#define GD_BOTH(TYPE, AT) \
  (vu)_mm512_inserti64x4(_mm512_set1_epi32((int)*(const TYPE *)(block + AT)), _mm256_set1_epi32((int)*(const TYPE *)(next + AT)), 1)
  vu numbers = (GD_BOTH(u1_memory, 4) >> by_4 & 15) | (GD_BOTH(h1_memory, 2) >> by_2 & 3) << 4;
#undef GD_BOTH
  vf halves = (vf)_mm512_insertf64x4((__m512d)splat(ggml_half(block)), (__m256d)_mm256_set1_ps(ggml_half(next)), 1);
  return __builtin_convertvector((vi)numbers - 32, vf) * halves;
}

/* Whether `left` groups, less than sixteen, can be read where they are. */
GD_INLINE int int8_reads_part(int8_block form, int64_t left) { return form.is_mlx && form.group > 16 && left % 4 == 0; }

/* The sums of products of sixteen groups from a block on, or of as many as are left, in order; and if the blocks hold them, their scales
 * and what is added. near: what is asked for meanwhile, if four blocks are lines. */
GD_INLINE void int8_step_of(
  const uint8_t *block, const int8_t *x, int64_t left, const uint8_t *near, int8_block form, vi *sums, vf *scales, vf *offsets
) {
  uint32_t type = form.type;
  int bytes = form.bytes;
  vi own[4];
  if (form.is_mlx && form.group == 16) {
    /* A lane has four even columns, and then the four odd ones, of half a group. */
    GD_UNROLL for (int k = 0; k < 2; k++) own[k] = int8_nibbles((vi){0}, load_vi(block + 64 * k), x + 128 * k, type);
    *sums = __builtin_shufflevector(own[0], own[1], 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
            __builtin_shufflevector(own[0], own[1], 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return;
  }
  if (form.groups == 16) {
    int8_sixteen_groups(block, x, own, type);
    int8_sixteens_factors(block, scales, offsets, type);
  } else if (type == GGML_IQ4_XS) {
    GD_UNROLL for (int k = 0; k < 4; k++) {
      own[k] = int8_nibbles((vi){0}, load_vi(block + k / 2 * bytes + 8 + k % 2 * 64), x + 128 * k, type);
    }
    *scales = int8_xs_factors(block, bytes);
  } else if (ggml_is_in_eights(type)) {
    vf minima;
    GD_UNROLL for (int b = 0; b < 2; b++) int8_eight_groups(block + b * bytes, x + 256 * b, own + 2 * b, type);
    int8_eights_factors(block, bytes, scales, &minima);
    *offsets = -minima;
    vi all = int8_totals(own, form);
    *sums = __builtin_shufflevector(all, all, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return;
  } else {
    GD_UNROLL for (int k = 0; k < 4; k++) {
      own[k] = (vi){0};
      if (int8_four_are_lines(form) && int8_asks_near(form)) fetch(near + 4 * k * bytes, 4 * bytes);
      if (4 * k < left) own[k] = int8_four_blocks(block + 4 * k * bytes, x + 4 * k * form.group, form);
    }
    if (form.is_mlx) {
      /* Elsewhere. */
    } else if (type == GGML_MXFP4) {
      GD_UNROLL for (int k = 0; k < 16; k++) (*scales)[k] = __builtin_bit_cast(float, ggml_half_of_power(block[k * bytes]));
    } else {
      *scales = int8_sixteen_halves(block, bytes, 0);
      if (ggml_has_offset(type)) *offsets = int8_sixteen_halves(block, bytes, 1);
    }
  }
  vi all = int8_totals(own, form);
  *sums = __builtin_shufflevector(all, all, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/* Factors of up to sixteen groups, in a tensor of their own; those of bytes are halved (int8_micro_factors). */
GD_INLINE vf int8_step_factors(const void *factors, int64_t at, int64_t left, uint32_t dtype, int64_t group) {
  __mmask16 mask = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffffu);
  if (dtype == GD_CPU_U8) {
    __m128i bytes = _mm_maskz_loadu_epi8(mask, (const uint8_t *)factors + at);
    if (group == MICRO_FLOAT_GROUP) return micro_e4m3((vsh)_mm256_cvtepi8_epi16(bytes)) * splat(0.5f);
    vu exponents = (vu)_mm512_cvtepu8_epi32(bytes);
    return (vf)(exponents << 23 | ((vu)(exponents == 0) & 0x00400000u)) * splat(0.5f);
  }
  if (dtype == GD_CPU_F32) return (vf)_mm512_maskz_loadu_ps(mask, (const float *)factors + at);
  vh halves = (vh)_mm256_maskz_loadu_epi16(mask, (const uint16_t *)factors + at);
  return dtype == GD_CPU_F16 ? f16_to_vf(halves) : bf16_to_vf(halves);
}
#endif
