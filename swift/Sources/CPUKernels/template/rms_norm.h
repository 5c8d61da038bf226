/* rmsNorm: out = (x r) w or (x r) (1 + w) with r = rsqrt(mean x^2 + eps). Work items are rows. Sums as sum_of_squares,
 * for every length. */

GD_INLINE void rms_norm_row(
  const void *x, uint32_t x_dtype, const void *weight, uint32_t weight_dtype, uint32_t form, void *out,
  uint32_t out_dtype, int64_t dim, float eps
) {
  vf factor = splat(rsqrt_one(sum_of_squares(x, x_dtype, dim) / (double)dim + eps));
  for (int64_t i = 0; i < dim; i += GD_WIDTH) {
    int64_t left = dim - i;
    vf w = load_left(weight, i, weight_dtype, left);
    if (form == GD_CPU_WEIGHT_PLUS_ONE) w = splat(1.0f) + w;
    store_left(out, i, out_dtype, left, load_left(x, i, x_dtype, left) * factor * w);
  }
}

static void rms_norm(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_rms_norm *op = params;
  (void)scratch;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    const void *x = element(&op->x, item / op->heads, item % op->heads, 0);
    void *out = element(&op->out, item / op->heads, item % op->heads, 0);
    const void *weight = op->weight.data;
#define GD_CASE(X, W, OUT)                                                                       \
  if (op->x.dtype == X && op->weight.dtype == W && op->out.dtype == OUT) {                       \
    rms_norm_row(x, X, weight, W, op->weight_form, out, OUT, op->dim, op->eps);                  \
    continue;                                                                                    \
  }
    GD_CASE(GD_CPU_F32, GD_CPU_F32, GD_CPU_F32)
    GD_CASE(GD_CPU_BF16, GD_CPU_BF16, GD_CPU_BF16)
    GD_CASE(GD_CPU_F16, GD_CPU_F16, GD_CPU_F16)
#undef GD_CASE
    rms_norm_row(
      x, op->x.dtype, weight, op->weight.dtype, op->weight_form, out, op->out.dtype, op->dim, op->eps);
  }
}
