/* The form of a weight's format for products with int8 activations: its numbers (int8_numbers.h) and, for each group of columns, factors (int8_factors.h), with
 *   weight = scale (number - middle) + offset
 *
 * A format without a form here is multiplied exactly. One that is to have a form needs numbers of at most 8 bits, a float32 scale
 * and, if need be, offset for 16, 32, 64 or 128 columns. Floats of four bits are twice as large in a table of integers, and their scales
 * half as large. */

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
