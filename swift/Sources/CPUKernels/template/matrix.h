/* Rows of a matrix as float32: widened elements, or fma(q, scale, bias) of packed numbers q.
 *
 * Packed numbers are taken in blocks of GD_LANES, 2 bits bytes each. Where a number may cross the border of a 32-bit
 * word its lane first gets the two bytes that hold it. Then one shift by lane leaves each number in its lane's lowest
 * bits, with bits of the next ones above it, which a lookup of the few values that a group has does not look at:
 *
 *   bits  columns of lanes 0, 1, 2 ..  AVX-512                    AVX2
 *   2     0, 1, 2 ..                   shift, lookup              shift, lookup
 *   3     0, 1, 2 ..                   bytes, shift, lookup       bytes, shift, lookup
 *   4     0, 8, 1, 9, 2 ..             shift, lookup              shift, and, convert, fma
 *   5     0, 1, 2 ..                   bytes, shift, lookup       bytes, shift, and, convert, fma
 *   6     0, 1, 2 ..                   bytes, shift, and, convert, fma, on both
 *   8     0, 1, 2 ..                   widen, convert, fma, on both
 *
 * The 4-bit order is that of eight bytes in every pair of lanes, shifted by 0, 0, 4, 4, 8, 8 ..: what multiplies such a
 * row is put into the same order (interleave). */

enum { MATRIX_LEAST_GROUP = 32, MATRIX_LARGEST_GROUP = 128 };
/* Bytes after a block that are read with it, at most. */
enum { MATRIX_BEYOND = 16 };

GD_INLINE const char *matrix_row(const gd_cpu_matrix *matrix, int64_t row) {
  return (const char *)matrix->values + row * matrix->row_bytes;
}

#define GD_EACH_LANE(F, B)                                                                                    \
  F(B, 0), F(B, 1), F(B, 2), F(B, 3), F(B, 4), F(B, 5), F(B, 6), F(B, 7), F(B, 8), F(B, 9), F(B, 10), F(B, 11), \
    F(B, 12), F(B, 13), F(B, 14), F(B, 15)
/* A number's two bytes in the block, above them zeros; and where in them it begins. */
#define GD_BYTES(B, L) L * B / 8, L * B / 8 + 1, 0x80, 0x80
#define GD_SHIFT(B, L) L * B % 8
#define GD_SHIFT_2(B, L) 2 * L
#define GD_SHIFT_4(B, L) L / 2 * 4

static const _Alignas(64) uint8_t matrix_bytes[3][4 * GD_LANES] = {
  {GD_EACH_LANE(GD_BYTES, 3)}, {GD_EACH_LANE(GD_BYTES, 5)}, {GD_EACH_LANE(GD_BYTES, 6)}};
static const _Alignas(64) uint32_t matrix_shifts[5][GD_LANES] = {
  {GD_EACH_LANE(GD_SHIFT_2, 2)}, {GD_EACH_LANE(GD_SHIFT, 3)}, {GD_EACH_LANE(GD_SHIFT_4, 4)},
  {GD_EACH_LANE(GD_SHIFT, 5)}, {GD_EACH_LANE(GD_SHIFT, 6)}};
static const _Alignas(64) float matrix_numbers[2 * GD_LANES] = {
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

typedef uint32_t u1_memory __attribute__((aligned(1), may_alias));
typedef uint64_t u2_memory __attribute__((aligned(1), may_alias));

GD_INLINE vu shifts_of(uint32_t bits, int part) { return *(const vu *)&matrix_shifts[bits - 2][part * GD_WIDTH]; }
GD_INLINE const uint8_t *bytes_of(uint32_t bits, int part) {
  return &matrix_bytes[bits == 3 ? 0 : bits - 4][4 * part * GD_WIDTH];
}

/* Numbers of one part of the block at `block`, lowest in their lanes. */
GD_INLINE vu packed_numbers(const uint8_t *block, uint32_t bits, int part) {
#if GD_WIDTH == 16
  (void)part; /* the only one */
  if (bits == 8) return (vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)block));
  vu words;
  if (bits == 2) words = (vu)_mm512_set1_epi32((int)*(const u1_memory *)block);
  else if (bits == 4) words = (vu)_mm512_set1_epi64((long long)*(const u2_memory *)block);
  else {
    __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)block));
    words = (vu)_mm512_shuffle_epi8(all, *(const __m512i *)bytes_of(bits, 0));
  }
  return (vu)_mm512_srlv_epi32((__m512i)words, (__m512i)shifts_of(bits, 0));
