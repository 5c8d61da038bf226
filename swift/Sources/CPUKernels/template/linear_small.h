/* Two to LINEAR_TAKEN exact rows of x by small blocks whose factors are half floats at their beginning (linear_dot.h has the other rows and weights).
 * Half floats are copied by scalar instructions, a few blocks ahead, and become float32 sixteen at a time: one by one, conversions would take an eighth of the time of
 * the units that multiply. All weights of a block are made before its products, so that neither bytes nor tables keep registers from partials. */
#if GD_WIDTH == 16

/* The most rows of weight of a set, and the blocks of each whose half floats are copied at a time. */
enum { LINEAR_SMALL_ROWS = 4, LINEAR_SMALL_BLOCKS = 16 };
/* Rows of x and of weight that are taken together, constants; and blocks whose half floats are copied at a time. */
typedef struct linear_small {
  block_unpacking format;
  int taken, rows;
  int64_t each;
} linear_small;

/* Some blocks of each row of a set. */
typedef struct small_blocks {
  const uint8_t *first;
  int64_t row_bytes, count;
} small_blocks;

/* Copies the half floats of block number `at` of each row: they lie block by block. */
GD_INLINE void linear_copy_halves(small_blocks from, int64_t at, uint16_t *halves, linear_small way) {
  const int each = way.format.halves * (int)sizeof *halves;
  GD_UNROLL for (int r = 0; r < way.rows; r++) {
    __builtin_memcpy((char *)halves + (at * way.rows + r) * each, from.first + r * from.row_bytes + at * way.format.bytes, (size_t)each);
  }
}

/* The outputs of a set of rows of `blocks` blocks, whose first half floats are copied; and copies those of the set at `later`. */
GD_INLINE void linear_dot_small(
  const uint8_t *row, int64_t row_bytes, int64_t blocks, const linear_few *few, const uint8_t *later, uint16_t *halves, float *outputs, linear_small way
) {
  enum { RUNS = 2, MOST = 3 * LINEAR_TAKEN };
  block_unpacking format = way.format;
  const int taken = way.taken, rows = way.rows, all = rows * taken;
  _Alignas(64) float scales[2 * LINEAR_SMALL_ROWS * LINEAR_SMALL_BLOCKS];
  vf part[MOST] = {0};
  const float *x = few->x;
  for (int64_t begin = 0; begin < blocks; begin += way.each) {
    small_blocks own = {row + begin * format.bytes, row_bytes, least(way.each, blocks - begin)}, next = own;
    next.first = begin + way.each < blocks ? own.first + way.each * format.bytes : later;
    next.count = begin + way.each < blocks ? least(way.each, blocks - begin - way.each) : way.each;
    for (int64_t i = 0; i < own.count * rows * format.halves; i += GD_WIDTH) store(scales, i, GD_CPU_F32, load(halves, i, GD_CPU_F16));
    for (int64_t at = 0; at < own.count; at++, x += RUNS * GD_LANES * taken) {
      const uint8_t *block = own.first + at * format.bytes, *read = row + (begin + at) * rows * format.bytes;
      linear_fetch_blocks(read, row_bytes, few->end, format, rows, taken);
      vf values[RUNS][LINEAR_SMALL_ROWS];
      GD_UNROLL for (int r = 0; r < rows; r++) {
        factors group = format.factors_at(scales + (at * rows + r) * format.halves, format.number);
        GD_UNROLL for (int k = 0; k < RUNS; k++) values[k][r] = format.values(block + r * row_bytes, NULL, k, 0, group, format.number);
        few_made(&values[0][r], &values[1][r]);
      }
      if (at < next.count) linear_copy_halves(next, at, halves, way);
      GD_UNROLL for (int k = 0; k < RUNS; k++) {
        GD_UNROLL for (int t = 0; t < taken; t++) {
          vf element = few_x(x, k * GD_LANES, t, taken);
          GD_UNROLL for (int r = 0; r < rows; r++) part[r * taken + t] = fma_vf(element, values[k][r], part[r * taken + t]);
        }
      }
    }
    for (int64_t at = own.count; at < next.count; at++) linear_copy_halves(next, at, halves, way);
  }
  GD_UNROLL for (int k = 0; k < all; k += 8) sum_eight(part + k, outputs + k);
}

/* The outputs of rows first .. first + count - 1 of weight, at most LINEAR_SUMS_AT_ONCE. If there are fewer than a set has, one
 * is read repeatedly; else the last set may have rows of the one before. */
GD_INLINE void linear_dots_small(const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, linear_small way) {
  int64_t blocks = matrix->columns / way.format.elements, bytes = blocks * way.format.bytes, parts = (blocks + LINEAR_SMALL_BLOCKS - 1) / LINEAR_SMALL_BLOCKS;
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  /* Eight outputs are written at a time. */
  float made[(LINEAR_SUMS_AT_ONCE + 1) * LINEAR_TAKEN];
  _Alignas(64) uint16_t halves[2 * LINEAR_SMALL_ROWS * LINEAR_SMALL_BLOCKS] = {0};
  int64_t apart = count >= way.rows, step = apart ? way.rows : 1, last = count - step;
  way.each = (blocks + parts - 1) / parts; /* about as many each */
  small_blocks begin = {row, apart * bytes, way.each};
  for (int64_t at = 0; at < begin.count; at++) linear_copy_halves(begin, at, halves, way);
  for (int64_t f = 0, later;; f = later) {
    later = least(f + step, last);
    linear_dot_small(row + f * bytes, apart * bytes, blocks, few, row + later * bytes, halves, made + f * way.taken, way);
    if (f == last) break;
  }
  few_place(few, made, 0, count, way.taken);
}
#endif
