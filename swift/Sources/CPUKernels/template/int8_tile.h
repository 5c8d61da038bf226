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

/* Adds the terms of `count` groups to the sums of `rows` rows of x and INT8_OUTPUTS outputs. */
GD_INLINE void int8_tile(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int rows, int small
) {
  const uint8_t *panel = memory->panel;
  const float *scales = memory->scales;
  vf out[INT8_ROWS][GD_PARTS];
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) out[r][p] = load(sums, r * INT8_OUTPUTS + p * GD_WIDTH, GD_CPU_F32);
  }
  for (int64_t g = 0; g < count; g++) {
    vi products[INT8_ROWS][GD_PARTS] = {0};
    for (int64_t i = 0; i < group; i += 16) {
      GD_UNROLL for (int k = 0; k < 16; k += 4) {
        int8_weights weights[GD_PARTS];
        GD_UNROLL for (int p = 0; p < GD_PARTS; p++) weights[p] = int8_weights_of(load_vi(panel + (k * GD_PARTS + 4 * p) * GD_WIDTH), small);
        GD_UNROLL for (int r = 0; r < rows; r++) {
          vi four = (vi)(*(const u1_memory *)(x.values + r * x.stride + k) - (vu){0});
          GD_UNROLL for (int p = 0; p < GD_PARTS; p++) products[r][p] = int8_add(products[r][p], weights[p], four, small);
        }
      }
      panel += 16 * INT8_OUTPUTS;
      x.values += 16;
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t own = r * x.groups + g;
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        vi all = int8_total(products[r][p], small) + x.starts[own];
        int64_t at = g * INT8_OUTPUTS + p * GD_WIDTH;
        vf term = __builtin_convertvector(all, vf) * load(scales, at, GD_CPU_F32) * splat(x.scales[own]);
        if (offsets != NULL) term += load(offsets, at, GD_CPU_F32) * splat(x.sums[own]);
        out[r][p] += term;
      }
    }
  }
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(sums, r * INT8_OUTPUTS + p * GD_WIDTH, GD_CPU_F32, out[r][p]);
  }
}

static void int8_tile_of(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int64_t rows, int small,
  const uint8_t *next, int64_t asked
) {
  int8_ask_by_call(next, asked, memory->end);
  switch (INT8_TELLS_SMALL && small ? -rows : rows) {
#define GD_CASE_TILE(ROWS) \
  case ROWS: return int8_tile(memory, offsets, x, count, group, sums, ROWS < INT8_ROWS ? ROWS : INT8_ROWS, 0); \
  case -ROWS: \
    if (INT8_TELLS_SMALL) int8_tile(memory, offsets, x, count, group, sums, ROWS < INT8_ROWS ? ROWS : INT8_ROWS, 1); \
    return;
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
  }
}

/* There is nothing to set up. */
GD_INLINE void int8_tiles_begin(int64_t rows, int64_t group) { (void)rows, (void)group; }
GD_INLINE void int8_tiles_end(void) {}
