/* linear with int8 activations. Of each group of columns, whose integer products have the exact sum D,
 *   term = float(D) weight_scale x_scale + weight_offset float(sum of x's numbers) x_scale
 * each product and sum rounded to float32, in the order that int8_terms and int8_tile have. Only the product with x_scale is not rounded by itself: the offset's product
 * is added to it in one rounding (int8_fma.h). An output is the sum of its terms in the order of columns, from 0. There is no other fused multiply-add, and no order
 * depends on the width of vectors: the bits are equal everywhere.
 *
 * Several rows: the numbers of INT8_OUTPUTS rows of weight are put into a panel, four columns of each output after another, that
 * all rows of x share; the lanes of a vector are outputs, and x is broadcast (int8_tile.h, with AMX int8_amx.h). A few rows: the same
 * without a panel, where the format allows it (int8_few.h), and with AMX or, on processors whose units have 512 bits, AVX-512 VNNI as int8_turned.h says; on a Zen 5
 * any number of rows. One row, and two by some formats: int8_one.h. */

/* Adds the terms of columns i .. i + count - 1 of `features` outputs from `first` on to the sums of `rows` rows, which begin with 0 at the first column. */
static void int8_part(
  const gd_cpu_linear *op, const int8_memory *memory, const int8_form *form, int8_x x, int64_t first, int64_t features, int64_t i, int64_t count,
  int64_t rows, int64_t tiles
) {
  const gd_cpu_matrix *matrix = &op->weight;
#if !defined(GD_DOT_AMX)
  if (features == INT8_OUTPUTS && int8_takes_few(matrix, op->rows)) return int8_few_outputs(matrix, memory, form, x, rows, first, i, count);
#endif
  int8_panel_factors(matrix, form, memory, first, features, i, count);
  const float *offsets = form->has_offset ? memory->offsets : NULL;
  /* With few tiles there is no time for it between them. */
  int asks = tiles <= 2 && int8_packed_of(matrix) == NULL;
  int64_t asked = INT8_OUTPUTS * matrix_bytes(matrix, count) / tiles;
  const uint8_t *next_panel = int8_next(matrix, first, i);
  int8_panel(matrix, form, memory, first, features, i, count, asks);
  for (int64_t tile = 0; tile < tiles; tile++) {
    int64_t from = tile * rows / tiles, next = (tile + 1) * rows / tiles;
    int8_tile_of(
      memory, offsets, int8_tile_x(x, tile, from), count / form->group, form->group, memory->sums + from * INT8_OUTPUTS, i == 0, next - from,
      form->most, next_panel + tile * asked, asks ? 0 : asked);
  }
}

/* Several rows by features begin .. end - 1. */
static void int8_many(const gd_cpu_linear *op, const int8_memory *memory, int64_t begin, int64_t end, const uint32_t *stop) {
  const gd_cpu_matrix *matrix = &op->weight;
  int8_form form = int8_form_of(matrix);
  int64_t columns = matrix->columns, span = least(columns, INT8_SPAN), ofRow = span + INT8_APART + 12 * (span / form.group);
  int64_t most = least(INT8_PANEL_ROWS, INT8_PANEL / ofRow / INT8_ROWS * INT8_ROWS);
  for (int64_t row = 0; row < op->rows; row += most) {
    int64_t rows = least(most, op->rows - row), tiles = (rows + INT8_ROWS - 1) / INT8_ROWS;
    int64_t narrow = tiles == 1 && !int8_takes_few(matrix, op->rows) ? INT8_NARROW : span;
    int8_x x;
    int8_tiles_begin((rows + tiles - 1) / tiles, form.group);
    for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += INT8_OUTPUTS) {
      int64_t features = least(INT8_OUTPUTS, end - first);
      linear_ask_first(op, rows, row, first);
      for (int64_t i = 0; i < columns; i += span) {
        int64_t count = least(span, columns - i);
        /* A span of all columns serves all features. */
        if (first == begin || span < columns) x = int8_rows_at(op, memory, row, rows, i, count, form.group);
        for (int64_t at = 0; at < count; at += narrow) {
          int64_t part = least(narrow, count - at);
          int8_part(op, memory, &form, int8_tile_from(x, at, form.group), first, features, i + at, part, rows, tiles);
        }
      }
      linear_finish_rows(op, memory->sums, INT8_OUTPUTS, rows, row, first, features);
    }
    int8_tiles_end();
  }
}

/* Features first .. last - 1 of all rows. */
static void int8_features(const gd_cpu_linear *op, int64_t first, int64_t last, void *scratch, const uint32_t *stop) {
  char *take = scratch;
  int8_memory memory;
  memory.panel = (uint8_t *)scratch_take(&take, INT8_SPAN * INT8_OUTPUTS / 4);
  memory.terms = (float *)memory.panel;
  memory.numbers = (uint8_t *)scratch_take(&take, INT8_SEGMENT * INT8_OUTPUTS / 4 + 16);
  memory.scales = scratch_take(&take, 2 * INT8_OFFSETS);
  memory.offsets = memory.scales + INT8_OFFSETS;
  memory.sums = scratch_take(&take, INT8_PANEL_ROWS * INT8_OUTPUTS);
  memory.x = (int8_t *)scratch_take(&take, INT8_PANEL / 4);
  memory.end = (const uint8_t *)matrix_row(&op->weight, op->out_features);
#if defined(GD_DOT_AVX512VNNI)
  first = int8_turned_whole(op, &memory, first, last, stop);
  if (first == last) return;
#endif
#if defined(GD_DOT_AMX)
  if (op->rows < int8_least_rows(op->rounded->form.group)) {
    gd_cpu_int8_avx512vnni_linear(op, first / INT8_OUTPUTS, (last + INT8_OUTPUTS - 1) / INT8_OUTPUTS, scratch, stop);
    return;
  }
#else
  /* Columns that cannot be arranged at once are rare. */
  if (op->rounded->stride <= INT8_PANEL) {
    if (op->rows == 1) return int8_one(op, &memory, 0, first, last, stop);
    if (op->rows == 2 && int8_takes_two(&op->weight)) return int8_one_by_one(op, &memory, first, last, stop);
  }
#endif
  int8_many(op, &memory, first, last, stop);
}

