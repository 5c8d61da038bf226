/* linear: every output is one dot product. The element in lane l of block b of GD_LANES elements goes to partial l by a
 * chain of fma over the blocks; if a weight's packed numbers have scales in another tensor, blocks with an even and with an
 * odd number have a chain each, and the two are added. Then fold and sum_one (sums.h). So the bits of an output depend neither on the other rows
 * nor on the other outputs. Element i is in lane i mod GD_LANES, except in a weight of interleaved lanes (matrix.h).
 *
 * Many rows: x and weight are copied to panels of float32, which stay in the caches: some rows of x in the second,
 * LINEAR_FEATURES rows of weight, LINEAR_DEPTH columns deep, in the first. A tile of rows by features is summed in
 * registers, one part of its partials after another (a pass), and panels lie in the order in which passes read them; between panels
 * partials are in memory. One row, or a few: linear_dot.h.
 * Work items are blocks of GD_CPU_LINEAR_BLOCK features by gd_cpu_linear_panel_rows rows, panel by panel. */

/* Asks for `lines` lines of each row of the next panels of weight, while these are multiplied: from `line` on of columns `first` on of rows
 * feature .. feature + count - 1. Asking beyond the end does no harm. */
GD_INLINE void linear_fetch(const gd_cpu_matrix *matrix, int64_t feature, int64_t count, int64_t first, int64_t line, int64_t lines) {
  for (int64_t k = 0; k < count; k++) {
    fetch_far(matrix_row(matrix, feature + k) + matrix_bytes(matrix, first) + line * 64, lines * 64);
  }
}

/* Rows go in tiles of about equal size: the few rows that might be left after tiles of LINEAR_ROWS take as long as more. */
GD_INLINE int64_t linear_tiles(int64_t rows) { return (rows + LINEAR_ROWS - 1) / LINEAR_ROWS; }

/* Adds columns column .. column + depth - 1, at most GD_CPU_LINEAR_DEPTH of which memory->x holds `rows` rows, to the
 * partials of features first .. first + count - 1, at most LINEAR_WIDE, and ends them with the last columns. Beyond the last
 * feature a panel may hold anything. */
static void linear_columns(
  const gd_cpu_linear *op, const linear_memory *memory, const int64_t *starts, int64_t rows, int64_t first, int64_t count,
  int64_t column, int64_t depth, const uint32_t *stop
) {
  int64_t tiles = linear_tiles(rows), together = linear_together(tiles) * LINEAR_FEATURES;
  int whole = depth == op->weight.columns, ends = column + depth == op->weight.columns;
  /* Partials from one tile of rows to the next, and from one of features. */
  int64_t pass_sums = memory->partials / GD_WIDTH * LINEAR_TILE, apart = op->weight.columns <= LINEAR_DEPTH ? 0 : pass_sums;
  int64_t feature_apart = apart == 0 ? pass_sums : tiles * apart;
  for (int64_t f = 0; f < count && !gd_cpu_stopped(stop); f += together) {
    int64_t at = 0, features = least(together, count - f);
    linear_group group = {.count = (features + LINEAR_FEATURES - 1) / LINEAR_FEATURES, .apart = feature_apart};
    do {
      int64_t part = least(LINEAR_DEPTH, depth - at), padded = (part + GD_LANES - 1) / GD_LANES * GD_LANES;
      for (int64_t k = 0; k < features; k += LINEAR_FEATURES) {
        expand(
          &op->weight, first + f + k, least(LINEAR_FEATURES, features - k), column + at, part, memory->weight + k * LINEAR_DEPTH,
          linear_order(memory, padded, LINEAR_FEATURES));
      }
      int at_end = at + part == depth;
      int64_t lines = (matrix_bytes(&op->weight, part) / 64 + tiles) / tiles;
      group.x = memory->x + at * rows;
      for (int64_t tile = 0; tile < tiles; tile++) {
        int64_t own = starts[tile + 1] - starts[tile];
        linear_fetch(
          &op->weight, at_end ? first + f + features : first + f, features, at_end ? column : column + at + part, tile * lines, lines);
        group.sums = memory->sums + (whole ? 0 : f / LINEAR_FEATURES * feature_apart) + tile * apart;
        linear_rows(memory, group, padded, column + at == 0, own);
        for (int64_t k = 0; ends && at_end && k < group.count; k++) {
          linear_outputs(
            memory, group.sums + k * group.apart, memory->outputs + starts[tile] * LINEAR_WIDE + f + k * LINEAR_FEATURES, own);
        }
        group.x += own * linear_places(memory, padded) * memory->partials;
      }
      at += part;
    } while (at < depth);
  }
}

