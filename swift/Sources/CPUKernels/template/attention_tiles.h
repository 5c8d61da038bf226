/* The two products of attention on tiles that fit the registers. Rows of scratch are attention_stride(dim) floats apart,
 * with zeros after their dim elements. A row's results depend on neither the tile nor its other rows.
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
enum { SCORE_MOST_KEYS = 8, ATTENTION_REPEATED = 2 * SCORE_MOST_KEYS };

GD_INLINE int64_t attention_stride(int64_t dim) { return (dim + GD_LANES - 1) / GD_LANES * GD_LANES; }

/* The keys or the values of a block: rows in a page or, if those are not whole vectors or are read often, in scratch.
 * The rows after the last one repeat it. */
typedef struct attention_rows {
  const void *row[ATTENTION_BLOCK + ATTENTION_REPEATED];
  uint32_t dtype;
} attention_rows;

/* Rows to prefetch into the second-level cache during work on others, in the order of their memory. Work on a
 * block of keys prefetches as much as it reads itself. */
typedef struct attention_fetch {
  const attention_rows *rows;
  int64_t row, count, bytes; /* of a row */
  const char *next, *end;    /* of row `row` */
} attention_fetch;

GD_INLINE attention_fetch attention_fetch_of(const attention_rows *rows, int64_t count, int64_t bytes) {
  if (count <= 0) return (attention_fetch){0};
  const char *first = rows->row[0];
  return (attention_fetch){rows, 0, count, bytes, first, first + bytes};
}

GD_INLINE void fetch_more(attention_fetch *fetch, int64_t bytes) {
  for (int64_t done = 0; done < bytes && fetch->row < fetch->count; done += 64) {
    __builtin_prefetch(fetch->next, 0, 2);
    fetch->next += 64;
    if (fetch->next < fetch->end) continue;
    if (++fetch->row == fetch->count) return;
    fetch->next = fetch->rows->row[fetch->row];
    fetch->end = fetch->next + fetch->bytes;
  }
}

/* Whether the next tile's keys, and values of VALUES_NEAR keys later, are asked for again, into the L1 cache: measured only on Intel's. */
enum { VALUES_NEAR = 4 };
GD_INLINE int attention_fetches_near(const attention_fetch *fetch) { return fetch != NULL && gd_cpu_asks_by_pages; }

