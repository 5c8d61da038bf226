/* LINEAR_TAKEN exact rows of x by small blocks whose factors are half floats at their beginning (linear_dot.h has the other rows and weights).
 * Half floats are copied by scalar instructions while the set of rows of weight before is multiplied, and become float32 sixteen at a time:
 * conversions one by one take a seventh of the units that multiply. All weights of a block are made before its products, so that
 * neither bytes nor tables keep registers from partials. */
#if GD_WIDTH == 16

/* Copies the half floats of block number `at` of each row of a set: they lie block by block. */
GD_INLINE void linear_copy_halves(const uint8_t *row, int64_t row_bytes, int64_t at, uint16_t *halves, block_unpacking format) {
  const int each = format.halves * (int)sizeof *halves;
  GD_UNROLL for (int r = 0; r < LINEAR_DOT_ROWS; r++) {
    __builtin_memcpy((char *)(halves + at * LINEAR_DOT_ROWS * format.halves) + r * each, row + r * row_bytes + at * format.bytes, (size_t)each);
  }
}

/* The outputs of a set of rows, whose factors are `scales`; and the half floats of the set that begins at `later`. */
GD_INLINE void linear_dot_small(
  const uint8_t *row, int64_t row_bytes, const linear_few *few, const float *scales, const uint8_t *later, uint16_t *halves, float *outputs,
  block_unpacking format
) {
  enum { TAKEN = LINEAR_TAKEN, ROWS = LINEAR_DOT_ROWS, RUNS = 2 };
  vf part[ROWS][TAKEN] = {0};
  const float *x = few->x;
  /* Half floats of the next set are read, too. */
  int64_t next = ROWS * row_bytes + LINEAR_NEAR, ahead = (ROWS - 1) * row_bytes + (next > LINEAR_AHEAD ? next : LINEAR_AHEAD);
  for (int64_t at = 0; at < few->columns / (RUNS * GD_LANES); at++, x += RUNS * GD_LANES * TAKEN) {
    const uint8_t *block = row + at * format.bytes;
    fetch_far(row + ahead + at * ROWS * format.bytes, ROWS * format.bytes);
    vf values[RUNS][ROWS];
    GD_UNROLL for (int r = 0; r < ROWS; r++) {
      factors group = format.factors_at(scales + (at * ROWS + r) * format.halves, format.number);
      GD_UNROLL for (int k = 0; k < RUNS; k++) values[k][r] = format.values(block + r * row_bytes, NULL, k, 0, group, format.number);
      __asm__ volatile("" : "+v"(values[0][r]), "+v"(values[1][r]));
    }
    linear_copy_halves(later, row_bytes, at, halves, format);
    GD_UNROLL for (int k = 0; k < RUNS; k++) {
      GD_UNROLL for (int t = 0; t < TAKEN; t++) {
        vf element = few_x(x, k * GD_LANES, t, TAKEN);
        GD_UNROLL for (int r = 0; r < ROWS; r++) part[r][t] = fma_vf(element, values[k][r], part[r][t]);
      }
    }
  }
  GD_UNROLL for (int r = 0; r < ROWS; r++) sum_eight(part[r], outputs + r * TAKEN);
}

/* The outputs of rows first .. first + count - 1 of weight, at most LINEAR_SUMS_AT_ONCE. Of fewer than a set has, one is read as often; else the
 * last set may have rows of the one before. */
GD_INLINE void linear_dots_small(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, float *memory, block_unpacking format
) {
  enum { ROWS = LINEAR_DOT_ROWS };
  int64_t blocks = matrix->columns / format.elements, bytes = blocks * format.bytes, all = ROWS * blocks * format.halves;
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  float made[LINEAR_SUMS_AT_ONCE * LINEAR_TAKEN], *scales = memory;
  uint16_t *halves = (uint16_t *)(memory + all);
  int64_t apart = count >= ROWS, step = apart ? ROWS : 1, last = count - step;
  for (int64_t at = 0; at < blocks; at++) linear_copy_halves(row, apart * bytes, at, halves, format);
  for (int64_t f = 0, later;; f = later) {
    later = least(f + step, last);
    convert(halves, 0, GD_CPU_F16, scales, 0, GD_CPU_F32, all);
    linear_dot_small(row + f * bytes, apart * bytes, few, scales, row + later * bytes, halves, made + f * LINEAR_TAKEN, format);
    if (f == last) break;
  }
  few_place(few, made, 0, count);
}
#endif
