/* linear with int8 activations. Of each group of columns, whose integer products have the exact sum D,
 *   term = float(D) weight_scale x_scale + weight_offset float(sum of x's numbers) x_scale
 * each product and sum rounded to float32, in the order int8_terms and int8_tile have; an output is the sum of its terms in the
 * order of columns, from 0. No fused multiply-add, and no order that depends on the width of vectors: equal bits everywhere.
 *
 * Several rows: the numbers of INT8_OUTPUTS rows of weight are put into a panel, four columns of each output after another, that
 * all rows of x share; the lanes of a vector are outputs, and x is broadcast. A few rows: the same without a panel, where the format
 * allows it (int8_few.h). One row: int8_one.h. */

/* Adds the terms of `count` groups to the sums of `rows` rows of x and INT8_OUTPUTS outputs. */
GD_INLINE void int8_tile(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int rows, int small
) {
  const uint8_t *panel = memory->panel;
  const float *scales = memory->scales;
  vf out[INT8_ROWS][GD_PARTS];
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) out[r][p] = load(sums, r * INT8_OUTPUTS + p * GD_WIDTH, GD_CPU_F32);
  }
  for (int64_t g = 0; g < count; g++) {
    vi products[INT8_ROWS][GD_PARTS] = {0};
    for (int64_t i = 0; i < group; i += 16) {
      GD_UNROLL for (int k = 0; k < 16; k += 4) {
        int8_weights weights[GD_PARTS];
        GD_UNROLL for (int p = 0; p < GD_PARTS; p++) weights[p] = int8_weights_of(load_vi(panel + (k * GD_PARTS + 4 * p) * GD_WIDTH), small);
        GD_UNROLL for (int r = 0; r < rows; r++) {
          vi four = (vi)(*(const u1_memory *)(x.values + r * x.stride + k) - (vu){0});
          GD_UNROLL for (int p = 0; p < GD_PARTS; p++) products[r][p] = int8_add(products[r][p], weights[p], four, small);
        }
      }
      panel += 16 * INT8_OUTPUTS;
      x.values += 16;
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t own = r * x.groups + g;
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        vi all = int8_total(products[r][p], small) + x.starts[own];
        int64_t at = g * INT8_OUTPUTS + p * GD_WIDTH;
        vf term = __builtin_convertvector(all, vf) * load(scales, at, GD_CPU_F32) * splat(x.scales[own]);
        if (offsets != NULL) term += load(offsets, at, GD_CPU_F32) * splat(x.sums[own]);
        out[r][p] += term;
      }
    }
  }
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, r * INT8_OUTPUTS + p * GD_WIDTH, GD_CPU_F32, out[r][p]);
  }
}

static void int8_tile_of(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int64_t rows, int small
) {
  switch (INT8_TELLS_SMALL && small ? -rows : rows) {
#define GD_CASE_TILE(ROWS) \
  case ROWS: return int8_tile(memory, offsets, x, count, group, sums, ROWS < INT8_ROWS ? ROWS : INT8_ROWS, 0); \
  case -ROWS: \
    if (INT8_TELLS_SMALL) int8_tile(memory, offsets, x, count, group, sums, ROWS < INT8_ROWS ? ROWS : INT8_ROWS, 1); \
    return;
    GD_CASE_TILE(1)
    GD_CASE_TILE(2)
#if GD_WIDTH > 4 || defined(__aarch64__)
    GD_CASE_TILE(3)
    GD_CASE_TILE(4)
#endif
#if GD_WIDTH == 16
    GD_CASE_TILE(5)
    GD_CASE_TILE(6)
#endif
#if defined(GD_DOT_AVX512VNNI)
    GD_CASE_TILE(7)
    GD_CASE_TILE(8)
    GD_CASE_TILE(9)
    GD_CASE_TILE(10)
    GD_CASE_TILE(11)
    GD_CASE_TILE(12)
#endif
#undef GD_CASE_TILE
  }
}

/* Columns first .. first + count - 1 of `rows` rows from `row` on, a stride apart: those of an expert are copied. */
static int8_x int8_rows_at(
  const gd_cpu_linear *op, const int8_memory *memory, int64_t row, int64_t rows, int64_t first, int64_t count, int64_t group
) {
  int8_x own = int8_from(int8_row_of(op, row), first, group);
  if (op->places == NULL || rows == 1) return own;
  int64_t groups = count / group, all = rows * groups, bytes = groups * (int64_t)sizeof(float);
  int8_t *values = memory->x;
  float *scales = (float *)(values + rows * (count + INT8_APART)), *sums = scales + all;
  int32_t *starts = (int32_t *)(sums + all);
  for (int64_t r = 0; r < rows; r++) {
    int8_x from = int8_from(int8_row_of(op, row + r), first, group);
    __builtin_memcpy(values + r * (count + INT8_APART), from.values, (size_t)count);
    __builtin_memcpy(scales + r * groups, from.scales, (size_t)bytes);
    __builtin_memcpy(sums + r * groups, from.sums, (size_t)bytes);
    __builtin_memcpy(starts + r * groups, from.starts, (size_t)bytes);
  }
  return (int8_x){values, scales, sums, starts, count + INT8_APART, groups};
}

