/* The memory of a linear with int8 activations, and panels of its weight: numbers and factors of INT8_OUTPUTS outputs as several rows of x
 * take them (int8_linear.h). */

/* From the scales of several outputs to their offsets. */
enum { INT8_OFFSETS = INT8_SPAN_GROUPS * INT8_OUTPUTS };
/* Columns of a panel that stays in the first cache, if one tile has all rows: others read it once more. */
enum { INT8_NARROW = 1024 };
/* Bytes of x that stay in the second cache, and its most rows. Processors with AMX have 2 MB. */
#if defined(GD_DOT_AMX)
enum { INT8_PANEL = 800 << 10, INT8_PANEL_ROWS = 384 };
#else
enum { INT8_PANEL = 400 << 10, INT8_PANEL_ROWS = 384 };
#endif
/* Between rows of x that were copied: not a power of two apart. */
enum { INT8_APART = 64 };
#if defined(GD_DOT_AMX)
enum { INT8_ROWS = 16 };
#elif defined(GD_DOT_AVX512VNNI)
enum { INT8_ROWS = 12 };
#elif GD_WIDTH == 16
enum { INT8_ROWS = 6 };
#elif GD_WIDTH == 8 || defined(__aarch64__)
enum { INT8_ROWS = 4 };
#else
enum { INT8_ROWS = 2 };
#endif

/* The most rows that are multiplied without panels. */
enum { INT8_MOST_FEW = 16 };

/* The memory of one thread. */
typedef struct int8_memory {
  uint8_t *numbers; /* of one row: INT8_SEGMENT; of INT8_OUTPUTS: as many of each */
  uint8_t *panel;   /* [INT8_SPAN / 4, INT8_OUTPUTS, 4] */
  float *scales, *offsets; /* one row: INT8_SEGMENT_GROUPS; several: [INT8_SPAN_GROUPS, INT8_OUTPUTS] */
  float *sums;      /* [INT8_PANEL_ROWS, INT8_OUTPUTS] */
  float *terms;     /* one row: [INT8_OUTPUTS, groups of a span and 16 more]; in the place of the panel */
  int8_t *x;        /* rows that were apart, and what belongs to them */
  const uint8_t *end; /* of the weight */
} int8_memory;

/* Where the next INT8_OUTPUTS outputs have as many bytes as the columns before `first` of these have: they follow one another. */
GD_INLINE const uint8_t *int8_next(const gd_cpu_matrix *matrix, int64_t feature, int64_t first) {
  return (const uint8_t *)matrix_row(matrix, feature + INT8_OUTPUTS) + INT8_OUTPUTS * matrix_bytes(matrix, first);
}

/* Asks for `count` scales and offsets from `at` on, in tensors of their own, into the second cache. Asking beyond their end does no
 * harm. */
GD_INLINE void int8_ask_factors(const gd_cpu_matrix *matrix, int64_t at, int64_t count) {
  int64_t size = scale_bytes(matrix);
  for (int64_t byte = at * size; byte < (at + count) * size; byte += 64) {
    __builtin_prefetch((const char *)matrix->scales + byte, 0, 2);
    __builtin_prefetch((const char *)matrix->biases + byte, 0, 2);
  }
}

typedef int32_t int8_w4 __attribute__((vector_size(16)));
typedef int32_t int8_w4_memory __attribute__((vector_size(16), aligned(1), may_alias));

/* Columns of a panel that are unpacked at a time, so that all rows of them stay in the first cache, and bytes from a row to the next. */
enum { INT8_PIECE = 256, INT8_PIECES = INT8_PIECE + 64 };

/* Rows of numbers, INT8_PIECES apart, as a panel: `count` columns, a multiple of 4 GD_WIDTH or its half. */
GD_INLINE void int8_interleave(const uint8_t *numbers, int64_t count, int middle, uint8_t *panel) {
#if GD_WIDTH == 16
  for (int64_t i = 0; i < count; i += 64) {
    vi rows[16];
    GD_UNROLL for (int r = 0; r < 16; r++) rows[r] = int8_panel_numbers(load_vi(numbers + r * INT8_PIECES + i), middle);
    int8_transpose(rows);
    int64_t left = least(16, (count - i) / 4);
    GD_UNROLL for (int k = 0; k < 16; k++) {
      if (k < left) store_vi(panel + (i / 4 + k) * 64, rows[k]);
    }
  }
#elif GD_WIDTH == 8
  (void)middle;
  for (int64_t i = 0; i < count; i += 16) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vi own[4], turned[4];
      GD_UNROLL for (int q = 0; q < 4; q++) own[q] = int8_of_two(numbers + (8 * p + q) * INT8_PIECES + i, 4 * INT8_PIECES);
      int8_transpose_4(own, turned);
      GD_UNROLL for (int k = 0; k < 4; k++) store_vi(panel + i * 16 + k * 64 + 32 * p, turned[k]);
    }
  }