/* Scores of `rows` query rows with keys first .. first + keys - 1. */
GD_INLINE void score_tile(
  const float *query, int64_t stride, const attention_rows *from, attention_fetch *fetch, int64_t first, int rows,
  int keys, uint32_t dtype, int64_t dim, float *scores
) {
  vf part[SCORE_ROWS][SCORE_MOST_KEYS][GD_PARTS];
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int k = 0; k < keys; k++) {
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) part[r][k][p] = splat(0.0f);
    }
  }
  const void *const *key = from->row + first;
  int near = attention_fetches_near(fetch);
  for (int64_t i = 0; i < dim; i += GD_LANES) {
    if (fetch != NULL) fetch_more(fetch, keys * GD_LANES * dtype_size(dtype));
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf q[SCORE_ROWS];
      GD_UNROLL for (int r = 0; r < rows; r++) q[r] = load(query + r * stride, i + p * GD_WIDTH, GD_CPU_F32);
      GD_UNROLL for (int k = 0; k < keys; k++) {
        if (near) __builtin_prefetch((const char *)key[keys + k] + (i + p * GD_WIDTH) * dtype_size(dtype));
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

/* Scores of one row with the block's first `count` keys; up to SCORE_MOST_KEYS - 1 more are also written. */
GD_INLINE void score_rows(
  const float *query, int64_t stride, const attention_rows *keys, attention_fetch *fetch, int64_t count, int rows,
  uint32_t dtype, int64_t dim, float *scores
) {
  int each = GD_WIDTH == 16 && rows == 1 ? 8 : SCORE_KEYS;
  for (int64_t first = 0; first < count; first += each) {
    score_tile(query, stride, keys, fetch, first, rows, each, dtype, dim, scores);
  }
}

static void scores_of(
  const float *query, int64_t stride, const attention_rows *keys, attention_fetch *fetch, int64_t count, int64_t rows,
  int64_t dim, float *scores
) {
  int64_t row = 0;
#define GD_ROWS(ROWS, DTYPE)                                                                                     \
  for (; row + ROWS <= rows; row += ROWS) {                                                                      \
    attention_fetch *here = row == 0 ? fetch : NULL;                                                             \
    score_rows(                                                                                                  \
      query + row * stride, stride, keys, here, count, ROWS, DTYPE, dim, scores + row * ATTENTION_BLOCK);        \
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

/* Adds keys begin .. end - 1 to `rows` rows of values, which are first multiplied by their corrections. */
GD_INLINE void value_tile(
  float *values, int64_t stride, const float *weights, const float *corrections, const attention_rows *from,
  attention_fetch *fetch, int64_t begin, int64_t end, int rows, int vectors, uint32_t dtype, int64_t at
) {
  vf sum[VALUE_ROWS][VALUE_VECTORS];
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int v = 0; v < vectors; v++) {
      sum[r][v] = load(values + r * stride, at + v * GD_WIDTH, GD_CPU_F32) * splat(corrections[r]);
    }
  }
  int near = attention_fetches_near(fetch);
  for (int64_t key = begin; key < end; key++) {
    const void *row = from->row[key];
    if (fetch != NULL) fetch_more(fetch, vectors * GD_WIDTH * dtype_size(dtype));
    vf x[VALUE_VECTORS];
    GD_UNROLL for (int v = 0; v < vectors; v++) {
      if (near) __builtin_prefetch((const char *)from->row[key + VALUES_NEAR] + (at + v * GD_WIDTH) * dtype_size(dtype));
      x[v] = load(row, at + v * GD_WIDTH, dtype);
    }
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
  attention_fetch *fetch, int64_t begin, int64_t end, int rows, uint32_t dtype
) {
  int64_t at = 0;
  for (; at + VALUE_VECTORS * GD_WIDTH <= stride; at += VALUE_VECTORS * GD_WIDTH) {
    value_tile(values, stride, weights, corrections, from, fetch, begin, end, rows, VALUE_VECTORS, dtype, at);
  }
  for (; at < stride; at += GD_WIDTH) {
    value_tile(values, stride, weights, corrections, from, fetch, begin, end, rows, 1, dtype, at);
  }
}

/* The same for any number of rows, each with the block's first counts[row] keys, which do not decrease. */
static void values_of(
  float *values, int64_t stride, const float *weights, const float *corrections, const attention_rows *from,
  attention_fetch *fetch, const int64_t *counts, int64_t rows
) {
  static const float one = 1.0f;
  int64_t row = 0;
#define GD_CASE(DTYPE)                                                                                               \
  if (from->dtype == DTYPE) {                                                                                        \
    for (; row + VALUE_ROWS <= rows; row += VALUE_ROWS) {                                                            \
      float *own = values + row * stride;                                                                            \
      const float *weight = weights + row * ATTENTION_BLOCK;                                                         \
      attention_fetch *here = row == 0 ? fetch : NULL;                                                               \
      value_rows(own, stride, weight, corrections + row, from, here, 0, counts[row], VALUE_ROWS, DTYPE);             \
      for (int64_t r = 1; r < VALUE_ROWS; r++) { /* those that see more than the first of them */                    \
        if (counts[row + r] == counts[row]) continue;                                                                \
        value_rows(                                                                                                  \
          own + r * stride, stride, weight + r * ATTENTION_BLOCK, &one, from, NULL, counts[row], counts[row + r], 1, \
          DTYPE);                                                                                                    \
      }                                                                                                              \
    }                                                                                                                \
    for (; row < rows; row++) {                                                                                      \
      attention_fetch *here = row == 0 ? fetch : NULL;                                                               \
      value_rows(                                                                                                    \
        values + row * stride, stride, weights + row * ATTENTION_BLOCK, corrections + row, from, here, 0,            \
        counts[row], 1, DTYPE);                                                                                      \
    }                                                                                                                \
    return;                                                                                                          \
  }
  GD_CASE(GD_CPU_F32)
  GD_CASE(GD_CPU_BF16)
  GD_CASE(GD_CPU_F16)
#undef GD_CASE
}
