/* combine_experts: a token's experts by their weights, in order of rank, then the shared one and the residual. Work items
 * are blocks of GD_CPU_COMBINE_BLOCK elements of a token's row. */

static void combine_block(const gd_cpu_combine_experts *op, int64_t token, int64_t first, int64_t last) {
  const float *weights = op->weights + token * op->chosen;
  float factor = 1;
  if (op->shared_gate.data != NULL) {
    factor = sigmoid_vf(splat(load_one(element(&op->shared_gate, token, 0, 0), 0, op->shared_gate.dtype)))[0];
  }
  const void *shared = element(&op->shared, token, 0, 0), *residual = element(&op->residual, token, 0, 0);
  void *out = element(&op->out, token, 0, 0);
  for (int64_t i = first; i < last; i += GD_WIDTH) {
    int64_t left = last - i;
    vf sum = {0};
    for (int64_t j = 0; j < op->chosen; j++) {
      sum = fma_vf(splat(weights[j]), load_left(element(&op->experts, token, j, 0), i, op->experts.dtype, left), sum);
    }
    if (op->shared.data != NULL) sum = fma_vf(splat(factor), load_left(shared, i, op->shared.dtype, left), sum);
    if (op->residual.data != NULL) sum += load_left(residual, i, op->residual.dtype, left);
    store_left(out, i, op->out.dtype, left, sum);
  }
}

static void combine_experts(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_combine_experts *op = params;
  int64_t blocks = (op->dim + GD_CPU_COMBINE_BLOCK - 1) / GD_CPU_COMBINE_BLOCK;
  (void)scratch;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    int64_t first = item % blocks * GD_CPU_COMBINE_BLOCK;
    combine_block(op, item / blocks, first, least(first + GD_CPU_COMBINE_BLOCK, op->dim));
  }
}
