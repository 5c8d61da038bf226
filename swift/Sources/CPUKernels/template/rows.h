/* Whole rows: sums of squares, conversion, normalisation. */

/* A sum of squares in two sets of partials that take turns, block of 16 elements by block, added at the end. */
typedef struct square_sums {
  vf even[GD_PARTS], odd[GD_PARTS];
} square_sums;

/* More elements: a multiple of 2 GD_LANES, except for the last. */
GD_INLINE void add_squares(square_sums *sums, const void *x, uint32_t dtype, int64_t count) {
  int64_t i = 0;
  for (; i + 2 * GD_LANES <= count; i += 2 * GD_LANES) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf a = load(x, i + p * GD_WIDTH, dtype), b = load(x, i + GD_LANES + p * GD_WIDTH, dtype);
      sums->even[p] = fma_vf(a, a, sums->even[p]);
      sums->odd[p] = fma_vf(b, b, sums->odd[p]);
    }
  }
  GD_UNROLL for (int p = 0; p < 2 * GD_PARTS; p++) {
    int64_t at = i + p * GD_WIDTH, left = count - at;
    if (left <= 0) break;
    vf a = left >= GD_WIDTH ? load(x, at, dtype) : load_first(x, at, dtype, left);
    vf *sum = p < GD_PARTS ? &sums->even[p] : &sums->odd[p - GD_PARTS];
    *sum = fma_vf(a, a, *sum);
  }
}

/* The last additions are in double, since the error of a norm is in every element of its row. */
GD_INLINE double squares_total(const square_sums *sums) {
  vf both[GD_PARTS];
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) both[p] = sums->even[p] + sums->odd[p];
  v4 four = fold(both);
  return ((double)four[0] + four[2]) + ((double)four[1] + four[3]);
}

GD_INLINE double sum_of_squares(const void *x, uint32_t dtype, int64_t count) {
  square_sums sums = {0};
  add_squares(&sums, x, dtype, count);
  return squares_total(&sums);
}

/* A vector's elements, or as many as are left. */
GD_INLINE vf load_left(const void *array, int64_t i, uint32_t dtype, int64_t left) {
  return left >= GD_WIDTH ? load(array, i, dtype) : load_first(array, i, dtype, left);
}
GD_INLINE void store_left(void *array, int64_t i, uint32_t dtype, int64_t left, vf x) {
  if (left >= GD_WIDTH) store(array, i, dtype, x);
  else store_first(array, i, dtype, left, x);
}

GD_INLINE void convert_row(
  const void *in, int64_t in_at, uint32_t in_dtype, void *out, int64_t out_at, uint32_t out_dtype, int64_t count
) {
  int64_t i = 0;
  for (; i + GD_WIDTH <= count; i += GD_WIDTH) store(out, out_at + i, out_dtype, load(in, in_at + i, in_dtype));
  if (i < count) {
    store_first(out, out_at + i, out_dtype, count - i, load_first(in, in_at + i, in_dtype, count - i));
  }
}

/* Nine loops, each with its dtypes known. */
static void convert(
  const void *in, int64_t in_at, uint32_t in_dtype, void *out, int64_t out_at, uint32_t out_dtype, int64_t count
) {
#define GD_CASE(IN, OUT) \
  if (in_dtype == IN && out_dtype == OUT) return convert_row(in, in_at, IN, out, out_at, OUT, count)
  GD_CASE(GD_CPU_F32, GD_CPU_F32);
  GD_CASE(GD_CPU_BF16, GD_CPU_F32);
  GD_CASE(GD_CPU_F32, GD_CPU_BF16);
  GD_CASE(GD_CPU_F16, GD_CPU_F32);
  GD_CASE(GD_CPU_F32, GD_CPU_F16);
  GD_CASE(GD_CPU_BF16, GD_CPU_BF16);
  GD_CASE(GD_CPU_F16, GD_CPU_F16);
  GD_CASE(GD_CPU_BF16, GD_CPU_F16);
  GD_CASE(GD_CPU_F16, GD_CPU_BF16);
#undef GD_CASE
}

