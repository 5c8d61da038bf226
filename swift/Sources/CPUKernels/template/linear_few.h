/* linear with a few rows of x that share the unpacking of weights (linear_dot.h): how they lie, and how their outputs come from partials. */

/* Rows of x that share the unpacking of weights at a time, and for which even and odd blocks of weights have their chains at once: the
 * partials fit the registers. */
enum { LINEAR_TAKEN = GD_WIDTH == 16 ? 8 : GD_WIDTH == 8 ? 4 : 1, LINEAR_TAKEN_BOTH = GD_WIDTH == 8 ? 2 : 6 };
/* Outputs whose partials are in memory at a time, a multiple of 8: of all rows that are taken together. */
enum { LINEAR_SUMS_AT_ONCE = 24 };

/* Some rows of x, and their outputs by rows of weight, `outputs` per row. Rows that are taken together lie vector by vector, one of each:
 * the processor sees one stream. They have `columns` columns, a multiple of GD_LANES. */
typedef struct linear_few {
  const float *x;
  float *values;
  int64_t rows, columns, outputs;
  const char *end; /* of the weight */
} linear_few;

/* Such rows from `column` on, and the partials of their products with some rows of weight: those of a row of x are `apart` floats after those of the one
 * before. Of LINEAR_TAKEN rows, where they are eight, the outputs are made instead: those of each row of weight. */
typedef struct linear_taken {
  const float *x;
  float *sums, *outputs;
  int64_t apart, column;
  const char *end;
} linear_taken;

/* GD_WIDTH columns of row t of `taken`. */
GD_INLINE vf few_x(const float *x, int64_t column, int t, int taken) {
  return load(x, column * taken + t * GD_WIDTH, GD_CPU_F32);
}

/* Rows to take at a time if this many are left: an odd number above two counts as one more, the last of them with zeros. */
GD_INLINE int64_t few_taken(int64_t left) { return least(LINEAR_TAKEN, left > 2 ? (left + 1) / 2 * 2 : left); }
/* The outputs of each of this many rows, a multiple of the rows of weight that are read at a time. */
GD_INLINE int64_t few_outputs(int64_t taken) { return taken == 4 ? 4 : LINEAR_SUMS_AT_ONCE / taken; }
/* Columns of LINEAR_TAKEN rows of x that are multiplied by few_outputs rows of weight before the next ones, if not all of them fit a first cache of
 * 32 KiB; with vectors of 16 lanes, or fewer rows, all columns are. */
enum { LINEAR_FEW_COLUMNS = 1024 };
GD_INLINE int few_cuts(int taken) { return GD_WIDTH == 8 && taken == LINEAR_TAKEN; }
GD_INLINE int64_t few_columns(int taken, int64_t column, int64_t columns) {
  return few_cuts(taken) && columns > LINEAR_FEW_COLUMNS * 3 / 2 ? least(LINEAR_FEW_COLUMNS, columns - column) : columns;
}
/* DOT(FIXED) for `taken` rows, with their number as a constant. */
#if GD_WIDTH == 16
#define GD_TAKING(TAKEN, DOT) \
  switch (TAKEN) {            \
    case 1: DOT(1); break;    \
    case 2: DOT(2); break;    \
    case 4: DOT(4); break;    \
    case 6: DOT(6); break;    \
    default: DOT(8);          \
  }
#elif GD_WIDTH == 8
#define GD_TAKING(TAKEN, DOT) \
  switch (TAKEN) {            \
    case 1: DOT(1); break;    \
    case 2: DOT(2); break;    \
    default: DOT(4);          \
  }
#else
#define GD_TAKING(TAKEN, DOT) DOT(1)
#endif

/* Two weights that are made before the next products: compilers would make them later, and keep bytes and tables in registers that partials need. */
GD_INLINE void few_made(vf *first, vf *second) {
#if GD_WIDTH == 16
  __asm__ volatile("" : "+v"(*first), "+v"(*second));
#else
  (void)first, (void)second;
#endif
}

