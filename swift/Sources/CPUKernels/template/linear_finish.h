/* The rows of a linear's tensors, and how outputs are stored. */

/* Element `at` of a row of x or out. */
GD_INLINE void *linear_element(const gd_cpu_linear *op, const gd_cpu_tensor *tensor, int64_t row, int64_t at) {
  if (op->places == NULL) return element(tensor, row, 0, at);
  int64_t place = op->places[row];
  return element(tensor, place / op->ranks, place % op->ranks, at);
}

/* Outputs first .. first + count - 1 of a row from their sums, which a vector may follow. */
GD_INLINE void linear_finish(const gd_cpu_linear *op, float *values, int64_t row, int64_t first, int64_t count) {
  if (op->residual.data != NULL) {
    const void *residual = element(&op->residual, row, 0, first);
    for (int64_t i = 0; i < count; i += GD_WIDTH) {
      vf sum = load(values, i, GD_CPU_F32) + load_left(residual, i, op->residual.dtype, count - i);
      store(values, i, GD_CPU_F32, sum);
    }
  }
  convert(values, 0, GD_CPU_F32, linear_element(op, &op->out, row, first), 0, op->out.dtype, count);
}
