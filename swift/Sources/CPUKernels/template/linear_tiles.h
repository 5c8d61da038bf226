/* The panels and tiles of linear.h. */

enum { LINEAR_DEPTH = MATRIX_DEPTH };
/* Features whose outputs are in memory at a time, a multiple of 8 and of LINEAR_FEATURES. */
enum { LINEAR_WIDE = 48 };

/* Rows and features of a tile: its partials, a vector of each, fit the registers. */
#if GD_WIDTH == 16 || defined(__aarch64__)
enum { LINEAR_ROWS = 6, LINEAR_FEATURES = 4 };
#elif GD_WIDTH == 8
enum { LINEAR_ROWS = 4, LINEAR_FEATURES = 3 };
#else
enum { LINEAR_ROWS = 2, LINEAR_FEATURES = 4 };
#endif
/* Tiles of features that a tile of rows is multiplied by while it is in the first cache, if there are enough tiles of rows to
 * pay for larger panels of weight. With AVX-512 it is no gain on Intel; other instruction sets were not measured. */
enum { LINEAR_TOGETHER = GD_WIDTH == 8 ? 4 : 1, LINEAR_TOGETHER_FROM = 12, LINEAR_UNROLLED = GD_WIDTH == 8 ? 4 : 1 };
GD_INLINE int64_t linear_together(int64_t tiles) { return tiles < LINEAR_TOGETHER_FROM ? 1 : LINEAR_TOGETHER; }

/* The memory of one thread. Partials lie tile by tile, and outputs row by row: [tiles of features, tiles of rows, passes, LINEAR_ROWS,
 * LINEAR_FEATURES], each a vector, and [rows, LINEAR_WIDE]. If a panel of x has whole rows, the
 * partials of the tiles of features that are multiplied together suffice, and if a row is one block of columns, those of one tile of rows. */
typedef struct linear_memory {
  float *x;      /* [blocks of LINEAR_DEPTH columns, tiles of rows, passes, vectors of a pass, rows of the tile], each a vector */
  float *weight; /* [LINEAR_TOGETHER, LINEAR_DEPTH floats of LINEAR_FEATURES: passes, vectors of a pass, LINEAR_FEATURES], the same */
  float *sums, *outputs;
  int64_t partials; /* of an output: GD_LANES, times the chains */
} linear_memory;
/* The most tiles of rows of a panel. */
enum { LINEAR_TILES = (GD_CPU_LINEAR_ROWS + LINEAR_ROWS - 1) / LINEAR_ROWS };
/* The floats of a tile's partials in one pass, and its outputs with those that fill the last sum_eight. */
enum { LINEAR_TILE = LINEAR_ROWS * LINEAR_FEATURES * GD_WIDTH, LINEAR_OUTPUTS = (LINEAR_ROWS * LINEAR_FEATURES + 7) / 8 * 8 };

/* Vectors of a row in each pass over `count` columns; the last passes may have one less. */
GD_INLINE int64_t linear_places(const linear_memory *memory, int64_t count) {
  return (count + memory->partials - 1) >> __builtin_ctzll((uint64_t)memory->partials);
}

/* The order of a panel's vectors with `rows` rows. */
GD_INLINE vector_order linear_order(const linear_memory *memory, int64_t count, int64_t rows) {
  int64_t passes = memory->partials / GD_WIDTH, step = rows * GD_WIDTH;
  return (vector_order){__builtin_ctzll((uint64_t)passes), linear_places(memory, count) * step, step, GD_WIDTH};
}

/* Some tiles: one of rows by `count` of features, whose partials are `apart` floats apart. */
typedef struct linear_group {
  const float *x;
  float *sums;
  int64_t count, apart;
} linear_group;

/* Adds the products of `count` columns, a multiple of GD_LANES, to the partials of some tiles; begins them if there are none. */
GD_INLINE void linear_tile(const linear_memory *memory, linear_group group, int64_t count, int begins, int rows) {
  int64_t passes = memory->partials / GD_WIDTH, places = linear_places(memory, count);
  for (int64_t pass = 0; pass < passes; pass++) {
    for (int64_t tile = 0; tile < group.count; tile++) {
      float *sums = group.sums + pass * LINEAR_TILE + tile * group.apart;
      const float *weight = memory->weight + (tile * LINEAR_DEPTH + pass * places * GD_WIDTH) * LINEAR_FEATURES;
      const float *element = group.x + pass * places * rows * GD_WIDTH;
      vf part[LINEAR_ROWS][LINEAR_FEATURES];
      GD_UNROLL for (int r = 0; r < rows; r++) {
        GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
          part[r][f] = begins ? (vf){0} : load(sums, (r * LINEAR_FEATURES + f) * GD_WIDTH, GD_CPU_F32);
        }
      }
      const float *end = element + linear_places(memory, count - pass * GD_WIDTH) * rows * GD_WIDTH;
      _Pragma("clang loop unroll_count(LINEAR_UNROLLED)")
      while (element != end) {
        vf w[LINEAR_FEATURES];
        GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) w[f] = load(weight, f * GD_WIDTH, GD_CPU_F32);
        GD_UNROLL for (int r = 0; r < rows; r++) {
          vf own = load(element, r * GD_WIDTH, GD_CPU_F32);
          GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) part[r][f] = fma_vf(own, w[f], part[r][f]);
        }
        weight += LINEAR_FEATURES * GD_WIDTH;
        element += rows * GD_WIDTH;
      }
      GD_UNROLL for (int r = 0; r < rows; r++) {
        GD_UNROLL for (int f = 0; f < LINEAR_FEATURES; f++) {
          store(sums, (r * LINEAR_FEATURES + f) * GD_WIDTH, GD_CPU_F32, part[r][f]);
        }
      }
    }
  }
}

