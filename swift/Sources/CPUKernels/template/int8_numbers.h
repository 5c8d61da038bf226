/* The integers and factors of packed weights, for products with int8 activations: whatever the format, unsigned bytes in the order
 * of columns, and for each group of columns
 *   weight = scale (number - middle) + offset
 * with the scales and offsets that the exact kernels use, as float32. What a format needs: int8_form_of.
 *
 * A format without a form here is multiplied exactly. One that is to have a form needs numbers of at most 8 bits, a float32 scale
 * and, if need be, offset for 16, 32, 64 or 128 columns. Floats of four bits are twice as large in a table of integers, and their scales
 * half as large. */

/* Columns that are unpacked at a time, and the most groups that these are. */
enum { INT8_SEGMENT = 2048, INT8_SEGMENT_GROUPS = INT8_SEGMENT / 16 };

/* Numbers of `count` columns, at most INT8_SEGMENT: whole blocks of `row` from column `first` on. */
typedef void int8_numbers(const uint8_t *row, int64_t first, int64_t count, uint8_t *out);
/* Scales and offsets of `count` columns of row `row`, whole blocks from `first` on, and of rows after it if these are more. */
typedef void int8_factors(const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *scales, float *offsets);

typedef struct int8_form {
  int8_numbers *numbers;
  int8_factors *factors;
  int16_t group, middle;
  int has_offset;
  int most; /* the largest number */
} int8_form;

typedef uint8_t int8_b16 __attribute__((vector_size(16)));
typedef uint8_t int8_b32 __attribute__((vector_size(32)));
typedef uint16_t int8_h16 __attribute__((vector_size(32)));
typedef uint16_t int8_h32 __attribute__((vector_size(64)));
typedef uint32_t int8_w16 __attribute__((vector_size(64)));
typedef uint8_t int8_b16_memory __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t int8_b32_memory __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t int8_h16_memory __attribute__((vector_size(32), aligned(1), may_alias));
typedef uint16_t int8_h32_memory __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint32_t int8_w16_memory __attribute__((vector_size(64), aligned(1), may_alias));

/* Sixteen numbers of `bits` bits, each put into two bytes of its own, moved to the top of these and down again. May read 16
 * bytes. */
GD_INLINE void int8_sixteen(const uint8_t *from, uint8_t *out, uint32_t bits) {
#define GD_TWO(B, L) L * B / 8, L * B / 8 + 1
#define GD_UP(B, L) 1 << (16 - B - L * B % 8)
  int8_b16 bytes = *(const int8_b16_memory *)from;
  int8_h16 up;
  int8_b32 two;
  if (bits == 3) {
    two = __builtin_shufflevector(bytes, bytes, GD_EACH_LANE(GD_TWO, 3));
    up = (int8_h16){GD_EACH_LANE(GD_UP, 3)};
  } else if (bits == 5) {
    two = __builtin_shufflevector(bytes, bytes, GD_EACH_LANE(GD_TWO, 5));
    up = (int8_h16){GD_EACH_LANE(GD_UP, 5)};
  } else {
    two = __builtin_shufflevector(bytes, bytes, GD_EACH_LANE(GD_TWO, 6));
    up = (int8_h16){GD_EACH_LANE(GD_UP, 6)};
  }
  *(int8_b16_memory *)out = __builtin_convertvector((int8_h16)two * up >> (16 - bits), int8_b16);
#undef GD_TWO
#undef GD_UP
}

#if GD_WIDTH == 16
/* The same for any number of them, 64 at a time, where gd_cpu_has_vbmi: the bytes of eight numbers go to 64 bits of a vector, from which each lane takes its own. In
 * assembly, since the instruction set of these kernels lacks the two instructions. */
