/* embedding: rows of a matrix, by number. Work items are rows of out. */

static void embedding(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_embedding *op = params;
  float *block = scratch;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    void *out = element(&op->out, item, 0, 0);
    int64_t row = op->ids[item], columns = op->weight.columns;
    if (row < 0) {
      for (int64_t i = 0; i < MATRIX_DEPTH; i++) block[i] = 0;
      for (int64_t i = 0; i < columns; i += MATRIX_DEPTH) {
        convert(block, 0, GD_CPU_F32, out, i, op->out.dtype, least(MATRIX_DEPTH, columns - i));
      }
      continue;
    }
    if (!is_packed(&op->weight)) {
      convert(matrix_row(&op->weight, row), 0, layout_of(&op->weight).dtype, out, 0, op->out.dtype, columns);
      continue;
    }
    for (int64_t i = 0; i < columns; i += MATRIX_DEPTH) {
      int64_t count = least(MATRIX_DEPTH, columns - i);
      expand(&op->weight, row, 1, i, count, block, GD_IN_ORDER);
      if (interleaves(&op->weight)) deinterleave(block, count);
      convert(block, 0, GD_CPU_F32, out, i, op->out.dtype, count);
    }
  }
}
