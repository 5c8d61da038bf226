/* Rounded rows of x (int8_rows.h) as the kernels take them, and rows of numbers put side by side. */

enum { INT8_OUTPUTS = GD_CPU_LINEAR_BLOCK };
/* Columns that are multiplied at a time, and the most groups that these are. */
enum { INT8_SPAN = 16384, INT8_SPAN_GROUPS = INT8_SPAN / 16 };

/* As `bytes` from `from` on are read, asks for as many of what follows, into the second cache. */
enum { INT8_AHEAD = 8192 };
GD_INLINE void int8_ask(const uint8_t *from, int64_t bytes, const uint8_t *end) {
  if (gd_cpu_asks_by_pages) fetch_pages(from, bytes, end);
  else fetch_far(from + INT8_AHEAD, bytes);
}
/* The same by a call: less code, but slower where vectors would stay in registers. */
static __attribute__((noinline)) void int8_ask_by_call(const uint8_t *from, int64_t bytes, const uint8_t *end) { int8_ask(from, bytes, end); }

#if GD_WIDTH == 16
/* Of each 128 bits of two vectors: the lower half's lanes in turn, and the upper half's; the lower halves, and the upper ones. */
#define GD_LOWER_LANES(A, B) __builtin_shufflevector(A, B, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define GD_UPPER_LANES(A, B) __builtin_shufflevector(A, B, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define GD_LOWER_HALVES(A, B) __builtin_shufflevector(A, B, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define GD_UPPER_HALVES(A, B) __builtin_shufflevector(A, B, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
/* The first, third .. 128 bits of two vectors, and the others. */
#define GD_FIRST_OF(A, B) __builtin_shufflevector(A, B, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define GD_SECOND_OF(A, B) __builtin_shufflevector(A, B, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)

/* Lane r of vector k becomes lane k of vector r. */
GD_INLINE void int8_transpose(vi rows[16]) {
  vi two[16], four[16];
  GD_UNROLL for (int k = 0; k < 16; k += 2) {
    two[k] = GD_LOWER_LANES(rows[k], rows[k + 1]);
    two[k + 1] = GD_UPPER_LANES(rows[k], rows[k + 1]);
  }
  GD_UNROLL for (int k = 0; k < 16; k++) {
    vi a = two[k / 4 * 4 + k % 4 / 2], b = two[k / 4 * 4 + k % 4 / 2 + 2];
    four[k] = k % 2 == 0 ? GD_LOWER_HALVES(a, b) : GD_UPPER_HALVES(a, b);
  }
  GD_UNROLL for (int k = 0; k < 4; k++) {
    vi first = GD_FIRST_OF(four[k], four[4 + k]), second = GD_SECOND_OF(four[k], four[4 + k]);
    vi third = GD_FIRST_OF(four[8 + k], four[12 + k]), fourth = GD_SECOND_OF(four[8 + k], four[12 + k]);
    rows[k] = GD_FIRST_OF(first, third);
    rows[4 + k] = GD_FIRST_OF(second, fourth);
    rows[8 + k] = GD_SECOND_OF(first, third);
    rows[12 + k] = GD_SECOND_OF(second, fourth);
  }
}
/* The same for four lanes, in each 128 bits. */
GD_INLINE void int8_transpose_4(const vi rows[4], vi out[4]) {
  vi a = GD_LOWER_LANES(rows[0], rows[1]), b = GD_LOWER_LANES(rows[2], rows[3]);
  vi c = GD_UPPER_LANES(rows[0], rows[1]), d = GD_UPPER_LANES(rows[2], rows[3]);
  out[0] = GD_LOWER_HALVES(a, b);
  out[1] = GD_UPPER_HALVES(a, b);
  out[2] = GD_LOWER_HALVES(c, d);
  out[3] = GD_UPPER_HALVES(c, d);
}
#elif GD_WIDTH == 8
/* Lane r of vector k becomes lane k of vector r, in each 128 bits. */
GD_INLINE void int8_transpose_4(const vi rows[4], vi out[4]) {
  vi a = __builtin_shufflevector(rows[0], rows[1], 0, 8, 1, 9, 4, 12, 5, 13), b = __builtin_shufflevector(rows[2], rows[3], 0, 8, 1, 9, 4, 12, 5, 13);
  vi c = __builtin_shufflevector(rows[0], rows[1], 2, 10, 3, 11, 6, 14, 7, 15), d = __builtin_shufflevector(rows[2], rows[3], 2, 10, 3, 11, 6, 14, 7, 15);
  out[0] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  out[1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  out[2] = __builtin_shufflevector(c, d, 0, 1, 8, 9, 4, 5, 12, 13);
  out[3] = __builtin_shufflevector(c, d, 2, 3, 10, 11, 6, 7, 14, 15);
}
#endif

/* Where the rounded rows of a linear are. */
typedef struct int8_x {
  const int8_t *values;
  const float *scales, *sums;
  const int32_t *starts;
  int64_t stride, groups; /* from a row to the next */
} int8_x;

GD_INLINE int8_x int8_row_of(const gd_cpu_linear *op, int64_t row) {
  const gd_cpu_int8_rows *x = op->rounded;
  int64_t at = op->places == NULL ? row : op->places[row] / x->shared, groups = at * x->groups;
  return (int8_x){
    x->values + at * x->stride, x->scales + groups, x->sums + groups, x->starts + groups, x->stride, x->groups};
}

/* The same from column `first` on; and from a row on. */
GD_INLINE int8_x int8_from(int8_x x, int64_t first, int64_t group) {
  int64_t g = first / group;
  return (int8_x){x.values + first, x.scales + g, x.sums + g, x.starts + g, x.stride, x.groups};
}
GD_INLINE int8_x int8_row_from(int8_x x, int64_t row) {
  int64_t g = row * x.groups;
  return (int8_x){x.values + row * x.stride, x.scales + g, x.sums + g, x.starts + g, x.stride, x.groups};
}
