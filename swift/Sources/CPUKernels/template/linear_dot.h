/* linear with one row or a few: dot products of x with rows of weight, straight from the weight. x is a panel: float32, in
 * the order of the weight's lanes, with zeros up to a multiple of GD_LANES. The partials are those of linear.h, to the bit. */

/* How far ahead of its use a weight is prefetched, in bytes: into the second cache, since the first has few places for
 * lines on their way, all of which it would take; float32 and the rest are fastest with different distances. From there
 * packed numbers are prefetched again into the first cache, of each row its own: rows are read in turn, which no processor predicts. */
enum { LINEAR_AHEAD = 8192, LINEAR_AHEAD_F32 = 3072, LINEAR_NEAR = 512 };
/* Rows of weights that are read at a time: they share the loads of x, if registers suffice for their partials. Rows of blocks
 * that hold their factors have one chain per partial. */
enum { LINEAR_DOT_ROWS = GD_WIDTH == 16 ? 3 : GD_WIDTH == 8 ? 1 : 2, LINEAR_BLOCK_ROWS = GD_WIDTH == 16 ? 4 : 2 };
/* Tables of four bits that even blocks leave for odd ones, of rows of so many steps. */
enum { LINEAR_TABLES = 16 };

/* By `rows` rows of elements, one after another: one chain per partial. `rows` and `taken` are constants. */
GD_INLINE void linear_dot_plain(
  const char *row, int64_t row_bytes, linear_taken few, int64_t columns, uint32_t dtype, int rows, int taken
) {
  vf part[LINEAR_TAKEN][LINEAR_DOT_ROWS][GD_PARTS];
  GD_FEW_PARTS(taken, rows, GD_PARTS) part[t][r][v] = few_begun(few, few_part(few, t, r, GD_LANES, v), taken);
  int64_t i = 0, line = 64 / dtype_size(dtype), ahead = dtype == GD_CPU_F32 ? LINEAR_AHEAD_F32 : LINEAR_AHEAD;
  int by_pages = rows == 1 && gd_cpu_asks_by_pages;
  for (; i + GD_LANES <= columns; i += GD_LANES) {
    if (by_pages) {
      if (i % (FETCH_PAGES * line) == 0) fetch_pages(row + i * dtype_size(dtype), FETCH_BYTES, few.end);
      fetch(row + i * dtype_size(dtype) + FETCH_NEAR, GD_LANES * dtype_size(dtype));
    } else if (i % line == 0) {
      GD_UNROLL for (int r = 0; r < rows; r++) __builtin_prefetch(row + r * row_bytes + i * dtype_size(dtype) + ahead, 0, 2);
    }
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      int64_t column = i + p * GD_WIDTH;
      vf values[LINEAR_DOT_ROWS];
      GD_UNROLL for (int r = 0; r < rows; r++) values[r] = load(row + r * row_bytes, column, dtype);
      GD_UNROLL for (int t = 0; t < taken; t++) {
        vf element = few_x(few.x, column, t, taken);
        GD_UNROLL for (int r = 0; r < rows; r++) part[t][r][p] = fma_vf(element, values[r], part[t][r][p]);
      }
    }
  }
  for (int p = 0; p < GD_PARTS && i < columns; p++, i += GD_WIDTH) {
    GD_UNROLL for (int r = 0; r < rows; r++) {
      vf values = load_left(row + r * row_bytes, i, dtype, columns - i);
      GD_UNROLL for (int t = 0; t < taken; t++) {
        part[t][r][p] = fma_vf(few_x(few.x, i, t, taken), values, part[t][r][p]);
      }
    }
  }
  GD_FEW_END(taken, rows, NULL, part[t][r][0])
  GD_FEW_PARTS(taken, rows, GD_PARTS) store(few_part(few, t, r, GD_LANES, v), 0, GD_CPU_F32, part[t][r][v]);
}

