/* Up to eight rows of x with AMX. Tiles of the weight are the first operands of products: the numbers of INT8_OUTPUTS rows as they lie, so that nothing
 * is transposed. x is the second operand, put into its order once a call. A set of two groups is multiplied at a time: a tile of x has a column for
 * each row of x and each group, with zeros for the numbers of the other one. So a vector of sums is one output's, for all rows of x and both groups, and
 * its scales are broadcast as they lie.
 *
 * While the sums of one set become terms (int8_linear.h), those of the next are stored, the one after it is multiplied, and a fourth is unpacked. The
 * instructions of tiles stand between the terms of two outputs each: several in succession would hold up the instructions after them. */

/* Scales and offsets of the rows from `first` on, with zeros for a group that the last set lacks. */
static __attribute__((noinline)) void int8_turned_factors(const int8_turned *way, int64_t first) {
  const gd_cpu_matrix *matrix = &way->op->weight;
  if (matrix->scales != NULL) int8_ask_factors(matrix, (first + INT8_OUTPUTS) * way->groups, INT8_OUTPUTS * way->groups);
  if (way->stride == way->groups) {
    way->form->factors(matrix, first, 0, INT8_OUTPUTS * way->columns, way->scales, way->scales + INT8_OFFSETS);
    return;
  }
  for (int64_t f = 0; f < INT8_OUTPUTS; f++) {
    float *scales = way->scales + f * way->stride, *offsets = scales + INT8_OFFSETS;
    way->form->factors(matrix, first + f, 0, way->columns, scales, offsets);
    scales[way->groups] = offsets[way->groups] = 0;
  }
}

/* The outputs of the rows from `first` on: vector p has those of rows 2 p and 2 p + 1 of the weight as int8_turned_terms adds them up. */
static __attribute__((noinline)) void int8_turned_finish(const int8_turned *way, int64_t first, const vf out[8]) {
  __m512i two[8], four[8];
  GD_UNROLL for (int p = 0; p < 8; p += 2) {
    __m512i a = (__m512i)_mm512_permute_ps((__m512)out[p], 0xd8), b = (__m512i)_mm512_permute_ps((__m512)out[p + 1], 0xd8);
    two[p] = _mm512_unpacklo_epi64(a, b);
    two[p + 1] = _mm512_unpackhi_epi64(a, b);
  }
  GD_UNROLL for (int p = 0; p < 8; p += 4) {
    GD_UNROLL for (int i = 0; i < 2; i++) {
      four[p + i] = _mm512_shuffle_i64x2(two[p + i], two[p + 2 + i], 0x88);
      four[p + 2 + i] = _mm512_shuffle_i64x2(two[p + i], two[p + 2 + i], 0xdd);
    }
  }
  vf rows[INT8_TURNED_ROWS];
  GD_UNROLL for (int row = 0; row < 4; row++) {
    rows[row] = (vf)_mm512_shuffle_i64x2(four[row], four[4 + row], 0x88);
    rows[4 + row] = (vf)_mm512_shuffle_i64x2(four[row], four[4 + row], 0xdd);
  }
  const gd_cpu_linear *op = way->op;
  if (op->residual.data != NULL) {
    GD_UNROLL for (int row = 0; row < INT8_TURNED_ROWS; row++) {
      if (row < op->rows) rows[row] += load(element(&op->residual, row, 0, first), 0, op->residual.dtype);
    }
  }
  /* A loop for each dtype. */
  GD_UNROLL for (uint32_t dtype = 0; dtype <= GD_CPU_BF16; dtype++) {
    if (dtype != op->out.dtype) continue;
    GD_UNROLL for (int row = 0; row < INT8_TURNED_ROWS; row++) {
      if (row < op->rows) store(way->out[row], first, dtype, rows[row]);
    }
  }
}

/* A set's two scales of an output, for all rows of x. */
GD_INLINE vf int8_two(const float *scales) {
  vf all;
  __asm__("vpbroadcastq %1, %0" : "=v"(all) : "m"(*(const double *)scales));
  return all;
}

/* Adds the terms of two outputs: of each two rows of x one output's, then the other's. */
GD_INLINE void int8_turned_terms(
  const int32_t *sums, const float *scales, int64_t stride, vf x, vf x_sums, vf *out, int has_offset
) {
  vf term[2];
  GD_UNROLL for (int i = 0; i < 2; i++) {
    term[i] = __builtin_convertvector(load_vi(sums + i * 16), vf) * int8_two(scales + i * stride) * x;
    if (has_offset) term[i] += int8_two(scales + i * stride + INT8_OFFSETS) * x_sums;
  }
  *out += (vf)_mm512_shuffle_ps((__m512)term[0], (__m512)term[1], 0x88);
  *out += (vf)_mm512_shuffle_ps((__m512)term[0], (__m512)term[1], 0xdd);
  /* Keeps the compiler from moving later terms up, for which it has too few registers. */
  __asm__ volatile("" : "+v"(*out));
}

