/* MLX's affine forms, a family of packed formats (matrix.h): fma(q, scale, bias) of unsigned numbers q of 2, 3, 4, 5, 6 or
 * 8 bits. `bits` is a constant wherever these functions are called.
 *
 * A run of GD_LANES numbers is 2 bits bytes. Where a number may cross the border of a 32-bit word, its lane first gets the
 * two bytes that hold it. Then one shift by lane leaves each number in its lane's lowest bits, with bits of the next ones
 * above it, which a lookup among the few values of a group ignores:
 *
 *   bits  columns of lanes 0, 1, 2 ..  AVX-512                    AVX2
 *   2     0, 1, 2 ..                   shift, lookup              shift, lookup
 *   3     0, 1, 2 ..                   bytes, shift, lookup       bytes, shift, lookup
 *   4     0, 8, 1, 9, 2 ..             shift, lookup              shift, and, convert, fma; up to two rows: and, convert, fma (affine_placed.h)
 *   5     0, 1, 2 ..                   bytes, shift, lookup       bytes, shift, and, convert, fma
 *   6     0, 1, 2 ..                   bytes, shift, and, convert, fma, on both
 *   8     0, 1, 2 ..                   widen, convert, fma, on both; up to four rows: bytes, fma on Intel's AVX-512 (affine_raised_values)
 *
 * The 4-bit order is that of eight bytes in every pair of lanes, shifted by 0, 0, 4, 4, 8, 8 ..: what multiplies such a
 * row is put into the same order (interleave). */

#define GD_EACH_LANE(F, B)                                                                                    \
  F(B, 0), F(B, 1), F(B, 2), F(B, 3), F(B, 4), F(B, 5), F(B, 6), F(B, 7), F(B, 8), F(B, 9), F(B, 10), F(B, 11), \
    F(B, 12), F(B, 13), F(B, 14), F(B, 15)
/* A number's two bytes in the run, with zeros above them; and where in them the number begins. */
#define GD_BYTES(B, L) L * B / 8, L * B / 8 + 1, 0x80, 0x80
#define GD_SHIFT(B, L) L * B % 8
#define GD_SHIFT_2(B, L) 2 * L
#define GD_SHIFT_4(B, L) L / 2 * 4

static const _Alignas(64) uint8_t affine_bytes[3][4 * GD_LANES] = {
  {GD_EACH_LANE(GD_BYTES, 3)}, {GD_EACH_LANE(GD_BYTES, 5)}, {GD_EACH_LANE(GD_BYTES, 6)}};
static const _Alignas(64) uint32_t affine_shifts[5][GD_LANES] = {
  {GD_EACH_LANE(GD_SHIFT_2, 2)}, {GD_EACH_LANE(GD_SHIFT, 3)}, {GD_EACH_LANE(GD_SHIFT_4, 4)},
  {GD_EACH_LANE(GD_SHIFT, 5)}, {GD_EACH_LANE(GD_SHIFT, 6)}};
static const _Alignas(64) float affine_table[2 * GD_LANES] = {
  0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

typedef uint32_t u1_memory __attribute__((aligned(1), may_alias));
typedef uint64_t u2_memory __attribute__((aligned(1), may_alias));

GD_INLINE vu affine_shifts_of(uint32_t bits, int part) { return *(const vu *)&affine_shifts[bits - 2][part * GD_WIDTH]; }
GD_INLINE const uint8_t *affine_bytes_of(uint32_t bits, int part) {
  return &affine_bytes[bits == 3 ? 0 : bits - 4][4 * part * GD_WIDTH];
}

/* Numbers of one part of a run, lowest in their lanes. */
GD_INLINE vu affine_numbers(const uint8_t *run, uint32_t bits, int part) {
#if GD_WIDTH == 16
  (void)part; /* the only one */
  if (bits == 8) return (vu)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)run));
  vu words;
  if (bits == 2) words = (vu)_mm512_set1_epi32((int)*(const u1_memory *)run);
  else if (bits == 4) words = (vu)_mm512_set1_epi64((long long)*(const u2_memory *)run);
  else {
    __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)run));
    words = (vu)_mm512_shuffle_epi8(all, *(const __m512i *)affine_bytes_of(bits, 0));
  }
  return (vu)_mm512_srlv_epi32((__m512i)words, (__m512i)affine_shifts_of(bits, 0));
