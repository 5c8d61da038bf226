/* linear with one row or a few: dot products of x with rows of weight, straight from the weight. x is a panel: float32, in
 * the order of the weight's lanes, with zeros up to a multiple of GD_LANES. The partials are those of linear.h, to the bit. */

/* How far ahead of its use a weight is prefetched, in bytes: into the second cache, since the first has few places for
 * lines on their way, all of which it would take; float32 and the rest are fastest with different distances. From there
 * packed numbers are prefetched again into the first cache, of each row its own: rows are read in turns, which no processor predicts. */
enum { LINEAR_AHEAD = 8192, LINEAR_AHEAD_F32 = 3072, LINEAR_NEAR = 512 };
/* Rows of packed numbers that are read at a time: they share the loads of x. */
enum { LINEAR_DOT_ROWS = 2 };
/* Rows of x that share the unpacking of weights at a time; their partials fit the registers. */
enum { LINEAR_TAKEN = GD_WIDTH == 16 ? 4 : 1 };

/* Some rows of x, `stride` floats apart, and the partials of `outputs` outputs of each. */
typedef struct linear_few {
  const float *x;
  float *sums;
  int64_t rows, stride, outputs;
} linear_few;

/* The partials of output f of row `row`, where an output has so many. */
GD_INLINE float *few_sums(const linear_few *few, int64_t row, int64_t f, int64_t partials) {
  return few->sums + (row * few->outputs + f) * partials;
}

/* Rows to take at a time of so many that are left: three go as four, the last of them with what the panel has after it. */
GD_INLINE int64_t few_taken(int64_t left) { return least(LINEAR_TAKEN, left > 2 ? 4 : left); }
/* DOT(FIXED) for `taken` rows, with their number as a constant. */
#define GD_TAKING(TAKEN, DOT)                             \
  if (LINEAR_TAKEN > 2 && (TAKEN) > 2) DOT(LINEAR_TAKEN); \
  else if (LINEAR_TAKEN > 1 && (TAKEN) > 1) DOT(2);       \
  else DOT(1)
/* The same of blocks that hold their factors, which have one chain a partial. */
enum { LINEAR_BLOCK_ROWS = GD_WIDTH == 16 ? 4 : 2 };

/* Output f of rows at .. at + taken - 1 of x by a row of elements: one chain a partial. `taken` is a constant. */
GD_INLINE void linear_dot_plain(
  const void *row, const linear_few *few, int64_t at, int64_t f, int64_t columns, uint32_t dtype, int taken
) {
  vf part[LINEAR_TAKEN][GD_PARTS] = {0};
  const float *x = few->x + at * few->stride;
  int64_t i = 0, line = 64 / dtype_size(dtype), ahead = dtype == GD_CPU_F32 ? LINEAR_AHEAD_F32 : LINEAR_AHEAD;
  for (; i + GD_LANES <= columns; i += GD_LANES) {
    if (i % line == 0) __builtin_prefetch((const char *)row + i * dtype_size(dtype) + ahead, 0, 2);
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      int64_t column = i + p * GD_WIDTH;
      vf values = load(row, column, dtype);
      GD_UNROLL for (int t = 0; t < taken; t++) {
        part[t][p] = fma_vf(load(x + t * few->stride, column, GD_CPU_F32), values, part[t][p]);
      }
    }
  }
  for (int p = 0; p < GD_PARTS && i < columns; p++, i += GD_WIDTH) {
    vf values = load_left(row, i, dtype, columns - i);
    GD_UNROLL for (int t = 0; t < taken; t++) {
      part[t][p] = fma_vf(load(x + t * few->stride, i, GD_CPU_F32), values, part[t][p]);
    }
  }
  GD_UNROLL for (int t = 0; t < taken; t++) {
    float *sums = few_sums(few, at + t, f, GD_LANES);
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, p * GD_WIDTH, GD_CPU_F32, part[t][p]);
  }
}

/* `step` columns, which have `each` factors a row, one after another: constants, as are rows and taken. Even and odd blocks
 * have a chain each. */