/* How a row of packed numbers is read: in steps of so many columns, a group being 1 << shift steps, or half a step with a shift of -1, and
 * then a row may end with half a step; so many rows of weight and of x at a time; even and odd blocks at once, or one kind of them. All
 * are constants, except for shifts that are not negative. */
typedef struct linear_way {
  unpacking packed;
  int step, shift, rows, taken, chains;
} linear_way;

/* `step` columns, which have `each` factors per row, one after another: constants. Even and odd blocks have a chain each: those from block
 * `chain` on, all or every other one. */
GD_INLINE void linear_step(
  vf part[LINEAR_TAKEN][LINEAR_DOT_ROWS][2][GD_PARTS], const uint8_t *row, int64_t row_bytes, int64_t first,
  factors group[LINEAR_DOT_ROWS][2], const float *x, int step, int each, int64_t chain, linear_way way
) {
#if GD_WIDTH == 8
  if (way.packed.values == affine_placed_values && way.taken == 1) {
    return affine_placed_step(part[0][0], row + first * GD_LANES / 2, group[0][0], x, step);
  }
#endif
  GD_UNROLL for (int b = 0; b < step / GD_LANES; b++) {
    if (b % 2 == 1 && way.chains == 1) continue;
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      vf values[LINEAR_DOT_ROWS];
      GD_UNROLL for (int r = 0; r < way.rows; r++) {
        factors own = group[r][b * each * GD_LANES / step];
        values[r] = way.packed.values(row + r * row_bytes, first + chain, b, p, own, way.packed.bits);
      }
      GD_UNROLL for (int t = 0; t < way.taken; t++) {
        vf element = few_x(x, (b + chain) * GD_LANES + p * GD_WIDTH, t, way.taken);
        GD_UNROLL for (int r = 0; r < way.rows; r++) {
          vf *sum = &part[t][r][b % way.chains][p];
          *sum = fma_vf(element, values[r], *sum);
        }
      }
    }
  }
}

/* Whether lines of the next pages are asked for in turn (fetch_pages), for `taken` rows of x and numbers of this many bits.
 * With more rows, and with smaller numbers, unpacking and products take longer than reading in any order. */
GD_INLINE int linear_asks_by_pages(int taken, int64_t bits) { return gd_cpu_asks_by_pages && bits >= (taken == 1 ? 4 : taken <= 4 ? 6 : 64); }

/* Asks for weights while a block of each of `rows` rows is read, the next bytes of `read` in the order of addresses: by pages
 * if linear_asks_by_pages says so, else in that order, as far ahead as LINEAR_AHEAD and the distance from the first of the rows
 * to the last: nearer, the ends of long rows would not be there yet. */
GD_INLINE void linear_fetch_blocks(const uint8_t *read, int64_t row_bytes, const char *end, block_unpacking format, int rows, int taken) {
  if (linear_asks_by_pages(taken, format.bytes * 8 / format.elements)) fetch_pages(read, rows * format.bytes, end);
  else fetch_far(read + (rows - 1) * row_bytes + LINEAR_AHEAD, rows * format.bytes);
}

/* Whether unpacking leaves time for lines that are asked for one by one between products. */
GD_INLINE int linear_is_light(unpacking packed) {
#if GD_WIDTH == 16
  return packed.values == affine_raised_values || packed.values == affine_line_values || (packed.values == affine_values && packed.bits == 4);
#else
  return (void)packed, 0;
#endif
}

/* The factors of pass i, one step of each row of weight. */
GD_INLINE void linear_factors(
  factors out[LINEAR_DOT_ROWS][2], const float *scales, const float *biases, int64_t groups,
  int64_t chain, int64_t i, linear_way way
) {
  int each = way.shift < 0 ? way.chains : 1;
  GD_UNROLL for (int r = 0; r < way.rows; r++) {
    GD_UNROLL for (int k = 0; k < each; k++) {
      int64_t g = r * groups + (way.shift < 0 ? 2 * i + k + chain : i >> way.shift);
      factors own = way.packed.factors(&scales[g], &biases[g], way.packed.bits);
      out[r][k].low = own.low;
      out[r][k].high = own.high;
    }
  }
}