/* Instruction `slot` of those of a set's tiles. Tile 0 has the sums of the set before until they are stored; 1 and 3 have numbers, 2 and 4 x. */
GD_INLINE void int8_turned_slot(int slot, const uint8_t *numbers, int64_t apart, const uint8_t *x, int32_t *sums, int8_block form) {
  int slice = (slot - 1) / 3, part = (slot - 1) % 3, second = slice % 2;
  if (slot == 0) {
    _tile_stored(0, sums, 64);
  } else if (part == 0) {
    if (second) _tile_loadd(3, numbers + slice * 64, apart);
    else _tile_loadd(1, numbers + slice * 64, apart);
  } else if (part == 1) {
    if (second) _tile_loadd(4, x + slice * 1024, 64);
    else _tile_loadd(2, x + slice * 1024, 64);
  } else {
    const int are_signed = int8_are_signed(form);
    if (slice == 0 && (are_signed || int8_has_offset(form))) _tile_zero(0);
    else if (slice == 0) _tile_loadd(0, x + int8_set_factors(form.group) + 128, 0);
    if (second && are_signed) _tile_dpbssd(0, 3, 4);
    else if (second) _tile_dpbusd(0, 3, 4);
    else if (are_signed) _tile_dpbssd(0, 1, 2);
    else _tile_dpbusd(0, 1, 2);
  }
}

