/* linear with one row: dot products of x with rows of weight, straight from the weight. x is a panel: float32, in the
 * order of the weight's lanes, with zeros up to a multiple of GD_LANES. The partials are those of linear.h, to the bit. */

/* How far ahead of its use a weight is prefetched, in bytes: into the second cache, since the first has few places for
 * lines on their way, all of which it would take; float32 and the rest are fastest with different distances. From there
 * packed numbers are prefetched again into the first cache: two rows are read in turns, which no processor predicts. */
enum { LINEAR_AHEAD = 8192, LINEAR_AHEAD_F32 = 3072, LINEAR_NEAR = 1024 };
/* Rows of packed numbers that are read at a time: they share the loads of x. */
enum { LINEAR_DOT_ROWS = 2 };
/* The same of blocks that hold their factors, which have one chain a partial. */
enum { LINEAR_BLOCK_ROWS = GD_WIDTH == 16 ? 4 : 2 };

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
  vf part[LINEAR_DOT_ROWS][2][GD_PARTS], const uint8_t *row, int64_t row_bytes, int64_t first, const factors *group,
  const float *x, int step, unpacking packed, int rows
) {
  GD_UNROLL for (int b = 0; b < step / GD_LANES; b++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf element = load(x, b * GD_LANES + p * GD_WIDTH, GD_CPU_F32);
      GD_UNROLL for (int r = 0; r < rows; r++) {
        vf values = packed.values(row + r * row_bytes, first, b, p, group[r], packed.bits);
        part[r][b % 2][p] = fma_vf(element, values, part[r][b % 2][p]);
      }
    }
  }
}

/* Packed rows, one after another in memory, with their scales and biases as float32; a group is 1 << shift steps. The
 * bytes LINEAR_AHEAD after the first row's are prefetched in the order of addresses, whichever rows are multiplied: a
 * stream for each row is read far slower. */
GD_INLINE void linear_dot_packed(
  const uint8_t *row, int64_t row_bytes, const float *scales, const float *biases, const float *x, int64_t columns,
  int64_t groups, float *sums, unpacking packed, int step, int shift, int rows
) {
  vf part[LINEAR_DOT_ROWS][2][GD_PARTS] = {0};
  factors values[LINEAR_DOT_ROWS];
  int64_t bytes = step * packed.bits / 8, steps = columns / step;
  for (int64_t i = 0; i < steps; i++) {
    for (int64_t at = rows * i * bytes; at < rows * (i + 1) * bytes; at += 64) {
      __builtin_prefetch(row + at + LINEAR_AHEAD, 0, 2);
      __builtin_prefetch(row + at + LINEAR_NEAR);
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t g = r * groups + (i >> shift);
      values[r] = packed.factors(&scales[g], &biases[g], packed.bits);
    }
    if (packed.reads_beyond && i == steps - 1) break;
    linear_step(part, row, row_bytes, i * (step / GD_LANES), values, x + i * step, step, packed, rows);
  }
  if (packed.reads_beyond) {
    uint8_t last[LINEAR_DOT_ROWS][64 + MATRIX_BEYOND];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      __builtin_memcpy(last[r], row + r * row_bytes + (steps - 1) * bytes, (size_t)bytes);
    }
    linear_step(part, last[0], sizeof last[0], 0, values, x + (steps - 1) * step, step, packed, rows);
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

/* The partials of rows first .. first + count - 1 of a packed weight, LINEAR_DOT_ROWS at a time, then one by one. */
GD_INLINE void linear_dots_packed(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const float *x, float *memory, float *sums,
  unpacking packed, int step, int shift
) {
  int64_t columns = matrix->columns, groups = columns / (step << shift);
  float *scales = memory, *biases = memory + count * groups;
  packed.scales(matrix, first * groups, count * groups, scales, biases);
  int64_t bytes = matrix_bytes(matrix, columns), dtype_bytes = dtype_size(matrix->dtype), ahead = count * groups;
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  int64_t f = 0;
  for (; f + LINEAR_DOT_ROWS <= count; f += LINEAR_DOT_ROWS) {
    linear_ask(matrix, ((first + f) * groups + ahead) * dtype_bytes, LINEAR_DOT_ROWS * groups * dtype_bytes);
    linear_dot_packed(
      row + f * bytes, bytes, scales + f * groups, biases + f * groups, x, columns, groups, sums + f * 2 * GD_LANES,
      packed, step, shift, LINEAR_DOT_ROWS);
  }
  for (; f < count; f++) {
    linear_ask(matrix, ((first + f) * groups + ahead) * dtype_bytes, groups * dtype_bytes);
    linear_dot_packed(
      row + f * bytes, bytes, scales + f * groups, biases + f * groups, x, columns, groups, sums + f * 2 * GD_LANES,
      packed, step, shift, 1);
  }
}

/* Rows of blocks that hold their factors, one after another in memory, one chain a partial: `rows` is a constant. Prefetched
 * as packed rows are. */
GD_INLINE void linear_dot_blocks(
  const uint8_t *row, int64_t row_bytes, const float *x, int64_t columns, float *sums, block_unpacking format, int rows
) {
  vf part[LINEAR_BLOCK_ROWS][GD_PARTS] = {0};
  const uint8_t *block = row;
  for (int64_t i = 0; i < columns; i += format.elements, block += format.bytes) {
    const uint8_t *ahead = row + rows * (block - row);
    for (int at = 0; at < rows * format.bytes; at += 64) {
      __builtin_prefetch(ahead + at + LINEAR_AHEAD, 0, 2);
      __builtin_prefetch(ahead + at + LINEAR_NEAR);
    }
    block_scales scales[LINEAR_BLOCK_ROWS];
    GD_UNROLL for (int r = 0; r < rows; r++) format.scales(block + r * row_bytes, &scales[r], format.number);
    _Pragma("clang loop unroll(disable)")
    for (int64_t run = 0; run < format.elements / GD_LANES; run += format.step) {
      factors group[LINEAR_BLOCK_ROWS];
      GD_UNROLL for (int k = 0; k < format.step; k++) {
        GD_UNROLL for (int r = 0; r < rows; r++) {
          const uint8_t *own = block + r * row_bytes;
          if (k % format.group == 0) group[r] = format.factors(own, &scales[r], run + k, format.number);
          GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
            vf element = load(x, i + (run + k) * GD_LANES + p * GD_WIDTH, GD_CPU_F32);
            part[r][p] = fma_vf(element, format.values(own, &scales[r], run + k, p, group[r], format.number), part[r][p]);
          }
        }
      }
    }
  }
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, r * GD_LANES + p * GD_WIDTH, GD_CPU_F32, part[r][p]);
  }
}

