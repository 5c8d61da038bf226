/* Elementwise ops: out = f(a, b) in float32, rounded once. Work items are rows. out may be a or b itself: a vector is loaded
 * from both before it is stored. */

GD_INLINE vf elementwise_add(vf a, vf b) { return a + b; }
GD_INLINE vf elementwise_silu_mul(vf gate, vf up) { return silu_vf(gate) * up; }

GD_INLINE vf elementwise_value(uint32_t operation, vf a, vf b) {
#define GD_OPERATION(VALUE, FUNCTION) \
  if (operation == VALUE) return FUNCTION(a, b);
  GD_CPU_ELEMENTWISE(GD_OPERATION)
#undef GD_OPERATION
  __builtin_unreachable();
}

GD_INLINE void elementwise_row(
  uint32_t operation, const void *a, uint32_t a_dtype, const void *b, uint32_t b_dtype, void *out, uint32_t out_dtype,
  int64_t dim
) {
  for (int64_t i = 0; i < dim; i += GD_WIDTH) {
    int64_t left = dim - i;
    vf value = elementwise_value(operation, load_left(a, i, a_dtype, left), load_left(b, i, b_dtype, left));
    store_left(out, i, out_dtype, left, value);
  }
}

/* Inlined once for each operation, which is then a constant. */
GD_INLINE void elementwise_rows(
  uint32_t operation, const gd_cpu_elementwise *op, int64_t begin, int64_t end, const uint32_t *stop
) {
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    int64_t token = item / op->heads, head = item % op->heads;
    const void *a = element(&op->a, token, head, 0), *b = element(&op->b, token, head, 0);
    void *out = element(&op->out, token, head, 0);
#define GD_CASE(A, B, OUT)                                                                       \
  if (op->a.dtype == A && op->b.dtype == B && op->out.dtype == OUT) {                            \
    elementwise_row(operation, a, A, b, B, out, OUT, op->dim);                                   \
    continue;                                                                                    \
  }
    GD_CASE(GD_CPU_F32, GD_CPU_F32, GD_CPU_F32)
    GD_CASE(GD_CPU_F32, GD_CPU_BF16, GD_CPU_F32)
    GD_CASE(GD_CPU_BF16, GD_CPU_BF16, GD_CPU_BF16)
    GD_CASE(GD_CPU_F16, GD_CPU_F16, GD_CPU_F16)
#undef GD_CASE
    elementwise_row(operation, a, op->a.dtype, b, op->b.dtype, out, op->out.dtype, op->dim);
  }
}

static void elementwise(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_elementwise *op = params;
  (void)scratch;
#define GD_OPERATION(VALUE, FUNCTION) \
  if (op->operation == VALUE) elementwise_rows(VALUE, op, begin, end, stop);
  GD_CPU_ELEMENTWISE(GD_OPERATION)
#undef GD_OPERATION
}
