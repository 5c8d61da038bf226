/* Up to eight rows of x with AMX. Tiles of the weight are the first operands of products: the numbers of INT8_OUTPUTS rows as they lie, so that nothing
 * is transposed. x is the second operand, put into its order once a call. A set of two groups is multiplied at a time: a tile of x has a column for
 * each row of x and each group, with zeros for the numbers of the other one. So a vector of sums is one output's, for all rows of x and both groups, and
 * its scales are broadcast as they lie.
 *
 * While the sums of one set become terms (int8_linear.h), those of the next are stored, the one after it is multiplied, and a fourth is unpacked. The
 * instructions of tiles stand between the terms of two outputs each: several in succession would hold up the instructions after them. */

/* Rows of x; columns that are unpacked at a time where a format's own function does it, and bytes from a row of them to the next. */
enum { INT8_TURNED_ROWS = 8, INT8_CHUNK = INT8_PIECE, INT8_CHUNKS = INT8_PIECES };

/* One call. stride: scales from an output to the next. */
typedef struct int8_turned {
  const gd_cpu_linear *op;
  const int8_form *form;
  const uint8_t *end;
  uint8_t *x;
  float *scales, *offsets;
  int64_t columns, row_bytes, groups, sets, stride;
} int8_turned;

/* An int8_block without bytes stands for all formats of its group that have no kernel of their own: their numbers are unpacked by int8_form. */
GD_INLINE int int8_is_any(int8_block form) { return form.bytes == 0; }
GD_INLINE int int8_are_bytes(int8_block form) { return int8_is_any(form) || (form.bytes >= form.group && form.type != GGML_Q4_K); }
/* Numbers of a row that a tile has, and the slices of so many that are a set. */
GD_INLINE int int8_slice(int8_block form) { return form.group < 32 ? 32 : 64; }
GD_INLINE int int8_slices(int8_block form) { return 2 * (int)form.group / int8_slice(form); }
/* Bytes of x of a set: slices of a dword of each column of its tile, then as many scales, sums and starts. */
GD_INLINE int64_t int8_set_factors(int8_block form) { return 2 * form.group * 16; }
GD_INLINE int64_t int8_set_bytes(int8_block form) { return int8_set_factors(form) + 192; }
/* Where a row's set begins. */
GD_INLINE int64_t int8_set_at(int64_t set, int8_block form) {
  return form.type == GGML_Q4_K ? set / 4 * form.bytes + int8_offset(form) + set % 4 * 32 : set * 2 * form.bytes;
}

/* The dword of a set's x that dword k of a row's numbers multiplies. Of packed numbers the low halves of 64 bytes are a slice, then the high ones;
 * or of 32 bytes both are one. */
static int int8_turned_place(int k, int8_block form) {
  if (int8_are_bytes(form)) return k;
  if (int8_slices(form) > 1) return k / 32 * 32 + 2 * (k % 16) + k / 16 % 2;
  int own = k % 8, half = k / 8;
  return form.is_mlx ? 2 * own + half : form.type == GGML_Q4_K ? k : own / 4 * 8 + own % 4 + 4 * half;
}

/* The numbers of a row's set. */
GD_INLINE void int8_turned_row(const uint8_t *from, uint8_t *to, int8_block form) {
  if (int8_are_bytes(form)) {
    GD_UNROLL for (int i = 0; i < 2; i++) {
      *(int8_b32_memory *)(to + 32 * i) = *(const int8_b32_memory *)(from + int8_offset(form) + i * form.bytes) ^ 128;
    }
    return;
  }
  GD_UNROLL for (int i = 0; i < int8_slices(form) / 2; i++) {
    vi bytes = load_vi(from + 64 * i);
    store_vi(to + 128 * i, int8_low(bytes));
    store_vi(to + 128 * i + 64, int8_high(bytes));
  }
  if (int8_slices(form) > 1) return;
  __m512i both;
  if (form.is_mlx || form.type == GGML_Q4_K) {
    both = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)from));
  } else {
    from += int8_offset(form);
    both = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)from));
    both = _mm512_mask_broadcast_i32x4(both, 0xf0f0, _mm_loadu_si128((const __m128i *)(from + form.bytes)));
  }
  const vu shifts = {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4};
  vi numbers = (vi)_mm512_srlv_epi32(both, (__m512i)shifts) & 0x0f0f0f0f;
  if (ggml_has_table(form.type)) numbers = int8_entries_of(numbers, form.type);
  store_vi(to, numbers);
}

