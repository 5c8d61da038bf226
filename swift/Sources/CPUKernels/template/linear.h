/* linear: every output is one dot product over GD_LANES partials, element i into partial i mod GD_LANES by a chain of
 * fma, and then fold and sum_one (sums.h): its bits depend neither on the other rows nor on the other outputs.
 *
 * x and weight are copied to panels of float32, LINEAR_DEPTH columns deep, which stay in the caches: those of x,
 * LINEAR_PANEL rows, in the second, those of LINEAR_FEATURES rows of weight in the first. A tile of rows by features is
 * summed in registers; between panels the partials lie in memory. Work items are blocks of LINEAR_BLOCK features, all
 * rows each. */

enum { LINEAR_BLOCK = 16, LINEAR_DEPTH = 1024, LINEAR_PANEL = 96, LINEAR_WIDE = 64 };
/* From one row of a panel to the next: not a power of two, so that rows do not compete for the same lines of a cache. */
enum { LINEAR_STRIDE = LINEAR_DEPTH + 16 };

/* Rows and features of a tile: its partials, a vector of each, fit the registers. */
enum { LINEAR_FEATURES = 4 };
#if GD_WIDTH == 16 || defined(__aarch64__)
enum { LINEAR_ROWS = 6 };
#elif GD_WIDTH == 8
enum { LINEAR_ROWS = 3 };
#else
enum { LINEAR_ROWS = 2 };
#endif

/* What one thread works with. */
typedef struct linear_memory {
  float *x;      /* [LINEAR_PANEL, LINEAR_STRIDE] */
  float *weight; /* [LINEAR_FEATURES, LINEAR_STRIDE] */
  float *sums;   /* [LINEAR_PANEL, LINEAR_WIDE, GD_LANES] */
} linear_memory;

/* Adds the products of `count` columns, a multiple of GD_LANES, to the partials; begins them where there are none. Every
 * part of the partials by itself: they do not meet before the end. */
GD_INLINE void linear_tile(
  const float *x, const float *weight, float *sums, int64_t count, int begins, int rows
) {
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    vf part[LINEAR_ROWS][LINEAR_FEATURES];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
        part[r][f] = begins ? (vf){0} : load(sums, (r * LINEAR_WIDE + f) * GD_LANES + p * GD_WIDTH, GD_CPU_F32);
      }
    }
    for (int64_t i = p * GD_WIDTH; i < count; i += GD_LANES) {
      vf w[LINEAR_FEATURES];
      GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) w[f] = load(weight, f * LINEAR_STRIDE + i, GD_CPU_F32);
      GD_UNROLL for (int r = 0; r < rows; r++) {
        vf element = load(x, r * LINEAR_STRIDE + i, GD_CPU_F32);
        GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) part[r][f] = fma_vf(element, w[f], part[r][f]);
      }
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
        store(sums, (r * LINEAR_WIDE + f) * GD_LANES + p * GD_WIDTH, GD_CPU_F32, part[r][f]);
      }
    }
  }
}

/* The same for any number of rows up to LINEAR_ROWS. */
static void linear_rows(const float *x, const float *weight, float *sums, int64_t count, int begins, int64_t rows) {
  switch (rows) {
#define GD_CASE(ROWS) \
  case ROWS: linear_tile(x, weight, sums, count, begins, ROWS < LINEAR_ROWS ? ROWS : LINEAR_ROWS); break;
    GD_CASE(1)
    GD_CASE(2)
    GD_CASE(3)
    GD_CASE(4)
    GD_CASE(5)
    GD_CASE(6)
#undef GD_CASE
  }
}

/* Columns first .. first + count - 1 of a row, and zeros up to a multiple of GD_LANES. Returns that multiple. */
GD_INLINE int64_t linear_pad(float *panel, int64_t count) {
  int64_t padded = (count + GD_LANES - 1) / GD_LANES * GD_LANES;
  for (int64_t i = count; i < padded; i++) panel[i] = 0;
  return padded;
}