/* The partials of an output, those of two chains added; each vector of them lies `apart` floats after the one before. */
GD_INLINE row_sum linear_output(const float *sums, int64_t partials, int64_t apart) {
  vf parts[GD_PARTS];
  GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
    parts[p] = load(sums, p * apart, GD_CPU_F32);
    if (partials > GD_LANES) parts[p] += load(sums, (GD_PARTS + p) * apart, GD_CPU_F32);
  }
  return row_sum_of(parts);
}

/* The outputs of rows at .. at + taken - 1 of x by `count` rows of weight from number f on, at most few_outputs, from their partials, eight
 * at a time: the last eight may include anything that follows. */
static __attribute__((noinline, unused)) void few_finish(
  const linear_few *few, const float *sums, int64_t partials, int64_t at, int64_t taken, int64_t f, int64_t count
) {
  int64_t outputs = few_outputs(taken);
  float own[LINEAR_SUMS_AT_ONCE], *to = few->values + at * few->outputs + f, *all = taken > 1 ? own : to;
  for (int64_t k = 0; k < (taken - 1) * outputs + count; k += 8) {
    row_sum eight[8];
    GD_UNROLL for (int i = 0; i < 8; i++) eight[i] = linear_output(sums + (k + i) * partials, partials, GD_WIDTH);
    sum_eight(eight, all + k);
  }
  for (int64_t t = 0; taken > 1 && t < least(few->rows - at, taken); t++, to += few->outputs) {
    for (int64_t i = 0; i < count; i++) to[i] = all[t * outputs + i];
  }
}

/* The outputs of `taken` rows from `at` on of x, and of the first `count` rows of weight, which lie by these. Of LINEAR_TAKEN rows eight by eight, of
 * which the last may include anything. */
