/* Matrix products in register tiles, and matrices turned.
 *
 * A tile is CHUNK_ROWS rows of `vectors` vectors of partial results. Each of its elements is one chain of fused
 * multiply-adds in the order of the summed index, so that its bits depend neither on the tile's shape nor on the width
 * of a vector. */

#if GD_WIDTH == 16 || defined(__aarch64__)
#define CHUNK_ROWS 8
#else
#define CHUNK_ROWS 4
#endif
enum { CHUNK_VECTORS = 2, PANEL = CHUNK_VECTORS * GD_WIDTH }; /* columns of a tile at most */

typedef struct chunk_tile {
  vf x[CHUNK_ROWS][CHUNK_VECTORS];
} chunk_tile;

/* tile[r][c] += sum over k = 0 .. count - 1 of a[k * a_step + r * a_row] * b[k * b_step + c]. */
GD_INLINE void tile_products(
  chunk_tile *tile, int vectors, const float *a, int64_t a_step, int64_t a_row, const float *b, int64_t b_step,
  int64_t count
) {
  for (int64_t k = 0; k < count; k++) {
    vf right[CHUNK_VECTORS];
    GD_UNROLL for (int v = 0; v < vectors; v++) right[v] = load(b, v * GD_WIDTH, GD_CPU_F32);
    GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
      vf left = splat(a[r * a_row]);
      GD_UNROLL for (int v = 0; v < vectors; v++) tile->x[r][v] = fma_vf(left, right[v], tile->x[r][v]);
    }
    a += a_step;
    b += b_step;
  }
}

/* tile[r] *= factors[r]. */
GD_INLINE void tile_scale(chunk_tile *tile, int vectors, const float *factors) {
  GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
    GD_UNROLL for (int v = 0; v < vectors; v++) tile->x[r][v] = tile->x[r][v] * splat(factors[r]);
  }
}

GD_INLINE void tile_store(const chunk_tile *tile, int vectors, float *to, int64_t step) {
  GD_UNROLL for (int r = 0; r < CHUNK_ROWS; r++) {
    GD_UNROLL for (int v = 0; v < vectors; v++) store(to, r * step + v * GD_WIDTH, GD_CPU_F32, tile->x[r][v]);
  }
}

/* Elements of a and b in turn: those of their first halves, of their second halves. */
#if GD_WIDTH == 16
#define TURN_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define TURN_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif GD_WIDTH == 8
#define TURN_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define TURN_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define TURN_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define TURN_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif

/* GD_WIDTH vectors as a matrix, turned: each round doubles the number of a column's elements that are side by side. */
GD_INLINE void turn(vf x[GD_WIDTH]) {
  GD_UNROLL for (int round = 1; round < GD_WIDTH; round *= 2) {
    vf y[GD_WIDTH];
    GD_UNROLL for (int i = 0; i < GD_WIDTH / 2; i++) {
      y[2 * i] = TURN_LOW(x[i], x[i + GD_WIDTH / 2]);
      y[2 * i + 1] = TURN_HIGH(x[i], x[i + GD_WIDTH / 2]);
    }
    GD_UNROLL for (int i = 0; i < GD_WIDTH; i++) x[i] = y[i];
  }
}

/* to [columns, to_step] becomes rows [rows, step] turned; both counts are multiples of GD_WIDTH. */
static void turn_floats(const float *from, int64_t step, float *to, int64_t to_step, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; row += GD_WIDTH) {
    for (int64_t column = 0; column < columns; column += GD_WIDTH) {
      vf x[GD_WIDTH];
      GD_UNROLL for (int i = 0; i < GD_WIDTH; i++) x[i] = load(from, (row + i) * step + column, GD_CPU_F32);
      turn(x);
      GD_UNROLL for (int i = 0; i < GD_WIDTH; i++) store(to, (column + i) * to_step + row, GD_CPU_F32, x[i]);
    }
  }
}

/* Columns of a state, as a panel holds them: panel [key_dim, step] from rows [rows, key_dim] of a slot, and back. rows
 * and key_dim are multiples of 8; lanes beyond the rows become zeros, and there are no elements beyond key_dim. */
GD_INLINE void panel_read_as(
  float *panel, int64_t step, const void *from, uint32_t dtype, int64_t rows, int64_t key_dim
) {
  for (int64_t row = 0; row < step; row += GD_WIDTH) {
    for (int64_t i = 0; i < key_dim; i += GD_WIDTH) {
      vf x[GD_WIDTH];
      int half = key_dim - i < GD_WIDTH;
      GD_UNROLL for (int r = 0; r < GD_WIDTH; r++) {
        const char *source = (const char *)from + (row + r) * key_dim * dtype_size(dtype);
        x[r] = row + r < rows ? load_part(source, i, 0, dtype, half) : splat(0.0f);
      }
      turn(x);
      GD_UNROLL for (int c = 0; c < GD_WIDTH; c++) {
        if (i + c < key_dim) store(panel, (i + c) * step + row, GD_CPU_F32, x[c]);
      }
    }
  }
}

GD_INLINE void panel_write_as(
  const float *panel, int64_t step, void *to, uint32_t dtype, int64_t rows, int64_t key_dim
) {
  for (int64_t row = 0; row < rows; row += GD_WIDTH) {
    for (int64_t i = 0; i < key_dim; i += GD_WIDTH) {
      vf x[GD_WIDTH];
      int half = key_dim - i < GD_WIDTH;
      GD_UNROLL for (int c = 0; c < GD_WIDTH; c++) {
        x[c] = i + c < key_dim ? load(panel, (i + c) * step + row, GD_CPU_F32) : splat(0.0f);
      }
      turn(x);
      GD_UNROLL for (int r = 0; r < GD_WIDTH; r++) {
        if (row + r >= rows) break;
        store_part((char *)to + (row + r) * key_dim * dtype_size(dtype), i, 0, dtype, half, x[r]);
      }
    }
  }
}

static void panel_read(
  float *panel, int64_t step, const void *from, uint32_t dtype, int64_t rows, int64_t key_dim
) {
  if (dtype == GD_CPU_F32) panel_read_as(panel, step, from, GD_CPU_F32, rows, key_dim);
  else if (dtype == GD_CPU_F16) panel_read_as(panel, step, from, GD_CPU_F16, rows, key_dim);
  else panel_read_as(panel, step, from, GD_CPU_BF16, rows, key_dim);
}

static void panel_write(
  const float *panel, int64_t step, void *to, uint32_t dtype, int64_t rows, int64_t key_dim
) {
  if (dtype == GD_CPU_F32) panel_write_as(panel, step, to, GD_CPU_F32, rows, key_dim);
  else if (dtype == GD_CPU_F16) panel_write_as(panel, step, to, GD_CPU_F16, rows, key_dim);
  else panel_write_as(panel, step, to, GD_CPU_BF16, rows, key_dim);
}
