/* Rows of a matrix as float32, whatever its format.
 *
 * A packed format belongs to a family (affine.h), which gives under its name, for a constant `bits`:
 *   FAMILY_group          columns that share a scale and a bias, of the elements of a block
 *   FAMILY_least, _most   the fewest and the most of them
 *   FAMILY_scales         scales and biases of some groups, as float32; groups are counted through the matrix
 *   FAMILY_factors        the factors that turn a group's numbers into values, from its scale and its bias
 *   FAMILY_values         GD_WIDTH values of run first + run of a row, a run being GD_LANES columns
 *   FAMILY_reads_beyond   whether a run is read with up to MATRIX_BEYOND bytes after it: then a row is one stream of numbers
 *   FAMILY_interleaves    whether the lanes of a run hold columns 0, 8, 1, 9, 2 ..: its other factor is put into that order
 * A format whose blocks hold all of their factors belongs to a family (ggml.h) that gives, for a constant `number`:
 *   FAMILY_scales         what the runs of some blocks need
 *   FAMILY_factors        the factors of a run of one of these blocks
 *   FAMILY_factors_at     those of a block whose factors are half floats, as float32
 *   FAMILY_halves_first   half floats at a block's beginning that are all its factors, or 0
 *   FAMILY_values         GD_WIDTH values of a run
 *   FAMILY_group          runs that have the same factors
 *   FAMILY_step           runs of a loop's step, a divisor of a block's
 *   FAMILY_ahead          whether FAMILY_scales is called a block early
 * The formats are those of gated_delta.h; GD_CPU_UNPACKINGS and GD_CPU_BLOCK_UNPACKINGS instantiate the kernels for each
 * family and its bits or number. */

enum { MATRIX_LEAST_GROUP = 16, MATRIX_LARGEST_GROUP = 128, MATRIX_BEYOND = 16 };

/* Elements of a block, a power of two, and its logarithm; a block's bytes; the dtype of floats; GD_CPU_UNPACK_*. */
typedef struct matrix_layout {
  int16_t elements, shift, bytes;
  uint8_t dtype, unpacking;
} matrix_layout;

static const matrix_layout matrix_layouts[] = {
#define GD_LAYOUT(FORMAT, ELEMENTS, BYTES, DTYPE, UNPACKING) \
  [FORMAT] = {ELEMENTS, __builtin_ctz(ELEMENTS), BYTES, DTYPE, UNPACKING},
  GD_CPU_WEIGHT_FORMATS(GD_LAYOUT)
#undef GD_LAYOUT
};

GD_INLINE matrix_layout layout_of(const gd_cpu_matrix *matrix) { return matrix_layouts[matrix->format]; }
GD_INLINE int is_packed(const gd_cpu_matrix *matrix) { return layout_of(matrix).unpacking != GD_CPU_UNPACK_NONE; }

/* Bytes of a scale or a bias. */
GD_INLINE int64_t scale_bytes(const gd_cpu_matrix *matrix) {
  return matrix->dtype == GD_CPU_U8 ? 1 : dtype_size(matrix->dtype);
}

/* Bytes of a number of columns, which are whole blocks. */
GD_INLINE int64_t matrix_bytes(const gd_cpu_matrix *matrix, int64_t columns) {
  matrix_layout layout = layout_of(matrix);
  return (columns >> layout.shift) * layout.bytes;
}

GD_INLINE const char *matrix_row(const gd_cpu_matrix *matrix, int64_t row) {
  return (const char *)matrix->values + row * matrix_bytes(matrix, matrix->columns);
}

/* A family's factors, and the mask of affine_raised_values. */
typedef struct factors {
  vf low, high;
#if GD_WIDTH == 16
  __mmask64 raised;
#endif
} factors;

/* The unpacking of a format: always passed on as a constant, so that its functions are inlined. */
typedef struct unpacking {
  void (*scales)(const gd_cpu_matrix *matrix, int64_t first, int64_t count, float *scales, float *biases);
  factors (*factors)(const float *scale, const float *bias, uint32_t bits);
  vf (*values)(const uint8_t *row, int64_t first, int run, int part, factors group, uint32_t bits);
  int64_t group;
  uint32_t bits;
  int least, most, reads_beyond;
} unpacking;
#define GD_UNPACKING(FAMILY, BITS, ELEMENTS)                                                                             \
  (unpacking) {                                                                                                          \
    FAMILY##_scales, FAMILY##_factors, FAMILY##_values, FAMILY##_group(ELEMENTS), BITS, FAMILY##_least(BITS),            \
      FAMILY##_most(BITS), FAMILY##_reads_beyond(BITS)                                                                   \
  }