static __attribute__((noinline, unused)) void few_place(const linear_few *few, const float *made, int64_t at, int64_t count, int taken) {
#if GD_WIDTH == 16
  for (int64_t i = 0; taken == LINEAR_TAKEN && i < count; i += 8) {
    vf own[4], half[4];
    GD_UNROLL for (int k = 0; k < 4; k++) own[k] = load(made, i * LINEAR_TAKEN + k * GD_WIDTH, GD_CPU_F32);
    GD_UNROLL for (int k = 0; k < 4; k += 2) {
      half[k] = __builtin_shufflevector(own[k], own[k + 1], 0, 8, 16, 24, 1, 9, 17, 25, 2, 10, 18, 26, 3, 11, 19, 27);
      half[k + 1] = __builtin_shufflevector(own[k], own[k + 1], 4, 12, 20, 28, 5, 13, 21, 29, 6, 14, 22, 30, 7, 15, 23, 31);
    }
    GD_UNROLL for (int t = 0; t < LINEAR_TAKEN; t += 2) {
      vf a = half[t / 4], b = half[2 + t / 4];
      vf two = t % 4 == 0 ? __builtin_shufflevector(a, b, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23)
                          : __builtin_shufflevector(a, b, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
      float *to = few->values + (at + t) * few->outputs + i;
      *(ve_memory *)to = __builtin_shufflevector(two, two, 0, 1, 2, 3, 4, 5, 6, 7);
      if (at + t + 1 < few->rows) *(ve_memory *)(to + few->outputs) = __builtin_shufflevector(two, two, 8, 9, 10, 11, 12, 13, 14, 15);
    }
  }
  if (taken == LINEAR_TAKEN) return;
#endif
  for (int64_t t = 0; t < few->rows - at; t++) {
    for (int64_t i = 0; i < count; i++) few->values[(at + t) * few->outputs + i] = made[i * taken + t];
  }
}

#if GD_WIDTH == 16
/* The outputs of a row of weight from its partials. If `first` is not NULL these are the partials of its second chain, and those of the first are added, which
 * begin there, `apart` floats from one to the next. */
GD_INLINE void few_sum(vf part[LINEAR_TAKEN], const float *first, int64_t apart, float *outputs) {
  GD_UNROLL for (int t = 0; t < LINEAR_TAKEN && first != NULL; t++) part[t] = load(first, t * apart, GD_CPU_F32) + part[t];
  sum_eight(part, outputs);
}

#define GD_FEW_END(TAKEN, ROWS, FIRST, PART)                                  \
  if ((TAKEN) == LINEAR_TAKEN) {                                              \
    GD_UNROLL for (int r = 0; r < (ROWS); r++) {                              \
      vf all[LINEAR_TAKEN];                                                   \
      GD_UNROLL for (int t = 0; t < LINEAR_TAKEN; t++) all[t] = PART;         \
      few_sum(all, FIRST, few.apart, few.outputs + r * LINEAR_TAKEN);         \
    }                                                                         \
    return;                                                                   \
  }
#else
#define GD_FEW_END(TAKEN, ROWS, FIRST, PART)
#endif

/* For each row of x, each row of weight and each vector of their partials: t, r and v, and where vector v of these partials is in memory. */
#define GD_FEW_PARTS(TAKEN, ROWS, VECTORS)     \
  GD_UNROLL for (int t = 0; t < (TAKEN); t++)  \
    GD_UNROLL for (int r = 0; r < (ROWS); r++) \
      GD_UNROLL for (int v = 0; v < (VECTORS); v++)
GD_INLINE float *few_part(linear_taken few, int t, int r, int64_t partials, int64_t v) { return few.sums + t * few.apart + r * partials + v * GD_WIDTH; }
/* The beginning of a partial: zero, or what earlier columns made. */
GD_INLINE vf few_begun(linear_taken few, const float *sum, int taken) {
  return few_cuts(taken) && few.column > 0 ? load(sum, 0, GD_CPU_F32) : (vf){0};
}

/* Every row of x by every row of weight: DOTS(TAKEN) makes the partials of rows f .. end - 1, ROWS at a time, which are `apart` rows apart;
 * then they are added up. If fewer than ROWS are left, some of those before are read again, or else one is read ROWS times. */
#define GD_FEW(PARTIALS, ROWS, DOTS)                                                                                       \
  _Alignas(64) float sums[LINEAR_SUMS_AT_ONCE * 2 * GD_LANES], made[LINEAR_SUMS_AT_ONCE * LINEAR_TAKEN];                       \
  for (int64_t at = 0, taken; at < few->rows; at += taken) {                                                               \
    taken = few_taken(few->rows - at);                                                                                     \
    int64_t outputs = few_outputs(taken), rows = ROWS, apart = count >= rows;                                              \
    for (int64_t begin = 0, end; begin < count; begin = end) {                                                             \
      if (apart && count - begin < rows) begin = count - rows;                                                             \
      end = begin + (apart ? least(outputs, (count - begin) / rows * rows) : 1);                                           \
      int64_t column = 0;                                                                                                  \
      do {                                                                                                                 \
        int64_t f = begin;                                                                                                 \
        const float *x = few->x + at * few->columns + column * taken;                                                      \
        linear_taken own = {x, sums, made + f * LINEAR_TAKEN, outputs * (PARTIALS), column, few->end};                     \
        GD_TAKING(taken, DOTS)                                                                                             \
        column += few_columns((int)taken, column, matrix->columns);                                                        \
      } while (GD_WIDTH == 8 && column < matrix->columns);                                                                 \
      if (GD_WIDTH < 16 || taken < LINEAR_TAKEN) few_finish(few, sums, PARTIALS, at, taken, begin, end - begin);           \
    }                                                                                                                      \
    if (GD_WIDTH == 16 && taken == LINEAR_TAKEN) few_place(few, made, at, count, LINEAR_TAKEN);                            \
  }
