/* A few rows by weights of four to six or eight bits, with vectors of 16 lanes: the numbers of INT8_OUTPUTS outputs are put side by side in
 * registers, 64 bytes of each at a time, and multiplied from there. No panel is stored. */

#include "int8_few_factors.h"

/* The most rows that share such numbers: their products and sixteen vectors of numbers fit the registers. */
enum { INT8_FEW = 8 };
typedef void int8_few(
  const uint8_t *from, int64_t row_bytes, const uint8_t *next, const uint8_t *end, const float *scales, const float *offsets, const int8_x *x,
  int64_t taken, int64_t count, float *sums);

#if defined(GD_DOT_AVX512VNNI)
/* Whether bytes are asked for once a step, instead of between groups. By pages, asking between groups is slower where half floats are copied meanwhile; and more than
 * four rows seldom come here where bytes are asked for by pages, so they get the smaller code. */
GD_INLINE int int8_few_asks_at_once(int rows, int8_block form) { return gd_cpu_asks_by_pages && (rows > 4 || int8_few_has_halves(form)); }

/* Compilers do not unroll the parts of groups of 32 columns, which may end early. To make them costs a fifth more code for 2 %. */
_Pragma("clang diagnostic push")
_Pragma("clang diagnostic ignored \"-Wpass-failed\"")

/* Adds the terms of a step's groups, those before column `left`, to the sums of `rows` rows; the last of them is `last` rows after the
 * first, and its sums are elsewhere. numbers: four columns of each output in a lane, or eight in halves of bytes. For each group `asked` bytes are asked for, of what
 * follows `next` (int8_ask). Constants are asked, rows, step, the columns of `numbers`, and form. */
GD_INLINE void int8_few_step(
  const vi numbers[16], int8_x x, int64_t last, int64_t left, const float *scales, const float *offsets, float *sums, float *last_sums,
  const uint8_t *next, const uint8_t *end, int asked, int rows, int step, int8_block form
) {
  int is_split = form.type == GGML_Q4_K, apart = form.is_mlx ? 1 : is_split ? 8 : 4, are_bytes = step == 64;
  int each = is_split ? 8 : form.group * 16 / step, has_offset = form.type == 0 || int8_ggml_has_offset(form.type);
  int halves = is_split || are_bytes ? 1 : 2;
  GD_UNROLL for (int part = 0; part < step / form.group; part++) {
    if (part * form.group >= left) break;
    if (!int8_few_asks_at_once(rows, form)) int8_ask(next + part * asked, asked, end);
    vi products[INT8_FEW];
    GD_UNROLL for (int r = 0; r < rows; r++) {
      products[r] = x.starts[(r == rows - 1 ? last : r) * x.groups + part] - (vi){0};
    }
    GD_UNROLL for (int i = 0; i < each; i++) {
      int k = is_split ? part / 2 * 8 + i : part * each + i, place = are_bytes ? k : int8_packed_place(k, form);
      GD_UNROLL for (int h = 0; h < halves; h++) {
        int half = is_split ? part % 2 : h;
        vi own = are_bytes ? numbers[k] : half ? int8_high(numbers[k]) : int8_low(numbers[k]);
        if (ggml_has_table(form.type)) own = int8_entries_of(own, form.type);
        GD_UNROLL for (int r = 0; r < rows; r++) {
          const int8_t *from = x.values + (r == rows - 1 ? last : r) * x.stride;
          vi four = (vi)(*(const u1_memory *)(from + (place + half * apart) * 4) - (vu){0});
          products[r] = int8_add(products[r], int8_weights_of(own, 0), four, 0);
        }
      }
    }
    vf scale = load(scales, part * INT8_OUTPUTS, GD_CPU_F32), offset = has_offset ? load(offsets, part * INT8_OUTPUTS, GD_CPU_F32) : scale;
    GD_UNROLL for (int r = 0; r < rows; r++) {
      int64_t own = (r == rows - 1 ? last : r) * x.groups + part;
      vf term = __builtin_convertvector(int8_total(products[r], 0), vf) * scale, x_scale = splat(x.scales[own]);
      /* Keeps the compiler from moving offsets' products of all rows up, for which it has too few registers. */
      if (has_offset) __asm__("" : "+v"(offset) : "v"(term));
      term = has_offset ? int8_fma(term, x_scale, offset * splat(x.sums[own])) : term * x_scale;
      float *to = r == rows - 1 ? last_sums : sums + r * INT8_OUTPUTS;
      store(to, 0, GD_CPU_F32, load(to, 0, GD_CPU_F32) + term);
    }
  }
}

