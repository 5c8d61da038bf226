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
    way->form->factors(matrix, first, 0, INT8_OUTPUTS * way->columns, way->scales, way->offsets);
    return;
  }
  for (int64_t f = 0; f < INT8_OUTPUTS; f++) {
    float *scales = way->scales + f * way->stride, *offsets = way->offsets + f * way->stride;
    way->form->factors(matrix, first + f, 0, way->columns, scales, offsets);
    scales[way->groups] = offsets[way->groups] = 0;
  }
}

/* The outputs of the rows from `first` on: vector p has those of rows 2 p and 2 p + 1 of the weight, two each of a row of x. */
static __attribute__((noinline)) void int8_turned_finish(const int8_turned *way, int64_t first, const vf out[8]) {
  __m512i two[8], four[8];
  GD_UNROLL for (int p = 0; p < 8; p += 2) {
    two[p] = _mm512_unpacklo_epi64((__m512i)out[p], (__m512i)out[p + 1]);
    two[p + 1] = _mm512_unpackhi_epi64((__m512i)out[p], (__m512i)out[p + 1]);
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
  GD_UNROLL for (int row = 0; row < INT8_TURNED_ROWS; row++) {
    if (row >= op->rows) break;
    if (op->residual.data != NULL) rows[row] += load(element(&op->residual, row, 0, first), 0, op->residual.dtype);
    store(linear_element(op, &op->out, row, first), 0, op->out.dtype, rows[row]);
  }
}

/* A set's two scales of an output, for all rows of x. */
GD_INLINE vf int8_two(const float *scales) {
  vf all;
  __asm__("vpbroadcastq %1, %0" : "=v"(all) : "m"(*(const double *)scales));
  return all;
}

/* Adds the terms of two outputs. odd, even: masks of lanes. */
GD_INLINE void int8_turned_terms(
  const int32_t *sums, const float *scales, const float *offsets, int64_t stride, vf x, vf x_sums, __mmask16 odd, __mmask16 even, vf *out, int has_offset
) {
  vf of[2], term[2];
  GD_UNROLL for (int i = 0; i < 2; i++) {
    term[i] = __builtin_convertvector(load_vi(sums + i * 16), vf) * int8_two(scales + i * stride) * x;
    if (has_offset) term[i] += int8_two(offsets + i * stride) * x_sums;
    of[i] = term[i];
  }
  /* Compilers take two shuffles for each. */
  __asm__("vmovsldup %1, %0%{%2%}" : "+v"(of[0]) : "v"(term[1]), "Yk"(odd));
  __asm__("vmovshdup %1, %0%{%2%}" : "+v"(of[1]) : "v"(term[0]), "Yk"(even));
  *out += of[0];
  *out += of[1];
  /* Keeps the compiler from moving later terms up, for which it has too few registers. */
  __asm__ volatile("" : "+v"(*out));
}

/* Instruction `slot` of those of a set's tiles. Tile 0 has the sums of the set before until they are stored; 1 and 3 have numbers, 2 and 4 x. */
GD_INLINE void int8_turned_slot(int slot, const uint8_t *numbers, int64_t apart, const uint8_t *x, int32_t *sums, int has_offset, int8_block form) {
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
    if (slice == 0 && has_offset) _tile_zero(0);
    else if (slice == 0) _tile_loadd(0, x + int8_set_factors(form.group) + 128, 0);
    if (second) _tile_dpbusd(0, 3, 4);
    else _tile_dpbusd(0, 1, 2);
  }
}