/* Elements of any dtype as floats: in place if they are floats, else converted. */
GD_INLINE const float *as_floats(const void *in, int64_t at, uint32_t dtype, int64_t count, float *converted) {
  if (dtype == GD_CPU_F32) return (const float *)in + at;
  convert(in, at, dtype, converted, 0, GD_CPU_F32, count);
  return converted;
}

/* The factor of a query or key row, by the field's four definitions, times scale. */
GD_INLINE double row_factor(const float *row, int64_t dim, uint32_t norm, float eps, float scale) {
  if (norm == GD_CPU_NORM_NONE) return scale;
  double sum = sum_of_squares(row, GD_CPU_F32, dim);
  if (norm == GD_CPU_NORM_L2) return scale / __builtin_sqrt(sum + eps);
  if (norm == GD_CPU_NORM_RMS) return scale / __builtin_sqrt(sum + (double)dim * eps);
  double length = __builtin_sqrt(sum);
  return scale / (length < eps ? eps : length);
}

GD_INLINE void *element(const gd_cpu_tensor *tensor, int64_t token, int64_t head, int64_t at) {
  int64_t index = token * tensor->token_stride + head * tensor->head_stride + at;
  return (char *)tensor->data + index * dtype_size(tensor->dtype);
}

/* Prefetches memory that is needed soon: by itself, the processor begins too late with data that is read once. */
GD_INLINE void fetch(const void *start, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)start + at);
}

/* The same into the L2 cache, for data that is needed later, so that few requests of the L1 cache wait for memory at a
 * time. */
GD_INLINE void fetch_far(const void *start, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)start + at, 0, 2);
}

/* FETCH_NEAR: if gd_cpu_asks_by_pages says so, data that light work reads once is asked for again, into the first cache, this
 * many bytes before its turn: otherwise loads wait for the second cache, and hold back the requests behind them. */
enum { FETCH_PAGE = 4096, FETCH_PAGES = 8, FETCH_BYTES = 64 * FETCH_PAGES, FETCH_NEAR = 4096 };
/* pages_after: the first line to ask for while 64 bytes for each of `pages` pages are read from `at` on. fetch_line_of_pages: asks for this line and
 * for the lines at the same place in the pages after it. */
GD_INLINE const char *pages_after(uintptr_t at, int pages) {
  const uintptr_t all = FETCH_PAGE * (uintptr_t)pages;
  return (const char *)((at & ~(all - 1)) + all + at % all / (uintptr_t)pages);
}
GD_INLINE void fetch_line_of_pages(const char *first, int pages) {
  GD_UNROLL for (int page = 0; page < pages; page++) __builtin_prefetch(first + FETCH_PAGE * page, 0, 2);
}
GD_INLINE void fetch_so_many_pages(uintptr_t from, uintptr_t last, const char *end, int pages) {
  const uintptr_t lines = 64 * (uintptr_t)pages;
  for (uintptr_t at = (from + lines - 1) & ~(lines - 1); at < last; at += lines) {
    const char *next = pages_after(at, pages);
    if (next >= end) return;
    fetch_line_of_pages(next, pages);
  }
}
/* While `bytes` from `from` on are read, asks for as many of the bytes that follow, not far beyond `end`, into the L2 cache:
 * one line of each of the next pages in turn. If gd_cpu_asks_by_pages says so, this is faster than the order of addresses. */
GD_INLINE void fetch_pages(const void *from, int64_t bytes, const void *end) {
  uintptr_t first = (uintptr_t)from, last = first + (uintptr_t)bytes;
  if (gd_cpu_asks_by_pages == FETCH_PAGES) fetch_so_many_pages(first, last, end, FETCH_PAGES);
  else fetch_so_many_pages(first, last, end, 4);
}

static float *scratch_take(char **scratch, int64_t floats) {
  float *memory = (float *)*scratch;
  *scratch += ((size_t)floats * sizeof(float) + 63) & ~(size_t)63;
  return memory;
}
