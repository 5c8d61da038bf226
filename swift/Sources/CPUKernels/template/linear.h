/* linear: every output is one dot product. The element in lane l of block b of GD_LANES elements goes to partial l by a
 * chain of fma over the blocks; of a weight whose packed numbers have scales in another tensor, blocks with an even and with an
 * odd number have a chain each, and the two are added. Then fold and sum_one (sums.h). So the bits of an output depend neither on the other rows
 * nor on the other outputs. Element i is in lane i mod GD_LANES, except in a weight of interleaved lanes (matrix.h).
 *
 * Many rows: x and weight are copied to panels of float32, which stay in the caches: some rows of x in the second,
 * LINEAR_FEATURES rows of weight, LINEAR_DEPTH columns deep, in the first. A tile of rows by features is summed in
 * registers, one part of its partials after another; between panels they are in memory. One row, or a few: linear_dot.h.
 * Work items are blocks of GD_CPU_LINEAR_BLOCK features, all rows each. */

enum { LINEAR_DEPTH = MATRIX_DEPTH };
/* A panel of x: its floats, its most rows, and its most columns. */
enum { LINEAR_PANEL = 208 << 10, LINEAR_PANEL_ROWS = 96, LINEAR_PANEL_DEPTH = 4 * LINEAR_DEPTH };
/* Features whose partials are in memory at a time, multiples of 8 and of LINEAR_FEATURES: twice as many, for half the
 * rows, if the panel of x has to be made again for the next ones. */
enum { LINEAR_NARROW = 24, LINEAR_WIDE = 2 * LINEAR_NARROW };
/* Between rows of a panel, beyond their columns: not a power of two apart, they do not compete for lines of a cache. */
enum { LINEAR_GAP = GD_LANES };

/* Rows and features of a tile: its partials, a vector of each, fit the registers. */
#if GD_WIDTH == 16 || defined(__aarch64__)
enum { LINEAR_ROWS = 6, LINEAR_FEATURES = 4 };
#elif GD_WIDTH == 8
enum { LINEAR_ROWS = 4, LINEAR_FEATURES = 3 };
#else
enum { LINEAR_ROWS = 2, LINEAR_FEATURES = 4 };
#endif

/* The memory of one thread. Partials lie tile by tile: [tiles of rows, tiles of `wide` features, parts, LINEAR_ROWS,
 * LINEAR_FEATURES], each a vector, a part being a vector of every output's partials. */
typedef struct linear_memory {
  float *x;      /* rows x_stride apart */
  float *weight; /* [LINEAR_FEATURES, LINEAR_DEPTH + LINEAR_GAP] */
  float *sums;
  int64_t x_stride;
  int64_t wide, partials; /* partials of an output: GD_LANES, times the chains */
} linear_memory;
enum { LINEAR_TILE = LINEAR_ROWS * LINEAR_FEATURES * GD_WIDTH };

/* The partials of a tile of rows and one of features. */
GD_INLINE float *linear_sums(const linear_memory *memory, int64_t row_tile, int64_t feature_tile) {
  int64_t tile = row_tile * (memory->wide / LINEAR_FEATURES) + feature_tile;
  return memory->sums + tile * (memory->partials / GD_WIDTH) * LINEAR_TILE;
}

/* Adds the products of `count` columns, a multiple of partials, to the partials of a tile; begins them if there are
 * none. */
GD_INLINE void linear_tile(
  const linear_memory *memory, const float *x, float *sums, int64_t count, int begins, int rows
) {
  int64_t x_stride = memory->x_stride, partials = memory->partials;
  const float *weight = memory->weight;
  for (int64_t first = 0; first < partials; first += GD_WIDTH, sums += LINEAR_TILE) {
    vf part[LINEAR_ROWS][LINEAR_FEATURES];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
        part[r][f] = begins ? (vf){0} : load(sums, (r * LINEAR_FEATURES + f) * GD_WIDTH, GD_CPU_F32);
      }
    }
    for (int64_t i = first; i < count; i += partials) {
      vf w[LINEAR_FEATURES];
      GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
        w[f] = load(weight, f * (LINEAR_DEPTH + LINEAR_GAP) + i, GD_CPU_F32);
      }
      GD_UNROLL for (int r = 0; r < rows; r++) {
        vf element = load(x, r * x_stride + i, GD_CPU_F32);
        GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) part[r][f] = fma_vf(element, w[f], part[r][f]);
      }
    }
    GD_UNROLL for (int r = 0; r < rows; r++) {
      GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
        store(sums, (r * LINEAR_FEATURES + f) * GD_WIDTH, GD_CPU_F32, part[r][f]);
      }
    }
  }
}

/* The same for any number of rows up to LINEAR_ROWS. */
static void linear_rows(
  const linear_memory *memory, const float *x, float *sums, int64_t count, int begins, int64_t rows
) {
  switch (rows) {
#define GD_CASE_TILE(ROWS) \
  case ROWS: linear_tile(memory, x, sums, count, begins, ROWS < LINEAR_ROWS ? ROWS : LINEAR_ROWS); break;
    GD_CASE_TILE(1)
    GD_CASE_TILE(2)
    GD_CASE_TILE(3)
    GD_CASE_TILE(4)
    GD_CASE_TILE(5)
    GD_CASE_TILE(6)
#undef GD_CASE_TILE
  }
}

