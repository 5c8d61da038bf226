/* add: out = a + b, a float32 sum rounded once. Work items are rows. out may be a or b itself: a vector is loaded from
 * both before it is stored. */

GD_INLINE void add_row(
  const void *a, uint32_t a_dtype, const void *b, uint32_t b_dtype, void *out, uint32_t out_dtype, int64_t dim
) {
  for (int64_t i = 0; i < dim; i += GD_WIDTH) {
    int64_t left = dim - i;
    store_left(out, i, out_dtype, left, load_left(a, i, a_dtype, left) + load_left(b, i, b_dtype, left));
  }
}

static void add(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_add *op = params;
  (void)scratch;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    int64_t token = item / op->heads, head = item % op->heads;
    const void *a = element(&op->a, token, head, 0), *b = element(&op->b, token, head, 0);
    void *out = element(&op->out, token, head, 0);
#define GD_CASE(A, B, OUT)                                                                       \
  if (op->a.dtype == A && op->b.dtype == B && op->out.dtype == OUT) {                            \
    add_row(a, A, b, B, out, OUT, op->dim);                                                      \
    continue;                                                                                    \
  }
    GD_CASE(GD_CPU_F32, GD_CPU_F32, GD_CPU_F32)
    GD_CASE(GD_CPU_F32, GD_CPU_BF16, GD_CPU_F32)
    GD_CASE(GD_CPU_BF16, GD_CPU_BF16, GD_CPU_BF16)
    GD_CASE(GD_CPU_F16, GD_CPU_F16, GD_CPU_F16)
#undef GD_CASE
    add_row(a, op->a.dtype, b, op->b.dtype, out, op->out.dtype, op->dim);
  }
}