static __attribute__((noinline)) void int8_fields(const uint8_t *from, int64_t count, uint8_t *out, uint32_t bits) {
  const __m512i eighths = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7) * 0x0101010101010101, ones = _mm512_set1_epi64(0x0706050403020100);
  __m512i each = _mm512_set1_epi16((short)bits), mask = _mm512_set1_epi8((char)((1 << bits) - 1));
  __m512i shifts = _mm512_mullo_epi16(ones, each), places = _mm512_add_epi8(ones, _mm512_mullo_epi16(eighths, each));
  __mmask64 all = ((__mmask64)1 << 8 * bits) - 1;
  for (int64_t i = 0; i < count; i += 64, from += 8 * bits) {
    if (count - i < 64) all = ((__mmask64)1 << (count - i) / 8 * bits) - 1;
    __m512i numbers = _mm512_maskz_loadu_epi8(all, from);
    __asm__("vpermb %0, %1, %0" : "+v"(numbers) : "v"(places));
    __asm__("vpmultishiftqb %0, %1, %0" : "+v"(numbers) : "v"(shifts));
    _mm512_storeu_si512(out + i, _mm512_and_si512(numbers, mask));
  }
}
#endif

GD_INLINE void int8_affine(const uint8_t *row, int64_t first, int64_t count, uint8_t *out, uint32_t bits) {
  const uint8_t *from = row + first / 8 * bits;
  int64_t i = 0;
  if (bits == 8) {
    __builtin_memcpy(out, from, (size_t)count);
  } else if (bits == 4) {
    for (; i + 64 <= count; i += 64) {
      int8_h32 byte = __builtin_convertvector(*(const int8_b32_memory *)(from + i / 2), int8_h32);
      *(int8_h32_memory *)(out + i) = (byte | byte << 4) & 0x0f0f;
    }
    for (; i < count; i += 32) {
      int8_b16 bytes = {0};
      if (count - i >= 32) bytes = *(const int8_b16_memory *)(from + i / 2);
      else __builtin_memcpy(&bytes, from + i / 2, 8);
      int8_h16 byte = __builtin_convertvector(bytes, int8_h16);
      *(int8_h16_memory *)(out + i) = (byte | byte << 4) & 0x0f0f;
    }
  } else if (bits == 2) {
    for (; i < count; i += 64) {
      int8_b16 bytes;
      if (count - i >= 64) bytes = *(const int8_b16_memory *)(from + i / 4);
      else __builtin_memcpy(&bytes, from + i / 4, 8);
      int8_w16 byte = __builtin_convertvector(bytes, int8_w16);
      *(int8_w16_memory *)(out + i) = (byte | byte << 6 | byte << 12 | byte << 18) & 0x03030303;
    }
  } else {
#if GD_WIDTH == 16
    if (gd_cpu_has_vbmi) return int8_fields(from, count, out, bits);
#endif
    for (; i + 32 < count; i += 16) int8_sixteen(from + i / 8 * bits, out + i, bits);
    uint8_t last[32 + 16] = {0};
    __builtin_memcpy(last, from + i / 8 * bits, (size_t)((count - i) / 8 * bits));
    for (int64_t k = 0; k < count - i; k += 16) int8_sixteen(last + k / 8 * bits, out + i + k, bits);
  }
}

static void int8_affine_factors(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *scales, float *offsets
) {
  int64_t shift = layout_of(matrix).shift;
  affine_scales(matrix, (row * matrix->columns + first) >> shift, count >> shift, scales, offsets);
}

#define int8_ggml_has_offset(TYPE) (ggml_has_minimum(TYPE) || ggml_has_offset(TYPE))

/* The entries of a table at `numbers`, in place. */
GD_INLINE void int8_entries(ggml_many_memory *numbers, uint32_t type) {
  const int8_t *table = type == GGML_MXFP4 ? ggml_e2m1_bytes : ggml_iq4_bytes;
#if GD_WIDTH >= 8
  __m256i both = _mm256_broadcastsi128_si256(*(const __m128i *)table);
  ggml_many entries = (ggml_many)_mm256_shuffle_epi8(both, (__m256i)*numbers);
#elif defined(__aarch64__)
  uint8x16_t all = vld1q_u8((const uint8_t *)table), halves[2];
  ggml_many entries;
  __builtin_memcpy(halves, numbers, sizeof halves);
  GD_UNROLL for (int h = 0; h < 2; h++) halves[h] = vqtbl1q_u8(all, halves[h]);
  __builtin_memcpy(&entries, halves, sizeof entries);
#else
  ggml_many entries;
  for (int l = 0; l < 32; l++) entries[l] = (uint8_t)table[(*numbers)[l]];
#endif
  *numbers = entries + (uint8_t)int8_ggml_middle(type);
}

