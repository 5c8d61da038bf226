/* One row by weights of four bits and by ggml's blocks, straight from them, with vectors of 16 lanes: sixteen groups at a time, which are
 * as many small blocks, two of eight groups, or one of Q6_K. Scales go from where they are into the terms: put into memory first, for
 * all rows, those of ggml's blocks took longer than the products. x is in the order of int8_arrange, for Q6_K in its own. */
#if GD_WIDTH == 16

/* The formats that are taken so, as GD_INT8_DIRECT has those of four bits. */
#define GD_INT8_BLOCKS(F)             \
  GD_INT8_DIRECT(F)                   \
  F(Q8_0, q8_0, 32, GGML_Q8_0, 34, 1) \
  F(Q5_K, q5_k, 32, GGML_Q5_K, 176, 8) \
  F(Q6_K, q6_k, 16, GGML_Q6_K, 210, 16)

GD_INLINE __m128i int8_load_16(const uint8_t *from) { return _mm_loadu_si128((const __m128i *)from); }
GD_INLINE __m256i int8_load_32(const uint8_t *from) { return _mm256_loadu_si256((const __m256i *)from); }
GD_INLINE vi int8_repeat_4(uint32_t byte) { return (vi)((vu){0} + byte * 0x01010101u); }

/* int8_pairs_of for sums that 16 bits hold: an operation less. */
GD_INLINE vi int8_small_pairs(vi a, vi b) {
  return (vi)_mm512_madd_epi16(_mm512_packs_epi32((__m512i)a, (__m512i)b), _mm512_set1_epi16(1));
}

/* The totals of four vectors, of which 128 bits are a group: lane 4 l + k is that of group l of vector k. How often sums fit 16 bits: so
 * many products, a lane's, of numbers up to 15, 31 or 63 by up to 127, and twice as many. */
GD_INLINE vi int8_totals(const vi own[4], int8_block form) {
  uint32_t most = form.type == GGML_Q6_K ? 63 : form.type == GGML_Q5_K ? 31 : form.type == GGML_MXFP4 || !int8_ggml_is_small(form.type) ? 255 : 15;
  int64_t sum = form.group / 4 * most * 127;
  vi a = sum < 32768 ? int8_small_pairs(own[0], own[1]) : int8_pairs_of(own[0], own[1]);
  vi b = sum < 32768 ? int8_small_pairs(own[2], own[3]) : int8_pairs_of(own[2], own[3]);
  return sum < 16384 ? int8_small_pairs(a, b) : int8_pairs_of(a, b);
}

/* Sums of lanes of four small blocks. */
GD_INLINE vi int8_four_blocks(const uint8_t *block, const int8_t *x, int8_block form) {
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

/* The same of a block of Q6_K: four groups after another. */
GD_INLINE void int8_sixteen_groups(const uint8_t *block, const int8_t *x, vi out[4]) {
  vi none = {0};
  GD_UNROLL for (int h = 0; h < 2; h++) {
    vi four = load_vi(block + 64 * h);
    __m512i two = _mm512_broadcast_i64x4(int8_load_32(block + 128 + 32 * h));
    const __m512i up = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
    const __m512i down = _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(2), 1);
    vi low = int8_low(four) | ((vi)_mm512_sllv_epi16(two, up) & int8_repeat_4(0x30));
    vi high = int8_high(four) | ((vi)_mm512_srlv_epi16(two, down) & int8_repeat_4(0x30));
    out[2 * h] = int8_add(none, int8_weights_of(low, 1), load_vi(x + 128 * h), 1);
    out[2 * h + 1] = int8_add(none, int8_weights_of(high, 1), load_vi(x + 128 * h + 64), 1);
  }
}

/* The half floats of sixteen small blocks, number `first` of each. */
GD_INLINE vf int8_sixteen_halves(const uint8_t *block, int bytes, int first) {
#define GD_AT(B, L) L * B / 2 % 64
  int8_h16 words = {GD_EACH_LANE(GD_AT, 18)};
  if (bytes == 20) words = (int8_h16){GD_EACH_LANE(GD_AT, 20)};
  if (bytes == 34) words = (int8_h16){GD_EACH_LANE(GD_AT, 34)};
#undef GD_AT
  __m512i at = _mm512_castsi256_si512((__m256i)(words + (uint16_t)first)), all = _mm512_setzero_si512();
  GD_UNROLL for (int i = 0; i < 8 * bytes; i += 64) {
    uint32_t mask = 0;
    GD_UNROLL for (int l = 0; l < 16; l++) mask |= (uint32_t)(l * bytes / 2 / 64 == i / 64) << l;
    const uint8_t *from = block + 2 * i;
    if (mask == 0) continue;
    __m512i low = 8 * bytes - i < 32 ? _mm512_castsi256_si512(int8_load_32(from)) : _mm512_loadu_si512(from);
    __m512i high = 8 * bytes - i < 64 ? low : _mm512_loadu_si512(from + 64);
    all = _mm512_or_si512(all, _mm512_maskz_permutex2var_epi16(mask, low, at, high));
  }
  return (vf)_mm512_cvtph_ps(_mm512_castsi512_si256(all));
}