/* Outputs by packed rows, one after another in memory, with their scales and biases as float32: blocks from number `chain` on, every one or
 * every other. Bytes are prefetched into the second cache in the order of addresses, LINEAR_AHEAD and as far as the last of the rows begins
 * after the first, since a stream for each row is read far slower, or as linear_asks_by_pages says. */
GD_INLINE void linear_dot_packed(
  const uint8_t *row, int64_t row_bytes, const float *scales, const float *biases, linear_taken few, int64_t columns,
  int64_t groups, int64_t chain, float (*tables)[LINEAR_DOT_ROWS][GD_WIDTH], linear_way way
) {
  vf part[LINEAR_TAKEN][LINEAR_DOT_ROWS][2][GD_PARTS];
  GD_FEW_PARTS(way.taken, way.rows, way.chains * GD_PARTS) {
    part[t][r][v / GD_PARTS][v % GD_PARTS] = few_begun(few, few_part(few, t, r, 2 * GD_LANES, chain * GD_PARTS + v), way.taken);
  }
  factors values[LINEAR_DOT_ROWS][2];
#if GD_WIDTH == 16
  /* In a register: compilers would make the number anew in each pass. */
  __mmask64 raised = affine_raised;
  __asm__("" : "+Yk"(raised));
  GD_UNROLL for (int r = 0; r < LINEAR_DOT_ROWS; r++) values[r][0].raised = values[r][1].raised = raised;
#endif
  unpacking packed = way.packed;
  int each = way.shift < 0 ? way.chains : 1, step = way.step, rows = way.rows, bytes = step * (int)packed.bits / 8;
  int64_t steps = columns / step, i = 0;
#define GD_PASS(I) \
  linear_step(part, row, row_bytes, (I) * (step / GD_LANES), values, few.x + (I) * step * way.taken, step, each, chain, way)
  if (linear_is_light(packed) && rows * bytes % 64 == 0 && FETCH_BYTES % (rows * bytes) == 0 && linear_asks_by_pages(way.taken, packed.bits)) {
    /* As fetch_pages asks, but a line or two per pass: a burst of them keeps products waiting. Not unrolled: compilers load the numbers of several
     * passes first, and keep them in memory. */
    const int lines = rows * bytes / 64, turns = FETCH_BYTES / (rows * bytes);
    const char *next = NULL, *near = (const char *)row + (rows - 1) * row_bytes + FETCH_NEAR;
#pragma clang loop unroll(disable)
    for (; i < steps; i++, near += rows * bytes, next += lines * FETCH_PAGE) {
      if (i % turns == 0) {
        next = pages_after(((uintptr_t)row & ~(uintptr_t)(FETCH_BYTES - 1)) + (uintptr_t)(rows * i * bytes), FETCH_PAGES);
        if (next >= (const char *)few.end) next = (const char *)row;
      }
      GD_UNROLL for (int p = 0; p < lines; p++) __builtin_prefetch(next + FETCH_PAGE * p, 0, 2);
      GD_UNROLL for (int p = 0; p < lines; p++) __builtin_prefetch(near + 64 * p);
      linear_factors(values, scales, biases, groups, chain, i, way);
      GD_PASS(i);
    }
  }
  for (; i < steps; i++) {
    const uint8_t *read = row + rows * i * bytes;
    if (packed.bits == 8 && way.taken == 1 && gd_cpu_asks_by_pages) fetch_pages(read, rows * bytes, few.end);
    else fetch_far(read + (rows - 1) * row_bytes + LINEAR_AHEAD, rows * bytes);
    GD_UNROLL for (int r = 0; r < rows; r++) __builtin_prefetch(row + r * row_bytes + i * bytes + LINEAR_NEAR);
    if (way.chains == 1 && tables != NULL && chain == 1) {
      GD_UNROLL for (int r = 0; r < rows; r++) values[r][0].low = load(tables[i][r], 0, GD_CPU_F32);
    } else {
      linear_factors(values, scales, biases, groups, chain, i, way);
      GD_UNROLL for (int r = 0; r < rows && way.chains == 1 && tables != NULL; r++) store(tables[i][r], 0, GD_CPU_F32, values[r][0].low);
    }
    if (packed.reads_beyond && i == steps - 1) break;
    GD_PASS(i);
  }
#undef GD_PASS
  if (packed.reads_beyond) {
    uint8_t last[LINEAR_DOT_ROWS][64 + MATRIX_BEYOND];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      __builtin_memcpy(last[r], row + r * row_bytes + (steps - 1) * bytes, (size_t)bytes);
    }
    linear_step(part, last[0], sizeof last[0], 0, values, few.x + (steps - 1) * step * way.taken, step, each, chain, way);
  }
  if (way.shift < 0 && steps * step < columns && (way.chains > 1 || chain == 0)) {
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t g = r * groups + 2 * steps;
      factors own = packed.factors(&scales[g], &biases[g], packed.bits);
      values[r][0].low = own.low;
      values[r][0].high = own.high;
    }
    linear_step(part, row, row_bytes, steps * (step / GD_LANES), values, few.x + steps * step * way.taken, GD_LANES, 1, 0, way);
  }
  if (chain == 1) { GD_FEW_END(way.taken, rows, few.sums + r * 2 * GD_LANES, part[t][r][0][0]) }
  GD_FEW_PARTS(way.taken, rows, way.chains * GD_PARTS) {
    store(few_part(few, t, r, 2 * GD_LANES, chain * GD_PARTS + v), 0, GD_CPU_F32, part[t][r][v / GD_PARTS][v % GD_PARTS]);
  }
}