/* Several rows by features begin .. end - 1. */
static void int8_many(const gd_cpu_linear *op, const int8_memory *memory, int64_t begin, int64_t end, const uint32_t *stop) {
  const gd_cpu_matrix *matrix = &op->weight;
  int8_form form = int8_form_of(matrix);
  int64_t columns = matrix->columns, span = least(columns, INT8_SPAN), ofRow = span + INT8_APART + 12 * (span / form.group);
  int64_t most = least(INT8_PANEL_ROWS, INT8_PANEL / ofRow / INT8_ROWS * INT8_ROWS);
  int8_few *few = op->rows <= INT8_MOST_FEW ? int8_few_of(matrix) : NULL;
  for (int64_t row = 0; row < op->rows; row += most) {
    int64_t rows = least(most, op->rows - row), tiles = (rows + INT8_ROWS - 1) / INT8_ROWS;
    for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += INT8_OUTPUTS) {
      int64_t features = least(INT8_OUTPUTS, end - first);
      __builtin_memset(memory->sums, 0, (size_t)(rows * INT8_OUTPUTS) * sizeof *memory->sums);
      for (int64_t i = 0; i < columns; i += span) {
        int64_t count = least(span, columns - i);
        /* Those of an expert stay where they are while features go by. */
        int8_x x = int8_rows_at(op, memory, row, rows, i, count, form.group);
        int8_panel_factors(matrix, &form, memory, first, features, i, count);
        const float *offsets = form.has_offset ? memory->offsets : NULL;
        if (few != NULL && features == INT8_OUTPUTS) {
          int64_t parts = (rows + INT8_FEW - 1) / INT8_FEW, bytes = matrix_bytes(matrix, columns);
          for (int64_t part = 0; part < parts; part++) {
            int64_t from = part * rows / parts, next = (part + 1) * rows / parts;
            const uint8_t *own = (const uint8_t *)matrix_row(matrix, first) + matrix_bytes(matrix, i);
            few(
              own, bytes, own + INT8_OUTPUTS * bytes, memory->scales, offsets, int8_row_from(x, from), next - from, count,
              memory->sums + from * INT8_OUTPUTS);
          }
          continue;
        }
        /* With few tiles there is no time for it between them. */
        int asks = tiles <= 2 && int8_packed_of(matrix) == NULL;
        int8_panel(matrix, &form, memory, first, features, i, count, asks);
        for (int64_t tile = 0; tile < tiles; tile++) {
          int64_t from = tile * rows / tiles, next = (tile + 1) * rows / tiles;
          if (!asks) int8_fetch_next(matrix, first + INT8_OUTPUTS, i, count, tile, tiles);
          int8_tile_of(
            memory, offsets, int8_row_from(x, from), count / form.group, form.group, memory->sums + from * INT8_OUTPUTS,
            next - from, form.is_small);
        }
      }
      for (int64_t r = 0; r < rows; r++) linear_finish(op, memory->sums + r * INT8_OUTPUTS, row + r, first, features);
    }
  }
}

/* Features first .. last - 1 of all rows. */
static void int8_features(const gd_cpu_linear *op, int64_t first, int64_t last, void *scratch, const uint32_t *stop) {
  char *take = scratch;
  int8_memory memory;
  memory.panel = (uint8_t *)scratch_take(&take, INT8_SPAN * INT8_OUTPUTS / 4);
  memory.terms = (float *)memory.panel;
  memory.numbers = (uint8_t *)scratch_take(&take, INT8_SEGMENT * INT8_OUTPUTS / 4 + 16);
  memory.scales = scratch_take(&take, INT8_SPAN_GROUPS * INT8_OUTPUTS);
  memory.offsets = scratch_take(&take, INT8_SPAN_GROUPS * INT8_OUTPUTS);
  memory.sums = scratch_take(&take, INT8_PANEL_ROWS * INT8_OUTPUTS);
  memory.x = (int8_t *)scratch_take(&take, INT8_PANEL / 4);
  /* Columns that cannot be arranged at once are rare. */
  if (op->rows == 1 && op->rounded->stride <= INT8_PANEL) int8_one(op, &memory, first, last, stop);
  else int8_many(op, &memory, first, last, stop);
}

