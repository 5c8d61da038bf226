/* Outputs of many rows with int8 activations. Exact rows gain a few hundredths in `linear`, none in a prompt, and their five instruction sets have no room. */

/* Rows from one whose outputs are stored to the one whose lines are asked for: rows are pages apart, and stores would wait for each line. */
GD_INLINE int64_t linear_ahead(const gd_cpu_linear *op, int64_t count) {
  enum { LINES = 32 };
  int64_t lines = count * dtype_size(op->out.dtype) / 64;
  return lines > 1 ? LINES / lines : LINES;
}
GD_INLINE void linear_ask_lines(const void *from, int64_t bytes, int is_stored) {
  _Pragma("clang loop unroll(disable)")
  for (int64_t at = 0; at < bytes; at += 64) {
    if (is_stored) __builtin_prefetch((const char *)from + at, 1, 3);
    else __builtin_prefetch((const char *)from + at);
  }
}
/* Asks for the outputs, and what is added to them, of the first of `rows` rows from `row` on, before their sums are made. */
static void linear_ask_first(const gd_cpu_linear *op, int64_t rows, int64_t row, int64_t first, int64_t count) {
  for (int64_t r = row; r < row + least(rows, linear_ahead(op, count)); r++) {
    linear_ask_lines(linear_element(op, &op->out, r, first), count * dtype_size(op->out.dtype), 1);
    if (op->residual.data != NULL) linear_ask_lines(element(&op->residual, r, 0, first), count * dtype_size(op->residual.dtype), 0);
  }
}

/* linear_finish of `rows` rows from `row` on, after linear_ask_first. Sums are `apart` from one row to the next. */
GD_INLINE void linear_finish_rows(const gd_cpu_linear *op, float *values, int64_t apart, int64_t rows, int64_t row, int64_t first, int64_t count) {
  if (op->places != NULL || count % GD_WIDTH != 0) {
    for (int64_t r = 0; r < rows; r++) linear_finish(op, values + r * apart, row + r, first, count);
    return;
  }
  const gd_cpu_tensor *added = &op->residual;
  int64_t ahead = linear_ahead(op, count), added_step = added->token_stride * dtype_size(added->dtype);
  const char *residual = added->data == NULL ? NULL : element(added, row, 0, first);
  /* A loop for each dtype. */
  GD_UNROLL for (uint32_t dtype = 0; dtype <= GD_CPU_BF16; dtype++) {
    if (dtype != op->out.dtype) continue;
    char *out = element(&op->out, row, 0, first);
    int64_t step = op->out.token_stride * dtype_size(dtype);
    for (int64_t r = 0; r < rows; r++, values += apart, out += step) {
      if (r + ahead < rows) {
        linear_ask_lines(out + ahead * step, count * dtype_size(dtype), 1);
        if (residual != NULL) linear_ask_lines(residual + ahead * added_step, count * dtype_size(added->dtype), 0);
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