/* The scales and minima of two blocks of eight groups. */
GD_INLINE void int8_eights_factors(const uint8_t *block, int bytes, vf *scales, vf *minima) {
  __m256i head = _mm256_inserti128_si256(_mm256_castsi128_si256(int8_load_16(block)), int8_load_16(block + bytes), 1);
  /* 32 bits each: two half floats; the first four scales and the first four minima, six bits of each byte; and four bits of the last
   * ones, of which the two above are above those six. */
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

/* The sums of products of sixteen groups from a block on, or of as many as are left, in order; and if the blocks hold them, their scales
 * and what is added. */
GD_INLINE vi int8_sixteen_of(const uint8_t *block, const int8_t *x, int64_t left, int8_block form, vf *scales, vf *offsets) {
  uint32_t type = form.type;
  int bytes = form.bytes;
  vi own[4];
  if (type == GGML_Q6_K) {
    int8_sixteen_groups(block, x, own);
    vi scale = (vi)_mm512_cvtepi8_epi32(int8_load_16(block + 192));
    *scales = __builtin_convertvector(scale, vf) * splat(ggml_half(block + 208));
  } else if (ggml_is_in_eights(type)) {
    vf minima;
    GD_UNROLL for (int b = 0; b < 2; b++) int8_eight_groups(block + b * bytes, x + 256 * b, own + 2 * b, type);
    int8_eights_factors(block, bytes, scales, &minima);
    *offsets = -minima;
    vi sums = int8_totals(own, form);
    return __builtin_shufflevector(sums, sums, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  } else {
    GD_UNROLL for (int k = 0; k < 4; k++) {
      own[k] = (vi){0};
      if (4 * k < left) own[k] = int8_four_blocks(block + 4 * k * bytes, x + 4 * k * form.group, form);
    }
    if (type == GGML_MXFP4) {
      GD_UNROLL for (int k = 0; k < 16; k++) (*scales)[k] = __builtin_bit_cast(float, ggml_half_of_power(block[k * bytes]));
    } else if (type != 0) {
      *scales = int8_sixteen_halves(block, bytes, 0);
      if (ggml_has_offset(type)) *offsets = int8_sixteen_halves(block, bytes, 1);
    }
  }
  vi sums = int8_totals(own, form);
  return __builtin_shufflevector(sums, sums, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/* Factors of up to sixteen groups, in a tensor of their own. */
GD_INLINE vf int8_sixteen_factors(const void *factors, int64_t at, int64_t left, uint32_t dtype) {
  __mmask16 mask = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffffu);
  if (dtype == GD_CPU_F32) return (vf)_mm512_maskz_loadu_ps(mask, (const float *)factors + at);
  vh halves = (vh)_mm256_maskz_loadu_epi16(mask, (const uint16_t *)factors + at);
  return dtype == GD_CPU_F16 ? f16_to_vf(halves) : bf16_to_vf(halves);
}

/* The terms of `count` groups from a block on, as int8_terms has them. Those of MLX's forms have factors from `at` on. */
GD_INLINE void int8_block_terms(
  const gd_cpu_matrix *matrix, const uint8_t *block, int64_t at, const int8_x *x, int64_t first, int64_t count, float *terms,
  int8_block form
) {
  int64_t step = 16 / form.groups * form.bytes;
  const int8_t *values = x->values + first * form.group;
  int has_offset = form.type == 0 || int8_ggml_has_offset(form.type);
  for (int64_t g = 0; g < count; g += 16, block += step, values += 16 * form.group) {
    _Alignas(64) uint8_t last[16 * 64];
    const uint8_t *own = block;
    int64_t left = count - g;
    int8_fetch(block, step);
    if (left < 16 && (form.type != 0 || left % 4 != 0)) own = __builtin_memcpy(last, block, (size_t)(left / form.groups * form.bytes));
    vf scales, offsets;
    vi sums = int8_total(int8_sixteen_of(own, values, left, form, &scales, &offsets), int8_ggml_is_small(form.type));
    if (form.type == 0) {
      scales = int8_sixteen_factors(matrix->scales, at + g, left, matrix->dtype);
      offsets = int8_sixteen_factors(matrix->biases, at + g, left, matrix->dtype);
    } else if (int8_ggml_middle(form.type) != 0) {
      sums += load_vi(x->starts + first + g);
    }
    vf term = __builtin_convertvector(sums, vf) * scales * load(x->scales, first + g, GD_CPU_F32);
    if (has_offset) term += offsets * load(x->sums, first + g, GD_CPU_F32);
    store(terms, g, GD_CPU_F32, term);
  }
}

/* The same of `rows` rows, whose terms are `apart` from one to the next: columns from block `from` of row `feature` on. */
typedef void int8_blocks_of(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t rows, const int8_x *x, int64_t first, int64_t count, float *terms,
  int64_t apart);
#define GD_BLOCKS(FORMAT, NAME, ...)                                                                                          \
  static __attribute__((noinline)) void int8_blocks_##NAME(                                                                   \
    const gd_cpu_matrix *matrix, int64_t feature, int64_t rows, const int8_x *x, int64_t first, int64_t count, float *terms,  \
    int64_t apart                                                                                                             \
  ) {                                                                                                                         \
    int8_block form = {__VA_ARGS__};                                                                                          \
    int64_t groups = matrix->columns / form.group;                                                                            \
    const uint8_t *block = (const uint8_t *)matrix->values + (feature * groups + first) / form.groups * form.bytes;           \
    for (int64_t f = 0; f < rows; f++) {                                                                                      \
      int8_block_terms(matrix, block, (feature + f) * groups + first, x, first, count, terms, form);                          \
      block += groups / form.groups * form.bytes;                                                                             \
      terms += apart;                                                                                                         \
    }                                                                                                                         \
  }                                                                                                                           \
  static void int8_arrange_##NAME(const int8_t *x, int64_t columns, int8_t *out) {                                            \
    int8_block form = {__VA_ARGS__};                                                                                          \
    if (form.type == GGML_Q6_K) __builtin_memcpy(out, x, (size_t)columns);                                                    \
    else int8_arrange(x, columns, out, form);                                                                                 \
  }
GD_INT8_BLOCKS(GD_BLOCKS)
#undef GD_BLOCKS
#endif
