/* Gated RMS norm of one row, after `n = x rsqrt(mean x^2 + eps)`:
 *
 *   norm-then-gate: out = weight n act(z)        gate-then-norm: the same n of x act(z), out = weight n
 *
 * multiplied from left to right: ((x r) weight) act(z). Sums as sum_of_squares, whatever the length. */

enum { NORM_BLOCK = 1024 }; /* elements that are gated together; a multiple of 2 GD_LANES */

typedef struct norm_row_of {
  int64_t dim;
  uint32_t activation, order;
  float eps;
  const void *x, *z, *weight;
  void *out;
  uint32_t x_dtype, z_dtype, weight_dtype, out_dtype;
} norm_row_of;

/* x act(z) of count elements from i on. */
GD_INLINE void gate_elements(const norm_row_of *row, int64_t i, int64_t count, float *out) {
  int64_t end = i + count, at = 0;
  for (; i + GD_WIDTH <= end; i += GD_WIDTH, at += GD_WIDTH) {
    vf gate = activate_vf(load(row->z, i, row->z_dtype), row->activation);
    store(out, at, GD_CPU_F32, load(row->x, i, row->x_dtype) * gate);
  }
  if (i < end) {
    vf gate = activate_vf(load_first(row->z, i, row->z_dtype, end - i), row->activation);
    store_first(out, at, GD_CPU_F32, end - i, load_first(row->x, i, row->x_dtype, end - i) * gate);
  }
}

GD_INLINE vf norm_vector(const norm_row_of *row, vf x, vf factor, vf weight, vf z) {
  vf n = x * factor * weight;
  return row->order == GD_CPU_NORM_THEN_GATE ? n * activate_vf(z, row->activation) : n;
}

/* Elements i .. i + count - 1; x is read from `from` at `at`. */
GD_INLINE void norm_elements(
  const norm_row_of *row, int64_t i, int64_t count, vf factor, const void *from, int64_t at, uint32_t from_dtype
) {
  int64_t end = i + count;
  for (; i + GD_WIDTH <= end; i += GD_WIDTH, at += GD_WIDTH) {
    vf weight = load(row->weight, i, row->weight_dtype), z = load(row->z, i, row->z_dtype);
    store(row->out, i, row->out_dtype, norm_vector(row, load(from, at, from_dtype), factor, weight, z));
  }
  int64_t left = end - i;
  if (left > 0) {
    vf weight = load_first(row->weight, i, row->weight_dtype, left), z = load_first(row->z, i, row->z_dtype, left);
    vf x = load_first(from, at, from_dtype, left);
    store_first(row->out, i, row->out_dtype, left, norm_vector(row, x, factor, weight, z));
  }
}

GD_INLINE void norm_row(const norm_row_of *row, float *gated) {
  if (row->order == GD_CPU_NORM_THEN_GATE) {
    double mean = sum_of_squares(row->x, row->x_dtype, row->dim) / (double)row->dim;
    norm_elements(row, 0, row->dim, splat(rsqrt_one(mean + row->eps)), row->x, 0, row->x_dtype);
    return;
  }
  square_sums sums = {0};
  for (int64_t i = 0; i < row->dim; i += NORM_BLOCK) {
    int64_t count = row->dim - i < NORM_BLOCK ? row->dim - i : NORM_BLOCK;
    gate_elements(row, i, count, gated);
    add_squares(&sums, gated, GD_CPU_F32, count);
  }
  vf factor = splat(rsqrt_one(squares_total(&sums) / (double)row->dim + row->eps));
  for (int64_t i = 0; i < row->dim; i += NORM_BLOCK) {
    int64_t count = row->dim - i < NORM_BLOCK ? row->dim - i : NORM_BLOCK;
    if (row->dim > NORM_BLOCK) gate_elements(row, i, count, gated); /* one block is still there */
    norm_elements(row, i, count, factor, gated, 0, GD_CPU_F32);
  }
}

/* Loops whose dtypes are known: x is f32 or z's dtype, out is z's dtype or f32. */
static void norm_row_any(norm_row_of *row, float *gated) {
#define GD_CASE(X, Z, OUT)                                                                          \
  if (row->x_dtype == X && row->z_dtype == Z && row->out_dtype == OUT) {                            \
    norm_row_of known = *row;                                                                       \
    known.x_dtype = X, known.z_dtype = Z, known.out_dtype = OUT, known.weight_dtype = GD_CPU_F32;   \
    return norm_row(&known, gated);                                                                 \
  }
  if (row->weight_dtype == GD_CPU_F32) {
    GD_CASE(GD_CPU_F32, GD_CPU_F32, GD_CPU_F32)
    GD_CASE(GD_CPU_F32, GD_CPU_BF16, GD_CPU_BF16)
    GD_CASE(GD_CPU_F32, GD_CPU_F16, GD_CPU_F16)
    GD_CASE(GD_CPU_BF16, GD_CPU_BF16, GD_CPU_BF16)
  }
#undef GD_CASE
  norm_row(row, gated);
}