GD_INLINE void linear_step(
  vf part[LINEAR_TAKEN][LINEAR_DOT_ROWS][2][GD_PARTS], const uint8_t *row, int64_t row_bytes, int64_t first,
  factors group[LINEAR_DOT_ROWS][2], const float *x, int64_t stride, int step, int each, unpacking packed, int rows, int taken
) {
  GD_UNROLL for (int b = 0; b < step / GD_LANES; b++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf values[LINEAR_DOT_ROWS];
      GD_UNROLL for (int r = 0; r < rows; r++) {
        factors own = group[r][b * each * GD_LANES / step];
        values[r] = packed.values(row + r * row_bytes, first, b, p, own, packed.bits);
      }
      GD_UNROLL for (int t = 0; t < taken; t++) {
        vf element = load(x + t * stride, b * GD_LANES + p * GD_WIDTH, GD_CPU_F32);
        GD_UNROLL for (int r = 0; r < rows; r++) part[t][r][b % 2][p] = fma_vf(element, values[r], part[t][r][b % 2][p]);
      }
    }
  }
}

/* Output f of rows at .. at + taken - 1 of x, and the next outputs, by packed rows, one after another in memory, with their
 * scales and biases as float32; a group is 1 << shift steps, or half a step with a shift of -1, and then a row may end with half a
 * step. Bytes are prefetched into the second cache in the order of addresses, LINEAR_AHEAD and as far as the last of the rows begins
 * after the first: a stream for each row is read far slower. */
GD_INLINE void linear_dot_packed(
  const uint8_t *row, int64_t row_bytes, const float *scales, const float *biases, const linear_few *few, int64_t at,
  int64_t f, int64_t columns, int64_t groups, unpacking packed, int step, int shift, int rows, int taken
) {
  vf part[LINEAR_TAKEN][LINEAR_DOT_ROWS][2][GD_PARTS] = {0};
  factors values[LINEAR_DOT_ROWS][2];
  int each = shift < 0 ? 2 : 1;
  const float *x = few->x + at * few->stride;
  int64_t bytes = step * packed.bits / 8, steps = columns / step;
  for (int64_t i = 0; i < steps; i++) {
    for (int64_t next = rows * i * bytes; next < rows * (i + 1) * bytes; next += 64) {
      __builtin_prefetch(row + next + (rows - 1) * row_bytes + LINEAR_AHEAD, 0, 2);
    }
    GD_UNROLL for (int r = 0; r < rows; r++) __builtin_prefetch(row + r * row_bytes + i * bytes + LINEAR_NEAR);
    GD_UNROLL for (int r = 0; r < rows; r++) {
      GD_UNROLL for (int k = 0; k < each; k++) {
        int64_t g = r * groups + (shift < 0 ? 2 * i + k : i >> shift);
        values[r][k] = packed.factors(&scales[g], &biases[g], packed.bits);
      }
    }
    if (packed.reads_beyond && i == steps - 1) break;
    linear_step(part, row, row_bytes, i * (step / GD_LANES), values, x + i * step, few->stride, step, each, packed, rows, taken);
  }
  if (packed.reads_beyond) {
    uint8_t last[LINEAR_DOT_ROWS][64 + MATRIX_BEYOND];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      __builtin_memcpy(last[r], row + r * row_bytes + (steps - 1) * bytes, (size_t)bytes);
    }
    linear_step(
      part, last[0], sizeof last[0], 0, values, x + (steps - 1) * step, few->stride, step, each, packed, rows, taken);
  }
  if (each > 1 && steps * step < columns) {
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t g = r * groups + 2 * steps;
      values[r][0] = packed.factors(&scales[g], &biases[g], packed.bits);
    }
    linear_step(
      part, row, row_bytes, steps * (step / GD_LANES), values, x + steps * step, few->stride, GD_LANES, 1, packed, rows, taken);
  }
  GD_UNROLL for (int t = 0; t < taken; t++) {
    GD_UNROLL for (int r = 0; r < rows; r++) {
      float *sums = few_sums(few, at + t, f + r, 2 * GD_LANES);
      GD_UNROLL for (int c = 0; c < 2; c++) {
        GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
          store(sums, c * GD_LANES + p * GD_WIDTH, GD_CPU_F32, part[t][r][c][p]);
        }
      }
    }
  }
}

/* Asks for bytes at .. at + bytes - 1 of the scales and the biases. Asking beyond their end does no harm. */
GD_INLINE void linear_ask(const gd_cpu_matrix *matrix, int64_t at, int64_t bytes) {
  for (int64_t end = at + bytes; at < end; at += 64) {
    __builtin_prefetch((const char *)matrix->scales + at);
    if (matrix->biases != NULL) __builtin_prefetch((const char *)matrix->biases + at);
  }
}

