/* Multiplies the rows of each expert by its matrix, as linear does. Work items are blocks of GD_CPU_LINEAR_BLOCK features of a
 * group, each with all rows of the group, group by group. The sums are linear's, which depend on neither rows nor items. */

/* linear's features first .. last - 1 of all rows, by whichever kernel. */
typedef void linear_run(const gd_cpu_linear *op, int64_t first, int64_t last, void *scratch, const uint32_t *stop);

/* The matrix of an expert, which has `rows` rows. */
GD_INLINE gd_cpu_matrix expert_matrix(const gd_cpu_expert_linear *op, int64_t expert, int64_t rows) {
  const gd_cpu_matrix *first = &op->linear.weight;
  gd_cpu_matrix matrix = *first;
  int64_t factors = expert * rows * (matrix.columns >> layout_of(first).shift) * scale_bytes(first);
  matrix.values = op->pieces != NULL ? op->pieces[expert] : matrix_row(first, expert * rows);
  if (matrix.scales != NULL) matrix.scales = (const char *)matrix.scales + factors;
  if (matrix.biases != NULL) matrix.biases = (const char *)matrix.biases + factors;
  return matrix;
}

/* Zeros, for rows of no expert. */
GD_INLINE void expert_nothing(const gd_cpu_linear *op, int64_t first, int64_t last) {
  for (int64_t row = 0; row < op->rows; row++) {
    __builtin_memset(linear_element(op, &op->out, row, first), 0, (size_t)((last - first) * dtype_size(op->out.dtype)));
  }
}

GD_INLINE void expert_run(
  const gd_cpu_expert_linear *op, int64_t begin, int64_t end, void *scratch, const uint32_t *stop, linear_run *run
) {
  int64_t features = op->linear.out_features, blocks = (features + GD_CPU_LINEAR_BLOCK - 1) / GD_CPU_LINEAR_BLOCK;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop);) {
    int64_t next = least(end, (item / blocks + 1) * blocks);
    gd_cpu_expert_group group = op->groups[item / blocks];
    int64_t first = item % blocks * GD_CPU_LINEAR_BLOCK, last = least(first + (next - item) * GD_CPU_LINEAR_BLOCK, features);
    gd_cpu_linear linear = op->linear;
    linear.rows = group.count;
    linear.places += group.first;
    if (group.expert < 0) {
      expert_nothing(&linear, first, last);
    } else {
      linear.weight = expert_matrix(op, group.expert, features);
      run(&linear, first, last, scratch, stop);
    }
    item = next;
  }
}
