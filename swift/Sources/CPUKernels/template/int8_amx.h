/* Tiles of several rows of x by INT8_OUTPUTS outputs (int8_linear.h), with AMX. A group is one product of tiles, or two if it has 128
 * columns. A vector of its sums belongs to a row of x, and becomes terms as in int8_tile.h. Panels have signed numbers if a format has a
 * middle, so that sums begin with 0: no format has both a middle and offsets.
 *
 * A product runs while the sums of the group two before it become terms. The instructions of tiles stand between the terms of a quarter
 * of the rows each: several in succession would hold up the instructions after them. */

/* The least rows for tiles: fewer are faster in vectors, which need no panels for some formats, or as in int8_turned.h. */
static int64_t int8_least_rows(int64_t group) { return group == 16 ? 12 : group == 32 ? 9 : 8; }

GD_INLINE int int8_takes_few(const gd_cpu_matrix *matrix, int64_t rows) { return (void)matrix, (void)rows, 0; }

/* The shapes of tiles, as the processor reads them. */
typedef struct int8_shapes {
  uint8_t palette, start, unused[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} int8_shapes;

/* 0: sums; 1 and 2: x; 3 and 4: numbers of the weight. Tiles belong to a thread, which gives them back before it does anything else. */
static void int8_tiles_begin(int64_t rows, int64_t group) {
  int columns = (int)least(group, 64);
  int8_shapes shapes = {.palette = 1};
  for (int t = 0; t < 5; t++) {
    shapes.rows[t] = (uint8_t)(t < 3 ? rows : columns / 4);
    shapes.bytes[t] = (uint16_t)(t == 1 || t == 2 ? columns : 4 * INT8_OUTPUTS);
  }
  _tile_loadconfig(&shapes);
}
static void int8_tiles_end(void) { _tile_release(); }

/* Columns first .. first + count - 1 of `rows` rows from `row` on, a stride apart: those of an expert are copied. The result's
 * `scales` are, for each tile and each of its groups, the scales of INT8_ROWS rows and then their sums, with zeros for missing rows. */
static int8_x int8_rows_at(
  const gd_cpu_linear *op, const int8_memory *memory, int64_t row, int64_t rows, int64_t first, int64_t count, int64_t group
) {
  int8_x own = int8_from(int8_row_of(op, row), first, group);
  int64_t groups = count / group, tiles = (rows + INT8_ROWS - 1) / INT8_ROWS, bytes = 0;
  if (op->places != NULL) {
    bytes = rows * (count + INT8_APART);
    own.values = memory->x;
    own.stride = count + INT8_APART;
  }
  float *factors = (float *)(memory->x + bytes);
  __builtin_memset(factors, 0, (size_t)(tiles * groups * 2 * INT8_ROWS) * sizeof *factors);
  for (int64_t tile = 0; tile < tiles; tile++) {
    int64_t begin = tile * rows / tiles, end = (tile + 1) * rows / tiles;
    for (int64_t r = begin; r < end; r++) {
      int8_x from = int8_from(int8_row_of(op, row + r), first, group);
      if (op->places != NULL) __builtin_memcpy(memory->x + r * own.stride, from.values, (size_t)count);
      float *to = factors + tile * groups * 2 * INT8_ROWS + r - begin;
      for (int64_t g = 0; g < groups; g++, to += 2 * INT8_ROWS) {
        to[0] = from.scales[g];
        to[INT8_ROWS] = from.sums[g];
      }
    }
  }
  own.scales = factors;
  own.groups = groups;
  return own;
}
/* The same from column `first` on, where there is one tile. */
GD_INLINE int8_x int8_tile_from(int8_x x, int64_t first, int64_t group) {
  x.values += first;
  x.scales += first / group * 2 * INT8_ROWS;
  return x;
}
GD_INLINE int8_x int8_tile_x(int8_x x, int64_t tile, int64_t from) {
  x.values += from * x.stride;
  x.scales += tile * x.groups * 2 * INT8_ROWS;
  return x;
}

/* The tiles of a group. */
typedef struct int8_operands {
  const int8_t *x;
  const uint8_t *panel;
  int64_t stride, group, last;
} int8_operands;

GD_INLINE const int8_t *int8_operand_x(const int8_operands *from, int64_t g) { return from->x + least(g, from->last) * from->group; }
GD_INLINE const uint8_t *int8_operand_panel(const int8_operands *from, int64_t g) {
  return from->panel + least(g, from->last) * from->group * INT8_OUTPUTS;
}

/* Multiplies tiles 1 and 3, and the second half of a long group. */
GD_INLINE void int8_tile_product(const int8_operands *from, int64_t g, int has_offset) {
  _tile_zero(0);
  if (has_offset) _tile_dpbsud(0, 1, 3);
  else _tile_dpbssd(0, 1, 3);
  if (from->group <= 64) return;
  _tile_loadd(2, int8_operand_x(from, g) + 64, from->stride);
  _tile_loadd(4, int8_operand_panel(from, g) + 64 * INT8_OUTPUTS, 64);
  if (has_offset) _tile_dpbsud(0, 2, 4);
  else _tile_dpbssd(0, 2, 4);
}

/* Adds the terms of `count` groups to the sums of `taken` rows of x; new sums begin with 0. `rows` is `taken` or one more. Tiles, too, may have one row more than
 * `taken`. `asked` bytes from `next` on are asked for meanwhile. */
GD_INLINE void int8_tile(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int are_new, int64_t taken,
  const uint8_t *next, int64_t asked, int rows, int has_offset
) {
  _Alignas(64) int32_t products[2][INT8_ROWS * INT8_OUTPUTS];
  int8_operands from = {x.values, memory->panel, x.stride, group, count - 1};
  vf out[INT8_ROWS];
  GD_UNROLL for (int r = 0; r < rows; r++) out[r] = are_new ? (vf){0} : load(sums, r * INT8_OUTPUTS, GD_CPU_F32);
  /* The row beyond `taken`, if there is one. */
  for (int i = 0; i < 2; i++) store_vi(&products[i][(rows - 1) * INT8_OUTPUTS], (vi){0});
  for (int64_t g = 0; g < 2; g++) {
    if (g == 1) _tile_stored(0, products[0], 64);
    _tile_loadd(1, int8_operand_x(&from, g), x.stride);
    _tile_loadd(3, int8_operand_panel(&from, g), 64);
    int8_tile_product(&from, g, has_offset);
  }
  const float *factors = x.scales;
  int64_t each = (asked + count - 1) / count;
  for (int64_t g = 0; g < count; g++, factors += 2 * INT8_ROWS) {
    const int32_t *own = products[g % 2];
    int8_ask(next, each, memory->end);
    next += each;
    vf scale = load(memory->scales, g * INT8_OUTPUTS, GD_CPU_F32), offset;
    if (has_offset) offset = load(offsets, g * INT8_OUTPUTS, GD_CPU_F32);
    GD_UNROLL for (int r = 0; r < rows; r++) {
      if (r == 0) _tile_loadd(1, int8_operand_x(&from, g + 2), x.stride);
      if (r == rows / 4) _tile_loadd(3, int8_operand_panel(&from, g + 2), 64);
      if (r == rows / 2) _tile_stored(0, products[(g + 1) % 2], 64);
      if (r == rows - rows / 4) int8_tile_product(&from, g + 2, has_offset);
      vf term = __builtin_convertvector(load_vi(own + r * INT8_OUTPUTS), vf) * scale, x_scale = splat(factors[r]);
      term = has_offset ? int8_fma(term, x_scale, offset * splat(factors[INT8_ROWS + r])) : term * x_scale;
      out[r] += term;
      /* Keeps the compiler from moving terms of later rows up, for which it has too few registers. */
      if (r % 2 == 1) __asm__ volatile("" : "+v"(out[r]));
    }
    if (rows / 4 == 0) int8_tile_product(&from, g + 2, has_offset);
  }
  GD_UNROLL for (int r = 0; r < rows; r++) {
    if (r < rows - 1 || taken == rows) store(sums, r * INT8_OUTPUTS, GD_CPU_F32, out[r]);
  }
}

#define GD_TILE(ROWS)                                                                         \
  static __attribute__((noinline)) void int8_tile_##ROWS(                                     \
    const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group,  \
    float *sums, int are_new, int64_t taken, const uint8_t *next, int64_t asked               \
  ) {                                                                                         \
    if (offsets != NULL) int8_tile(memory, offsets, x, count, group, sums, are_new, taken, next, asked, ROWS, 1); \
    else int8_tile(memory, offsets, x, count, group, sums, are_new, taken, next, asked, ROWS, 0);      \
  }
GD_TILE(2)
GD_TILE(4)
GD_TILE(6)
GD_TILE(8)
GD_TILE(10)
GD_TILE(12)
GD_TILE(14)
GD_TILE(16)
#undef GD_TILE

static void int8_tile_of(
  const int8_memory *memory, const float *offsets, int8_x x, int64_t count, int64_t group, float *sums, int are_new, int64_t rows, int small,
  const uint8_t *next, int64_t asked
) {
  (void)small;
  switch ((rows + 1) / 2) {
#define GD_CASE_TILE(HALF, ROWS) \
  case HALF: return int8_tile_##ROWS(memory, offsets, x, count, group, sums, are_new, rows, next, asked);
    GD_CASE_TILE(1, 2)
    GD_CASE_TILE(2, 4)
    GD_CASE_TILE(3, 6)
    GD_CASE_TILE(4, 8)
    GD_CASE_TILE(5, 10)
    GD_CASE_TILE(6, 12)
    GD_CASE_TILE(7, 14)
    GD_CASE_TILE(8, 16)
#undef GD_CASE_TILE
  }
}