#elif GD_WIDTH == 8
  if (bits == 8) return (vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(run + 8 * part)));
  vu words;
  if (bits == 2) words = (vu)_mm256_set1_epi32((int)*(const u1_memory *)run);
  else if (bits == 4) words = (vu)_mm256_set1_epi64x((long long)*(const u2_memory *)run);
  else {
    __m256i all = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)run));
    words = (vu)_mm256_shuffle_epi8(all, *(const __m256i *)affine_bytes_of(bits, part));
  }
  return (vu)_mm256_srlv_epi32((__m256i)words, (__m256i)affine_shifts_of(bits, part));
#else
  vu words;
  if (bits == 2) {
    words = *(const u1_memory *)run - (vu){0};
  } else if (bits == 4) {
    const u1_memory *two = (const u1_memory *)run;
    words = (vu){two[0], two[1], two[0], two[1]};
  } else if (bits == 8) {
    uint32_t four = *(const u1_memory *)(run + 4 * part);
    return (vu){four & 255, four >> 8 & 255, four >> 16 & 255, four >> 24};
  } else {
    const uint8_t *bytes = affine_bytes_of(bits, part);
    GD_UNROLL for (int l = 0; l < 4; l++) words[l] = run[bytes[4 * l]] | (uint32_t)run[bytes[4 * l + 1]] << 8;
  }
  return words >> affine_shifts_of(bits, part);
#endif
}

/* Whether values are looked up. */
#define GD_LOOKS_UP(BITS) ((GD_WIDTH == 16 && (BITS) <= 5) || (GD_WIDTH == 8 && (BITS) <= 3))

/* A number in memory, in all lanes. For AVX-512, compilers take vbroadcastss, which Zen 4 sends through its vector units,
 * one per cycle; vpbroadcastd is only a load, two per cycle. */
GD_INLINE vf splat_memory(const float *x) {
#if GD_WIDTH == 16
  vf all;
  __asm__("vpbroadcastd %1, %0" : "=v"(all) : "m"(*x));
  return all;
#else
  return splat(*x);
#endif
}

/* A table of a group's values, or its scale and bias. */
GD_INLINE factors affine_factors(const float *scale, const float *bias, uint32_t bits) {
  factors group = {.low = splat_memory(scale), .high = GD_LOOKS_UP(bits) ? splat(*bias) : splat_memory(bias)};
  if (!GD_LOOKS_UP(bits)) return group;
  /* Two bits are looked up among the four numbers of each 128 bits. */
  vf numbers = *(const vf *)affine_table;
#if GD_WIDTH == 16
  if (bits == 2) numbers = (vf)_mm512_broadcast_f32x4(*(const __m128 *)affine_table);
  if (bits == 3) numbers = (vf)_mm512_broadcast_f32x8(*(const __m256 *)affine_table);
#elif GD_WIDTH == 8
  if (bits == 2) numbers = (vf)_mm256_broadcast_ps((const __m128 *)affine_table);
#endif
  factors table = {.low = fma_vf(numbers, group.low, group.high), .high = group.high};
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

/* The weights of numbers, one per lane. */
GD_INLINE vf affine_weights(vu numbers, factors group) {
  return fma_vf(__builtin_convertvector((vi)numbers, vf), group.low, group.high);
}

GD_INLINE vf affine_values(const uint8_t *row, int64_t first, int run, int part, factors group, uint32_t bits) {
  vu numbers = affine_numbers(row + first * 2 * bits + run * 2 * bits, bits, part);
#if GD_WIDTH == 16
  if (bits == 2) return (vf)_mm512_permutevar_ps((__m512)group.low, (__m512i)numbers);
  if (bits == 3 || bits == 4) return sixteen_values(numbers, group.low);
  if (bits == 5) return (vf)_mm512_permutex2var_ps((__m512)group.low, (__m512i)numbers, (__m512)group.high);
#elif GD_WIDTH == 8
  if (bits == 2) return (vf)_mm256_permutevar_ps((__m256)group.low, (__m256i)numbers);
  if (bits == 3) return (vf)_mm256_permutevar8x32_ps((__m256)group.low, (__m256i)numbers);
#endif
  if (bits != 8) numbers &= (1u << bits) - 1;
  return affine_weights(numbers, group);
}

GD_INLINE void affine_scales(const gd_cpu_matrix *matrix, int64_t first, int64_t count, float *scales, float *biases) {
  convert(matrix->scales, first, matrix->dtype, scales, 0, GD_CPU_F32, count);
  convert(matrix->biases, first, matrix->dtype, biases, 0, GD_CPU_F32, count);
}

#if GD_WIDTH == 16
/* Numbers of eight bits without a conversion: a byte in the middle of the fraction of 2^15 makes it 2^15 + q, and fma(2^15 + q, scale,
 * bias - 2^15 scale) rounds fma(q, scale, bias) itself if that difference has no rounding. It has none for bf16 if a bias is at least
 * about half its scale, and for half floats at least about four times; biases of MLX's 8 bits are some 128 times their scales. */
static const float affine_raise = 32768;
static const uint64_t affine_raised = 0x2222222222222222;
/* Where in 64 bytes those of a run are, each for the middle of its lane. */
#define GD_RAISED(RUN, L) 0, 16 * RUN + L, 0, 0
static const _Alignas(64) uint8_t affine_raised_bytes[4][4 * GD_LANES] = {
  {GD_EACH_LANE(GD_RAISED, 0)}, {GD_EACH_LANE(GD_RAISED, 1)}, {GD_EACH_LANE(GD_RAISED, 2)}, {GD_EACH_LANE(GD_RAISED, 3)}};

GD_INLINE vf affine_raised_values(const uint8_t *row, int64_t first, int run, int part, factors group, uint32_t bits) {
  (void)part;
  __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(row + first * 2 * bits + run * 2 * bits)));
  __m512i raised = _mm512_mask_shuffle_epi8((__m512i)splat(affine_raise), group.raised, all, *(const __m512i *)affine_raised_bytes[0]);
  return fma_vf((vf)raised, group.low, group.high);
}