/* Features begin .. end - 1, whole INT8_OUTPUTS. */
GD_INLINE void int8_turned_outputs(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop, int8_block form) {
  enum { PAIRS = INT8_OUTPUTS / 2, TAIL = 128 };
  const int slots = 1 + 3 * int8_slices(form.group), has_offset = form.type == 0 || int8_ggml_has_offset(form.type);
  const int is_any = int8_is_any(form), is_direct = int8_are_bytes(form) && form.is_mlx && !is_any;
  const int64_t set = 2 * form.group, sets = way->sets, stride = way->stride, row_bytes = way->row_bytes, asked = INT8_OUTPUTS * row_bytes / sets;
  /* One after the other: if their addresses had the same lowest 12 bits, loads of one would wait for stores to the other. */
  _Alignas(4096) uint8_t panels[2][INT8_OUTPUTS * (is_any ? INT8_CHUNKS : set)];
  _Alignas(64) uint8_t tail[INT8_OUTPUTS * TAIL] = {0};
  _Alignas(64) int32_t sums[2][16 * INT8_OUTPUTS];
  __mmask16 odd = 0xaaaa, even = 0x5555;
  __asm__ volatile("" : "+Yk"(odd), "+Yk"(even)); /* not made anew each time */
  vf out[PAIRS];
  const float *const all_scales = way->scales;
  const uint8_t *row = (const uint8_t *)matrix_row(&way->op->weight, begin), *next = panels[0];
  int64_t unpacked_set = 0, multiplied_set = 0, added_set = 0, first = begin, steps = (end - begin) / INT8_OUTPUTS * sets;
  int64_t next_apart = is_any ? INT8_CHUNKS : set, chunk = 0;
  for (int64_t s = 0; s < steps + 3; s++) {
    /* Set s is unpacked, the one before it multiplied, the one before that stored, and the one before that becomes terms. */
    const uint8_t *numbers = next, *own = tail;
    int64_t apart = next_apart, own_apart = TAIL;
    uint8_t *panel = panels[s % 2];
    if (s < steps) {
      int64_t column = unpacked_set * set, left = way->columns - column;
      fetch_pages(row + asked * unpacked_set, asked, way->end, int8_are_bytes(form) ? FETCH_LINE : 2 * FETCH_LINE);
      own = row + int8_set_at(unpacked_set, form);
      own_apart = row_bytes;
      if (is_any) {
        if (column % INT8_CHUNK == 0) {
          chunk++;
          for (int f = 0; f < INT8_OUTPUTS; f++) {
            way->form->numbers(row + f * row_bytes, column, least(left, INT8_CHUNK), panels[chunk % 2] + f * INT8_CHUNKS);
          }
        }
        next = panels[chunk % 2] + column % INT8_CHUNK;
      } else if (is_direct && left >= set) {
        next = own;
        next_apart = row_bytes;
      } else {
        next = panel;
        next_apart = set;
        if (__builtin_expect(left < set, 0)) {
          uint8_t *copy = is_direct ? panel : tail;
          int64_t copy_apart = is_direct ? set : TAIL;
          for (int f = 0; f < INT8_OUTPUTS; f++) {
            __builtin_memcpy(copy + f * copy_apart, own + f * row_bytes, (size_t)(left / form.group * form.bytes));
          }
          own = copy;
          own_apart = copy_apart;
        }
      }
    }
    if (__builtin_expect(s >= 3 && added_set == 0, 0)) int8_turned_factors(way, first);
    const uint8_t *x = way->x + multiplied_set * int8_set_bytes(form.group);
    const float *factors = (const float *)(way->x + added_set * int8_set_bytes(form.group) + int8_set_factors(form.group));
    const float *scales = all_scales + 2 * added_set;
    vf x_scales = load(factors, 0, GD_CPU_F32), x_sums = load(factors, 16, GD_CPU_F32);
    GD_UNROLL for (int p = 0; p < PAIRS; p++) {
      GD_UNROLL for (int slot = p * slots / PAIRS; slot < (p + 1) * slots / PAIRS; slot++) {
        int8_turned_slot(slot, numbers, apart, x, sums[s % 2], has_offset, form);
      }
      GD_UNROLL for (int f = 2 * p; f < 2 * p + 2; f++) {
        if (!is_any && !is_direct) int8_turned_row(own + f * own_apart, panel + f * set, form);
      }
      int8_turned_terms(
        sums[(s + 1) % 2] + 2 * p * 16, scales, scales + INT8_OFFSETS, stride, x_scales, x_sums, odd, even, &out[p], has_offset);
      scales += 2 * stride;
    }
    if (s < steps && ++unpacked_set == sets) {
      unpacked_set = 0;
      row += INT8_OUTPUTS * row_bytes;
    }
    if (s >= 1 && s < steps && ++multiplied_set == sets) multiplied_set = 0;
    if (s > 2) added_set++;
    if (__builtin_expect(s == 2 || added_set == sets, 0)) {
      if (s > 2) {
        vf done[PAIRS]; /* so that `out` itself has no address, and stays in registers */
        GD_UNROLL for (int p = 0; p < PAIRS; p++) done[p] = out[p];
        int8_turned_finish(way, first, done);
        added_set = 0;
        first += INT8_OUTPUTS;
        if (gd_cpu_stopped(stop)) return;
      }
      GD_UNROLL for (int p = 0; p < PAIRS; p++) out[p] = (vf){0};
    }
  }
}