/* Adds the terms of `count` columns of INT8_OUTPUTS outputs, whose rows of bytes begin at `from`, to the sums of `taken` rows of x, which
 * go as `rows`: as many or one more. next: bytes before those that are asked for meanwhile (int8_ask), as many as these are. Constants are rows, step (128
 * columns of four to six bits, 64 of eight) and form. */
GD_INLINE void int8_few_rows(
  const uint8_t *from, int64_t row_bytes, const uint8_t *next, const uint8_t *end, const float *scales, const float *offsets, int8_x x,
  int64_t taken, int64_t count, float *sums, int rows, int step, int8_block form
) {
  int is_split = form.type == GGML_Q4_K, is_unpacked = form.type == GGML_Q5_K || form.type == GGML_Q6_K;
  const int own = is_unpacked ? 64 : step;
  int bytes = is_unpacked ? 0 : is_split ? 64 : step / form.group * form.bytes;
  int asked = INT8_OUTPUTS * (step / form.group * form.bytes / form.groups);
  _Alignas(64) uint8_t tail[INT8_OUTPUTS][80];
  int8_few_factors factors;
  int8_few_begin(&factors, from, row_bytes, count, step, form);
  float unused[INT8_OUTPUTS] = {0}, *last_sums = taken == rows ? sums + (taken - 1) * INT8_OUTPUTS : unused;
  for (int64_t i = 0; i < count; i += step) {
    int64_t left = count - i;
    if (left < step) {
      _Pragma("clang loop unroll(disable)")
      for (int f = 0; f < INT8_OUTPUTS; f++) __builtin_memcpy(tail[f], from + f * row_bytes, (size_t)(left / form.group * form.bytes));
      from = tail[0];
      row_bytes = sizeof tail[0];
    }
    if (int8_few_asks_at_once(rows, form)) int8_ask_by_call(next, asked, end);
    int8_few_make(&factors, from, row_bytes, i, left, step, form);
    if (!form.is_mlx) {
      int64_t at = form.groups > 1 ? i % 256 / form.group * INT8_OUTPUTS : 0;
      scales = factors.scales + at;
      if (int8_ggml_has_offset(form.type)) offsets = factors.offsets + at;
    }
    vi numbers[16], others[16];
    if (is_unpacked) {
      int8_beside_halves(from, row_bytes, i / 128 % 2, numbers, others, form.type);
      /* So that the others are in memory: products need the registers. */
      __asm__ volatile("" : : "r"(others) : "memory");
    } else if (form.is_mlx && rows == 2) {
      /* Twice as many shuffles, but a quarter of the loads, for which two rows have no time. */
      GD_UNROLL for (int k = 0; k < 16; k++) numbers[k] = load_vi(from + k * row_bytes);
      int8_transpose(numbers);
    } else {
      int8_beside(from, row_bytes, numbers, form);
    }
    GD_UNROLL for (int part = 0; part < 2; part++) {
      if (part > 0 && !is_unpacked) break;
      if (part > 0) GD_UNROLL for (int f = 0; f < INT8_OUTPUTS; f++) numbers[f] = others[f];
      /* Large blocks are whole: a constant, so that compilers unroll their groups. */
      int8_few_step(
        numbers, x, taken - 1, is_unpacked ? own : left, scales, offsets, sums, last_sums, next, end, asked * form.group / step, rows, own, form);
      next += asked * own / step;
      x = int8_from(x, own, form.group);
      scales += own / form.group * INT8_OUTPUTS;
      if (offsets != NULL) offsets += own / form.group * INT8_OUTPUTS;
    }
    from += (is_split || is_unpacked) && i % 256 != 0 ? form.bytes - bytes : bytes;
  }
}