/* Columns first .. first + count - 1 of a row of x, in the order of the weight's lanes, and zeros up to a multiple of
 * GD_LANES. */
static void linear_x(const gd_cpu_linear *op, int64_t row, int64_t first, int64_t count, float *panel) {
  convert(linear_element(op, &op->x, row, 0), first, op->x.dtype, panel, 0, GD_CPU_F32, count);
  for (int64_t i = count; i % GD_LANES != 0; i++) panel[i] = 0;
  if (interleaves(&op->weight)) interleave(panel, count, 0);
}

/* The partials of an output, those of two chains added; `apart` is from a vector of them to the next. */
GD_INLINE row_sum linear_output(const float *sums, int64_t partials, int64_t apart) {
  vf parts[GD_PARTS];
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    parts[p] = load(sums, p * apart, GD_CPU_F32);
    if (partials > GD_LANES) parts[p] += load(sums, (GD_PARTS + p) * apart, GD_CPU_F32);
  }
  return row_sum_of(parts);
}

/* Asks for a share of the next panel of weight, while this one is multiplied: columns first .. first + count - 1 of rows
 * feature .. feature + LINEAR_FEATURES - 1. Asking beyond the end does no harm. */
GD_INLINE void linear_fetch(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t first, int64_t count, int64_t share, int64_t shares
) {
  int64_t bytes = matrix_bytes(matrix, count), lines = (bytes / 64 + shares) / shares;
  for (int64_t k = 0; k < LINEAR_FEATURES; k++) {
    const char *row = matrix_row(matrix, feature + k) + matrix_bytes(matrix, first) + share * lines * 64;
    for (int64_t line = 0; line < lines; line++) __builtin_prefetch(row + line * 64, 0, 2);
  }
}

/* Rows go in tiles of about as many each: the few that a last one of LINEAR_ROWS might have left take as long as more. */
GD_INLINE int64_t linear_tiles(int64_t rows) { return (rows + LINEAR_ROWS - 1) / LINEAR_ROWS; }

/* Adds columns column .. column + depth - 1, at most LINEAR_PANEL_DEPTH of which memory->x holds `rows` rows, to the
 * partials of features first .. first + count - 1, at most memory->wide. Beyond the last feature a panel holds anything. */
static void linear_columns(
  const gd_cpu_linear *op, const linear_memory *memory, int64_t rows, int64_t first, int64_t count, int64_t column,
  int64_t depth, const uint32_t *stop
) {
  int64_t tiles = linear_tiles(rows), apart = LINEAR_DEPTH + LINEAR_GAP;
  for (int64_t f = 0; f < count && !gd_cpu_stopped(stop); f += LINEAR_FEATURES) {
    int64_t at = 0, features = least(LINEAR_FEATURES, count - f);
    do {
      int64_t part = least(LINEAR_DEPTH, depth - at), padded = (part + GD_LANES - 1) / GD_LANES * GD_LANES;
      expand(&op->weight, first + f, features, column + at, part, memory->weight, apart);
      for (int64_t k = 0; k < features; k++) {
        for (int64_t i = part; i < padded; i++) memory->weight[k * apart + i] = 0;
      }
      int at_end = at + part == depth;
      for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t row = tile * rows / tiles, end = (tile + 1) * rows / tiles;
        linear_fetch(
          &op->weight, at_end ? first + f + LINEAR_FEATURES : first + f, at_end ? column : column + at + part, part, tile,
          tiles);
        linear_rows(
          memory, memory->x + row * memory->x_stride + at, linear_sums(memory, tile, f / LINEAR_FEATURES), padded,
          column + at == 0, end - row);
      }
      at += part;
    } while (at < depth);
  }
}

/* Features first .. first + count - 1 of `rows` rows from `from` on, from their partials. */
static void linear_outputs(
  const gd_cpu_linear *op, const linear_memory *memory, int64_t from, int64_t rows, int64_t first, int64_t count
) {
  float values[LINEAR_WIDE];
  int64_t tiles = linear_tiles(rows);
  for (int64_t tile = 0; tile < tiles; tile++) {
    int64_t row = tile * rows / tiles, end = (tile + 1) * rows / tiles;
    for (int64_t r = row; r < end; r++) {
      for (int64_t f = 0; f < count; f += 8) {
        row_sum sums[8];
        GD_UNROLL for (int64_t k = 0; k < 8; k++) {
          const float *own = linear_sums(memory, tile, (f + k) / LINEAR_FEATURES);
          int64_t place = (r - row) * LINEAR_FEATURES + (f + k) % LINEAR_FEATURES;
          sums[k] = linear_output(own + place * GD_WIDTH, memory->partials, LINEAR_TILE);
        }
        sum_eight(sums, values + f);
      }
      linear_finish(op, values, from + r, first, count);
    }
  }
}

