/* Tiles of several rows of x by INT8_OUTPUTS outputs (int8_linear.h), in vectors. */

/* Columns first .. first + count - 1 of `rows` rows from `row` on, a stride apart: those of an expert are copied. */
static int8_x int8_rows_at(
  const gd_cpu_linear *op, const int8_memory *memory, int64_t row, int64_t rows, int64_t first, int64_t count, int64_t group
) {
  int8_x own = int8_from(int8_row_of(op, row), first, group);
  if (op->places == NULL || rows == 1) return own;
  int64_t groups = count / group, all = rows * groups, bytes = groups * (int64_t)sizeof(float);
  int8_t *values = memory->x;
  float *scales = (float *)(values + rows * (count + INT8_APART)), *sums = scales + all;
  int32_t *starts = (int32_t *)(sums + all);
  for (int64_t r = 0; r < rows; r++) {
    int8_x from = int8_from(int8_row_of(op, row + r), first, group);
    __builtin_memcpy(values + r * (count + INT8_APART), from.values, (size_t)count);
    __builtin_memcpy(scales + r * groups, from.scales, (size_t)bytes);
    __builtin_memcpy(sums + r * groups, from.sums, (size_t)bytes);
    __builtin_memcpy(starts + r * groups, from.starts, (size_t)bytes);
  }
  return (int8_x){values, scales, sums, starts, count + INT8_APART, groups};
}

/* x from column `first` on. */
GD_INLINE int8_x int8_tile_from(int8_x x, int64_t first, int64_t group) { return int8_from(x, first, group); }

/* x of a tile whose first row is `from`. */
GD_INLINE int8_x int8_tile_x(int8_x x, int64_t tile, int64_t from) { return (void)tile, int8_row_from(x, from); }

/* With AVX2: steps of four columns whose sums 16 bits hold, if no number is above `most`. With AVX-512 1 for small numbers. 0: not even one. */
GD_INLINE int int8_run(int most, int64_t group) {
  if (!INT8_TELLS_SMALL || most > 127) return 0;
  return GD_WIDTH == 16 ? 1 : most > 63 ? 0 : most > 31 ? 2 : most > 15 || group == 16 ? 4 : 8;
}

/* A group's sums of products begin with what x's numbers add to them, `groups` apart from a row to the next. */
GD_INLINE void int8_tile_starts(const int32_t *starts, int64_t groups, vi sums[INT8_ROWS][GD_PARTS], int rows) {
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) sums[r][p] = starts[r * groups] - (vi){0};
  }
}

#if GD_WIDTH == 8 && !defined(GD_DOT_AVXVNNI)
/* Compilers would add up products in other orders, for which registers do not suffice. */
GD_INLINE void int8_keep(vi sums[INT8_ROWS][GD_PARTS], int rows) {
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) __asm__("" : "+x"(sums[r][p]));
  }
}

/* Adds the products of `steps` times four columns of a group. rows, steps and run are constants. */
GD_INLINE void int8_tile_products(
  const uint8_t *panel, const int8_t *x, int64_t stride, vi sums[INT8_ROWS][GD_PARTS], int rows, int steps, int run
) {
  GD_UNROLL for (int k = 0; k < steps; k++) {
    int8_weights weights[GD_PARTS];
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) weights[p] = int8_weights_of(load_vi(panel + k * 64 + 32 * p), run > 0);
    GD_UNROLL for (int r = 0; r < rows; r++) {
      vi four = (vi)(*(const u1_memory *)(x + r * stride + 4 * k) - (vu){0});
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        if (run == 0) {
          sums[r][p] = int8_add(sums[r][p], weights[p], four, 0);
          continue;
        }
        vi pairs = int8_byte_pairs(weights[p].even, four);
        sums[r][p] = k == 0 ? pairs : (vi)_mm256_add_epi16((__m256i)sums[r][p], (__m256i)pairs);
      }
    }
    int8_keep(sums, rows);
  }
}