/* The partials of rows first .. first + count - 1 of a packed weight, LINEAR_DOT_ROWS at a time, then one by one. */
GD_INLINE void linear_dots_packed(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, float *memory, unpacking packed,
  int step, int shift
) {
  int64_t columns = matrix->columns, groups = columns / packed.group;
  float *scales = memory, *biases = matrix->biases == NULL ? scales : memory + count * groups;
  packed.scales(matrix, first * groups, count * groups, scales, biases);
  int64_t bytes = matrix_bytes(matrix, columns), dtype_bytes = scale_bytes(matrix), ahead = count * groups;
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  int64_t taken;
  for (int64_t at = 0; at < few->rows; at += taken) {
    taken = few_taken(few->rows - at);
    int64_t f = 0;
#define GD_DOT(AT, ROWS, TAKEN)                                                                                         \
  linear_dot_packed(                                                                                                    \
    row + f * bytes, bytes, scales + f * groups, biases + f * groups, few, AT, f, columns, groups, packed, step, shift, \
    ROWS, TAKEN)
#define GD_DOTS(TAKEN) GD_DOT(at, LINEAR_DOT_ROWS, TAKEN)
    for (; f + LINEAR_DOT_ROWS <= count; f += LINEAR_DOT_ROWS) {
      linear_ask(matrix, ((first + f) * groups + ahead) * dtype_bytes, LINEAR_DOT_ROWS * groups * dtype_bytes);
      GD_TAKING(taken, GD_DOTS);
    }
    for (; f < count; f++) {
      linear_ask(matrix, ((first + f) * groups + ahead) * dtype_bytes, groups * dtype_bytes);
      for (int64_t own = at; own < least(few->rows, at + taken); own++) GD_DOT(own, 1, 1);
    }
#undef GD_DOTS
#undef GD_DOT
  }
}

/* Output f of rows at .. at + taken - 1 of x, and the next outputs, by rows of blocks that hold their factors, one after another in
 * memory, one chain a partial: `rows` and `taken` are constants. Weights are prefetched in the order of addresses, LINEAR_AHEAD and as
 * far as the last of the rows begins after the first: nearer, the ends of long rows would not be there yet. With one row of x the scales
 * of the next block are made before the products of this one, so that these need not wait for them; with more, all registers are taken. */
GD_INLINE void linear_dot_blocks(
  const uint8_t *row, int64_t row_bytes, const linear_few *few, int64_t at, int64_t f, int64_t columns,
  block_unpacking format, int rows, int taken
) {
  vf part[LINEAR_TAKEN][LINEAR_BLOCK_ROWS][GD_PARTS] = {0};
  const float *x = few->x + at * few->stride;
  int step = taken > 1 && format.step > 4 ? 4 : format.step, is_ahead = taken == 1 && format.ahead;
  const uint8_t *block = row;
  block_scales memory[2][LINEAR_BLOCK_ROWS], *scales = memory[0], *later = is_ahead ? memory[1] : scales;
  if (is_ahead) format.scales(block, row_bytes, rows, scales, format.number);
  for (int64_t i = 0; i < columns; i += format.elements, block += format.bytes) {
    const uint8_t *ahead = row + rows * (block - row) + (rows - 1) * row_bytes + LINEAR_AHEAD;
    for (int line = 0; line < rows * format.bytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
    const uint8_t *next = is_ahead && i + format.elements < columns ? block + format.bytes : block;
    format.scales(next, row_bytes, rows, later, format.number);
    _Pragma("clang loop unroll(disable)")
    for (int64_t run = 0; run < format.elements / GD_LANES; run += step) {
      factors group[LINEAR_BLOCK_ROWS];
      GD_UNROLL for (int k = 0; k < step; k++) {
        GD_UNROLL for (int r = 0; r < rows; r++) {
          const uint8_t *own = block + r * row_bytes;
          if (k % format.group == 0) group[r] = format.factors(scales, r, run + k, format.number);
          GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
            vf values = format.values(own, &scales[r], run + k, p, group[r], format.number);
            GD_UNROLL for (int t = 0; t < taken; t++) {
              vf element = load(x + t * few->stride, i + (run + k) * GD_LANES + p * GD_WIDTH, GD_CPU_F32);
              part[t][r][p] = fma_vf(element, values, part[t][r][p]);
            }
          }
        }
      }
    }
    block_scales *used = scales;
    scales = later;
    later = used;
  }
  GD_UNROLL for (int t = 0; t < taken; t++) {
    GD_UNROLL for (int r = 0; r < rows; r++) {
      float *sums = few_sums(few, at + t, f + r, GD_LANES);
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, p * GD_WIDTH, GD_CPU_F32, part[t][r][p]);
    }
  }
}