/* x in a format's order, and its products. */
typedef struct int8_turned_form {
  void (*x)(const gd_cpu_linear *op, uint8_t *to, int64_t begin, int64_t end);
  void (*run)(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop);
  int64_t group, fewest; /* rows: fewer are faster in vectors */
} int8_turned_form;
/* Formats with kernels of their own, as GD_INT8_NIBBLES has them; then those of ggml's others, by their groups. */
#define GD_INT8_TURNED(F)                      \
  GD_INT8_MOST_NIBBLES(F)                      \
  GD_INT8_MICRO(F)                             \
  F(AFFINE8_G64, bytes64, 64, 0, 64, 1, 1)     \
  F(AFFINE8_G128, bytes128, 128, 0, 128, 1, 1) \
  F(Q8_0, q8_0, 32, GGML_Q8_0, 34, 1, 0)
#define GD_INT8_TURNED_OTHERS(F)     \
  F(, any16, 16, GGML_Q6_K, 0, 1, 1) \
  F(, any32, 32, GGML_Q6_K, 0, 1, 1) \
  F(, any32_offset, 32, 0, 0, 1, 1)
#define GD_TURNED(FORMAT, NAME, GROUP, TYPE, ...)                                                                              \
  static void int8_turned_x_##NAME(const gd_cpu_linear *op, uint8_t *to, int64_t begin, int64_t end) {                         \
    int8_turned_x(op, to, begin, end, (int8_block){GROUP, TYPE, __VA_ARGS__});                                                 \
  }                                                                                                                            \
  static void int8_turned_##NAME(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop) {                   \
    int8_turned_outputs(way, begin, end, stop, (int8_block){GROUP, TYPE, __VA_ARGS__});                                        \
  }                                                                                                                            \
  static const int8_turned_form int8_form_##NAME = {int8_turned_x_##NAME, int8_turned_##NAME, GROUP, (GROUP) > 32 || (TYPE) == GGML_Q4_K ? 3 : 5};
GD_INT8_TURNED(GD_TURNED)
GD_INT8_TURNED_OTHERS(GD_TURNED)
#undef GD_TURNED

/* NULL where others are as fast. */
static const int8_turned_form *int8_turned_of(uint32_t format) {
  gd_cpu_matrix matrix = {.format = format};
  int8_form form = int8_form_of(&matrix);
  switch (format) {
#define GD_CASE(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return &int8_form_##NAME;
    GD_INT8_TURNED(GD_CASE)
#undef GD_CASE
    case GD_CPU_FORMAT_Q4_1:
    case GD_CPU_FORMAT_Q2_K: return NULL;
  }
  switch (layout_of(&matrix).unpacking) {
#define GD_CASE(UNPACKING, ...) case UNPACKING:
    GD_CPU_BLOCK_UNPACKINGS(GD_CASE)
#undef GD_CASE
    return form.group == 16 ? &int8_form_any16 : form.has_offset ? &int8_form_any32_offset : &int8_form_any32;
  }
  return NULL;
}

/* See gd_cpu_kernels. */
static int64_t int8_turned_bytes(uint32_t format, int64_t rows, int64_t columns) {
  const int8_turned_form *form = int8_turned_of(format);
  if (form == NULL || rows < form->fewest || rows > INT8_TURNED_ROWS) return 0;
  int64_t sets = (columns + 2 * form->group - 1) / (2 * form->group), bytes = sets * int8_set_bytes(form->group);
  return 2 * sets <= INT8_SPAN_GROUPS && bytes + 64 <= INT8_PANEL ? bytes : 0;
}
static void int8_turn(const gd_cpu_int8_rows *x, int64_t begin, int64_t end) {
  gd_cpu_linear op = {.rows = x->rows, .rounded = x};
  int8_turned_of(x->format)->x(&op, x->turned, begin, end);
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
    turned->x(op, own, 0, sets);
    x = own;
  }
  int8_turned way = {
    .op = op, .form = &form, .end = memory->end, .x = x, .scales = memory->scales, .offsets = memory->offsets, .columns = columns,
    .row_bytes = matrix_bytes(matrix, columns), .groups = groups, .sets = sets, .stride = 2 * sets};
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