#if GD_WIDTH >= 8
GD_INLINE __m128i int8_load_16(const uint8_t *from) { return _mm_loadu_si128((const __m128i *)from); }
GD_INLINE __m256i int8_load_32(const uint8_t *from) { return _mm256_loadu_si256((const __m256i *)from); }
GD_INLINE vi int8_low(vi bytes) { return bytes & 0x0f0f0f0f; }
GD_INLINE vi int8_high(vi bytes) { return (vi)((vu)bytes >> 4) & 0x0f0f0f0f; }
GD_INLINE vi int8_repeat_4(uint32_t byte) { return (vi)((vu){0} + byte * 0x01010101u); }
/* Of each byte the bits from number `from` on, where `mask` has those from number 4 on. */
GD_INLINE vi int8_above(vi bytes, int from, uint32_t mask) {
  vu moved = from < 4 ? (vu)bytes << (4 - from) : (vu)bytes >> (from - 4);
  return (vi)moved & int8_repeat_4(mask);
}
#endif
#if GD_WIDTH == 16

/* The numbers of a half of a block of Q6_K: of 64 columns, and of the 64 after them. Each byte has four bits of two numbers, and one of 32 further bytes the upper two
 * of four. */
GD_INLINE void int8_six(const uint8_t *block, int half, vi out[2]) {
  vi four = load_vi(block + 64 * half);
  __m512i two = _mm512_broadcast_i64x4(int8_load_32(block + 128 + 32 * half));
  const __m512i up = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1);
  const __m512i down = _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(2), 1);
  out[0] = int8_low(four) | ((vi)_mm512_sllv_epi16(two, up) & int8_repeat_4(0x30));
  out[1] = int8_high(four) | ((vi)_mm512_srlv_epi16(two, down) & int8_repeat_4(0x30));
}

/* Numbers 64 k to 64 k + 63 of a block of Q5_K: 32 from the low halves of 32 bytes, then 32 from the high ones. Their fifth bits are bits 2 k and 2 k + 1 of the
 * 32 bytes before all these. */
GD_INLINE vi int8_five(const uint8_t *block, int k) {
  __m512i four = _mm512_broadcast_i64x4(int8_load_32(block + 48 + 32 * k)), fifth = _mm512_broadcast_i64x4(int8_load_32(block + 16));
  const __m512i down = _mm512_inserti64x4(_mm512_set1_epi16(0), _mm256_set1_epi16(4), 1);
  const __m512i turn = _mm512_inserti64x4(_mm512_set1_epi32((4 - 2 * k) & 31), _mm256_set1_epi32((3 - 2 * k) & 31), 1);
  return int8_low((vi)_mm512_srlv_epi16(four, down)) | ((vi)_mm512_rolv_epi32(fifth, turn) & int8_repeat_4(0x10));
}
#endif