/* Puts x into the order of its tiles. */
GD_INLINE vi int8_of_x(const int8_t *from, int64_t bytes) {
  if (bytes <= 0) return (vi){0};
  return (vi)_mm512_maskz_loadu_epi8(bytes < 64 ? ((__mmask64)1 << bytes) - 1 : ~(__mmask64)0, from);
}
static __attribute__((noinline)) void int8_turned_x(const int8_turned *way, int8_block form) {
  int64_t group = form.group, set = 2 * group, slices = int8_slices(form), dwords = int8_slice(form) / 4, rows = way->op->rows;
  uint8_t *to = way->x;
  for (int64_t at = 0; at < way->columns; at += set) {
    int64_t left = least(set, way->columns - at);
    int8_x own[INT8_TURNED_ROWS];
    for (int64_t m = 0; m < rows; m++) own[m] = int8_from(int8_row_of(way->op, m), at, group);
    for (int slice = 0; slice < slices; slice++, to += dwords * 64) {
      vi numbers[16] = {0}, places;
      for (int k = 0; k < 16; k++) places[k] = int8_turned_place(slice * 16 + k, form);
      int64_t begin = slice / 2 * 128;
      for (int64_t m = 0; m < rows; m++) {
        vi low = int8_of_x(own[m].values + begin, left - begin), high = int8_of_x(own[m].values + begin + 64, left - begin - 64);
        vi all = (vi)_mm512_permutex2var_epi32((__m512i)low, (__m512i)places, (__m512i)high);
        numbers[2 * m] = all & (places < (int)group / 4);
        numbers[2 * m + 1] = all & (places >= (int)group / 4);
      }
      int8_transpose(numbers);
      GD_UNROLL for (int k = 0; k < 16; k++) {
        if (k < dwords) store_vi(to + k * 64, numbers[k]);
      }
    }
    float *scales = (float *)to, *sums = scales + 16;
    int32_t *starts = (int32_t *)(sums + 16);
    __builtin_memset(to, 0, 192);
    for (int64_t m = 0; m < rows; m++) {
      for (int64_t g = 0; g < left / group; g++) {
        scales[2 * m + g] = own[m].scales[g];
        sums[2 * m + g] = own[m].sums[g];
        starts[2 * m + g] = own[m].starts[g];
      }
    }
    to += 192;
  }
}

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

/* The outputs of the rows from `first` on: of two each, lanes are rows of x by outputs. */
static __attribute__((noinline)) void int8_turned_finish(const int8_turned *way, int64_t first, const vf out[8]) {
  _Alignas(64) float values[INT8_TURNED_ROWS][INT8_OUTPUTS];
  for (int64_t row = 0; row < way->op->rows; row++) {
    GD_UNROLL for (int p = 0; p < 8; p++) __builtin_memcpy(&values[row][2 * p], (const float *)&out[p] + 2 * row, 8);
    linear_finish(way->op, values[row], row, first, INT8_OUTPUTS);
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

/* Instruction `slot` of those of a set's tiles: 0 has the sums, which are stored first. */
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
    else if (slice == 0) _tile_loadd(0, x + int8_set_factors(form) + 128, 0);
    if (second) _tile_dpbusd(0, 3, 4);
    else _tile_dpbusd(0, 1, 2);
  }
}

/* Features begin .. end - 1, whole INT8_OUTPUTS. */
GD_INLINE void int8_turned_outputs(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop, int has_offset, int8_block form) {
  enum { PAIRS = INT8_OUTPUTS / 2, TAIL = 128 };
  const int slots = 1 + 3 * int8_slices(form), is_any = int8_is_any(form), is_direct = int8_are_bytes(form) && form.is_mlx && !is_any;
  const int64_t set = 2 * form.group, sets = way->sets, stride = way->stride, row_bytes = way->row_bytes, asked = INT8_OUTPUTS * row_bytes / sets;
  /* One after the other: if their addresses had the same lowest 12 bits, loads of one would wait for stores to the other. */
  _Alignas(4096) uint8_t panels[2][INT8_OUTPUTS * (is_any ? INT8_CHUNKS : set)];
  _Alignas(64) uint8_t tail[INT8_OUTPUTS * TAIL] = {0};
  _Alignas(64) int32_t sums[2][16 * INT8_OUTPUTS];
  __mmask16 odd = 0xaaaa, even = 0x5555;
  __asm__ volatile("" : "+Yk"(odd), "+Yk"(even)); /* not made anew each time */
  vf out[PAIRS];
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
      int8_ask(row + asked * unpacked_set, asked, way->end);
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
    const uint8_t *x = way->x + multiplied_set * int8_set_bytes(form);
    const float *factors = (const float *)(way->x + added_set * int8_set_bytes(form) + int8_set_factors(form));
    vf x_scales = load(factors, 0, GD_CPU_F32), x_sums = load(factors, 16, GD_CPU_F32);
    GD_UNROLL for (int p = 0; p < PAIRS; p++) {
      GD_UNROLL for (int slot = p * slots / PAIRS; slot < (p + 1) * slots / PAIRS; slot++) {
        int8_turned_slot(slot, numbers, apart, x, sums[s % 2], has_offset, form);
      }
      GD_UNROLL for (int f = 2 * p; f < 2 * p + 2; f++) {
        if (!int8_are_bytes(form) || !form.is_mlx) int8_turned_row(own + f * own_apart, panel + f * set, form);
      }
      int64_t at = 2 * p * stride + 2 * added_set;
      int8_turned_terms(
        sums[(s + 1) % 2] + 2 * p * 16, way->scales + at, way->offsets + at, stride, x_scales, x_sums, odd, even, &out[p], has_offset);
    }
    if (s < steps && ++unpacked_set == sets) {
      unpacked_set = 0;
      row += INT8_OUTPUTS * row_bytes;
    }
    if (s >= 1 && s < steps && ++multiplied_set == sets) multiplied_set = 0;
    if (s > 2) added_set++;
    if (__builtin_expect(s == 2 || added_set == sets, 0)) {
      if (s > 2) {
        int8_turned_finish(way, first, out);
        added_set = 0;
        first += INT8_OUTPUTS;
        if (gd_cpu_stopped(stop)) return;
      }
      GD_UNROLL for (int p = 0; p < PAIRS; p++) out[p] = (vf){0};
    }
  }
}

