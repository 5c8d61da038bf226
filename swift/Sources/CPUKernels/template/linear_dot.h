/* linear with one row: dot products of x with rows of weight, straight from the weight. x is a panel: float32, in the
 * order of the weight's lanes, with zeros up to a multiple of GD_LANES. The partials are those of linear.h, to the bit. */

/* How far ahead of its use a weight is asked for, in bytes: into the second cache, since the first has few places for
 * lines on their way, all of which it would take; float32 and the rest are fastest with different distances. From there
 * packed numbers are asked for once more, into the first cache: two rows are read in turns, which no processor foresees. */
enum { LINEAR_AHEAD = 8192, LINEAR_AHEAD_F32 = 3072, LINEAR_NEAR = 1024 };
/* Rows of packed numbers that are read at a time: they share what is loaded of x. */
enum { LINEAR_DOT_ROWS = 2 };

/* A row of elements: one chain a partial. */
GD_INLINE void linear_dot_plain(const void *row, const float *x, int64_t columns, float *sums, uint32_t dtype) {
  vf part[GD_PARTS] = {0};
  int64_t i = 0, line = 64 / dtype_size(dtype), ahead = dtype == GD_CPU_F32 ? LINEAR_AHEAD_F32 : LINEAR_AHEAD;
  for (; i + GD_LANES <= columns; i += GD_LANES) {
    if (i % line == 0) __builtin_prefetch((const char *)row + i * dtype_size(dtype) + ahead, 0, 2);
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      int64_t at = i + p * GD_WIDTH;
      part[p] = fma_vf(load(x, at, GD_CPU_F32), load(row, at, dtype), part[p]);
    }
  }
  for (int p = 0; p < GD_PARTS && i < columns; p++, i += GD_WIDTH) {
    part[p] = fma_vf(load(x, i, GD_CPU_F32), load_left(row, i, dtype, columns - i), part[p]);
  }
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, p * GD_WIDTH, GD_CPU_F32, part[p]);
}

/* `step` columns, which have one scale and bias a row: a constant, as is rows. Even and odd blocks have a chain each. */
GD_INLINE void linear_step(
  vf part[LINEAR_DOT_ROWS][2][GD_PARTS], const uint8_t *block, int64_t row_bytes, const affine *values, const float *x,
  int step, uint32_t bits, int rows
) {
  GD_UNROLL for (int b = 0; b < step / GD_LANES; b++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf element = load(x, b * GD_LANES + p * GD_WIDTH, GD_CPU_F32);
      GD_UNROLL for (int r = 0; r < rows; r++) {
        vu numbers = packed_numbers(block + r * row_bytes + b * 2 * bits, bits, p);
        part[r][b % 2][p] = fma_vf(element, affine_values(numbers, values[r], bits), part[r][b % 2][p]);
      }
    }
  }
}

/* Rows of packed numbers, one after the other in memory, with their scales and biases as float32. What lies
 * LINEAR_AHEAD bytes after the first row's is asked for in the order of addresses, whichever rows are multiplied: a
 * stream for each row is read far slower. */
GD_INLINE void linear_dot_packed(
  const uint8_t *row, int64_t row_bytes, const float *scales, const float *biases, const float *x, int64_t columns,
  int64_t group, float *sums, uint32_t bits, int step, int rows
) {
  vf part[LINEAR_DOT_ROWS][2][GD_PARTS] = {0};
  affine values[LINEAR_DOT_ROWS];
  int64_t groups = columns / group, bytes = step * bits / 8, steps = columns / step;
  int shift = group > step; /* a group is one step, or two of 64 */
  for (int64_t i = 0; i < steps; i++) {
    for (int64_t at = rows * i * bytes; at < rows * (i + 1) * bytes; at += 64) {
      __builtin_prefetch(row + at + LINEAR_AHEAD, 0, 2);
      __builtin_prefetch(row + at + LINEAR_NEAR);
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t g = r * groups + (i >> shift);
      values[r] = affine_of(&scales[g], &biases[g], bits);
    }
    if (reads_beyond(bits) && i == steps - 1) break;
    linear_step(part, row + i * bytes, row_bytes, values, x + i * step, step, bits, rows);
  }
  if (reads_beyond(bits)) {
    uint8_t last[LINEAR_DOT_ROWS][64 + MATRIX_BEYOND];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      __builtin_memcpy(last[r], row + r * row_bytes + (steps - 1) * bytes, (size_t)bytes);
    }
    linear_step(part, last[0], sizeof last[0], values, x + (steps - 1) * step, step, bits, rows);
  }
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int c = 0; c < 2; c++) {
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        store(sums, (2 * r + c) * GD_LANES + p * GD_WIDTH, GD_CPU_F32, part[r][c][p]);
      }
    }
  }
}

/* Asks for bytes at .. at + bytes - 1 of the scales and the biases. Asking beyond their end does no harm. */
GD_INLINE void linear_ask(const gd_cpu_matrix *matrix, int64_t at, int64_t bytes) {
  for (int64_t end = at + bytes; at < end; at += 64) {
    __builtin_prefetch((const char *)matrix->scales + at);
    __builtin_prefetch((const char *)matrix->biases + at);
  }
}

/* The partials of rows first .. first + count - 1 of weight. memory: for their scales and biases, as float32. */
static void linear_dots(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const float *x, float *memory, float *sums
) {
  int64_t columns = matrix->columns, bytes = matrix->row_bytes;
  const char *row = matrix_row(matrix, first);
  if (matrix->bits == 0) {
    for (int64_t f = 0; f < count; f++, row += bytes, sums += GD_LANES) {
      if (matrix->dtype == GD_CPU_F32) linear_dot_plain(row, x, columns, sums, GD_CPU_F32);
      else if (matrix->dtype == GD_CPU_BF16) linear_dot_plain(row, x, columns, sums, GD_CPU_BF16);
      else linear_dot_plain(row, x, columns, sums, GD_CPU_F16);
    }
    return;
  }
  int64_t group = matrix->group, groups = columns / group;
  float *scales = memory, *biases = memory + count * groups;
  convert(matrix->scales, first * groups, matrix->dtype, scales, 0, GD_CPU_F32, count * groups);
  convert(matrix->biases, first * groups, matrix->dtype, biases, 0, GD_CPU_F32, count * groups);
  int64_t f = 0, ahead = count * groups, dtype_bytes = dtype_size(matrix->dtype);
  switch (matrix->bits) {
#define GD_DOTS(BITS, STEP, ROWS)                                                                             \
  for (; f + ROWS <= count; f += ROWS) {                                                                      \
    linear_ask(matrix, ((first + f) * groups + ahead) * dtype_bytes, ROWS * groups * dtype_bytes);            \
    linear_dot_packed(                                                                                        \
      (const uint8_t *)row + f * bytes, bytes, scales + f * groups, biases + f * groups, x, columns, group,   \
      sums + f * 2 * GD_LANES, BITS, STEP, ROWS);                                                             \
  }
#define GD_CASE(BITS)                      \
  case BITS:                               \
    if (group == MATRIX_LEAST_GROUP) {     \
      GD_DOTS(BITS, 32, LINEAR_DOT_ROWS)   \
      GD_DOTS(BITS, 32, 1)                 \
    } else {                               \
      GD_DOTS(BITS, 64, LINEAR_DOT_ROWS)   \
      GD_DOTS(BITS, 64, 1)                 \
    }                                      \
    break;
    GD_CASE(2)
    GD_CASE(3)
    GD_CASE(4)
    GD_CASE(5)
    GD_CASE(6)
    GD_CASE(8)
#undef GD_CASE
#undef GD_DOTS
  }
}
