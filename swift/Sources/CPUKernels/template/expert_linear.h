/* expert_linear: expert_run.h with linear's kernels. */

static void expert_linear(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  expert_run(params, begin, end, scratch, stop, linear_features);
}