/* Asks for bytes at .. at + bytes - 1 of the scales and the biases. Asking beyond their end does no harm. */
GD_INLINE void linear_ask(const gd_cpu_matrix *matrix, int64_t at, int64_t bytes) {
  for (int64_t end = at + bytes; at < end; at += 64) {
    __builtin_prefetch((const char *)matrix->scales + at);
    if (matrix->biases != NULL) __builtin_prefetch((const char *)matrix->biases + at);
  }
}

/* The outputs of rows first .. first + count - 1 of a packed weight with these scales and biases. At most `most` rows of x, a
 * constant, are taken together, so that loops over more are not compiled. */
GD_INLINE void linear_dots_scaled(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, const float *scales, const float *biases,
  unpacking packed, int step, int shift, int most
) {
  int64_t columns = matrix->columns, groups = columns / packed.group;
  int64_t bytes = matrix_bytes(matrix, columns), dtype_bytes = scale_bytes(matrix), ahead = count * groups;
  const uint8_t *row = (const uint8_t *)matrix_row(matrix, first);
  _Alignas(64) float kept[LINEAR_TABLES][LINEAR_DOT_ROWS][GD_WIDTH], (*tables)[LINEAR_DOT_ROWS][GD_WIDTH] = NULL;
  if (GD_LOOKS_UP(4) && packed.bits == 4 && shift >= 0 && columns / step <= LINEAR_TABLES) tables = kept;
#define GD_ROWS(TAKEN) (LINEAR_DOT_ROWS == 3 && (TAKEN) <= LINEAR_TAKEN_BOTH ? 2 : LINEAR_DOT_ROWS)
#define GD_DOT(CHAIN, TAKEN, CHAINS)                                                                                       \
  linear_dot_packed(                                                                                                       \
    row + f * bytes + own.column * packed.bits / 8, apart * bytes, scales + f * groups + own.column / packed.group,        \
    biases + f * groups + own.column / packed.group, own, few_columns(TAKEN, own.column, columns), apart * groups, CHAIN,  \
    tables,                                                                                                                \
    (linear_way){packed, step, shift, GD_ROWS(TAKEN), TAKEN, CHAINS})
#define GD_DOTS(TAKEN)                                                                                                     \
  if ((TAKEN) > most) __builtin_unreachable();                                                                             \
  for (; f < end; f += GD_ROWS(TAKEN), own.sums += GD_ROWS(TAKEN) * 2 * GD_LANES) {                                      \
    linear_ask(matrix, ((first + f) * groups + ahead) * dtype_bytes, GD_ROWS(TAKEN) * groups * dtype_bytes);              \
    if ((TAKEN) <= LINEAR_TAKEN_BOTH) GD_DOT(0, (TAKEN) > LINEAR_TAKEN_BOTH ? 1 : TAKEN, 2);                               \
    else if (packed.bits == 4) { GD_DOT(0, TAKEN, 1); GD_DOT(1, TAKEN, 1); }                                               \
    else for (int64_t chain = 0; chain < 2; chain++) GD_DOT(chain, TAKEN, 1);                                              \
  }
  GD_FEW(2 * GD_LANES, GD_ROWS(taken), GD_DOTS)
#undef GD_DOTS
#undef GD_DOT
#undef GD_ROWS
}