/* Columns column .. column + depth - 1 of `rows` rows of x from `from` on, as memory->x. */
static void linear_panel(
  const gd_cpu_linear *op, const linear_memory *memory, const int64_t *starts, int64_t from, int64_t rows, int64_t column,
  int64_t depth
) {
  float *panel = memory->x;
  for (int64_t at = 0; at < depth; at += LINEAR_DEPTH) {
    int64_t part = least(LINEAR_DEPTH, depth - at), places = linear_places(memory, part);
    for (int64_t tile = 0; tile < linear_tiles(rows); tile++) {
      int64_t row = starts[tile], end = starts[tile + 1];
      linear_x(op, from + row, end - row, column + at, part, panel, linear_order(memory, part, end - row));
      panel += (end - row) * places * memory->partials;
    }
  }
}

/* `rows` rows from `from` on, at most gd_cpu_linear_panel_rows, by features begin .. end - 1. */
static void linear_many(
  const gd_cpu_linear *op, const linear_memory *memory, int64_t from, int64_t rows, int64_t begin, int64_t end,
  const uint32_t *stop
) {
  int64_t columns = op->weight.columns;
  int64_t starts[LINEAR_TILES + 1], tiles = linear_tiles(rows);
  for (int64_t tile = 0; tile <= tiles; tile++) starts[tile] = tile * rows / tiles;
  for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += LINEAR_WIDE) {
    int64_t count = least(LINEAR_WIDE, end - first), column = 0;
    do {
      int64_t depth = least(GD_CPU_LINEAR_DEPTH, columns - column);
      /* The panel of a row that is not too long serves all features. */
      if (first == begin || depth < columns) linear_panel(op, memory, starts, from, rows, column, depth);
      linear_columns(op, memory, starts, rows, first, count, column, depth, stop);
      column += depth;
    } while (column < columns && !gd_cpu_stopped(stop));
    for (int64_t r = 0; r < rows; r++) linear_finish(op, memory->outputs + r * LINEAR_WIDE, from + r, first, count);
  }
}

/* Floats for partials, of the rows and features of a panel of x without whole rows; for a few rows, for LINEAR_FEW outputs of each and for
 * the scales and biases of as many rows of weight. */
enum { LINEAR_FEW = LINEAR_SUMS_AT_ONCE };
enum { LINEAR_SUMS = GD_CPU_LINEAR_DEEP_ROWS * LINEAR_WIDE * 2 * GD_LANES + LINEAR_TILE };
/* Floats for the outputs of a panel's rows and LINEAR_WIDE features, and a vector that is read beyond them. */
enum { LINEAR_ALL_OUTPUTS = GD_CPU_LINEAR_ROWS * LINEAR_WIDE + GD_LANES };
/* The most rows that are multiplied without panels of weight: of floats, of which panels would be copies for a few tiles, more where units have 512 bits; and
 * the outputs of as many with those that fill the last sum_eight. */
enum { LINEAR_FEW_ROWS = GD_WIDTH < 8 ? LINEAR_TAKEN : 8, LINEAR_FEW_FLOATS = GD_WIDTH == 16 ? 3 * LINEAR_TAKEN : LINEAR_FEW_ROWS };
enum { LINEAR_FEW_VALUES = LINEAR_FEW_FLOATS * LINEAR_FEW + 8 };
/* The longest row for which these suffice: groups of 16 columns have no biases, others are twice as long. */
enum { LINEAR_DOT_COLUMNS = (LINEAR_SUMS - LINEAR_FEW_VALUES) / LINEAR_FEW * MATRIX_LEAST_GROUP };

/* Whether there are few rows, which fit a panel. With AVX2 more than four, which take two turns, are no gain by blocks of 256. */
GD_INLINE int linear_is_few(const gd_cpu_linear *op) {
  int64_t columns = op->weight.columns, rows = op->rows, whole = columns + GD_LANES;
  if (rows == 1) return columns <= LINEAR_DOT_COLUMNS;
  matrix_layout layout = layout_of(&op->weight);
  if (GD_WIDTH == 8 && rows > LINEAR_TAKEN && layout.elements == 256) return 0;
  int64_t most = layout.elements == 1 && gd_cpu_is_wide ? LINEAR_FEW_FLOATS : LINEAR_FEW_ROWS;
  return rows <= most && columns <= LINEAR_DOT_COLUMNS && (rows + 1) / 2 * 2 * whole <= GD_CPU_LINEAR_PANEL;
}