/* Adds the terms of `count` groups to the sums of `rows` rows of x and INT8_OUTPUTS outputs; new sums begin with 0. `asked` bytes from `next` on are
 * asked for meanwhile. */
GD_INLINE void int8_tile(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int are_new, int rows, int run,
  const uint8_t *next, int64_t asked
) {
  const uint8_t *panel = memory->panel;
  const float *scales = memory->scales;
  int steps = run == 0 ? 4 : run;
  int64_t lines = (asked / count + 63) / 64 * 64; /* of each group: some are asked for twice */
  if (are_new) __builtin_memset(sums, 0, (size_t)(rows * INT8_OUTPUTS) * sizeof *sums);
  for (int64_t g = 0; g < count; g++) {
    if (asked > 0) int8_ask(next + g * lines, lines, memory->end);
    vi products[INT8_ROWS][GD_PARTS];
    int8_tile_starts(x.starts + g, x.groups, products, rows);
    for (int64_t i = 0; i < group; i += 4 * steps, panel += 4 * steps * INT8_OUTPUTS, x.values += 4 * steps) {
      if (run == 0) {
        int8_tile_products(panel, x.values, x.stride, products, rows, steps, run);
        continue;
      }
      vi pairs[INT8_ROWS][GD_PARTS];
      int8_tile_products(panel, x.values, x.stride, pairs, rows, steps, run);
      GD_UNROLL for (int r = 0; r < rows; r++) {
        GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
          products[r][p] += (vi)_mm256_madd_epi16((__m256i)pairs[r][p], _mm256_set1_epi16(1));
        }
      }
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t own = r * x.groups + g;
      vf scale = splat(x.scales[own]), sum = splat(x.sums[own]);
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        int64_t at = g * INT8_OUTPUTS + p * GD_WIDTH;
        float *to = sums + r * INT8_OUTPUTS + p * GD_WIDTH;
        vf term = __builtin_convertvector(products[r][p], vf) * load(scales, at, GD_CPU_F32);
        term = offsets == NULL ? term * scale : int8_fma(term, scale, load(offsets, at, GD_CPU_F32) * sum);
        store(to, 0, GD_CPU_F32, load(to, 0, GD_CPU_F32) + term);
      }
    }
  }
}
#else
/* Adds the terms of `count` groups to the sums of `rows` rows of x and INT8_OUTPUTS outputs; new sums begin with 0. `asked` bytes from `next` on are
 * asked for meanwhile. */
