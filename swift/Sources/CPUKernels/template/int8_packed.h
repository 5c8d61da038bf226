/* Panels of weights of four bits with vectors of 8 or 16 lanes: rows are put side by side while two numbers still share a byte, which is half
 * the work of doing so later. */
typedef void int8_packed(const gd_cpu_matrix *matrix, int64_t feature, int64_t features, int64_t first, int64_t count, uint8_t *panel);

#if GD_WIDTH == 16
/* Numbers as panels have them: for AMX signed, `middle` less. */
GD_INLINE vi int8_panel_numbers(vi numbers, int middle) {
#if defined(GD_DOT_AMX)
  return middle == 0 ? numbers : (vi)_mm512_sub_epi8((__m512i)numbers, _mm512_set1_epi8((char)middle));
#else
  return (void)middle, numbers;
#endif
}

/* 64 bytes of 128 columns, or as many as are left, from the block at `from` on. */
GD_INLINE vi int8_packed_bytes(const uint8_t *from, int64_t left, int8_block form) {
  if (!form.is_mlx && form.type != GGML_Q4_K) {
    from += int8_offset(form);
    __m512i bytes = _mm512_castsi128_si512(int8_load_16(from));
    if (left > 32) bytes = _mm512_inserti32x4(bytes, int8_load_16(from + form.bytes), 1);
    if (left > 64) bytes = _mm512_inserti32x4(bytes, int8_load_16(from + 2 * form.bytes), 2);
    if (left > 96) bytes = _mm512_inserti32x4(bytes, int8_load_16(from + 3 * form.bytes), 3);
    return (vi)bytes;
  }
  if (left >= 128) return load_vi(from);
  return (vi)_mm512_maskz_loadu_epi8(((__mmask64)1 << left / 2) - 1, from);
}

/* Where in 128 columns the low halves of dword k are, in steps of four columns; the high ones come `apart` steps later. */
GD_INLINE int int8_packed_place(int k, int8_block form) {
  return form.is_mlx ? 2 * k : form.type == GGML_Q4_K ? k / 8 * 16 + k % 8 : k / 4 * 8 + k % 4;
}

GD_INLINE void int8_packed_panel(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t features, int64_t first, int64_t count, uint8_t *panel, int8_block form
) {
  int apart = form.is_mlx ? 1 : form.type == GGML_Q4_K ? 8 : 4;
  for (int64_t i = 0; i < count; i += 128) {
    vi rows[16];
    int64_t left = count - i, at = (first + i) / form.group * form.bytes;
    if (form.type == GGML_Q4_K) at = (first + i) / 256 * form.bytes + int8_offset(form) + (first + i) % 256 / 2;
    GD_UNROLL for (int f = 0; f < 16; f++) {
      rows[f] = int8_packed_bytes((const uint8_t *)matrix_row(matrix, feature + least(f, features - 1)) + at, left, form);
    }
    int8_transpose(rows);
    uint8_t *to = panel + i * INT8_OUTPUTS;
    GD_UNROLL for (int k = 0; k < 16; k++) {
      int place = int8_packed_place(k, form);
      if ((place + apart) * 4 >= left) continue;
      vi low = int8_low(rows[k]), high = int8_high(rows[k]);
      if (ggml_has_table(form.type)) {
        low = int8_entries_of(low, form.type);
        high = int8_entries_of(high, form.type);
      }
      store_vi(to + place * 64, int8_panel_numbers(low, int8_ggml_middle(form.type)));
      store_vi(to + (place + apart) * 64, int8_panel_numbers(high, int8_ggml_middle(form.type)));
    }
  }
}
#elif GD_WIDTH == 8
#include "int8_packed_8.h"

/* 32 columns of four outputs, and of the four after them, at a time. */
GD_INLINE void int8_packed_panel(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t features, int64_t first, int64_t count, uint8_t *panel, int8_block form
) {
  if (!int8_are_nibbles(form)) return int8_packed_whole(matrix, feature, features, first, count, panel, form);
  const uint8_t *rows[INT8_OUTPUTS];
  int is_split = form.type == GGML_Q4_K, apart = form.is_mlx ? 1 : is_split ? 8 : 4;
  for (int f = 0; f < INT8_OUTPUTS; f++) rows[f] = (const uint8_t *)matrix_row(matrix, feature + least(f, features - 1));
  for (int64_t i = 0; i < count; i += 32) {
    int64_t column = first + i, at = column / form.group * form.bytes + (form.is_mlx ? column % form.group / 2 : int8_offset(form)), place = i / 4;
    if (is_split) {
      /* A byte has a column of each of two groups: 16 bytes are half of both. */
      at = column / 256 * form.bytes + int8_offset(form) + column % 256 / 64 * 32 + column / 32 % 2 * 16;
      place = i / 64 * 16 + i / 32 % 2 * 4;
    }
    GD_UNROLL for (int p = 0; p < 2; p++) {
      vi turned[4];
      int8_packed_words(rows + 8 * p, at, turned);
      GD_UNROLL for (int k = 0; k < 4; k++) {
        vi numbers[2];
        int8_both(turned[k], numbers, form.type);
        uint8_t *to = panel + (place + (form.is_mlx ? 2 * k : k)) * 64 + 32 * p;
        store_vi(to, numbers[0]);
        store_vi(to + apart * 64, numbers[1]);
      }
    }
  }
}
#endif
#if GD_WIDTH >= 8
#define GD_PACKED(FORMAT, NAME, ...)                                                                                         \
  static __attribute__((noinline)) void int8_packed_##NAME(                                                                  \
    const gd_cpu_matrix *matrix, int64_t feature, int64_t features, int64_t first, int64_t count, uint8_t *panel             \
  ) {                                                                                                                        \
    int8_packed_panel(matrix, feature, features, first, count, panel, (int8_block){__VA_ARGS__});                            \
  }
GD_INT8_GGML_NIBBLES(GD_PACKED)
GD_INT8_MICRO(GD_PACKED)
/* Groups of any length: four bits have no bytes between them. */
GD_PACKED(, affine, 32, 0, 16, 1, 1)
#if GD_WIDTH == 8
GD_INT8_FIVES_AND_SIXES(GD_PACKED)
GD_PACKED(, q8_0, 32, GGML_Q8_0, 34, 1, 0)
/* As of four bits. */
GD_PACKED(, affine8, 32, 0, 32, 1, 1)
#endif
#undef GD_PACKED
#endif

/* The function that makes panels of a matrix so; NULL if there is none. */
static int8_packed *int8_packed_of(const gd_cpu_matrix *matrix) {
#if GD_WIDTH >= 8
#define GD_CASE_PACKED(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return int8_packed_##NAME;
#define GD_CASE_AFFINE(FORMAT, ...) case GD_CPU_FORMAT_##FORMAT:
  switch (matrix->format) {
    GD_INT8_GGML_NIBBLES(GD_CASE_PACKED)
    GD_INT8_MICRO(GD_CASE_PACKED)
#if GD_WIDTH == 8
    GD_INT8_FIVES_AND_SIXES(GD_CASE_PACKED)
    case GD_CPU_FORMAT_Q8_0: return int8_packed_q8_0;
    GD_CASE_AFFINE(AFFINE8_G32)
    GD_CASE_AFFINE(AFFINE8_G64)
    GD_CASE_AFFINE(AFFINE8_G128)
    return int8_packed_affine8;
#endif
    GD_INT8_AFFINE(GD_CASE_AFFINE)
    return int8_packed_affine;
  }
#undef GD_CASE_AFFINE
#undef GD_CASE_PACKED
#endif
  (void)matrix;
  return NULL;
}
