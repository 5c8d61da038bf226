/* siluMul: out = silu(gate) up, in float32 and rounded once. Work items are rows. out may be gate or up itself: a vector
 * is loaded from both before it is stored. */

GD_INLINE void silu_mul_row(
  const void *gate, uint32_t gate_dtype, const void *up, uint32_t up_dtype, void *out, uint32_t out_dtype, int64_t dim
) {
  for (int64_t i = 0; i < dim; i += GD_WIDTH) {
    int64_t left = dim - i;
    vf product = silu_vf(load_left(gate, i, gate_dtype, left)) * load_left(up, i, up_dtype, left);
    store_left(out, i, out_dtype, left, product);
  }
}

static void silu_mul(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_silu_mul *op = params;
  (void)scratch;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    int64_t token = item / op->heads, head = item % op->heads;
    const void *gate = element(&op->gate, token, head, 0), *up = element(&op->up, token, head, 0);
    void *out = element(&op->out, token, head, 0);
#define GD_CASE(GATE, UP, OUT)                                                                      \
  if (op->gate.dtype == GATE && op->up.dtype == UP && op->out.dtype == OUT) {                       \
    silu_mul_row(gate, GATE, up, UP, out, OUT, op->dim);                                            \
    continue;                                                                                       \
  }
    GD_CASE(GD_CPU_F32, GD_CPU_F32, GD_CPU_F32)
    GD_CASE(GD_CPU_BF16, GD_CPU_BF16, GD_CPU_BF16)
#undef GD_CASE
    silu_mul_row(gate, op->gate.dtype, up, op->up.dtype, out, op->out.dtype, op->dim);
  }
}