/* Where vectors are stored: vector v of a row begins (v mod 2^shift) * jump + v / 2^shift * step floats after the row does, and a row
 * `apart` floats after the one before. */
typedef struct vector_order {
  int64_t shift, jump, step, apart;
} vector_order;
/* One vector after another. */
#define GD_IN_ORDER (vector_order){0, 0, GD_WIDTH, 0}

/* The place of a + b is that of a plus that of b, if a is a multiple of a power of two and b is less than that. */
GD_INLINE int64_t vector_place(vector_order order, int64_t v) {
  return (v & ((1 << order.shift) - 1)) * order.jump + (v >> order.shift) * order.step;
}

#include "affine.h"
#include "ggml.h"
#include "micro.h"
#include "blocks.h"

/* Chains of a sum for each of GD_LANES partials: linear.h. */
GD_INLINE int matrix_chains(const gd_cpu_matrix *matrix) {
  switch (layout_of(matrix).unpacking) {
#define GD_CASE_CHAINS(UNPACKING, FAMILY, BITS) \
  case UNPACKING: return 2;
    GD_CPU_UNPACKINGS(GD_CASE_CHAINS)
#undef GD_CASE_CHAINS
    default: return 1;
  }
}

GD_INLINE int interleaves(const gd_cpu_matrix *matrix) {
  switch (layout_of(matrix).unpacking) {
#define GD_CASE_INTERLEAVES(UNPACKING, FAMILY, BITS) \
  case UNPACKING: return FAMILY##_interleaves(BITS);
    GD_CPU_UNPACKINGS(GD_CASE_INTERLEAVES)
#undef GD_CASE_INTERLEAVES
    default: return 0;
  }
}

/* Elements first .. first + count - 1 of rows row .. row + rows - 1 of a packed matrix, in the order of lanes; first and count are
 * multiples of a group, count is at most MATRIX_DEPTH and rows at most MATRIX_ROWS. */
enum { MATRIX_DEPTH = 1024, MATRIX_ROWS = 4, MATRIX_GROUPS = MATRIX_DEPTH / MATRIX_LEAST_GROUP };
GD_INLINE void expand_packed(
  const gd_cpu_matrix *matrix, int64_t row, int64_t rows, int64_t first, int64_t count, float *out, vector_order order,
  unpacking packed
) {
  float scales[MATRIX_ROWS * MATRIX_GROUPS], biases[MATRIX_ROWS * MATRIX_GROUPS];
  int64_t group = packed.group, groups = count / group;
  int runs = packed.least < 2 * GD_LANES ? 1 : 2;
  /* The groups of whole rows follow one another: those of one row may be less than a vector. */
  int are_whole = count == matrix->columns;
  if (are_whole) packed.scales(matrix, row * groups, rows * groups, scales, biases);
  for (int64_t r = 0; r < rows; r++, out += order.apart) {
    float *scale = scales + r * groups, *bias = biases + r * groups;
    if (!are_whole) packed.scales(matrix, ((row + r) * matrix->columns + first) / group, groups, scale, bias);
    const uint8_t *from = (const uint8_t *)matrix_row(matrix, row + r);
    uint8_t last[MATRIX_LARGEST_GROUP + MATRIX_BEYOND];
    int64_t run = first / GD_LANES;
    float *to = out;
    for (int64_t g = 0; g < groups; g++) {
      if (packed.reads_beyond && g == groups - 1) {
        from = __builtin_memcpy(last, from + run * 2 * packed.bits, (size_t)(group * packed.bits / 8));
        run = 0;
      }
      factors values = packed.factors(&scale[g], &bias[g], packed.bits);
      for (int64_t i = 0; i < group; i += runs * GD_LANES, run += runs) {
        /* Two runs are a multiple of every order's power of two. */
        if (runs == 1) to = out + vector_place(order, (g * group + i) / GD_WIDTH);
        GD_UNROLL for (int p = 0; p < runs * GD_PARTS; p++) {
          vf elements = packed.values(from, run, p / GD_PARTS, p % GD_PARTS, values, packed.bits);
          store(to, vector_place(order, p), GD_CPU_F32, elements);
        }
        to += vector_place(order, runs * GD_PARTS);
      }
    }
  }
}