/* The partials of rows first .. first + count - 1 of blocks, LINEAR_BLOCK_ROWS at a time, then one by one. */
GD_INLINE void linear_dots_blocks(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, block_unpacking format
) {
  int64_t columns = matrix->columns, bytes = matrix_bytes(matrix, columns), taken;
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  for (int64_t at = 0; at < few->rows; at += taken) {
    taken = few_taken(few->rows - at);
    int64_t f = 0;
#define GD_DOT(AT, ROWS, TAKEN) linear_dot_blocks(row + f * bytes, bytes, few, AT, f, columns, format, ROWS, TAKEN)
#define GD_DOTS(TAKEN) GD_DOT(at, LINEAR_BLOCK_ROWS, TAKEN)
    for (; f + LINEAR_BLOCK_ROWS <= count; f += LINEAR_BLOCK_ROWS) {
      GD_TAKING(taken, GD_DOTS);
    }
    for (; f < count; f++) {
      for (int64_t own = at; own < least(few->rows, at + taken); own++) GD_DOT(own, 1, 1);
    }
#undef GD_DOTS
#undef GD_DOT
  }
}

/* The partials of rows first .. first + count - 1 of a weight of floats. */
GD_INLINE void linear_dots_plain(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, uint32_t dtype
) {
  int64_t columns = matrix->columns, taken;
  for (int64_t at = 0; at < few->rows; at += taken) {
    taken = few_taken(few->rows - at);
    const char *row = matrix_row(matrix, first);
    for (int64_t f = 0; f < count; f++, row += columns * dtype_size(dtype)) {
#define GD_DOT(TAKEN) linear_dot_plain(row, few, at, f, columns, dtype, TAKEN)
      GD_TAKING(taken, GD_DOT);
#undef GD_DOT
    }
  }
}

/* The partials of rows first .. first + count - 1 of weight. memory: for their scales and biases, as float32. */
static void linear_dots(const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, float *memory) {
  matrix_layout layout = layout_of(matrix);
  switch (layout.unpacking) {
#define GD_DOTS(PACKED, STEP, SHIFT) linear_dots_packed(matrix, first, count, few, memory, PACKED, STEP, SHIFT)
#define GD_CASE_DOTS(UNPACKING, FAMILY, BITS)                                                   \
  case UNPACKING: {                                                                             \
    unpacking packed = GD_UNPACKING(FAMILY, BITS, layout.elements);                             \
    if (packed.least < 32 && packed.group < 32) GD_DOTS(packed, 32, -1);                        \
    else if (packed.most == 32 || packed.group == 32) GD_DOTS(packed, 32, 0);                   \
    else GD_DOTS(packed, 64, packed.group > 64);                                                \
    return;                                                                                     \
  }
    GD_CPU_UNPACKINGS(GD_CASE_DOTS)
#undef GD_CASE_DOTS
#undef GD_DOTS
#define GD_CASE_BLOCK_DOTS(UNPACKING, FAMILY, NUMBER, ELEMENTS, BYTES) \
  case UNPACKING:                                                      \
    return linear_dots_blocks(matrix, first, count, few, GD_BLOCK_UNPACKING(FAMILY, NUMBER, ELEMENTS, BYTES));
    GD_CPU_BLOCK_UNPACKINGS(GD_CASE_BLOCK_DOTS)
#undef GD_CASE_BLOCK_DOTS
  }
  if (layout.dtype == GD_CPU_F32) linear_dots_plain(matrix, first, count, few, GD_CPU_F32);
  else if (layout.dtype == GD_CPU_BF16) linear_dots_plain(matrix, first, count, few, GD_CPU_BF16);
  else linear_dots_plain(matrix, first, count, few, GD_CPU_F16);
}