#define GD_FEW_OF_STEP(NAME, STEP, ...)                                                                                                   \
  static __attribute__((noinline)) void int8_few_##NAME(                                                                                  \
    const uint8_t *from, int64_t row_bytes, const uint8_t *next, const uint8_t *end, const float *scales, const float *offsets,           \
    const int8_x *x, int64_t taken, int64_t count, float *sums                                                                            \
  ) {                                                                                                                                     \
    int8_block form = {__VA_ARGS__};                                                                                                      \
    if (taken > 6) int8_few_rows(from, row_bytes, next, end, scales, offsets, *x, taken, count, sums, 8, STEP, form);                     \
    else if (taken > 4) int8_few_rows(from, row_bytes, next, end, scales, offsets, *x, taken, count, sums, 6, STEP, form);                \
    else if (taken > 2) int8_few_rows(from, row_bytes, next, end, scales, offsets, *x, taken, count, sums, 4, STEP, form);                \
    else int8_few_rows(from, row_bytes, next, end, scales, offsets, *x, taken, count, sums, 2, STEP, form);                               \
  }
#define GD_FEW(FORMAT, NAME, ...) GD_FEW_OF_STEP(NAME, 128, __VA_ARGS__)
GD_INT8_NIBBLES(GD_FEW)
GD_INT8_FIVES_AND_SIXES(GD_FEW)
#undef GD_FEW
#define GD_FEW(FORMAT, NAME, ...) GD_FEW_OF_STEP(NAME, 64, __VA_ARGS__)
GD_INT8_BYTES(GD_FEW)
#undef GD_FEW
#undef GD_FEW_OF_STEP
_Pragma("clang diagnostic pop")
#endif

/* The function that takes a few rows by a matrix; NULL if there is none. */
static int8_few *int8_few_of(const gd_cpu_matrix *matrix) {
#if defined(GD_DOT_AVX512VNNI)
#define GD_CASE_FEW(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return int8_few_##NAME;
  switch (matrix->format) {
    GD_INT8_NIBBLES(GD_CASE_FEW)
    GD_INT8_FIVES_AND_SIXES(GD_CASE_FEW)
    GD_INT8_BYTES(GD_CASE_FEW)
  }
#undef GD_CASE_FEW
#endif
  (void)matrix;
  return NULL;
}

/* Whether rows are multiplied without panels. */
static int int8_takes_few(const gd_cpu_matrix *matrix, int64_t rows) { return rows <= INT8_MOST_FEW && int8_few_of(matrix) != NULL; }

/* Adds the terms of columns i .. i + count - 1 of INT8_OUTPUTS outputs to the sums of `rows` rows, without a panel. Scales that are in the
 * blocks, as half floats or more, are made with their numbers. */
static void int8_few_outputs(
  const gd_cpu_matrix *matrix, const int8_memory *memory, const int8_form *form, int8_x x, int64_t rows, int64_t first, int64_t i, int64_t count
) {
  int8_few *few = int8_few_of(matrix);
  if (i == 0) __builtin_memset(memory->sums, 0, (size_t)(rows * INT8_OUTPUTS) * sizeof *memory->sums);
  int64_t parts = (rows + INT8_FEW - 1) / INT8_FEW, bytes = matrix_bytes(matrix, matrix->columns);
  const uint8_t *own = (const uint8_t *)matrix_row(matrix, first) + matrix_bytes(matrix, i);
  const float *offsets = form->has_offset ? memory->offsets : NULL;
  if (matrix->scales != NULL) int8_panel_factors(matrix, form, memory, first, INT8_OUTPUTS, i, count);
  for (int64_t part = 0; part < parts; part++) {
    int64_t from = part * rows / parts, next = (part + 1) * rows / parts;
    int8_x own_x = int8_row_from(x, from);
    few(
      own, bytes, own + INT8_OUTPUTS * bytes, memory->end, memory->scales, offsets, &own_x, next - from, count, memory->sums + from * INT8_OUTPUTS);
  }
}