typedef void int8_turned_run(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop);
/* Formats with kernels of their own, as GD_INT8_NIBBLES has them; then those of the others, by their groups. */
#define GD_INT8_TURNED(F)                      \
  GD_INT8_DIRECT(F)                            \
  F(AFFINE8_G32, bytes32, 32, 0, 32, 1, 1)     \
  F(AFFINE8_G64, bytes64, 64, 0, 64, 1, 1)     \
  F(AFFINE8_G128, bytes128, 128, 0, 128, 1, 1) \
  F(Q8_0, q8_0, 32, GGML_Q8_0, 34, 1, 0)
#define GD_INT8_TURNED_OTHERS(F)            \
  F(, any16, 16, GGML_Q6_K, 0, 1, 1)        \
  F(, any16_offset, 16, 0, 0, 1, 1)         \
  F(, any32, 32, GGML_Q6_K, 0, 1, 1)        \
  F(, any32_offset, 32, 0, 0, 1, 1)
#define GD_TURNED(FORMAT, NAME, GROUP, TYPE, ...)                                                                                      \
  static __attribute__((noinline)) void int8_turned_##NAME(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop) { \
    int8_block form = {GROUP, TYPE, __VA_ARGS__};                                                                                      \
    int8_turned_x(way, form);                                                                                                          \
    int8_turned_outputs(way, begin, end, stop, (TYPE) == 0 || int8_ggml_has_offset(TYPE), form);                                       \
  }
GD_INT8_TURNED(GD_TURNED)
GD_INT8_TURNED_OTHERS(GD_TURNED)
#undef GD_TURNED

static int8_turned_run *int8_turned_of(const gd_cpu_matrix *matrix, const int8_form *form) {
  switch (matrix->format) {
#define GD_CASE(FORMAT, NAME, ...) \
  case GD_CPU_FORMAT_##FORMAT: return int8_turned_##NAME;
    GD_INT8_TURNED(GD_CASE)
#undef GD_CASE
    default:
      if (matrix->scales != NULL) return NULL;
      if (form->group == 16) return form->has_offset ? int8_turned_any16_offset : int8_turned_any16;
      return form->has_offset ? int8_turned_any32_offset : int8_turned_any32;
  }
}

/* Takes all whole INT8_OUTPUTS features of a few rows; returns the first feature that is left. */
static int64_t int8_turned_whole(const gd_cpu_linear *op, const int8_memory *memory, int64_t begin, int64_t end, const uint32_t *stop) {
  const gd_cpu_matrix *matrix = &op->weight;
  int8_form form = int8_form_of(matrix);
  int64_t columns = matrix->columns, set = 2 * form.group, sets = (columns + set - 1) / set, whole = begin + (end - begin) / INT8_OUTPUTS * INT8_OUTPUTS;
  int8_turned_run *run = int8_turned_of(matrix, &form);
  int64_t fewest = form.group > 32 || matrix->format == GD_CPU_FORMAT_Q4_K ? 3 : 5; /* fewer are faster in vectors */
  if (run == NULL || op->rows < fewest || op->rows > INT8_TURNED_ROWS || whole == begin) return begin;
  if (2 * sets > INT8_SPAN_GROUPS || sets * (16 * set + 192) + 64 > INT8_PANEL) return begin;
  int8_turned way = {
    .op = op, .form = &form, .end = memory->end, .x = (uint8_t *)(((uintptr_t)memory->x + 63) & ~(uintptr_t)63), .scales = memory->scales,
    .offsets = memory->offsets, .columns = columns, .row_bytes = matrix_bytes(matrix, columns), .groups = columns / form.group, .sets = sets, .stride = 2 * sets};
  int8_shapes shapes = {.palette = 1};
  int slice = form.group < 32 ? 32 : 64;
  for (int t = 0; t < 5; t++) {
    int is_x = t == 2 || t == 4, is_weight = t == 1 || t == 3;
    shapes.rows[t] = (uint8_t)(is_x ? slice / 4 : INT8_OUTPUTS);
    shapes.bytes[t] = (uint16_t)(is_weight ? slice : 64);
  }
  _tile_loadconfig(&shapes);
  run(&way, begin, whole, stop);
  int8_tiles_end();
  return whole;
}
