/* expert_linear: linear for the rows of each expert, by its matrix. Work items are blocks of LINEAR_BLOCK features of a
 * group, all its rows each, group by group. The sums are linear's, which depend on neither rows nor items. */

/* The matrix of an expert, which has `rows` rows. */
GD_INLINE gd_cpu_matrix expert_matrix(const gd_cpu_matrix *first, int64_t expert, int64_t rows) {
  gd_cpu_matrix matrix = *first;
  int64_t factors = expert * rows * (matrix.columns >> layout_of(first).shift) * dtype_size(matrix.dtype);
  matrix.values = matrix_row(first, expert * rows);
  if (matrix.scales != NULL) matrix.scales = (const char *)matrix.scales + factors;
  if (matrix.biases != NULL) matrix.biases = (const char *)matrix.biases + factors;
  return matrix;
}

/* Zeros, for rows of no expert. */
static void expert_nothing(const gd_cpu_linear *op, int64_t first, int64_t last) {
  for (int64_t row = 0; row < op->rows; row++) {
    __builtin_memset(linear_element(op, &op->out, row, first), 0, (size_t)((last - first) * dtype_size(op->out.dtype)));
  }
}

static void expert_linear(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_expert_linear *op = params;
  int64_t features = op->linear.out_features, blocks = (features + LINEAR_BLOCK - 1) / LINEAR_BLOCK;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop);) {
    int64_t next = least(end, (item / blocks + 1) * blocks);
    gd_cpu_expert_group group = op->groups[item / blocks];
    int64_t first = item % blocks * LINEAR_BLOCK, last = least(first + (next - item) * LINEAR_BLOCK, features);
    gd_cpu_linear linear = op->linear;
    linear.rows = group.count;
    linear.places += group.first;
    if (group.expert < 0) {
      expert_nothing(&linear, first, last);
    } else {
      linear.weight = expert_matrix(&op->linear.weight, group.expert, features);
      linear_features(&linear, first, last, scratch, stop);
    }
    item = next;
  }
}