/* The sums of one row of a panel, with the residual, to features first .. first + count - 1 of out. */
static void linear_finish(const gd_cpu_linear *op, const float *sums, int64_t row, int64_t first, int64_t count) {
  float values[LINEAR_WIDE];
  for (int64_t f = 0; f < count; f += 8) {
    row_sum rows[8];
    GD_UNROLL for (int r = 0; r < 8; r++) {
      vf parts[GD_PARTS];
      GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
        parts[p] = load(sums, (f + r) * GD_LANES + p * GD_WIDTH, GD_CPU_F32);
      }
      rows[r] = row_sum_of(parts);
    }
    sum_eight(rows, values + f);
  }
  if (op->residual.data != NULL) {
    const void *residual = element(&op->residual, row, 0, first);
    for (int64_t i = 0; i < count; i += GD_WIDTH) {
      vf sum = load(values, i, GD_CPU_F32) + load_left(residual, i, op->residual.dtype, count - i);
      store(values, i, GD_CPU_F32, sum);
    }
  }
  convert(values, 0, GD_CPU_F32, element(&op->out, row, 0, first), 0, op->out.dtype, count);
}

/* Rows row .. row + rows - 1, at most LINEAR_PANEL, by features first .. first + count - 1, at most LINEAR_WIDE. */
static void linear_part(
  const gd_cpu_linear *op, const linear_memory *memory, int64_t row, int64_t rows, int64_t first, int64_t count,
  const uint32_t *stop
) {
  int64_t columns = op->weight.columns, column = 0;
  do {
    int64_t depth = least(LINEAR_DEPTH, columns - column), padded = 0;
    for (int64_t r = 0; r < rows; r++) {
      float *panel = memory->x + r * LINEAR_STRIDE;
      convert(element(&op->x, row + r, 0, 0), column, op->x.dtype, panel, 0, GD_CPU_F32, depth);
      padded = linear_pad(panel, depth);
    }
    for (int64_t f = 0; f < count && !gd_cpu_stopped(stop); f += LINEAR_FEATURES) {
      for (int64_t k = 0; k < LINEAR_FEATURES; k++) {
        float *panel = memory->weight + k * LINEAR_STRIDE;
        expand(&op->weight, least(first + f + k, op->out_features - 1), column, depth, panel);
        linear_pad(panel, depth);
      }
      for (int64_t r = 0; r < rows; r += LINEAR_ROWS) {
        linear_rows(
          memory->x + r * LINEAR_STRIDE, memory->weight, memory->sums + (r * LINEAR_WIDE + f) * GD_LANES, padded,
          column == 0, least(LINEAR_ROWS, rows - r));
      }
    }
    column += LINEAR_DEPTH;
  } while (column < columns && !gd_cpu_stopped(stop));
  for (int64_t r = 0; r < rows; r++) {
    linear_finish(op, memory->sums + r * LINEAR_WIDE * GD_LANES, row + r, first, count);
  }
}

static void linear(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_linear *op = params;
  char *take = scratch;
  linear_memory memory;
  memory.x = scratch_take(&take, LINEAR_PANEL * LINEAR_STRIDE);
  memory.weight = scratch_take(&take, LINEAR_FEATURES * LINEAR_STRIDE);
  memory.sums = scratch_take(&take, LINEAR_PANEL * LINEAR_WIDE * GD_LANES);
  int64_t last = least(end * LINEAR_BLOCK, op->out_features);
  for (int64_t row = 0; row < op->rows; row += LINEAR_PANEL) {
    for (int64_t feature = begin * LINEAR_BLOCK; feature < last && !gd_cpu_stopped(stop); feature += LINEAR_WIDE) {
      linear_part(
        op, &memory, row, least(LINEAR_PANEL, op->rows - row), feature, least(LINEAR_WIDE, last - feature), stop);
    }
  }
}