#else
  (void)middle;
  for (int64_t i = 0; i < count; i += 16) {
    GD_UNROLL for (int r = 0; r < 16; r += 4) {
      int8_w4 own[4];
      GD_UNROLL for (int k = 0; k < 4; k++) own[k] = *(const int8_w4_memory *)(numbers + (r + k) * INT8_PIECES + i);
      int8_w4 ab = __builtin_shufflevector(own[0], own[1], 0, 4, 1, 5), cd = __builtin_shufflevector(own[2], own[3], 0, 4, 1, 5);
      int8_w4 ef = __builtin_shufflevector(own[0], own[1], 2, 6, 3, 7), gh = __builtin_shufflevector(own[2], own[3], 2, 6, 3, 7);
      uint8_t *to = panel + i * 16 + r * 4;
      *(int8_w4_memory *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
      *(int8_w4_memory *)(to + 64) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
      *(int8_w4_memory *)(to + 128) = __builtin_shufflevector(ef, gh, 0, 1, 4, 5);
      *(int8_w4_memory *)(to + 192) = __builtin_shufflevector(ef, gh, 2, 3, 6, 7);
    }
  }
#endif
}

#if GD_WIDTH == 8
/* Factors of four groups of four outputs, and of the four after them: those of a group one after another. */
GD_INLINE void int8_store_across(const vi rows[4], float *out) {
  vi turned[4];
  int8_transpose_4(rows, turned);
  GD_UNROLL for (int k = 0; k < 4; k++) store_vi(out + k * INT8_OUTPUTS, turned[k]);
}
#endif

/* Factors of INT8_OUTPUTS outputs, INT8_SEGMENT_GROUPS apart: those of a group one after another. */
static void int8_across(const float *factors, int64_t count, float *out) {
  for (int64_t g = 0; g < count; g += 16) {
    int64_t left = least(16, count - g);
#if GD_WIDTH == 16
    vi rows[16];
    GD_UNROLL for (int f = 0; f < 16; f++) rows[f] = load_vi(factors + f * INT8_SEGMENT_GROUPS + g);
    int8_transpose(rows);
    GD_UNROLL for (int k = 0; k < 16; k++) {
      if (k < left) store_vi(out + (g + k) * INT8_OUTPUTS, rows[k]);
    }
#else
    int64_t k = 0;
#if GD_WIDTH == 8
    for (; k + 4 <= left; k += 4) {
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        vi rows[4];
        GD_UNROLL for (int q = 0; q < 4; q++) {
          const float *own = factors + (8 * p + q) * INT8_SEGMENT_GROUPS + g + k;
          rows[q] = (vi)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(own)), _mm_loadu_ps(own + 4 * INT8_SEGMENT_GROUPS), 1);
        }
        int8_store_across(rows, out + (g + k) * INT8_OUTPUTS + 8 * p);
      }
    }
#endif
    for (; k < left; k++) {
      for (int f = 0; f < INT8_OUTPUTS; f++) out[(g + k) * INT8_OUTPUTS + f] = factors[f * INT8_SEGMENT_GROUPS + g + k];
    }
#endif
  }
}

#if GD_WIDTH == 16
/* Scales and offsets of 16 bits, in tensors of their own, of INT8_OUTPUTS rows of `groups` groups: those of groups first .. first +
 * count - 1 one after another. Two go as one lane. */
static void int8_across_halves(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t first, int64_t count, int64_t groups, float *out[2]
) {
  for (int64_t g = 0; g < count; g += 16) {
    vi rows[16];
    int64_t left = least(16, count - g), at = feature * groups + first + g;
    __mmask16 mask = (__mmask16)((1u << left) - 1);
    GD_UNROLL for (int f = 0; f < 16; f++) {
      __m256i scales = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)matrix->scales + at + f * groups);
      __m256i offsets = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)matrix->biases + at + f * groups);
      rows[f] = (vi)_mm512_inserti64x4(_mm512_castsi256_si512(scales), offsets, 1);
      if (f % 4 == 0) int8_ask_factors(matrix, at + (INT8_OUTPUTS + f) * groups, 4 * groups);
    }
    int8_transpose(rows);
    GD_UNROLL for (int k = 0; k < 16; k++) {
      float *to = out[k / 8] + (g + k % 8 * 2) * INT8_OUTPUTS;
      int64_t own = left - k % 8 * 2;
      if (own <= 0) continue;
      vi low, high;
      if (matrix->dtype == GD_CPU_BF16) {
        low = rows[k] << 16;
        high = rows[k] & (vi)((vu){0} + 0xffff0000u);
      } else {
        low = (vi)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)rows[k]));
        high = (vi)_mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)rows[k], 16)));
      }
      store_vi(to, low);
      if (own > 1) store_vi(to + INT8_OUTPUTS, high);
    }
  }
}
#elif GD_WIDTH == 8
/* The same for one of these tensors, four groups at a time. */
GD_INLINE void int8_across_halves(const uint16_t *factors, int64_t groups, int64_t count, float *out, uint32_t dtype) {
  for (int64_t g = 0; g < count; g += 4) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vi rows[4];
      GD_UNROLL for (int q = 0; q < 4; q++) {
        const uint16_t *own = factors + (8 * p + q) * groups + g;
        __m128i both = _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)own), _mm_loadl_epi64((const __m128i *)(own + 4 * groups)));
        rows[q] = (vi)(dtype == GD_CPU_BF16 ? bf16_to_vf((vh)both) : f16_to_vf((vh)both));
      }
      int8_store_across(rows, out + g * INT8_OUTPUTS + 8 * p);
    }
  }
}
#endif

