/* The two products of attention on tiles that fit the registers. Rows of scratch are attention_stride(dim) floats apart,
 * zeros behind their dim elements. A row's results depend on neither the tile nor its other rows.
 *
 * score of a row and a key = sum over the row's elements of GD_LANES partials, each an fma chain (sums.h);
 * value of a row = value correction, then one fma chain over the keys in order. */

enum { ATTENTION_BLOCK = 64 }; /* keys that a step of the online softmax takes */

#if GD_WIDTH == 16
enum { SCORE_ROWS = 4, SCORE_KEYS = 4, VALUE_ROWS = 4, VALUE_VECTORS = 4 };
#elif GD_WIDTH == 8
enum { SCORE_ROWS = 2, SCORE_KEYS = 2, VALUE_ROWS = 2, VALUE_VECTORS = 4 };
#elif defined(__aarch64__)
enum { SCORE_ROWS = 2, SCORE_KEYS = 2, VALUE_ROWS = 4, VALUE_VECTORS = 4 };
#else
enum { SCORE_ROWS = 1, SCORE_KEYS = 2, VALUE_ROWS = 2, VALUE_VECTORS = 4 };
#endif
enum { SCORE_MOST_KEYS = 8 };

GD_INLINE int64_t attention_stride(int64_t dim) { return (dim + GD_LANES - 1) / GD_LANES * GD_LANES; }

/* The keys or the values of a block: rows in a page, or where those are no whole vectors or are read often, in scratch.
 * The rows behind the last one are the last again. */
typedef struct attention_rows {
  const void *row[ATTENTION_BLOCK + SCORE_MOST_KEYS];
  uint32_t dtype;
} attention_rows;

/* Scores of `rows` query rows with keys first .. first + keys - 1. */
GD_INLINE void score_tile(
  const float *query, int64_t stride, const attention_rows *from, int64_t first, int rows, int keys, uint32_t dtype,
  int64_t dim, float *scores
) {
  vf part[SCORE_ROWS][SCORE_MOST_KEYS][GD_PARTS];
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int k = 0; k < keys; k++) {
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) part[r][k][p] = splat(0.0f);
    }
  }
  const void *const *key = from->row + first;
  for (int64_t i = 0; i < dim; i += GD_LANES) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf q[SCORE_ROWS];
      GD_UNROLL for (int r = 0; r < rows; r++) q[r] = load(query + r * stride, i + p * GD_WIDTH, GD_CPU_F32);
      GD_UNROLL for (int k = 0; k < keys; k++) {
        vf x = load(key[k], i + p * GD_WIDTH, dtype);
        GD_UNROLL for (int r = 0; r < rows; r++) part[r][k][p] = fma_vf(x, q[r], part[r][k][p]);
      }
    }
  }
#if GD_WIDTH == 16
  row_sum sums[8];
  float out[8];
  int together = 8 / keys; /* rows */
  GD_UNROLL for (int r = 0; r < rows; r += together) {
    GD_UNROLL for (int i = 0; i < 8; i++) sums[i] = row_sum_of(part[r + i / keys][i % keys]);
    sum_eight(sums, out);
    GD_UNROLL for (int i = 0; i < 8; i++) scores[(r + i / keys) * ATTENTION_BLOCK + first + i % keys] = out[i];
  }
#else
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int k = 0; k < keys; k++) {
      scores[r * ATTENTION_BLOCK + first + k] = sum_one(fold(part[r][k]));
    }
  }
#endif
}

/* Scores of one row with the block's first `count` keys; up to SCORE_MOST_KEYS - 1 behind them are written, too. */
GD_INLINE void score_rows(
  const float *query, int64_t stride, const attention_rows *keys, int64_t count, int rows, uint32_t dtype, int64_t dim,
  float *scores
) {
  int each = GD_WIDTH == 16 && rows == 1 ? 8 : SCORE_KEYS;
  for (int64_t first = 0; first < count; first += each) {
    if (each == 8) score_tile(query, stride, keys, first, rows, GD_WIDTH == 16 ? 8 : SCORE_KEYS, dtype, dim, scores);
    else score_tile(query, stride, keys, first, rows, SCORE_KEYS, dtype, dim, scores);
  }
}