/* Many rows by features begin .. end - 1. */
static void linear_many(
  const gd_cpu_linear *op, linear_memory *memory, int64_t begin, int64_t end, const uint32_t *stop
) {
  int64_t columns = op->weight.columns, most = least(columns, LINEAR_PANEL_DEPTH);
  int is_deep = columns > LINEAR_PANEL_DEPTH;
  memory->x_stride = (most + GD_LANES - 1) / GD_LANES * GD_LANES + LINEAR_GAP;
  memory->wide = is_deep ? LINEAR_WIDE : LINEAR_NARROW;
  int64_t panel_rows = least(
    is_deep ? LINEAR_PANEL_ROWS / 2 : LINEAR_PANEL_ROWS, LINEAR_PANEL / memory->x_stride / LINEAR_ROWS * LINEAR_ROWS);
  for (int64_t row = 0; row < op->rows; row += panel_rows) {
    int64_t rows = least(panel_rows, op->rows - row);
    for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += memory->wide) {
      int64_t count = least(memory->wide, end - first), column = 0;
      do {
        int64_t depth = least(LINEAR_PANEL_DEPTH, columns - column);
        /* The panel of a row that is not too long serves all features. */
        if (first == begin || depth < columns) {
          for (int64_t r = 0; r < rows; r++) {
            linear_x(op, row + r, column, depth, memory->x + r * memory->x_stride);
          }
        }
        linear_columns(op, memory, rows, first, count, column, depth, stop);
        column += depth;
      } while (column < columns && !gd_cpu_stopped(stop));
      linear_outputs(op, memory, row, rows, first, count);
    }
  }
}

/* Floats for partials; of a few rows, for those of LINEAR_NARROW outputs each and for as many scales and biases of rows of weight. */
enum { LINEAR_SUMS = LINEAR_PANEL_ROWS * LINEAR_NARROW * 2 * GD_LANES, LINEAR_ROW_SUMS = LINEAR_NARROW * 2 * GD_LANES };
/* The most rows that are multiplied without panels of weight. */
enum { LINEAR_FEW_ROWS = LINEAR_TAKEN > 1 ? 8 : 1, LINEAR_FEW_SUMS = LINEAR_FEW_ROWS * LINEAR_ROW_SUMS };
/* The longest row that these and a panel suffice for: groups of 16 columns have no biases, others are twice as long. */
enum { LINEAR_DOT_COLUMNS = (LINEAR_SUMS - LINEAR_FEW_SUMS) / LINEAR_NARROW * MATRIX_LEAST_GROUP };

/* Whether there are few rows, which fit a panel. */
GD_INLINE int linear_is_few(const gd_cpu_linear *op) {
  int64_t columns = op->weight.columns, stride = columns + LINEAR_GAP + GD_LANES;
  if (op->rows == 1) return columns <= LINEAR_DOT_COLUMNS;
  return op->rows <= LINEAR_FEW_ROWS && columns <= LINEAR_DOT_COLUMNS && LINEAR_FEW_ROWS * stride <= LINEAR_PANEL;
}

/* A few rows by features begin .. end - 1. */
static void linear_few_rows(
  const gd_cpu_linear *op, linear_memory *memory, int64_t begin, int64_t end, const uint32_t *stop
) {
  int64_t columns = op->weight.columns, partials = memory->partials;
  linear_few few = {
    .x = memory->x, .sums = memory->sums, .rows = op->rows, .outputs = LINEAR_NARROW,
    .stride = (columns + GD_LANES - 1) / GD_LANES * GD_LANES + LINEAR_GAP};
  for (int64_t row = 0; row < op->rows; row++) linear_x(op, row, 0, columns, memory->x + row * few.stride);
  for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += LINEAR_NARROW) {
    int64_t count = least(LINEAR_NARROW, end - first);
    linear_dots(&op->weight, first, count, &few, memory->sums + LINEAR_FEW_SUMS);
    for (int64_t row = 0; row < op->rows; row++) {
      float values[LINEAR_NARROW];
      for (int64_t f = 0; f < count; f += 8) {
        row_sum sums[8];
        GD_UNROLL for (int k = 0; k < 8; k++) {
          sums[k] = linear_output(few_sums(&few, row, f + k, partials), partials, GD_WIDTH);
        }
        sum_eight(sums, values + f);
      }
      linear_finish(op, values, row, first, count);
    }
  }
}

/* Features first .. last - 1 of all rows. */
static void linear_features(const gd_cpu_linear *op, int64_t first, int64_t last, void *scratch, const uint32_t *stop) {
  char *take = scratch;
  linear_memory memory = {.partials = matrix_chains(&op->weight) * GD_LANES};
  memory.x = scratch_take(&take, LINEAR_PANEL);
  memory.weight = scratch_take(&take, LINEAR_FEATURES * (LINEAR_DEPTH + LINEAR_GAP));
  memory.sums = scratch_take(&take, LINEAR_SUMS);
  if (linear_is_few(op)) linear_few_rows(op, &memory, first, last, stop);
  else linear_many(op, &memory, first, last, stop);
}

static void linear(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_linear *op = params;
  linear_features(op, begin * GD_CPU_LINEAR_BLOCK, least(end * GD_CPU_LINEAR_BLOCK, op->out_features), scratch, stop);
}