/* See gd_cpu_kernels. Rows that are taken together lie as linear_few says. */
static int64_t linear_arrange(const gd_cpu_linear *op, float *to) {
  if (!linear_is_few(op)) return 0;
  int64_t columns = op->weight.columns, whole = (columns + GD_LANES - 1) / GD_LANES * GD_LANES, all = 0;
  for (int64_t at = 0, taken; at < op->rows; at += taken, all += taken * whole) {
    taken = few_taken(op->rows - at);
    vector_order order = {0, 0, taken * GD_WIDTH, 0};
    for (int64_t t = 0; t < taken && to != NULL; t++) {
      float *row = to + at * whole + t * GD_WIDTH;
      if (at + t < op->rows) linear_x(op, at + t, 1, 0, columns, row, order);
      else for (int64_t i = 0; i < whole; i += GD_WIDTH) store(row, i * taken, GD_CPU_F32, (vf){0});
    }
  }
  return all;
}

/* A few rows by features begin .. end - 1. */
static void linear_few_rows(
  const gd_cpu_linear *op, const linear_memory *memory, int64_t begin, int64_t end, const uint32_t *stop
) {
  linear_few few = {
    .x = op->arranged, .values = memory->sums, .rows = op->rows, .columns = (op->weight.columns + GD_LANES - 1) / GD_LANES * GD_LANES,
    .outputs = LINEAR_FEW, .end = matrix_row(&op->weight, op->out_features)};
  if (few.x == NULL) {
    linear_arrange(op, memory->x);
    few.x = memory->x;
  }
  /* Outputs are written eight at a time. */
  int direct = op->residual.data == NULL && op->places == NULL && op->out.dtype == GD_CPU_F32;
  for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += LINEAR_FEW) {
    int64_t count = least(LINEAR_FEW, end - first);
    int is_whole = direct && count % 8 == 0;
    linear_few own = few;
    if (is_whole) own.values = element(&op->out, 0, 0, first), own.outputs = op->out.token_stride;
    linear_dots(&op->weight, first, count, &own, memory->sums + LINEAR_FEW_VALUES);
    for (int64_t row = 0; row < op->rows && !is_whole; row++) linear_finish(op, own.values + row * own.outputs, row, first, count);
  }
}

/* Features first .. last - 1 of the rows of a panel. */
static void linear_part(
  const gd_cpu_linear *op, int64_t panel, int64_t first, int64_t last, void *scratch, const uint32_t *stop
) {
  char *take = scratch;
  linear_memory memory = {.partials = matrix_chains(&op->weight) * GD_LANES};
  memory.x = scratch_take(&take, GD_CPU_LINEAR_PANEL);
  memory.weight = scratch_take(&take, LINEAR_TOGETHER * LINEAR_FEATURES * LINEAR_DEPTH);
  memory.sums = scratch_take(&take, LINEAR_SUMS);
  memory.outputs = scratch_take(&take, LINEAR_ALL_OUTPUTS);
  if (linear_is_few(op)) {
    linear_few_rows(op, &memory, first, last, stop);
  } else {
    int64_t rows = gd_cpu_linear_panel_rows(op), from = panel * rows;
    linear_many(op, &memory, from, least(rows, op->rows - from), first, last, stop);
  }
}

/* Features first .. last - 1 of all rows. */
static void linear_features(const gd_cpu_linear *op, int64_t first, int64_t last, void *scratch, const uint32_t *stop) {
  int64_t panels = gd_cpu_linear_panels(op);
  for (int64_t panel = 0; panel < panels && !gd_cpu_stopped(stop); panel++) linear_part(op, panel, first, last, scratch, stop);
}

static void linear(const void *params, int64_t begin, int64_t end, void *scratch, const uint32_t *stop) {
  const gd_cpu_linear *op = params;
  int64_t blocks = (op->out_features + GD_CPU_LINEAR_BLOCK - 1) / GD_CPU_LINEAR_BLOCK;
  for (int64_t item = begin, next; item < end && !gd_cpu_stopped(stop); item = next) {
    int64_t panel = item / blocks, first = (item - panel * blocks) * GD_CPU_LINEAR_BLOCK;
    next = least(end, (panel + 1) * blocks);
    linear_part(op, panel, first, least(first + (next - item) * GD_CPU_LINEAR_BLOCK, op->out_features), scratch, stop);
  }
}