/* The partials of rows first .. first + count - 1 of blocks, LINEAR_BLOCK_ROWS at a time, then one by one. */
GD_INLINE void linear_dots_blocks(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const float *x, float *sums, block_unpacking format
) {
  int64_t columns = matrix->columns, bytes = matrix_bytes(matrix, columns), f = 0;
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  for (; f + LINEAR_BLOCK_ROWS <= count; f += LINEAR_BLOCK_ROWS) {
    linear_dot_blocks(row + f * bytes, bytes, x, columns, sums + f * GD_LANES, format, LINEAR_BLOCK_ROWS);
  }
  for (; f < count; f++) linear_dot_blocks(row + f * bytes, bytes, x, columns, sums + f * GD_LANES, format, 1);
}

/* The partials of rows first .. first + count - 1 of weight. memory: for their scales and biases, as float32. */
static void linear_dots(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const float *x, float *memory, float *sums
) {
  int64_t columns = matrix->columns;
  matrix_layout layout = layout_of(matrix);
  if (!is_packed(matrix)) {
    const char *row = matrix_row(matrix, first);
    for (int64_t f = 0; f < count; f++, row += columns * layout.bytes, sums += GD_LANES) {
      if (layout.dtype == GD_CPU_F32) linear_dot_plain(row, x, columns, sums, GD_CPU_F32);
      else if (layout.dtype == GD_CPU_BF16) linear_dot_plain(row, x, columns, sums, GD_CPU_BF16);
      else linear_dot_plain(row, x, columns, sums, GD_CPU_F16);
    }
    return;
  }
  switch (layout.unpacking) {
#define GD_DOTS(PACKED, STEP, SHIFT) linear_dots_packed(matrix, first, count, x, memory, sums, PACKED, STEP, SHIFT)
#define GD_CASE_DOTS(UNPACKING, FAMILY, BITS)                                                   \
  case UNPACKING: {                                                                             \
    unpacking packed = GD_UNPACKING(FAMILY, BITS, layout.elements);                             \
    if (packed.group == 32) GD_DOTS(packed, 32, 0);                                             \
    else GD_DOTS(packed, 64, packed.group > 64);                                                \
    break;                                                                                      \
  }
    GD_CPU_UNPACKINGS(GD_CASE_DOTS)
#undef GD_CASE_DOTS
#define GD_CASE_BLOCK_DOTS(UNPACKING, FAMILY, NUMBER, ELEMENTS, BYTES) \
  case UNPACKING:                                                      \
    return linear_dots_blocks(matrix, first, count, x, sums, GD_BLOCK_UNPACKING(FAMILY, NUMBER, ELEMENTS, BYTES));
    GD_CPU_BLOCK_UNPACKINGS(GD_CASE_BLOCK_DOTS)
#undef GD_CASE_BLOCK_DOTS
#undef GD_DOTS
  }
}