/* Features begin .. end - 1, whole INT8_OUTPUTS. The loop keeps to few instructions besides those of vectors and tiles: where another thread shares the core, all count. */
GD_INLINE void int8_turned_outputs(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop, int8_block form) {
  /* A set's terms are added LAG steps after it was unpacked. */
  enum { PAIRS = INT8_OUTPUTS / 2, TAIL = 128, LAG = 3 };
  const int slots = 1 + 3 * int8_slices(form.group), has_offset = int8_has_offset(form);
  const int in_chunks = int8_in_chunks(form), is_direct = int8_are_bytes(form) && form.is_mlx && !in_chunks;
  const int64_t set = 2 * form.group, bytes = int8_set_bytes(form.group), sets = way->sets, stride = way->stride, row_bytes = way->row_bytes;
  const uint8_t *const x_begin = way->x, *const x_end = x_begin + sets * bytes;
  /* One after the other: if their addresses had the same lowest 12 bits, loads of one would wait for stores to the other. */
  _Alignas(4096) uint8_t panels[2][INT8_OUTPUTS * (in_chunks ? INT8_CHUNKS : set)];
  _Alignas(64) int32_t all_sums[2][16 * INT8_OUTPUTS];
  _Alignas(64) uint8_t tail[INT8_OUTPUTS * TAIL + (LAG + 1) * 2 * TAIL] = {0};
  vf out[PAIRS] = {0};
  /* Where a set is unpacked to, and the one before it was; sums that are stored, and that become terms. */
  uint8_t *panel = panels[0], *panel_before = panels[1];
  int32_t *sums = all_sums[0], *sums_before = all_sums[1];
  /* Unpacked: set `unpacked` of the rows from `row` on. Bytes from `ask` on are asked for as those before `read` are read. */
  const uint8_t *row = (const uint8_t *)matrix_row(&way->op->weight, begin), *next = panels[0];
  /* As fetch_pages does, but earlier: a set needs a line of each row at once, wherever in its page and after however many pages. Of packed numbers every
   * other line suffices: the processor fetches the one after it. */
  const int64_t block_bytes = INT8_OUTPUTS * row_bytes, early = FETCH_PAGE + block_bytes - least(block_bytes, FETCH_PAGE * FETCH_PAGES);
  const int64_t lines = (int8_are_bytes(form) ? 1 : 2) * FETCH_BYTES, asked = block_bytes / sets;
  uintptr_t read = (uintptr_t)row, ask = (read + (uintptr_t)lines - 1) & ~(uintptr_t)(lines - 1);
  int64_t unpacked = 0, blocks = (end - begin) / INT8_OUTPUTS, rows_apart = row_bytes, next_apart = INT8_CHUNKS, chunk = 0;
  /* Multiplied: x of the set before. Terms: x of the set LAG steps before, its scales, and how many sets the outputs from `first` on still have. */
  const uint8_t *multiplied = x_end - bytes, *added = x_begin;
  const float *scales = way->scales;
  int64_t first = begin, until = LAG, added_bytes = 0;
  for (int64_t steps = blocks * sets + LAG; steps > 0; steps--) {
    read += (uintptr_t)asked;
    while (ask < read + (uintptr_t)early) {
      const char *pages = pages_after(ask);
      if (pages < (const char *)way->end) fetch_line_of_pages(pages);
      ask += (uintptr_t)lines;
    }
    const uint8_t *own = row + int8_set_at(unpacked, form), *numbers = in_chunks || is_direct ? next : panel_before;
    int64_t own_apart = rows_apart, apart = in_chunks || is_direct ? next_apart : set;
    if (blocks > 0 && (in_chunks || is_direct || way->columns < sets * set)) {
      int64_t column = unpacked * set, columns_left = way->columns - column;
      if (in_chunks) {
        if (column % INT8_CHUNK == 0) {
          chunk++;
          for (int f = 0; f < INT8_OUTPUTS; f++) {
            uint8_t *to = panels[chunk % 2] + f * INT8_CHUNKS;
            if (!int8_is_any(form)) int8_turned_block(row + f * row_bytes + column / INT8_CHUNK * form.bytes, to);
            else way->form->numbers(row + f * row_bytes, column, least(columns_left, INT8_CHUNK), to);
          }
        }
        next = panels[chunk % 2] + column % INT8_CHUNK;
      } else if (columns_left < set) {
        uint8_t *copy = is_direct ? panel : tail;
        int64_t copy_apart = is_direct ? set : TAIL;
        for (int f = 0; f < INT8_OUTPUTS; f++) {
          __builtin_memcpy(copy + f * copy_apart, own + f * row_bytes, (size_t)(columns_left / form.group * form.bytes));
        }
        own = next = copy;
        own_apart = next_apart = copy_apart;
      } else {
        next = own;
        next_apart = row_bytes;
      }
    }
    const float *factors = (const float *)(added + int8_set_factors(form.group)), *own_scales = scales;
    vf x_scales = load(factors, 0, GD_CPU_F32), x_sums = load(factors, 16, GD_CPU_F32);
    GD_UNROLL for (int p = 0; p < PAIRS; p++) {
      GD_UNROLL for (int slot = p * slots / PAIRS; slot < (p + 1) * slots / PAIRS; slot++) {
        int8_turned_slot(slot, numbers, apart, multiplied, sums, form);
      }
      GD_UNROLL for (int f = 2 * p; f < 2 * p + 2; f++) {
        if (!in_chunks && !is_direct) int8_turned_row(own + f * own_apart, panel + f * set, unpacked % 4, form);
      }
      int8_turned_terms(sums_before + 2 * p * 16, own_scales, stride, x_scales, x_sums, &out[p], has_offset);
      own_scales += 2 * stride;
    }
    uint8_t *unpacked_to = panel;
    int32_t *stored_to = sums;
    panel = panel_before;
    panel_before = unpacked_to;
    sums = sums_before;
    sums_before = stored_to;
    if (++unpacked == sets) {
      unpacked = 0;
      row += INT8_OUTPUTS * row_bytes;
      read = (uintptr_t)row;
      if (--blocks <= 0) {
        row = tail;
        rows_apart = TAIL;
        read = 0;
      }
    }
    multiplied += bytes;
    if (multiplied == x_end) multiplied = x_begin;
    added += added_bytes;
    scales += 2;
    if (__builtin_expect(--until == 0, 0)) {
      if (added_bytes != 0) {
        vf done[PAIRS]; /* so that `out` itself has no address, and stays in registers */
        GD_UNROLL for (int p = 0; p < PAIRS; p++) done[p] = out[p];
        int8_turned_finish(way, first, done);
        first += INT8_OUTPUTS;
        if (gd_cpu_stopped(stop)) return;
      }
      GD_UNROLL for (int p = 0; p < PAIRS; p++) out[p] = (vf){0};
      if (first < end) int8_turned_factors(way, first);
      until = sets;
      added = x_begin;
      added_bytes = bytes;
      scales = way->scales;
    }
  }
}

/* A format's sets, and its products. */
typedef struct int8_turned_form {
  int8_block block;
  void (*run)(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop);
} int8_turned_form;
/* Formats with kernels of their own, as GD_INT8_NIBBLES has them; then all others, by their groups. */
#define GD_INT8_TURNED(F)                      \
  GD_INT8_NIBBLES(F)                           \
  GD_INT8_MICRO(F)                             \
  F(AFFINE8_G64, bytes64, 64, 0, 64, 1, 1)     \
  F(AFFINE8_G128, bytes128, 128, 0, 128, 1, 1) \
  F(Q8_0, q8_0, 32, GGML_Q8_0, 34, 1, 0)       \
  F(Q5_K, q5_k, 32, GGML_Q5_K, 176, 8, 0)      \
  F(Q6_K, q6_k, 16, GGML_Q6_K, 210, 16, 0)
