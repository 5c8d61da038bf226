/* One row by blocks, a row of the weight after another: the terms of as many groups at a time as a vector has lanes or a block holds
 * (int8_blocks.h, int8_blocks_8.h). */
#if GD_WIDTH >= 8

/* Whether no numbers are asked for into the second cache: a Zen 4 fetches bytes ahead by itself, so that asking for them takes time from products
 * (bench/linear/int8.md), and a Zen 5 is faster where those of small blocks are asked for into the first cache alone. */
GD_INLINE int int8_streams(int8_block form) {
  return GD_WIDTH == 16 && !gd_cpu_asks_by_pages && (int8_has_bytes(form) || int8_asks_near(form));
}

/* A step of int8_block_terms: its first `left` groups. x's begin at `of_x`, in the order of blocks at `values`. */
GD_INLINE void int8_block_step(
  const gd_cpu_matrix *matrix, const uint8_t *block, int64_t at, const int8_t *values, const int8_x *x, int64_t of_x, int64_t left,
  float *terms, const uint8_t *end, int8_block form
) {
  int64_t groups = int8_step(form), step = groups / form.groups * form.bytes;
  uint32_t dtype = matrix->dtype;
  if (form.type == 0 && dtype == GD_CPU_U8) __builtin_unreachable();
  int small = int8_block_is_small(form), has_offset = form.type == 0 || int8_ggml_has_offset(form.type);
  _Alignas(64) uint8_t last[16 * 128];
  const uint8_t *own = block, *near = block + (gd_cpu_asks_by_pages ? FETCH_NEAR : INT8_NEAR);
  if (left < groups && !int8_reads_part(form, left)) own = __builtin_memcpy(last, block, (size_t)(left / form.groups * form.bytes));
  vi sums[GD_PARTS];
  vf scales[GD_PARTS], offsets[GD_PARTS];
  int8_step_of(own, values, left, near, form, sums, scales, offsets);
  /* After the products, which would wait for these requests. */
  if (!int8_four_are_lines(form) && int8_asks_near(form)) fetch(near, step);
#if defined(GD_DOT_AVX512VNNI) || GD_WIDTH == 8
  if (!int8_streams(form)) int8_ask(block, step, end);
#else
  int8_ask_by_call(block, step, end);
#endif
  GD_UNROLL for (int p = 0; p < groups / GD_WIDTH; p++) {
    int64_t done = p * GD_WIDTH;
    if (form.is_mlx) scales[p] = int8_step_factors(matrix->scales, at + done, left - done, form.type == 0 ? dtype : GD_CPU_U8, form.group);
    if (form.type == 0) offsets[p] = int8_step_factors(matrix->biases, at + done, left - done, dtype, form.group);
    vi all = int8_total(sums[p], small);
    if (int8_ggml_middle(form.type) != INT8_MIDDLE(small)) all += load_vi(x->starts + of_x + done);
    vf term = __builtin_convertvector(all, vf) * scales[p], x_scale = load(x->scales, of_x + done, GD_CPU_F32);
    term = has_offset ? int8_fma(term, x_scale, offsets[p] * load(x->sums, of_x + done, GD_CPU_F32)) : term * x_scale;
    store(terms, done, GD_CPU_F32, term);
  }
}

/* The terms of `count` groups from a block on, as int8_terms has them. MLX's forms have their factors from `at` on. */
GD_INLINE void int8_block_terms(
  const gd_cpu_matrix *matrix, const uint8_t *block, int64_t at, const int8_x *x, int64_t first, int64_t count, float *terms,
  const uint8_t *end, int8_block form
) {
  int64_t groups = int8_step(form), step = groups / form.groups * form.bytes, g = 0;
  const int8_t *values = x->values + first * form.group;
  /* Whole steps without masks and branches, from which bytes gain nothing. Vectors of 8 lanes were not measured. */
  int64_t whole = GD_WIDTH < 16 || int8_has_bytes(form) ? 0 : count / groups * groups;
  for (; g < whole; g += groups, block += step, values += groups * form.group) {
    int8_block_step(matrix, block, at + g, values, x, first + g, groups, terms + g, end, form);
  }
  for (; g < count; g += groups, block += step, values += groups * form.group) {
    int8_block_step(matrix, block, at + g, values, x, first + g, count - g, terms + g, end, form);
  }
}

/* The same for `rows` rows, whose terms are `apart` from one to the next: columns from block `from` of row `feature` on. */
typedef void int8_blocks_of(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t rows, const int8_x *x, int64_t first, int64_t count, float *terms,
  int64_t apart, const uint8_t *end);
#define GD_BLOCKS(FORMAT, NAME, ...)                                                                                          \
  static __attribute__((noinline)) void int8_blocks_##NAME(                                                                   \
    const gd_cpu_matrix *matrix, int64_t feature, int64_t rows, const int8_x *x, int64_t first, int64_t count, float *terms,  \
    int64_t apart, const uint8_t *end                                                                                         \
  ) {                                                                                                                         \
    int8_block form = {__VA_ARGS__};                                                                                          \
    int64_t groups = matrix->columns / form.group;                                                                            \
    const uint8_t *block = (const uint8_t *)matrix->values + (feature * groups + first) / form.groups * form.bytes;           \
    for (int64_t f = 0; f < rows; f++) {                                                                                      \
      int8_block_terms(matrix, block, (feature + f) * groups + first, x, first, count, terms, end, form);                     \
      block += groups / form.groups * form.bytes;                                                                             \
      terms += apart;                                                                                                         \
    }                                                                                                                         \
  }                                                                                                                           \
  static void int8_arrange_##NAME(const int8_t *x, int64_t columns, int8_t *out) {                                            \
    int8_block form = {__VA_ARGS__};                                                                                          \
    int8_arrange(x, columns, out, form);                                                                                      \
  }
GD_INT8_BLOCKS(GD_BLOCKS)
#undef GD_BLOCKS
#endif
