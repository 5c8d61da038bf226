/* Rows of a matrix as float32. */

GD_INLINE const char *matrix_row(const gd_cpu_matrix *matrix, int64_t row) {
  return (const char *)matrix->values + row * matrix->row_bytes;
}

/* Number i of a row of packed ones. It lies in at most two bytes, of which only those are read. */
GD_INLINE uint32_t packed_number(const uint8_t *row, int64_t i, uint32_t bits) {
  int64_t bit = i * bits;
  uint32_t shift = bit & 7, pair = row[bit >> 3];
  if (shift + bits > 8) pair |= (uint32_t)row[(bit >> 3) + 1] << 8;
  return pair >> shift & ((1u << bits) - 1);
}

/* Elements first .. first + count - 1 of a row of packed numbers; both are multiples of GD_LANES. */
GD_INLINE void expand_packed(
  const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *out, uint32_t bits
) {
  const uint8_t *numbers = (const uint8_t *)matrix_row(matrix, row);
  int64_t groups = row * (matrix->columns / matrix->group);
  for (int64_t i = first; i < first + count; i += GD_LANES) {
    int64_t group = groups + i / matrix->group;
    vf scale = splat(load_one(matrix->scales, group, matrix->dtype));
    vf bias = splat(load_one(matrix->biases, group, matrix->dtype));
    float q[GD_LANES];
    for (int64_t l = 0; l < GD_LANES; l++) q[l] = (float)packed_number(numbers, i + l, bits);
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      store(out, i - first + p * GD_WIDTH, GD_CPU_F32, fma_vf(load(q, p * GD_WIDTH, GD_CPU_F32), scale, bias));
    }
  }
}

/* Elements first .. first + count - 1 of a row. first is a multiple of GD_LANES, and count is one too where the matrix is
 * of packed numbers. */
static void expand(const gd_cpu_matrix *matrix, int64_t row, int64_t first, int64_t count, float *out) {
  switch (matrix->bits) {
    case 2: return expand_packed(matrix, row, first, count, out, 2);
    case 3: return expand_packed(matrix, row, first, count, out, 3);
    case 4: return expand_packed(matrix, row, first, count, out, 4);
    case 5: return expand_packed(matrix, row, first, count, out, 5);
    case 6: return expand_packed(matrix, row, first, count, out, 6);
    case 8: return expand_packed(matrix, row, first, count, out, 8);
    default: return convert(matrix_row(matrix, row), first, matrix->dtype, out, 0, GD_CPU_F32, count);
  }
}