#define GD_INT8_TURNED_OTHERS(F)     \
  F(, any16, 16, GGML_Q6_K, 0, 1, 1) \
  F(, any16_offset, 16, 0, 0, 1, 1)  \
  F(, any32, 32, GGML_Q6_K, 0, 1, 1) \
  F(, any32_offset, 32, 0, 0, 1, 1)  \
  F(, any64_offset, 64, 0, 0, 1, 1)  \
  F(, any128_offset, 128, 0, 0, 1, 1)
#define GD_TURNED(FORMAT, NAME, GROUP, TYPE, ...)                                                                              \
  static void int8_turned_##NAME(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop) {                   \
    int8_turned_outputs(way, begin, end, stop, (int8_block){GROUP, TYPE, __VA_ARGS__});                                        \
  }                                                                                                                            \
  static const int8_turned_form int8_form_##NAME = {{GROUP, TYPE, __VA_ARGS__}, int8_turned_##NAME};
GD_INT8_TURNED(GD_TURNED)
GD_INT8_TURNED_OTHERS(GD_TURNED)
#undef GD_TURNED

/* NULL if it is multiplied exactly. */
static const int8_turned_form *int8_turned_of(uint32_t format) {
  gd_cpu_matrix matrix = {.format = format};
  int8_form form = int8_form_of(&matrix);
  switch (format) {
#define GD_CASE(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return &int8_form_##NAME;
    GD_INT8_TURNED(GD_CASE)
#undef GD_CASE
  }
  switch (form.group) {
    case 16: return form.has_offset ? &int8_form_any16_offset : &int8_form_any16;
    case 32: return form.has_offset ? &int8_form_any32_offset : &int8_form_any32;
    case 64: return &int8_form_any64_offset;
    case 128: return &int8_form_any128_offset;
    default: return NULL;
  }
}

/* See gd_cpu_kernels. Two rows are faster in vectors where x is too large for the first cache, as it is read with each INT8_OUTPUTS outputs. */
static int64_t int8_turned_bytes(uint32_t format, int64_t rows, int64_t columns) {
  const int8_turned_form *form = int8_turned_of(format);
  if (form == NULL || rows < 2 || rows > INT8_TURNED_ROWS) return 0;
  int64_t set = 2 * form->block.group, sets = (columns + set - 1) / set, bytes = sets * int8_set_bytes(form->block.group);
  if (rows == 2 && bytes > 32 << 10) return 0;
  return 2 * sets <= INT8_SPAN_GROUPS && bytes + 64 <= INT8_PANEL ? bytes : 0;
}
static void int8_turn(const gd_cpu_int8_rows *x, int64_t begin, int64_t end) {
  gd_cpu_linear op = {.rows = x->rows, .rounded = x};
  int8_turned_x(&op, x->turned, begin, end, int8_turned_of(x->format)->block);
}

/* Takes all whole INT8_OUTPUTS features of a few rows; returns the first feature that is left. */
static int64_t int8_turned_whole(const gd_cpu_linear *op, const int8_memory *memory, int64_t begin, int64_t end, const uint32_t *stop) {
  const gd_cpu_matrix *matrix = &op->weight;
  int64_t columns = matrix->columns, whole = begin + (end - begin) / INT8_OUTPUTS * INT8_OUTPUTS;
  if (whole == begin || int8_turned_bytes(matrix->format, op->rows, columns) == 0) return begin;
  const int8_turned_form *turned = int8_turned_of(matrix->format);
  int8_form form = int8_form_of(matrix);
  int64_t groups = columns / form.group, sets = (groups + 1) / 2;
  const uint8_t *x = op->rounded->turned;
  if (x == NULL) {
    uint8_t *own = (uint8_t *)(((uintptr_t)memory->x + 63) & ~(uintptr_t)63);
    int8_turned_x(op, own, 0, sets, turned->block);
    x = own;
  }
  int8_turned way = {
    .op = op, .form = &form, .end = memory->end, .x = x, .scales = memory->scales, .columns = columns,
    .row_bytes = matrix_bytes(matrix, columns), .groups = groups, .sets = sets, .stride = 2 * sets};
  for (int64_t row = 0; row < op->rows; row++) way.out[row] = linear_element(op, &op->out, row, 0);
  int8_shapes shapes = {.palette = 1};
  int slice = int8_slice(form.group);
  for (int t = 0; t < 5; t++) {
    int is_x = t == 2 || t == 4, is_weight = t == 1 || t == 3;
    shapes.rows[t] = (uint8_t)(is_x ? slice / 4 : INT8_OUTPUTS);
    shapes.bytes[t] = (uint16_t)(is_weight ? slice : 64);
  }
  _tile_loadconfig(&shapes);
  turned->run(&way, begin, whole, stop);
  int8_tiles_end();
  return whole;
}