/* Elements first .. first + count - 1 of a row of floats, and zeros up to a multiple of GD_LANES. */
GD_INLINE void expand_floats(const void *row, int64_t first, int64_t count, uint32_t dtype, float *out, vector_order order) {
  int64_t whole = count / GD_WIDTH, all = (count + GD_LANES - 1) / GD_LANES * GD_PARTS;
  for (int64_t v = 0; v < whole; v++) store(out, vector_place(order, v), GD_CPU_F32, load(row, first + v * GD_WIDTH, dtype));
  for (int64_t v = whole; v < all; v++) {
    store(out, vector_place(order, v), GD_CPU_F32, load_first(row, first + v * GD_WIDTH, dtype, count - v * GD_WIDTH));
  }
}

/* Elements first .. first + count - 1 of `rows` rows, at most MATRIX_DEPTH of at most MATRIX_ROWS. For a packed matrix, first
 * and count are multiples of a group, and the order within GD_LANES is that of lanes. Others have zeros up to a multiple of
 * GD_LANES. */
static __attribute__((unused)) void expand(
  const gd_cpu_matrix *matrix, int64_t row, int64_t rows, int64_t first, int64_t count, float *out, vector_order order
) {
  matrix_layout layout = layout_of(matrix);
  switch (layout.unpacking) {
#define GD_CASE_EXPAND(UNPACKING, FAMILY, BITS)                                \
  case UNPACKING: {                                                            \
    unpacking packed = GD_UNPACKING(FAMILY, BITS, layout.elements);            \
    return expand_packed(matrix, row, rows, first, count, out, order, packed); \
  }
    GD_CPU_UNPACKINGS(GD_CASE_EXPAND)
#undef GD_CASE_EXPAND
#define GD_CASE_EXPAND_BLOCKS(UNPACKING, FAMILY, NUMBER, ELEMENTS, BYTES)                                          \
  case UNPACKING: {                                                                                                \
    block_unpacking blocks = GD_BLOCK_UNPACKING(FAMILY, NUMBER, ELEMENTS, BYTES);                                  \
    for (int64_t r = 0; r < rows; r++, out += order.apart) {                                                       \
      expand_blocks(matrix, row + r, first, count, out, order, blocks);                                            \
    }                                                                                                              \
    return;                                                                                                        \
  }
    GD_CPU_BLOCK_UNPACKINGS(GD_CASE_EXPAND_BLOCKS)
#undef GD_CASE_EXPAND_BLOCKS
    default:
      for (int64_t r = 0; r < rows; r++, out += order.apart) {
        const char *from = matrix_row(matrix, row + r);
        if (layout.dtype == GD_CPU_F32) expand_floats(from, first, count, GD_CPU_F32, out, order);
        else if (layout.dtype == GD_CPU_BF16) expand_floats(from, first, count, GD_CPU_BF16, out, order);
        else expand_floats(from, first, count, GD_CPU_F16, out, order);
      }
  }
}

/* A block, independent of the width of the vectors. */
typedef float v16_memory __attribute__((vector_size(4 * GD_LANES), aligned(4), may_alias));

/* Puts GD_LANES columns into the order of interleaved lanes. */
GD_INLINE void interleave(vf columns[GD_PARTS]) {
  v16_memory block;
  __builtin_memcpy(&block, columns, sizeof block);
  block = __builtin_shufflevector(block, block, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  __builtin_memcpy(columns, &block, sizeof block);
}

/* Puts `count` columns, a multiple of GD_LANES, in the order of interleaved lanes back into theirs, in place. */
GD_INLINE void deinterleave(float *values, int64_t count) {
  for (int64_t i = 0; i < count; i += GD_LANES) {
    v16_memory *block = (v16_memory *)(values + i);
    *block = __builtin_shufflevector(*block, *block, 0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
  }
}