static void scores_of(
  const float *query, int64_t stride, const attention_rows *keys, int64_t count, int64_t rows, int64_t dim,
  float *scores
) {
  int64_t row = 0;
#define GD_ROWS(ROWS, DTYPE)                                                                                     \
  for (; row + ROWS <= rows; row += ROWS) {                                                                      \
    score_rows(query + row * stride, stride, keys, count, ROWS, DTYPE, dim, scores + row * ATTENTION_BLOCK);     \
  }
#define GD_CASE(DTYPE)                                        \
  if (keys->dtype == DTYPE) {                                 \
    GD_ROWS(SCORE_ROWS, DTYPE)                                \
    if (SCORE_ROWS > 2) { GD_ROWS(2, DTYPE) }                 \
    if (SCORE_ROWS > 1) { GD_ROWS(1, DTYPE) }                 \
    return;                                                   \
  }
  GD_CASE(GD_CPU_F32)
  GD_CASE(GD_CPU_BF16)
  GD_CASE(GD_CPU_F16)
#undef GD_CASE
#undef GD_ROWS
}

/* Adds keys begin .. end - 1 to `rows` rows of values, which are multiplied by their corrections before. */
GD_INLINE void value_tile(
  float *values, int64_t stride, const float *weights, const float *corrections, const attention_rows *from,
  int64_t begin, int64_t end, int rows, int vectors, uint32_t dtype, int64_t at
) {
  vf sum[VALUE_ROWS][VALUE_VECTORS];
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int v = 0; v < vectors; v++) {
      sum[r][v] = load(values + r * stride, at + v * GD_WIDTH, GD_CPU_F32) * splat(corrections[r]);
    }
  }
  for (int64_t key = begin; key < end; key++) {
    const void *row = from->row[key];
    vf x[VALUE_VECTORS];
    GD_UNROLL for (int v = 0; v < vectors; v++) x[v] = load(row, at + v * GD_WIDTH, dtype);
    GD_UNROLL for (int r = 0; r < rows; r++) {
      vf weight = splat(weights[r * ATTENTION_BLOCK + key]);
      GD_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = fma_vf(x[v], weight, sum[r][v]);
    }
  }
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int v = 0; v < vectors; v++) store(values + r * stride, at + v * GD_WIDTH, GD_CPU_F32, sum[r][v]);
  }
}

GD_INLINE void value_rows(
  float *values, int64_t stride, const float *weights, const float *corrections, const attention_rows *from,
  int64_t begin, int64_t end, int rows, uint32_t dtype
) {
  int64_t at = 0;
  for (; at + VALUE_VECTORS * GD_WIDTH <= stride; at += VALUE_VECTORS * GD_WIDTH) {
    value_tile(values, stride, weights, corrections, from, begin, end, rows, VALUE_VECTORS, dtype, at);
  }
  for (; at < stride; at += GD_WIDTH) {
    value_tile(values, stride, weights, corrections, from, begin, end, rows, 1, dtype, at);
  }
}

/* The same of any number of rows, each with the block's first counts[row] keys, which do not decrease. */
static void values_of(
  float *values, int64_t stride, const float *weights, const float *corrections, const attention_rows *from,
  const int64_t *counts, int64_t rows
) {
  static const float one = 1.0f;
  int64_t row = 0;
#define GD_CASE(DTYPE)                                                                                               \
  if (from->dtype == DTYPE) {                                                                                        \
    for (; row + VALUE_ROWS <= rows; row += VALUE_ROWS) {                                                            \
      float *own = values + row * stride;                                                                            \
      const float *weight = weights + row * ATTENTION_BLOCK;                                                         \
      value_rows(own, stride, weight, corrections + row, from, 0, counts[row], VALUE_ROWS, DTYPE);                   \
      for (int64_t r = 1; r < VALUE_ROWS; r++) { /* those that see more than the first of them */                    \
        if (counts[row + r] == counts[row]) continue;                                                                \
        value_rows(                                                                                                  \
          own + r * stride, stride, weight + r * ATTENTION_BLOCK, &one, from, counts[row], counts[row + r], 1,       \
          DTYPE);                                                                                                    \
      }                                                                                                              \
    }                                                                                                                \
    for (; row < rows; row++) {                                                                                      \
      value_rows(                                                                                                    \
        values + row * stride, stride, weights + row * ATTENTION_BLOCK, corrections + row, from, 0, counts[row], 1,  \
        DTYPE);                                                                                                      \
    }                                                                                                                \
    return;                                                                                                          \
  }
  GD_CASE(GD_CPU_F32)
  GD_CASE(GD_CPU_BF16)
  GD_CASE(GD_CPU_F16)
#undef GD_CASE
}