GD_INLINE void int8_ggml(
  const uint8_t *row, int64_t first, int64_t count, uint8_t *out, uint32_t type, int elements, int bytes
) {
  const uint8_t *block = row + first / elements * bytes;
  for (int64_t i = 0; i < count; i += elements, block += bytes) {
#if GD_WIDTH == 16
    if (type == GGML_Q6_K) {
      GD_UNROLL for (int half = 0; half < 2; half++) {
        vi numbers[2];
        int8_six(block, half, numbers);
        GD_UNROLL for (int k = 0; k < 2; k++) store_vi(out + i + 128 * half + 64 * k, numbers[k]);
      }
      continue;
    } else if (type == GGML_Q5_K) {
      GD_UNROLL for (int k = 0; k < 4; k++) store_vi(out + i + 64 * k, int8_five(block, k));
      continue;
    }
#endif
    for (int k = 0; k < elements; k += 32) {
      ggml_many numbers;
      if (type == GGML_Q8_0) numbers = *(const ggml_many_memory *)(block + 2) ^ 128;
      else if (ggml_is_large(type)) ggml_two_runs(block, k / GD_LANES, &numbers, type);
      else ggml_small(block, &numbers, type);
      if (ggml_has_table(type)) int8_entries(&numbers, type);
      *(ggml_many_memory *)(out + i + k) = numbers;
    }
  }
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

/* MLX's micro-scaled numbers of four bits. Up to 32 are written beyond the last one. */
static void int8_micro(const uint8_t *row, int64_t first, int64_t count, uint8_t *out) {
  int8_affine(row, first, count, out, 4);
  for (int64_t i = 0; i < count; i += 32) int8_entries((ggml_many_memory *)(out + i), GGML_MXFP4);
}

static void int8_micro_factors(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *scales, float *offsets
) {
  int64_t shift = layout_of(matrix).shift, groups = count >> shift;
  micro_scales(matrix, (row * matrix->columns + first) >> shift, groups, scales, offsets);
  for (int64_t g = 0; g < groups; g++) scales[g] *= 0.5f;
}

#define int8_numbers_of_affine(UNPACKING, BITS)                                                                   \
  static void int8_numbers_##UNPACKING(const uint8_t *row, int64_t first, int64_t count, uint8_t *out) {         \
    int8_affine(row, first, count, out, BITS);                                                                   \
  }
#define int8_form_of_affine(UNPACKING, BITS) \
  case UNPACKING: return (int8_form){int8_numbers_##UNPACKING, int8_affine_factors, layout_of(matrix).elements, 0, 1, (1 << BITS) - 1};
#define int8_numbers_of_micro(UNPACKING, BITS)
#define int8_form_of_micro(UNPACKING, BITS)                                                                               \
  case UNPACKING:                                                                                                         \
    if (BITS != 4) return (int8_form){0};                                                                                 \
    return (int8_form){int8_micro, int8_micro_factors, layout_of(matrix).elements, int8_ggml_middle(GGML_MXFP4), 0, int8_ggml_most(GGML_MXFP4)};

#define GD_FORM(UNPACKING, FAMILY, BITS) int8_numbers_of_##FAMILY(UNPACKING, BITS)
GD_CPU_UNPACKINGS(GD_FORM)
#undef GD_FORM
#define GD_FORM(UNPACKING, FAMILY, NUMBER, ELEMENTS, BYTES)                                              \
  static void int8_numbers_##UNPACKING(const uint8_t *row, int64_t first, int64_t count, uint8_t *out) {     \
    int8_##FAMILY(row, first, count, out, NUMBER, ELEMENTS, BYTES);                                      \
  }                                                                                                      \
  static void int8_factors_##UNPACKING(                                                                  \
    const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *scales, float *offsets \
  ) {                                                                                                    \
    int8_##FAMILY##_factors(matrix, row, first, count, scales, offsets, NUMBER, ELEMENTS, BYTES);        \
  }
GD_CPU_BLOCK_UNPACKINGS(GD_FORM)
#undef GD_FORM

static int8_form int8_form_of(const gd_cpu_matrix *matrix) {
  switch (layout_of(matrix).unpacking) {
#define GD_FORM(UNPACKING, FAMILY, BITS) int8_form_of_##FAMILY(UNPACKING, BITS)
    GD_CPU_UNPACKINGS(GD_FORM)
#undef GD_FORM
#define GD_FORM(UNPACKING, FAMILY, NUMBER, ELEMENTS, BYTES)                        \
  case UNPACKING:                                                                  \
    return (int8_form){                                                            \
      int8_numbers_##UNPACKING, int8_factors_##UNPACKING, ggml_group(NUMBER) * GD_LANES, int8_ggml_middle(NUMBER), \
      int8_ggml_has_offset(NUMBER), int8_ggml_most(NUMBER)};
    GD_CPU_BLOCK_UNPACKINGS(GD_FORM)
#undef GD_FORM
    default: return (int8_form){0};
  }
}
