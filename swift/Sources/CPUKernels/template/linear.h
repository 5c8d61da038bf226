/* linear: every output is one dot product over GD_LANES partials (rows.h), so that its bits depend on neither the
 * other rows nor the other outputs. Work items are blocks of LINEAR_BLOCK output features, all rows each. */

enum { LINEAR_BLOCK = 16 };

/* Rows and features of a tile: its partial sums fit the registers. */
#if GD_WIDTH == 16
enum { LINEAR_ROWS = 4, LINEAR_FEATURES = 4 };
#elif GD_WIDTH == 8 || defined(__aarch64__)
enum { LINEAR_ROWS = 2, LINEAR_FEATURES = 2 };
#else
enum { LINEAR_ROWS = 1, LINEAR_FEATURES = 2 };
#endif

typedef struct linear_tile {
  const void *x[LINEAR_ROWS], *weight[LINEAR_FEATURES]; /* past the last one, the last again */
  float out[LINEAR_ROWS][LINEAR_FEATURES];
} linear_tile;

typedef struct linear_sums {
  vf part[LINEAR_ROWS][LINEAR_FEATURES][GD_PARTS];
} linear_sums;

/* Elements i .. i + GD_LANES - 1, of which `left` are there. */
GD_INLINE void linear_block(
  const linear_tile *tile, linear_sums *sums, int rows, int64_t i, int64_t left, uint32_t x_dtype, uint32_t weight_dtype
) {
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    int64_t at = i + p * GD_WIDTH, here = left - p * GD_WIDTH;
    if (here <= 0) break;
    vf x[LINEAR_ROWS];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      x[r] = here >= GD_WIDTH ? load(tile->x[r], at, x_dtype) : load_first(tile->x[r], at, x_dtype, here);
    }
    GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
      const void *row = tile->weight[f];
      vf weight = here >= GD_WIDTH ? load(row, at, weight_dtype) : load_first(row, at, weight_dtype, here);
      GD_UNROLL for (int r = 0; r < rows; r++) sums->part[r][f][p] = fma_vf(x[r], weight, sums->part[r][f][p]);
    }
  }
}

GD_INLINE void linear_dots(linear_tile *tile, int rows, int64_t count, uint32_t x_dtype, uint32_t weight_dtype) {
  linear_sums sums = {0};
  int64_t i = 0;
  for (; i + GD_LANES <= count; i += GD_LANES) linear_block(tile, &sums, rows, i, GD_LANES, x_dtype, weight_dtype);
  if (i < count) linear_block(tile, &sums, rows, i, count - i, x_dtype, weight_dtype);
  GD_UNROLL for (int r = 0; r < rows; r++) {
    GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) tile->out[r][f] = sum_one(fold(sums.part[r][f]));
  }
}

/* Loops whose dtypes are known; one row, as in decoding, has its own. */
static void linear_tile_run(linear_tile *tile, int one_row, int64_t count, uint32_t x_dtype, uint32_t weight_dtype) {
#define GD_CASE(X, WEIGHT)                                                \
  if (x_dtype == X && weight_dtype == WEIGHT) {                           \
    if (one_row) linear_dots(tile, 1, count, X, WEIGHT);                  \
    else linear_dots(tile, LINEAR_ROWS, count, X, WEIGHT);                \
    return;                                                               \
  }
  GD_CASE(GD_CPU_F32, GD_CPU_F32)
  GD_CASE(GD_CPU_F32, GD_CPU_BF16)
  GD_CASE(GD_CPU_F32, GD_CPU_F16)
  GD_CASE(GD_CPU_BF16, GD_CPU_BF16)
  GD_CASE(GD_CPU_F16, GD_CPU_F16)
  GD_CASE(GD_CPU_BF16, GD_CPU_F32)
  GD_CASE(GD_CPU_F16, GD_CPU_F32)
  GD_CASE(GD_CPU_BF16, GD_CPU_F16)
  GD_CASE(GD_CPU_F16, GD_CPU_BF16)
#undef GD_CASE
}

static void linear_item(
  const gd_cpu_linear *op, int64_t first_feature, int64_t end_feature, const uint32_t *stop
) {
  linear_tile tile;
  for (int64_t row = 0; row < op->rows && !gd_cpu_stopped(stop); row += LINEAR_ROWS) {
    for (int r = 0; r < LINEAR_ROWS; r++) tile.x[r] = element(&op->x, least(row + r, op->rows - 1), 0, 0);
    for (int64_t feature = first_feature; feature < end_feature; feature += LINEAR_FEATURES) {
      for (int f = 0; f < LINEAR_FEATURES; f++) {
        tile.weight[f] = element(&op->weight, least(feature + f, end_feature - 1), 0, 0);
      }
      linear_tile_run(&tile, op->rows == 1, op->in_features, op->x.dtype, op->weight.dtype);
      int64_t features = least(LINEAR_FEATURES, end_feature - feature);
      for (int64_t r = 0; r < least(LINEAR_ROWS, op->rows - row); r++) {
        void *out = element(&op->out, row + r, 0, feature);
        convert(tile.out[r], 0, GD_CPU_F32, out, 0, op->out.dtype, features);
      }
    }
  }
}

static void linear(const void *params, int64_t begin, int64_t end, void *memory, const uint32_t *stop) {
  const gd_cpu_linear *op = params;
  (void)memory;
  for (int64_t item = begin; item < end && !gd_cpu_stopped(stop); item++) {
    int64_t first = item * LINEAR_BLOCK;
    linear_item(op, first, least(first + LINEAR_BLOCK, op->out_features), stop);
  }
}
