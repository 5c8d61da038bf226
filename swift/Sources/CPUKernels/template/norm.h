/* Gated RMS norm of rows, after `n = x rsqrt(mean x^2 + eps)`:
 *
 *   norm-then-gate: out = weight n act(z)        gate-then-norm: the same n of x act(z), out = weight n
 *
 * multiplied from left to right: ((x r) weight) act(z). Sums as sum_of_squares, for every length. */

enum { NORM_BLOCK = 1024 }; /* elements that are gated together; a multiple of 2 GD_LANES */
enum { NORM_ROWS = 16 };    /* rows that are worked on together: the roots of some overlap with the sums of others */

/* The dtypes and the gate of a row: compile-time constants in its loops. */
typedef struct norm_kind {
  uint32_t x_dtype, z_dtype, weight_dtype, out_dtype;
  uint32_t activation; /* none: not gated */
} norm_kind;

typedef struct norm_rows {
  norm_kind kind;
  uint32_t order;
  float eps;
  int64_t dim, count;
  const void *weight, *x[NORM_ROWS], *z[NORM_ROWS];
  void *out[NORM_ROWS];
} norm_rows;

/* x factor weight act(z) from element i on; x begins with element i - at. */
GD_INLINE void norm_vector(
  norm_kind kind, const void *x, int64_t at, const void *z, const void *weight, void *out, int64_t i, int64_t left,
  vf factor
) {
  vf n = load_left(x, at, kind.x_dtype, left) * factor * load_left(weight, i, kind.weight_dtype, left);
  if (kind.activation != GD_CPU_ACTIVATION_NONE) {
    n = n * activate_vf(load_left(z, i, kind.z_dtype, left), kind.activation);
  }
  store_left(out, i, kind.out_dtype, left, n);
}

GD_INLINE void norm_elements(
  norm_kind kind, const void *x, const void *z, const void *weight, void *out, int64_t i, int64_t count, float factor
) {
  int64_t at = 0;
  for (; at + GD_WIDTH <= count; at += GD_WIDTH) {
    norm_vector(kind, x, at, z, weight, out, i + at, GD_WIDTH, splat(factor));
  }
  if (at < count) norm_vector(kind, x, at, z, weight, out, i + at, count - at, splat(factor));
}

GD_INLINE float norm_factor(const norm_rows *rows, double sum) {
  return rsqrt_one(sum / (double)rows->dim + rows->eps);
}

/* Prefetches the row after a group of contiguous rows. The processor prefetches long rows by itself. */
GD_INLINE void fetch_behind(const norm_rows *rows, const void *row, uint32_t dtype) {
  int64_t bytes = rows->dim * dtype_size(dtype);
  if (bytes <= 2048) fetch_far((const char *)row + rows->count * bytes, bytes);
}

GD_INLINE void norm_then_gate(const norm_rows *rows, norm_kind kind) {
  float factors[NORM_ROWS];
  int64_t dim = rows->dim;
  for (int64_t r = 0; r < rows->count; r++) {
    fetch_behind(rows, rows->x[r], kind.x_dtype);
    factors[r] = norm_factor(rows, sum_of_squares(rows->x[r], kind.x_dtype, dim));
  }
  for (int64_t r = 0; r < rows->count; r++) {
    fetch_behind(rows, rows->z[r], kind.z_dtype);
    fetch_behind(rows, rows->out[r], kind.out_dtype);
    norm_elements(kind, rows->x[r], rows->z[r], rows->weight, rows->out[r], 0, dim, factors[r]);
  }
}

/* x act(z) of count elements from i on. */
GD_INLINE void gate_elements(const norm_rows *rows, int64_t r, int64_t i, int64_t count, float *out) {
  norm_kind kind = rows->kind;
  for (int64_t at = 0; at < count; at += GD_WIDTH) {
    int64_t left = count - at;
    vf gate = activate_vf(load_left(rows->z[r], i + at, kind.z_dtype, left), kind.activation);
    store_left(out, at, GD_CPU_F32, left, load_left(rows->x[r], i + at, kind.x_dtype, left) * gate);
  }
}

/* gated: NORM_BLOCK elements of scratch. A longer row is gated twice: for its sum, and for its norm. */
static void gate_then_norm(const norm_rows *rows, float *gated) {
  norm_kind kind = rows->kind;
  kind.x_dtype = GD_CPU_F32;
  kind.activation = GD_CPU_ACTIVATION_NONE;
  for (int64_t r = 0; r < rows->count; r++) {
    square_sums sums = {0};
    for (int64_t i = 0; i < rows->dim; i += NORM_BLOCK) {
      int64_t count = least(rows->dim - i, NORM_BLOCK);
      gate_elements(rows, r, i, count, gated);
      add_squares(&sums, gated, GD_CPU_F32, count);
    }
    float factor = norm_factor(rows, squares_total(&sums));
    for (int64_t i = 0; i < rows->dim; i += NORM_BLOCK) {
      int64_t count = least(rows->dim - i, NORM_BLOCK);
      if (rows->dim > NORM_BLOCK) gate_elements(rows, r, i, count, gated);
      norm_elements(kind, gated, rows->z[r], rows->weight, rows->out[r], i, count, factor);
    }
  }
}

static void norm_run(const norm_rows *rows, float *gated) {
  norm_kind kind = rows->kind;
  if (rows->order == GD_CPU_GATE_THEN_NORM) return gate_then_norm(rows, gated);
#define GD_CASE(X, Z, OUT)                                                                                   \
  if (kind.x_dtype == X && kind.z_dtype == Z && kind.out_dtype == OUT) {                                     \
    return norm_then_gate(rows, (norm_kind){X, Z, GD_CPU_F32, OUT, GD_CPU_ACTIVATION_SILU});                 \
  }
  if (kind.weight_dtype == GD_CPU_F32 && kind.activation == GD_CPU_ACTIVATION_SILU) {
    GD_CASE(GD_CPU_F32, GD_CPU_F32, GD_CPU_F32)
    GD_CASE(GD_CPU_F32, GD_CPU_BF16, GD_CPU_BF16)
    GD_CASE(GD_CPU_F32, GD_CPU_F16, GD_CPU_F16)
    GD_CASE(GD_CPU_BF16, GD_CPU_BF16, GD_CPU_BF16)
  }
#undef GD_CASE
  norm_then_gate(rows, kind);
}