GD_INLINE void int8_tile(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int are_new, int rows, int small,
  const uint8_t *next, int64_t asked
) {
  int64_t lines = (asked / count + 63) / 64 * 64; /* of each group: some are asked for twice */
  const uint8_t *panel = memory->panel;
  const float *scales = memory->scales;
  /* Rows by threes, which addresses have room for: compilers would make each row's address from the one before, and products would wait for it. */
  const int8_t *of_three[(INT8_ROWS + 2) / 3];
  GD_UNROLL for (int t = 0; t < (rows + 2) / 3; t++) {
    of_three[t] = x.values + 3 * t * x.stride;
    __asm__("" : "+r"(of_three[t]));
  }
  vf out[INT8_ROWS][GD_PARTS];
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) out[r][p] = are_new ? (vf){0} : load(sums, r * INT8_OUTPUTS + p * GD_WIDTH, GD_CPU_F32);
  }
  for (int64_t g = 0; g < count; g++) {
    if (asked > 0) int8_ask(next + g * lines, lines, memory->end);
    vi products[INT8_ROWS][GD_PARTS] = {0};
    if (!int8_is_raised(small)) int8_tile_starts(x.starts + g, x.groups, products, rows);
    for (int64_t i = 0; i < group; i += 16) {
      GD_UNROLL for (int k = 0; k < 16; k += 4) {
        int8_weights weights[GD_PARTS];
        GD_UNROLL for (int p = 0; p < GD_PARTS; p++) weights[p] = int8_weights_of(load_vi(panel + (k * GD_PARTS + 4 * p) * GD_WIDTH), small);
        GD_UNROLL for (int r = 0; r < rows; r++) {
          vi four = (vi)(*(const u1_memory *)(of_three[r / 3] + r % 3 * x.stride + k) - (vu){0});
          GD_UNROLL for (int p = 0; p < GD_PARTS; p++) products[r][p] = int8_add(products[r][p], weights[p], four, small);
        }
      }
      panel += 16 * INT8_OUTPUTS;
      GD_UNROLL for (int t = 0; t < (rows + 2) / 3; t++) of_three[t] += 16;
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t own = r * x.groups + g;
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        vi all = int8_total(products[r][p], small);
        if (int8_is_raised(small)) all += x.starts[own];
        int64_t at = g * INT8_OUTPUTS + p * GD_WIDTH;
        vf term = __builtin_convertvector(all, vf) * load(scales, at, GD_CPU_F32), x_scale = splat(x.scales[own]);
        term = offsets == NULL ? term * x_scale : int8_fma(term, x_scale, load(offsets, at, GD_CPU_F32) * splat(x.sums[own]));
        out[r][p] += term;
#if GD_WIDTH == 16
        /* Keeps the compiler from moving terms of later rows up, for which it has too few registers: vectors on the stack delay loads of x. */
        __asm__ volatile("" : "+v"(out[r][p]));
#endif
      }
    }
  }
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, r * INT8_OUTPUTS + p * GD_WIDTH, GD_CPU_F32, out[r][p]);
  }
}
#endif

static void int8_tile_of(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int are_new, int64_t rows, int most,
  const uint8_t *next, int64_t asked
) {
  /* With 16 lanes all at once. */
  if (GD_WIDTH != 8) {
    int8_ask_by_call(next, asked, memory->end);
    asked = 0;
  }
  switch (16 * rows + int8_run(most, group)) {
#define GD_CASE_RUN(ROWS, RUN) \
  case 16 * ROWS + RUN: return int8_tile(memory, offsets, x, count, group, sums, are_new, ROWS < INT8_ROWS ? ROWS : INT8_ROWS, RUN, next, asked);
#if GD_WIDTH == 8 && !defined(GD_DOT_AVXVNNI)
#define GD_CASE_TILE(ROWS) GD_CASE_RUN(ROWS, 0) GD_CASE_RUN(ROWS, 2) GD_CASE_RUN(ROWS, 4) GD_CASE_RUN(ROWS, 8)
#elif GD_WIDTH == 16 && !defined(GD_DOT_AVX512VNNI)
#define GD_CASE_TILE(ROWS) GD_CASE_RUN(ROWS, 0) GD_CASE_RUN(ROWS, 1)
#else
#define GD_CASE_TILE(ROWS) GD_CASE_RUN(ROWS, 0)
#endif
    GD_CASE_TILE(1)
    GD_CASE_TILE(2)
#if GD_WIDTH > 4 || defined(__aarch64__)
    GD_CASE_TILE(3)
    GD_CASE_TILE(4)
#endif
#if GD_WIDTH == 16
    GD_CASE_TILE(5)
    GD_CASE_TILE(6)
#endif
#if defined(GD_DOT_AVX512VNNI)
    GD_CASE_TILE(7)
    GD_CASE_TILE(8)
    GD_CASE_TILE(9)
    GD_CASE_TILE(10)
    GD_CASE_TILE(11)
    GD_CASE_TILE(12)
#endif
#undef GD_CASE_TILE
#undef GD_CASE_RUN
  }
}

/* There is nothing to set up. */
GD_INLINE void int8_tiles_begin(int64_t rows, int64_t group) { (void)rows, (void)group; }
GD_INLINE void int8_tiles_end(void) {}