/* The scales and offsets of columns first .. first + count - 1 of `features` rows from `feature` on, as a panel has them. */
static void int8_panel_factors(
  const gd_cpu_matrix *matrix, const int8_form *form, const int8_memory *memory, int64_t feature, int64_t features,
  int64_t first, int64_t count
) {
#if GD_WIDTH == 16
  if (features == INT8_OUTPUTS && matrix->biases != NULL && (matrix->dtype == GD_CPU_BF16 || matrix->dtype == GD_CPU_F16)) {
    int shift = __builtin_ctz((unsigned)form->group);
    float *out[2] = {memory->scales, memory->offsets};
    return int8_across_halves(matrix, feature, first >> shift, count >> shift, matrix->columns >> shift, out);
  }
#elif GD_WIDTH == 8
  int64_t own = count / form->group, all = matrix->columns / form->group, at = (feature * matrix->columns + first) / form->group;
  if (features == INT8_OUTPUTS && matrix->biases != NULL && matrix->dtype != GD_CPU_F32 && own % 4 == 0) {
    if (first == 0) int8_ask_factors(matrix, at + INT8_OUTPUTS * all, INT8_OUTPUTS * all);
    const uint16_t *of_scales = (const uint16_t *)matrix->scales + at, *of_offsets = (const uint16_t *)matrix->biases + at;
#define GD_ACROSS(DTYPE)                                                            \
  if (matrix->dtype == DTYPE) {                                                     \
    int8_across_halves(of_scales, all, own, memory->scales, DTYPE);                 \
    return int8_across_halves(of_offsets, all, own, memory->offsets, DTYPE);        \
  }
    GD_ACROSS(GD_CPU_BF16)
    GD_ACROSS(GD_CPU_F16)
#undef GD_ACROSS
  }
#endif
  if (features == INT8_OUTPUTS && int8_across_blocks(matrix, feature, first, count, memory->scales, memory->offsets)) return;
  float scales[INT8_OUTPUTS * INT8_SEGMENT_GROUPS], offsets[INT8_OUTPUTS * INT8_SEGMENT_GROUPS];
  for (int64_t i = 0; i < count; i += INT8_SEGMENT) {
    int64_t part = least(INT8_SEGMENT, count - i), groups = part / form->group, at = i / form->group * INT8_OUTPUTS;
    for (int64_t f = 0; f < INT8_OUTPUTS; f++) {
      float *own = scales + f * INT8_SEGMENT_GROUPS;
      form->factors(
        matrix, feature + least(f, features - 1), first + i, part, own, offsets + f * INT8_SEGMENT_GROUPS);
    }
    int8_across(scales, groups, memory->scales + at);
    if (form->has_offset) int8_across(offsets, groups, memory->offsets + at);
  }
}

/* The panel of columns first .. first + count - 1, at most INT8_SPAN, of `features` rows from `feature` on; those beyond
 * repeat the last. asks: whether as many bytes after these rows are asked for meanwhile. */
static void int8_panel(
  const gd_cpu_matrix *matrix, const int8_form *form, const int8_memory *memory, int64_t feature, int64_t features,
  int64_t first, int64_t count, int asks
) {
  int8_packed *packed = int8_packed_of(matrix);
  const uint8_t *next = int8_next(matrix, feature, first);
  if (packed != NULL) return packed(matrix, feature, features, first, count, memory->panel);
  for (int64_t i = 0; i < count; i += INT8_PIECE) {
    int64_t part = least(INT8_PIECE, count - i);
    for (int64_t f = 0; f < INT8_OUTPUTS; f++) {
      const uint8_t *row = (const uint8_t *)matrix_row(matrix, feature + least(f, features - 1));
      form->numbers(row, first + i, part, memory->numbers + f * INT8_PIECES);
      int64_t asked = asks ? matrix_bytes(matrix, part) : 0;
      int8_ask_by_call(next, asked, memory->end);
      next += asked;
    }
    int8_interleave(memory->numbers, part, form->middle, memory->panel + i * INT8_OUTPUTS);
  }
}