#elif GD_WIDTH == 8
  if (bits == 8) return (vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(block + 8 * part)));
  vu words;
  if (bits == 2) words = (vu)_mm256_set1_epi32((int)*(const u1_memory *)block);
  else if (bits == 4) words = (vu)_mm256_set1_epi64x((long long)*(const u2_memory *)block);
  else {
    __m256i all = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)block));
    words = (vu)_mm256_shuffle_epi8(all, *(const __m256i *)bytes_of(bits, part));
  }
  return (vu)_mm256_srlv_epi32((__m256i)words, (__m256i)shifts_of(bits, part));
#else
  vu words;
  if (bits == 2) {
    words = *(const u1_memory *)block - (vu){0};
  } else if (bits == 4) {
    const u1_memory *two = (const u1_memory *)block;
    words = (vu){two[0], two[1], two[0], two[1]};
  } else if (bits == 8) {
    uint32_t four = *(const u1_memory *)(block + 4 * part);
    return (vu){four & 255, four >> 8 & 255, four >> 16 & 255, four >> 24};
  } else {
    const uint8_t *bytes = bytes_of(bits, part);
    GD_UNROLL for (int l = 0; l < 4; l++) words[l] = block[bytes[4 * l]] | (uint32_t)block[bytes[4 * l + 1]] << 8;
  }
  return words >> shifts_of(bits, part);
#endif
}

/* What turns a group's numbers into values: a table of them, or scale and bias. */
typedef struct affine {
  vf low, high;
} affine;

/* Whether values are looked up. */
#define GD_LOOKS_UP(BITS) ((GD_WIDTH == 16 && (BITS) <= 5) || (GD_WIDTH == 8 && (BITS) <= 3))

/* A number in memory, in all lanes. For AVX-512 compilers take vbroadcastss, which Zen 4 sends through its vector units,
 * one a cycle; vpbroadcastd is a load and no more, two a cycle. */
GD_INLINE vf splat_memory(const float *x) {
#if GD_WIDTH == 16
  vf all;
  __asm__("vpbroadcastd %1, %0" : "=v"(all) : "m"(*x));
  return all;
#else
  return splat(*x);
#endif
}

GD_INLINE affine affine_of(const float *scale, const float *bias, uint32_t bits) {
  affine group = {splat_memory(scale), GD_LOOKS_UP(bits) ? splat(*bias) : splat_memory(bias)};
  if (!GD_LOOKS_UP(bits)) return group;
  /* Two bits are looked up among the four numbers of each 128 bits. */
  vf numbers = *(const vf *)matrix_numbers;
#if GD_WIDTH == 16
  if (bits == 2) numbers = (vf)_mm512_broadcast_f32x4(*(const __m128 *)matrix_numbers);
  if (bits == 3) numbers = (vf)_mm512_broadcast_f32x8(*(const __m256 *)matrix_numbers);
#elif GD_WIDTH == 8
  if (bits == 2) numbers = (vf)_mm256_broadcast_ps((const __m128 *)matrix_numbers);
#endif
  affine table = {fma_vf(numbers, group.low, group.high), group.high};
  if (bits == 5) table.high = fma_vf(numbers + splat(16.0f), group.low, group.high);
  return table;
}

#if GD_WIDTH == 16
/* Compilers take vpermd for this, since the numbers come from integer instructions: the loop is 4 % slower with it on
 * Zen 4. */
GD_INLINE vf sixteen_values(vu numbers, vf table) {
  vf values;
  __asm__("vpermps %2, %1, %0" : "=v"(values) : "v"(numbers), "v"(table));
  return values;
}
#endif