/* The outputs of rows first .. first + count - 1 of a packed weight. */
GD_INLINE void linear_dots_packed(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, float *memory, unpacking packed,
  int step, int shift
) {
  int64_t groups = matrix->columns / packed.group;
  float *scales = memory, *biases = matrix->biases == NULL ? scales : memory + count * groups;
  packed.scales(matrix, first * groups, count * groups, scales, biases);
#if GD_WIDTH == 16
  /* Loops of more rows have no registers left for the shuffle. AMD's Zen 4 converts at the same time as it multiplies. */
  if (packed.values == affine_values && packed.bits == 8 && gd_cpu_asks_by_pages && few->rows <= 4 && affine_lower(scales, biases, count * groups)) {
    if (gd_cpu_has_vbmi && step == 64 && shift >= 0 && few->rows == 1) {
      packed.values = affine_line_values;
      linear_dots_scaled(matrix, first, count, few, scales, biases, packed, step, shift, 1);
      return;
    }
    packed.values = affine_raised_values;
    linear_dots_scaled(matrix, first, count, few, scales, biases, packed, step, shift, 4);
    return;
  }
#elif GD_WIDTH == 8
  if (packed.values == affine_values && packed.bits == 4 && few->rows <= 2 && affine_places(matrix->dtype)) {
    packed.values = affine_placed_values;
    packed.factors = affine_placed_factors;
    linear_dots_scaled(matrix, first, count, few, scales, biases, packed, step, shift, 2);
    return;
  }
#endif
  linear_dots_scaled(matrix, first, count, few, scales, biases, packed, step, shift, LINEAR_TAKEN);
}

/* The outputs of rows first .. first + count - 1 of a weight of floats. */
GD_INLINE void linear_dots_plain(
  const gd_cpu_matrix *matrix, int64_t first, int64_t count, const linear_few *few, uint32_t dtype
) {
  int64_t columns = matrix->columns, bytes = columns * dtype_size(dtype);
  const char *row = matrix_row(matrix, first);
#define GD_ROWS(TAKEN) ((TAKEN) > 6 ? 3 : (TAKEN) > 2 && LINEAR_DOT_ROWS > 1 ? 2 : 1)
#define GD_DOTS(TAKEN)                                                                                                     \
  for (; f < end; f += GD_ROWS(TAKEN), own.sums += GD_ROWS(TAKEN) * GD_LANES) {                                            \
    linear_dot_plain(                                                                                                      \
      row + f * bytes + own.column * dtype_size(dtype), apart * bytes, own,                                                \
      few_columns(TAKEN, own.column, columns), dtype,                                                                      \
      GD_ROWS(TAKEN), TAKEN);                                                                                              \
  }
  GD_FEW(GD_LANES, GD_ROWS(taken), GD_DOTS)
#undef GD_DOTS
#undef GD_ROWS
}
