/* One row with int8 activations, or two: the numbers lie in a vector as in their row of the weight, and sums of lanes are added per group. Rows of
 * the weight are read one after another, each from its beginning. */

/* How a format is taken as it is packed; without members if it is not. */
typedef struct int8_one_form {
#if GD_WIDTH >= 8
  int8_blocks_of *terms;
#endif
  void (*arrange)(const int8_t *x, int64_t columns, int8_t *out);
} int8_one_form;

static int8_one_form int8_one_form_of(const gd_cpu_matrix *matrix) {
#if GD_WIDTH >= 8
#define GD_CASE_BLOCKS(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return (int8_one_form){int8_blocks_##NAME, int8_arrange_##NAME};
  switch (matrix->format) { GD_INT8_BLOCKS(GD_CASE_BLOCKS) }
#undef GD_CASE_BLOCKS
#endif
  (void)matrix;
  return (int8_one_form){0};
}

/* The terms of columns from .. from + columns - 1 of a row, by its numbers as bytes. */
static void int8_one_row(
  const gd_cpu_matrix *matrix, const int8_form *form, const int8_memory *memory, int64_t feature, int64_t from, int64_t columns,
  const int8_x *x, const float *scales, const float *offsets, float *terms
) {
  int shift = __builtin_ctz((unsigned)form->group), is_bytes = layout_of(matrix).unpacking == GD_CPU_UNPACK_affine8;
  int8_terms_of *terms_of = int8_terms_for(form->group);
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, feature);
  int64_t segment = least(INT8_SEGMENT, INT8_STEP * form->group);
  for (int64_t i = from; i < from + columns; i += segment) {
    int64_t part = least(segment, from + columns - i), g = (i - from) >> shift;
    const uint8_t *numbers = row + matrix_bytes(matrix, i);
    int8_ask_by_call(numbers, matrix_bytes(matrix, part), memory->end);
    /* Bytes lie as they are multiplied, sixteen groups at a time. */
    if (!is_bytes || (part >> shift) % INT8_STEP != 0) {
      form->numbers(row, i, part, memory->numbers);
      numbers = memory->numbers;
    }
    int64_t own = g;
    if (scales == NULL) {
      form->factors(matrix, feature, i, part, memory->scales, memory->offsets);
      own = 0;
    }
    const float *of_scales = (scales == NULL ? memory->scales : scales) + own;
    const float *of_offsets = (scales == NULL ? memory->offsets : offsets) + own;
    terms_of(numbers, of_scales, form->has_offset ? of_offsets : NULL, x, i >> shift, part >> shift, terms + g);
  }
}

/* A row by features begin .. end - 1. */
static void int8_one(const gd_cpu_linear *op, const int8_memory *memory, int64_t row, int64_t begin, int64_t end, const uint32_t *stop) {
  const gd_cpu_matrix *matrix = &op->weight;
  int8_form form = int8_form_of(matrix);
  int8_x x = int8_row_of(op, row);
  int64_t columns = matrix->columns, span = least(columns, INT8_SPAN);
  int64_t apart = (span / form.group + 15) / 16 * 16 + 16;
  int8_one_form direct = int8_one_form_of(matrix);
  if (direct.arrange != NULL) {
    direct.arrange(x.values, x.stride - INT8_APART, memory->x);
    x.values = memory->x;
  }
  int shift = __builtin_ctz((unsigned)form.group), are_apart = matrix->scales != NULL && columns <= span;
  for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += INT8_OUTPUTS) {
    float sums[INT8_OUTPUTS] = {0};
    int64_t count = least(INT8_OUTPUTS, end - first);
    if (are_apart) int8_ask_factors(matrix, (first + count) * columns >> shift, count * columns >> shift);
    for (int64_t from = 0; from < columns; from += span) {
      int64_t part = least(span, columns - from);
#if GD_WIDTH >= 8
      if (direct.terms != NULL) {
        direct.terms(matrix, first, count, &x, from >> shift, part >> shift, memory->terms, apart, memory->end);
        int8_add_terms(memory->terms, apart, part >> shift, sums);
        continue;
      }
#endif
      /* In tensors of their own, the factors of several rows follow one another. */
      if (are_apart) form.factors(matrix, first, 0, count * columns, memory->scales, memory->offsets);
      for (int64_t f = 0; f < count; f++) {
        int64_t at = f * columns >> shift;
        const float *scales = are_apart ? memory->scales + at : NULL, *offsets = are_apart ? memory->offsets + at : NULL;
        int8_one_row(matrix, &form, memory, first + f, from, part, &x, scales, offsets, memory->terms + f * apart);
      }
      int8_add_terms(memory->terms, apart, part >> shift, sums);
    }
    linear_finish(op, sums, row, first, count);
  }
}

/* Whether two rows are multiplied one by one. This costs less than a panel if a panel's numbers go through memory, with Q8_0, whose many scales a panel transposes,
 * and, with vectors of 16 lanes, with all formats of eight bits. */
static int int8_takes_two(const gd_cpu_matrix *matrix) {
  int64_t elements = layout_of(matrix).elements;
  int are_bytes = matrix_bytes(matrix, elements) >= elements;
  if (elements < 256 && !are_bytes) return 0;
  int is_panel = int8_packed_of(matrix) != NULL && matrix->format != GD_CPU_FORMAT_Q8_0 && (GD_WIDTH == 8 || !are_bytes);
  return !is_panel && int8_one_form_of(matrix).arrange != NULL && !int8_takes_few(matrix, 2);
}

/* Both rows in turn, while the weight's rows are in a cache. */
static void int8_one_by_one(const gd_cpu_linear *op, const int8_memory *memory, int64_t begin, int64_t end, const uint32_t *stop) {
  enum { AT_ONCE = 4 * INT8_OUTPUTS };
  for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += AT_ONCE) {
    for (int64_t row = 0; row < 2; row++) int8_one(op, memory, row, first, least(end, first + AT_ONCE), stop);
  }
}