GD_INLINE vf affine_values(vu numbers, affine group, uint32_t bits) {
#if GD_WIDTH == 16
  if (bits == 2) return (vf)_mm512_permutevar_ps((__m512)group.low, (__m512i)numbers);
  if (bits == 3 || bits == 4) return sixteen_values(numbers, group.low);
  if (bits == 5) return (vf)_mm512_permutex2var_ps((__m512)group.low, (__m512i)numbers, (__m512)group.high);
#elif GD_WIDTH == 8
  if (bits == 2) return (vf)_mm256_permutevar_ps((__m256)group.low, (__m256i)numbers);
  if (bits == 3) return (vf)_mm256_permutevar8x32_ps((__m256)group.low, (__m256i)numbers);
#endif
  if (bits != 8) numbers &= (1u << bits) - 1;
  return fma_vf(__builtin_convertvector((vi)numbers, vf), group.low, group.high);
}

/* Whether blocks are read with bytes beyond their end. */
GD_INLINE int reads_beyond(uint32_t bits) { return bits == 3 || bits == 5 || bits == 6; }

/* Elements first .. first + count - 1 of a row of packed numbers, in the order of lanes; both are multiples of a group,
 * and count is at most MATRIX_DEPTH. */
enum { MATRIX_DEPTH = 1024 };
GD_INLINE void expand_packed(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *out, uint32_t bits
) {
  float scales[MATRIX_DEPTH / MATRIX_LEAST_GROUP], biases[MATRIX_DEPTH / MATRIX_LEAST_GROUP];
  int64_t group = matrix->group, groups = count / group;
  int64_t at = row * (matrix->columns / group) + first / group;
  convert(matrix->scales, at, matrix->dtype, scales, 0, GD_CPU_F32, groups);
  convert(matrix->biases, at, matrix->dtype, biases, 0, GD_CPU_F32, groups);
  const uint8_t *block = (const uint8_t *)matrix_row(matrix, row) + first * bits / 8;
  uint8_t last[MATRIX_LARGEST_GROUP + MATRIX_BEYOND];
  for (int64_t g = 0; g < groups; g++) {
    if (reads_beyond(bits) && g == groups - 1) block = __builtin_memcpy(last, block, (size_t)(group * bits / 8));
    affine values = affine_of(&scales[g], &biases[g], bits);
    for (int64_t i = 0; i < group; i += GD_LANES, block += 2 * bits) {
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        store(out, g * group + i + p * GD_WIDTH, GD_CPU_F32, affine_values(packed_numbers(block, bits, p), values, bits));
      }
    }
  }
}

/* Elements first .. first + count - 1 of a row, at most MATRIX_DEPTH. Of a matrix of packed numbers both are multiples
 * of a group, and the order within GD_LANES is that of lanes. */
static void expand(const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *out) {
  switch (matrix->bits) {
    case 2: return expand_packed(matrix, row, first, count, out, 2);
    case 3: return expand_packed(matrix, row, first, count, out, 3);
    case 4: return expand_packed(matrix, row, first, count, out, 4);
    case 5: return expand_packed(matrix, row, first, count, out, 5);
    case 6: return expand_packed(matrix, row, first, count, out, 6);
    case 8: return expand_packed(matrix, row, first, count, out, 8);
    default: return convert(matrix_row(matrix, row), first, matrix->dtype, out, 0, GD_CPU_F32, count);
  }
}

/* A block, whatever the width of the vectors. */
typedef float v16_memory __attribute__((vector_size(4 * GD_LANES), aligned(4), may_alias));

/* Puts `count` columns, a multiple of GD_LANES, into the order of a 4-bit weight's lanes, in place; or back. */
GD_INLINE void interleave(float *values, int64_t count, int back) {
  for (int64_t i = 0; i < count; i += GD_LANES) {
    v16_memory *block = (v16_memory *)(values + i);
    if (back) *block = __builtin_shufflevector(*block, *block, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    else *block = __builtin_shufflevector(*block, *block, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  }
}