/* The same for any number of rows up to LINEAR_ROWS. */
static void linear_rows(const linear_memory *memory, linear_group group, int64_t count, int begins, int64_t rows) {
  switch (rows) {
#define GD_CASE_TILE(ROWS) \
  case ROWS: linear_tile(memory, group, count, begins, ROWS < LINEAR_ROWS ? ROWS : LINEAR_ROWS); break;
    GD_CASE_TILE(1)
    GD_CASE_TILE(2)
    GD_CASE_TILE(3)
    GD_CASE_TILE(4)
    GD_CASE_TILE(5)
    GD_CASE_TILE(6)
#undef GD_CASE_TILE
  }
}

/* Columns i .. i + GD_LANES - 1 of a row of x, `left` of them there and zeros after them, in the order of the weight's lanes. */
GD_INLINE void linear_block(
  const void *row, int64_t i, int64_t left, uint32_t dtype, int interleaved, float *to, vector_order order
) {
  vf block[GD_PARTS];
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) block[p] = load_left(row, i + p * GD_WIDTH, dtype, left - p * GD_WIDTH);
  if (interleaved) interleave(block);
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) store(to, vector_place(order, p), GD_CPU_F32, block[p]);
}

/* Columns first .. first + count - 1 of some rows of x, at most LINEAR_ROWS, and zeros up to a multiple of GD_LANES. */
GD_INLINE void linear_x_of(
  const void *const *x, int64_t rows, int64_t first, int64_t count, float *panel, vector_order order, uint32_t dtype,
  int interleaved
) {
  /* Two blocks are a multiple of every order's power of two. */
  int64_t second = vector_place(order, GD_PARTS), step = vector_place(order, 2 * GD_PARTS);
  for (int64_t r = 0; r < rows; r++, panel += order.apart) {
    float *to = panel;
    int64_t i = 0;
    for (; i + 2 * GD_LANES <= count; i += 2 * GD_LANES, to += step) {
      linear_block(x[r], first + i, GD_LANES, dtype, interleaved, to, order);
      linear_block(x[r], first + i + GD_LANES, GD_LANES, dtype, interleaved, to + second, order);
    }
    for (; i < count; i += GD_LANES, to += second) linear_block(x[r], first + i, count - i, dtype, interleaved, to, order);
  }
}

/* The same for rows row .. row + rows - 1, by the dtype of x. */
static void linear_x(
  const gd_cpu_linear *op, int64_t row, int64_t rows, int64_t first, int64_t count, float *panel, vector_order order
) {
  const void *x[LINEAR_ROWS];
  for (int64_t r = 0; r < rows; r++) x[r] = linear_element(op, &op->x, row + r, 0);
  int interleaved = interleaves(&op->weight);
#define GD_CASE_X(DTYPE)                                                                       \
  if (op->x.dtype == DTYPE) {                                                                  \
    if (interleaved) linear_x_of(x, rows, first, count, panel, order, DTYPE, 1);               \
    else linear_x_of(x, rows, first, count, panel, order, DTYPE, 0);                           \
  }
  GD_CASE_X(GD_CPU_F32)
  GD_CASE_X(GD_CPU_BF16)
  GD_CASE_X(GD_CPU_F16)
#undef GD_CASE_X
}

/* The outputs of a tile of `rows` rows from their partials, which are still in the first cache, eight at a time: a row is LINEAR_WIDE after the one
 * before. */
GD_INLINE void linear_outputs(const linear_memory *memory, const float *sums, float *outputs, int64_t rows) {
  float own[LINEAR_OUTPUTS];
  for (int64_t at = 0; at < rows * LINEAR_FEATURES; at += 8) {
    row_sum eight[8];
    GD_UNROLL for (int k = 0; k < 8; k++) {
      eight[k] = linear_output(sums + (at + k) * GD_WIDTH, memory->partials, LINEAR_TILE);
    }
    sum_eight(eight, own + at);
  }
  for (int64_t r = 0; r < rows; r++) __builtin_memcpy(outputs + r * LINEAR_WIDE, own + r * LINEAR_FEATURES, LINEAR_FEATURES * sizeof(float));
}
