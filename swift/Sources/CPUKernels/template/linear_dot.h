/* linear with one row: dot products of x with one row of weight after the other, straight from the weight, which is read
 * as one stream: several rows side by side are read far slower. x is a panel: float32, in the order of the weight's
 * lanes, with zeros up to a multiple of GD_LANES. The partials are those of linear.h, to the bit. */

/* How far ahead of its use a weight is asked for, in bytes. */
enum { LINEAR_AHEAD = 2048 };

/* A row of elements: one chain a partial. */
GD_INLINE void linear_dot_plain(const void *row, const float *x, int64_t columns, float *sums, uint32_t dtype) {
  vf part[GD_PARTS] = {0};
  int64_t i = 0;
  for (; i + GD_LANES <= columns; i += GD_LANES) {
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

/* `count` blocks, an even number that is a constant: two chains a partial. */
GD_INLINE void linear_blocks(
  vf part[2][GD_PARTS], const uint8_t *block, affine values, const float *x, int count, uint32_t bits
) {
  GD_UNROLL for (int b = 0; b < count; b++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf weight = affine_values(packed_numbers(block + b * 2 * bits, bits, p), values, bits);
      part[b % 2][p] = fma_vf(load(x, b * GD_LANES + p * GD_WIDTH, GD_CPU_F32), weight, part[b % 2][p]);
    }
  }
}

/* The blocks of one group. */
GD_INLINE void linear_group(
  vf part[2][GD_PARTS], const uint8_t *block, affine values, const float *x, int64_t group, uint32_t bits
) {
  if (group == MATRIX_LEAST_GROUP) return linear_blocks(part, block, values, x, 2, bits);
  for (int64_t i = 0; i < group; i += 4 * GD_LANES) {
    linear_blocks(part, block + i * bits / 8, values, x + i, 4, bits);
  }
}

/* A row of packed numbers, with its scales and biases as float32. */
GD_INLINE void linear_dot_packed(
  const uint8_t *row, const float *scales, const float *biases, const float *x, int64_t groups, int64_t group,
  float *sums, uint32_t bits
) {
  vf part[2][GD_PARTS] = {0};
  int64_t bytes = group * bits / 8;
  for (int64_t g = 0; g < groups - reads_beyond(bits); g++) {
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + g * bytes + at + LINEAR_AHEAD);
    linear_group(part, row + g * bytes, affine_of(scales[g], biases[g], bits), x + g * group, group, bits);
  }
  if (reads_beyond(bits)) {
    int64_t g = groups - 1;
    uint8_t last[MATRIX_LARGEST_GROUP + MATRIX_BEYOND];
    __builtin_memcpy(last, row + g * bytes, (size_t)bytes);
    linear_group(part, last, affine_of(scales[g], biases[g], bits), x + g * group, group, bits);
  }
  GD_UNROLL for (int c = 0; c < 2; c++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, c * GD_LANES + p * GD_WIDTH, GD_CPU_F32, part[c][p]);
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
  switch (matrix->bits) {
#define GD_CASE(BITS)                                                                                            \
  case BITS:                                                                                                     \
    for (int64_t f = 0; f < count; f++, row += bytes, sums += 2 * GD_LANES, scales += groups, biases += groups) { \
      linear_dot_packed((const uint8_t *)row, scales, biases, x, groups, group, sums, BITS);                     \
    }                                                                                                            \
    break;
    GD_CASE(2)
    GD_CASE(3)
    GD_CASE(4)
    GD_CASE(5)
    GD_CASE(6)
    GD_CASE(8)
#undef GD_CASE
  }
}