/* The same, if the four runs of 64 columns are made together: they share the load of their bytes. With AVX-512 VBMI. */
GD_INLINE vf affine_line_values(const uint8_t *row, int64_t first, int run, int part, factors group, uint32_t bits) {
  (void)part;
  vf raised = splat(affine_raise);
  __asm__("vpermb %2, %1, %0%{%3%}"
          : "+v"(raised)
          : "v"(*(const __m512i *)affine_raised_bytes[run]), "v"(_mm512_loadu_si512(row + first * 2 * bits)), "Yk"(group.raised));
  return fma_vf(raised, group.low, group.high);
}

/* Lowers biases for these values. Returns 0, with biases unchanged, if it would round a difference or lose the sign of a -0. */
static __attribute__((noinline, unused)) int affine_lower(const float *scales, float *biases, int64_t count) {
  for (int64_t at = 0; at < count; at += GD_WIDTH) {
    __mmask16 there = count - at < GD_WIDTH ? (__mmask16)((1u << (count - at)) - 1) : 0xffff;
    vf scale = (vf)_mm512_maskz_loadu_ps(there, scales + at), bias = (vf)_mm512_maskz_loadu_ps(there, biases + at);
    vf raised = scale * affine_raise, lowered = bias - raised;
    /* One of these operations gives back the smaller of the difference's two terms exactly if, and only if, nothing was rounded. */
    __mmask16 exact = _mm512_cmpeq_epi32_mask((__m512i)(lowered + raised), (__m512i)bias) &
                      _mm512_cmp_ps_mask((__m512)(bias - lowered), (__m512)raised, _CMP_EQ_OQ);
    if (__builtin_expect((uint32_t)(exact | (uint16_t)~there) != 0xffff, 0)) {
      for (int64_t i = 0; i < at; i++) biases[i] += scales[i] * affine_raise;
      return 0;
    }
    _mm512_mask_storeu_ps(biases + at, there, (__m512)lowered);
  }
  return 1;
}
#endif

#define affine_group(ELEMENTS) (ELEMENTS)
#define affine_least(BITS) 32
#define affine_most(BITS) 128
#define affine_reads_beyond(BITS) ((BITS) == 3 || (BITS) == 5 || (BITS) == 6)
#define affine_interleaves(BITS) ((BITS) == 4)
