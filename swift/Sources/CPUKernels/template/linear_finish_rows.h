/* Outputs of many rows with int8 activations. Exact rows would gain a few hundredths in `linear` and nothing in a prompt, and there is no room for the code in their five instruction sets. */

/* The number of rows between the row whose outputs, one line, are stored and the row that is asked for: rows are pages apart, and stores would wait for each line. */
enum { LINEAR_ROWS_AHEAD = 32 };
/* Asks for the outputs, and what is added to them, of the first of `rows` rows from `row` on, before their sums are made. */
static void linear_ask_first(const gd_cpu_linear *op, int64_t rows, int64_t row, int64_t first) {
  for (int64_t r = row; r < row + least(rows, LINEAR_ROWS_AHEAD); r++) {
    __builtin_prefetch(linear_element(op, &op->out, r, first), 1, 3);
    if (op->residual.data != NULL) __builtin_prefetch(element(&op->residual, r, 0, first));
  }
}

/* linear_finish of `rows` rows from `row` on, after linear_ask_first. Sums are `apart` from one row to the next. */
GD_INLINE void linear_finish_rows(const gd_cpu_linear *op, float *values, int64_t apart, int64_t rows, int64_t row, int64_t first, int64_t count) {
  if (op->places != NULL || count % GD_WIDTH != 0) {
    for (int64_t r = 0; r < rows; r++) linear_finish(op, values + r * apart, row + r, first, count);
    return;
  }
  const gd_cpu_tensor *added = &op->residual;
  int64_t added_step = added->token_stride * dtype_size(added->dtype);
  const char *residual = added->data == NULL ? NULL : element(added, row, 0, first);
  /* A loop for each dtype. */
  GD_UNROLL for (uint32_t dtype = 0; dtype <= GD_CPU_BF16; dtype++) {
    if (dtype != op->out.dtype) continue;
    char *out = element(&op->out, row, 0, first);
    int64_t step = op->out.token_stride * dtype_size(dtype);
    for (int64_t r = 0; r < rows; r++, values += apart, out += step) {
      if (r + LINEAR_ROWS_AHEAD < rows) {
        __builtin_prefetch(out + LINEAR_ROWS_AHEAD * step, 1, 3);
        if (residual != NULL) __builtin_prefetch(residual + LINEAR_ROWS_AHEAD * added_step);
      }
      _Pragma("clang loop unroll(disable)")
      for (int64_t i = 0; i < count; i += GD_WIDTH) {
        vf sum = load(values, i, GD_CPU_F32);
        if (residual != NULL) sum += load(residual, i, added->dtype);
        store(out, i, dtype, sum);
      }
      if (residual != NULL) residual += added_step;
    }
  }
}
