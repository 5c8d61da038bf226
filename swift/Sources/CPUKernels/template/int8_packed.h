/* Panels of weights of four, five, six and eight bits with vectors of 8 or 16 lanes: rows are put side by side while two
 * four-bit numbers still share a byte, which is half the work of doing so later. */
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

/* Where in 128 columns the low halves of dword k are, in steps of four columns; the high ones come `apart` steps later. */
GD_INLINE int int8_packed_place(int k, int8_block form) {
  return form.is_mlx ? 2 * k : form.type == GGML_Q4_K ? k / 8 * 16 + k % 8 : k / 4 * 8 + k % 4;
}

GD_INLINE void int8_packed_panel(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t features, int64_t first, int64_t count, uint8_t *panel, int8_block form
) {
  int is_split = form.type == GGML_Q4_K, is_large = form.groups > 1, are_halves = is_large && !is_split, are_bytes = int8_has_bytes(form);
  int apart = are_halves ? 16 : form.is_mlx ? 1 : is_split ? 8 : 4, middle = int8_ggml_middle(form.type);
  int64_t step = are_bytes ? 64 : 128;
  _Alignas(64) uint8_t few[INT8_OUTPUTS][256]; /* blocks of fewer rows or columns */
  for (int64_t i = 0; i < count; i += step) {
    int64_t column = first + i, left = count - i, row_bytes = matrix_bytes(matrix, matrix->columns);
    const uint8_t *from = (const uint8_t *)matrix_row(matrix, feature) + column / (form.group * form.groups) * form.bytes;
    if (features < INT8_OUTPUTS || left < step) {
      int64_t bytes = is_large ? form.bytes : least(left, step) / form.group * form.bytes;
      for (int64_t f = 0; f < INT8_OUTPUTS; f++) __builtin_memcpy(few[f], from + least(f, features - 1) * row_bytes, (size_t)bytes);
      from = few[0];
      row_bytes = sizeof few[0];
    }
    vi numbers[16], others[16];
    if (are_halves) int8_beside_halves(from, row_bytes, column / 128 % 2, numbers, others, form.type);
    else int8_beside(from + (is_split ? column % 256 / 2 : 0), row_bytes, numbers, form);
    GD_UNROLL for (int k = 0; k < 16; k++) {
      int place = are_bytes || are_halves ? k : int8_packed_place(k, form);
      uint8_t *to = panel + (i / 4 + place) * 64;
      if ((place + (are_bytes ? 0 : apart)) * 4 >= left) continue;
      vi low = numbers[k], high = others[k];
      if (!are_bytes && !are_halves) low = int8_low(numbers[k]), high = int8_high(numbers[k]);
      if (ggml_has_table(form.type)) low = int8_entries_of(low, form.type), high = int8_entries_of(high, form.type);
      store_vi(to, int8_panel_numbers(low, middle));
      if (!are_bytes) store_vi(to + apart * 64, int8_panel_numbers(high, middle));
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
GD_INT8_FIVES_AND_SIXES(GD_PACKED)
GD_PACKED(, q8_0, 32, GGML_Q8_0, 34, 1, 0)
/* As for four bits. */
GD_PACKED(, affine8, 32, 0, 32, 1, 1)
#undef GD_PACKED
#endif

/* The function that makes panels of a matrix in this way; NULL if there is none. */
static int8_packed *int8_packed_of(const gd_cpu_matrix *matrix) {
#if GD_WIDTH >= 8
#define GD_CASE_PACKED(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return int8_packed_##NAME;
#define GD_CASE_AFFINE(FORMAT, ...) case GD_CPU_FORMAT_##FORMAT:
  switch (matrix->format) {
    GD_INT8_GGML_NIBBLES(GD_CASE_PACKED)
    GD_INT8_MICRO(GD_CASE_PACKED)
    GD_INT8_FIVES_AND_SIXES(GD_CASE_PACKED)
    case GD_CPU_FORMAT_Q8_0: return int8_packed_q8_0;
    GD_CASE_AFFINE(AFFINE8_G32)
    GD_CASE_AFFINE(AFFINE8_G64)
    GD_CASE_AFFINE(AFFINE8_G128)
    return int8_packed_affine8;
    GD_INT8_AFFINE(GD_CASE_AFFINE)
    return int8_packed_affine;
  }
#undef GD_CASE_AFFINE
#undef GD_CASE_PACKED
#endif
  (void)matrix;
  return NULL;
}
