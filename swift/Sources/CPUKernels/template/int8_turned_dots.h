/* Several rows of x with AVX-512 VNNI, in parts of eight (int8_turned.h). Two dwords of the weight, one of each of a set's groups, go to all lanes by one load; a lane has its
 * row's and group's four columns of x. So a product of 64 bytes is one output's for eight rows, and sixteen outputs are sixteen chains of sums. Numbers
 * of the weight are unpacked so that dwords of both groups alternate, a set ahead, since loads of eight bytes would wait for stores of 64. */

#include "int8_turned_factors.h"

/* The fewest rows for which this is faster; fewer go by int8_few.h, row by row or by panels. As measured on Intel's processors, and on a Zen 5, which does not ask by
 * pages. It takes the instruction of int8_bits. */
GD_INLINE int64_t int8_turned_least(int8_block form) {
  if (!gd_cpu_is_wide || !gd_cpu_has_vbmi) return INT64_MAX;
  if (!gd_cpu_asks_by_pages) return int8_is_affine8(form) || form.type == GGML_Q5_K ? 9 : 7;
  if (form.group == 16 || form.type == GGML_Q5_K) return 5;
  if (int8_is_any(form)) return 2;
  return form.group > 32 || int8_are_bytes(form) || int8_dots_span(form) == 1 ? 3 : 5;
}
/* Whether more than int8_turned_most rows are taken, that many at a time; else they go by panels. */
GD_INLINE int int8_turned_takes_more(void) { return !gd_cpu_asks_by_pages; }
/* Pairs of dwords that are multiplied at a time: as many vectors of x fit the registers with sixteen sums. Of a group of 32 half of them: eight rows are unpacked
 * after each half, or some after each pair. */
GD_INLINE int int8_dots_pairs(int64_t group) { return group <= 32 ? 4 : 8; }
/* Bytes of an output in a panel: of a set, or of the columns that are unpacked at a time. */
GD_INLINE int64_t int8_dots_apart(int8_block form) { return int8_in_chunks(form) ? INT8_PIECE : 2 * form.group; }

/* Bytes of x of a set: a vector for each pair, then as many scales, sums and starts. */
GD_INLINE int64_t int8_set_factors(int64_t group) { return group * 16; }
GD_INLINE int64_t int8_set_bytes(int64_t group) { return int8_set_factors(group) + 192; }

/* The dword of a group's x that pair k of its numbers multiplies: where two columns share a byte the low halves of some bytes come before the high ones. */
static int int8_turned_place(int k, int8_block form) {
  if (!form.is_mlx || int8_are_bytes(form)) return k;
  int run = form.group < 64 ? 4 : 8;
  return k / (2 * run) * 2 * run + 2 * (k % run) + k / run % 2;
}

/* Puts sets begin .. end - 1 of rows `row` .. row + rows - 1 into their order, sixteen dwords of each row and group at a time: those of a set or of several,
 * or of large groups one half, then the other. */
static void int8_turned_part(const gd_cpu_linear *op, int64_t row, int64_t rows, uint8_t *to, int64_t begin, int64_t end, int8_block form) {
  int64_t group = form.group, set = 2 * group, pairs = group / 4, bytes = int8_set_bytes(group), last = least(end * set, op->rounded->columns);
  int is_large = pairs > 16;
  int64_t step = is_large ? set : 128, apart = is_large ? group : 0;
  vi places[2]; /* of the first and the second group, or of both halves */
  int64_t stores[16];
  for (int64_t k = 0; k < 32; k++) {
    int64_t pair = k % 16 % pairs, ahead = k % 16 / pairs, of_group = 2 * ahead + k / 16;
    ((int32_t *)places)[k] = is_large ? int8_turned_place((int)k, form) : (int)(of_group * pairs) + int8_turned_place((int)pair, form);
    stores[k % 16] = ahead * bytes + pair * 64;
  }
  int8_x own[INT8_TURNED_ROWS];
  for (int64_t m = 0; m < rows; m++) own[m] = int8_from(int8_row_of(op, row + m), begin * set, group);
  to += begin * bytes;
  for (int64_t at = begin * set; at < last; at += step) {
    int64_t sets = least(step, last - at + group) / set, dwords = is_large ? 16 : sets * pairs;
    for (int half = 0; half <= is_large; half++) {
      vi numbers[16] = {0};
      for (int64_t i = 0; i < 2 * rows; i++) {
        int64_t from = i % 2 * apart, left = last - at - from;
        const int8_t *values = own[i / 2].values + from;
        vi low = int8_of_x(values, left), high = int8_of_x(values + 64, left - 64);
        numbers[i] = (vi)_mm512_permutex2var_epi32((__m512i)low, (__m512i)places[is_large ? half : i % 2], (__m512i)high);
      }
      int8_transpose(numbers);
      GD_UNROLL for (int k = 0; k < 16; k++) {
        if (k < dwords) store_vi(to + half * 1024 + stores[k], numbers[k]);
      }
    }
    for (int64_t s = 0; s < sets; s++, to += bytes) {
      int8_turned_x_factors(own, rows, least(set, last - at - s * set) / group, to + int8_set_factors(group));
      for (int64_t m = 0; m < rows; m++) own[m].values += set, own[m].scales += 2, own[m].sums += 2, own[m].starts += 2;
    }
  }
}
/* The same for all parts of rows from `first` on. */
static __attribute__((noinline)) void int8_turned_x(
  const gd_cpu_linear *op, int64_t first, int64_t rows, uint8_t *to, int64_t begin, int64_t end, int8_block form, const uint32_t *stop
) {
  int64_t bytes = int8_turned_sets(op->rounded->columns, form) * int8_set_bytes(form.group);
  for (int64_t row = 0; row < rows && !gd_cpu_stopped(stop); row += INT8_TURNED_ROWS, to += bytes) {
    int8_turned_part(op, first + row, least(INT8_TURNED_ROWS, rows - row), to, begin, end, form);
  }
}

/* Dwords of two groups in turn: of the halves of each 256 bits; of the first halves of two vectors, or their second ones. */
GD_INLINE vi int8_pairs_within(vi numbers, int64_t group) {
  const vi of_32 = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15}, of_16 = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  return (vi)_mm512_permutexvar_epi32((__m512i)(group < 32 ? of_16 : of_32), (__m512i)numbers);
}
GD_INLINE vi int8_pairs_between(vi a, vi b, int second) {
  const vi places = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
  return (vi)_mm512_permutex2var_epi32((__m512i)a, (__m512i)(places + 8 * second), (__m512i)b);
}

/* `bytes` of numbers that lie in the order of columns. */
GD_INLINE void int8_dots_bytes(const uint8_t *from, uint8_t *to, int64_t bytes, int64_t group) {
  for (int64_t i = 0; i < bytes; i += 2 * group < 64 ? 64 : 2 * group) {
    if (group <= 32) {
      store_vi(to + i, int8_pairs_within(load_vi(from + i), group));
      continue;
    }
    for (int64_t k = 0; k < group; k += 64) {
      vi a = load_vi(from + i + k), b = load_vi(from + i + group + k);
      store_vi(to + i + 2 * k, int8_pairs_between(a, b, 0));
      store_vi(to + i + 2 * k + 64, int8_pairs_between(a, b, 1));
    }
  }
}

/* Bits of bytes by matrices. In assembly, since the instruction set of these kernels lacks it. */
#define INT8_TOP(B) (INT64_C(0x1020000) << (B))
GD_INLINE vi int8_bits(vi bytes, int8_matrices matrices) {
  __asm__("vgf2p8affineqb $0, %1, %0, %0" : "+v"(bytes) : "v"(matrices));
  return bytes;
}

/* The numbers of two blocks of Q8_0, unsigned. */
GD_INLINE vi int8_dots_of_bytes(const uint8_t *from, int8_block form) {
  from += int8_offset(form);
  __m512i first = _mm512_castsi256_si512(int8_load_32(from));
  return (vi)_mm512_inserti64x4(first, int8_load_32(from + form.bytes), 1) ^ int8_repeat_4(0x80);
}

/* Both halves of bytes. */
GD_INLINE void int8_dots_halves(vi bytes, uint8_t *to) {
  store_vi(to, int8_low(bytes));
  store_vi(to + 64, int8_bits(bytes, INT8_BOTH(INT8_UPPER, INT8_UPPER)));
}
/* Of 16 bytes of each of two groups the low halves of their dwords in turn, then the high ones. Loads of 16 bytes seldom need two lines, those of 64 bytes do
 * in most blocks of 18 bytes, and that takes a tenth of the time. */
GD_INLINE vi int8_dots_of_32(const uint8_t *from, int apart, uint32_t type) {
  const vi places = {0, 16, 1, 17, 2, 18, 3, 19, 0, 16, 1, 17, 2, 18, 3, 19};
  __m512i first = _mm512_castsi128_si512(int8_load_16(from)), second = _mm512_castsi128_si512(int8_load_16(from + apart));
  vi numbers = int8_bits((vi)_mm512_permutex2var_epi32(first, (__m512i)places, second), INT8_BOTH(INT8_LOWER, INT8_UPPER));
  return ggml_has_table(type) ? int8_entries_of(numbers, type) : numbers;
}
/* Half a block of Q6_K, as in int8_six. */
GD_INLINE void int8_dots_six(const uint8_t *block, int half, uint8_t *to) {
  vi four = load_vi(block + 64 * half), two = (vi)_mm512_broadcast_i64x4(int8_load_32(block + 128 + 32 * half));
  vi low = int8_low(four) | int8_bits(two, INT8_BOTH(INT8_TOP(0), INT8_TOP(2)));
  vi high = int8_bits(four, INT8_BOTH(INT8_UPPER, INT8_UPPER)) | int8_bits(two, INT8_BOTH(INT8_TOP(4), INT8_TOP(6)));
  store_vi(to, int8_pairs_within(low, 16));
  store_vi(to + 64, int8_pairs_within(high, 16));
}

/* The numbers of a row's set, which begin at `from`; of Q5_K set `place` of the block there, of Q6_K the whole block. */
GD_INLINE void int8_dots_row(const uint8_t *from, uint8_t *to, int64_t place, int8_block form) {
  const vi twice = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7}, odd = {0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4, 0, 4};
  if (form.type == GGML_Q8_0) {
    store_vi(to, int8_pairs_within(int8_dots_of_bytes(from, form), 32));
  } else if (form.groups == 16) {
    GD_UNROLL for (int half = 0; half < 2; half++) int8_dots_six(from, half, to + 128 * half);
  } else if (form.type == GGML_Q5_K) {
    store_vi(to, int8_pairs_within(int8_five(from, (int)place), 32));
  } else if (int8_are_bytes(form)) {
    int8_dots_bytes(from, to, 2 * form.group, form.group);
  } else if (form.group == 64) {
    int8_dots_halves(int8_pairs_within(load_vi(from), 32), to);
  } else if (form.group == 128) {
    vi a = load_vi(from), b = load_vi(from + 64);
    GD_UNROLL for (int i = 0; i < 2; i++) int8_dots_halves(int8_pairs_between(a, b, i), to + 128 * i);
  } else if (form.groups == 8) {
    /* The low halves are one group, the high ones the next. */
    vi all = (vi)_mm512_permutexvar_epi32((__m512i)twice, _mm512_castsi256_si512(int8_load_32(from)));
    store_vi(to, (vi)((vu)all >> (vu)odd) & 0x0f0f0f0f);
  } else {
    store_vi(to, int8_dots_of_32(from + int8_offset(form), form.bytes, form.type));
  }
}

/* `bytes` of each of INT8_OUTPUTS rows that end within a set or with it, and zeros. */
enum { INT8_DOTS_TAIL = 256 };
static __attribute__((noinline)) void int8_dots_tail(const uint8_t *from, int64_t row_bytes, int64_t bytes, uint8_t *tail) {
  __builtin_memset(tail, 0, INT8_OUTPUTS * INT8_DOTS_TAIL);
  for (int f = 0; f < INT8_OUTPUTS; f++) __builtin_memcpy(tail + f * INT8_DOTS_TAIL, from + f * row_bytes, (size_t)bytes);
}

/* Whether a Zen 5 unpacks rows between products and asks for a line with each: it does more at once where instructions alternate, while Intel's processors take up to a
 * tenth longer so. Formats of which the code was worth it: a row's set is a line or little more. */
GD_INLINE int int8_dots_alternate(int8_block form) {
  if (form.is_mlx) return form.group == 64 && !int8_are_bytes(form);
  return form.type == GGML_Q4_0 || form.type == GGML_Q8_0 || form.type == GGML_Q4_K;
}
/* Bytes of a row's set. */
GD_INLINE int int8_dots_bytes_of_set(int8_block form) { return form.groups == 8 ? form.bytes / 4 : 2 * form.bytes; }

/* Rows from `row` on that are still to be unpacked to `to` and `halves`: set `set`, or the columns of a chunk from it on, of which `left` are there. NULL: none.
 * ask: of the next INT8_OUTPUTS rows, in the order of addresses. */
typedef struct int8_dots_rows {
  const uint8_t *row, *ask;
  int64_t row_bytes, set, left;
  uint8_t *to;
  uint16_t *halves;
} int8_dots_rows;

/* All of a set, of rows from the first one, `row`, on. */
GD_INLINE int8_dots_rows int8_dots_all(
  const int8_turned *way, const uint8_t *row, int64_t set, uint8_t *to, uint16_t *halves, uint8_t tail[INT8_OUTPUTS * INT8_DOTS_TAIL], int8_block form
) {
  const uint8_t *ask = row + INT8_OUTPUTS * (way->row_bytes + set * int8_dots_bytes_of_set(form));
  int8_dots_rows rows = {row, ask, way->row_bytes, set, way->columns - set * 2 * form.group, to, halves};
  /* If a row ends within a chunk's columns, the rest may be anything: x has zeros there. */
  if (int8_in_chunks(form)) rows.row += matrix_bytes(&way->op->weight, set * 2 * form.group);
  else rows.row += form.type == GGML_Q5_K ? set / 4 * form.bytes : int8_set_at(set, form);
  if (!int8_in_chunks(form) && __builtin_expect(rows.left < 2 * form.group, 0)) {
    int8_dots_tail(rows.row, rows.row_bytes, rows.left / form.group * form.bytes, tail);
    rows.row = tail;
    rows.row_bytes = INT8_DOTS_TAIL;
  }
  return rows;
}

/* A row's next columns, of formats without a kernel of their own. */
static __attribute__((noinline)) void int8_dots_any(const int8_turned *way, const uint8_t *row, int64_t columns, uint8_t *to, int64_t group) {
  _Alignas(64) uint8_t numbers[INT8_PIECES];
  way->form->numbers(row, 0, columns, numbers);
  /* Code for each group. */
  GD_UNROLL for (int64_t constant = 16; constant <= 128; constant *= 2) {
    if (group == constant) int8_dots_bytes(numbers, to, INT8_PIECE, constant);
  }
}

/* Unpacks the next row. */
GD_INLINE void int8_dots_next(const int8_turned *way, int8_dots_rows *rows, int8_block form) {
  if (int8_is_any(form)) {
    int8_dots_any(way, rows->row, least(INT8_PIECE, rows->left), rows->to, form.group);
  } else {
    if (int8_dots_span(form) == 1) int8_dots_copy(rows->row, rows->halves, form);
    int8_dots_row(rows->row, rows->to, rows->set % 4, form);
  }
  rows->row += rows->row_bytes, rows->to += int8_dots_apart(form), rows->halves += 2;
}

/* Unpacks half of INT8_OUTPUTS rows. */
GD_INLINE void int8_dots_unpack(const int8_turned *way, int8_dots_rows *rows, int8_block form) {
  if (int8_is_any(form)) {
    for (int f = 0; f < INT8_OUTPUTS / 2; f++) int8_dots_next(way, rows, form);
  } else {
    GD_UNROLL for (int f = 0; f < INT8_OUTPUTS / 2; f++) {
      __asm__ volatile("" : "+r"(rows->row)); /* One addition per row, after the products before it: compilers multiply. */
      int8_dots_next(way, rows, form);
    }
  }
}

/* Adds pairs first .. end - 1 of a set of INT8_OUTPUTS outputs to their sums. rows: NULL, or those that are unpacked and asked for meanwhile, some after each
 * pair. */
GD_INLINE void int8_dots_products(
  const uint8_t *panel, const uint8_t *x, int first, int end, vi sums[INT8_OUTPUTS], const int8_turned *way, int8_dots_rows *rows, int8_block form
) {
  const int pairs = int8_dots_pairs(form.group), of_pairs = rows == NULL ? 0 : INT8_OUTPUTS * pairs / (end - first);
  _Pragma("clang loop unroll(disable)")
  for (int k = first; k < end; k += pairs) {
    vi own[8];
    GD_UNROLL for (int i = 0; i < pairs; i++) own[i] = load_vi(x + 64 * (k + i));
    GD_UNROLL for (int i = 0; i < pairs; i++) {
      GD_UNROLL for (int f = 0; f < INT8_OUTPUTS; f++) {
        /* Assembly keeps this order: compilers load all dwords first, for which there are too few registers. */
        vi both;
        __asm__ volatile(
          "vpbroadcastq %2, %1\n\tvpdpbusd %3, %1, %0"
          : "+v"(sums[f]), "=&v"(both)
          : "m"(*(const uint64_t *)(panel + f * int8_dots_apart(form) + 8 * (k + i))), "v"(own[i]));
      }
      GD_UNROLL for (int r = i * of_pairs / pairs; r < (i + 1) * of_pairs / pairs; r++) {
        __asm__ volatile("" : "+r"(rows->row));
        __builtin_prefetch(rows->ask, 0, 2);
        rows->ask += int8_dots_bytes_of_set(form);
        int8_dots_next(way, rows, form);
        __asm__ volatile("" : : : "memory");
      }
    }
  }
}

/* Asks for the outputs from `first` on of all rows of x: 0.98 to 0.99 of a prompt's time on a Zen 5. */
static __attribute__((noinline)) void int8_dots_ask(const int8_turned *way, int64_t first) {
  for (int64_t row = 0; row < way->rows; row += LINEAR_ROWS_AHEAD) linear_ask_first(way->op, way->rows - row, way->row + row, first);
}

/* Features begin .. end - 1, whole INT8_OUTPUTS. */
GD_INLINE void int8_turned_loop(const int8_turned *way, int64_t begin, int64_t end, const uint32_t *stop, int8_block form) {
  const int64_t set = 2 * form.group, apart = int8_dots_apart(form), of_panel = apart / set, sets = way->sets, x_bytes = int8_set_bytes(form.group);
  const int64_t block_bytes = INT8_OUTPUTS * way->row_bytes, parts = int8_turned_parts(way->rows);
  const int has_offset = int8_has_offset(form), span = int8_dots_span(form);
  /* From an output's factors to the next one's, and from a set's to those of the next one. */
  const int64_t stride = span == 8 ? 16 : span > 0 ? 2 : way->stride, ahead = span == 4 ? 2 * INT8_OUTPUTS : 2;
  _Alignas(64) uint8_t panels[2][INT8_OUTPUTS * apart];
  _Alignas(64) uint16_t halves[2 * INT8_DOTS_HALVES];
  _Alignas(64) uint8_t tail[INT8_OUTPUTS * INT8_DOTS_TAIL];
  /* Bytes from `ask` on are asked for as those before `read` are read, by pages as the loop of tiles does, unless they are asked for with each row. */
  const int alternates = int8_dots_alternate(form) && !gd_cpu_asks_by_pages;
  const uintptr_t asked = (uintptr_t)(block_bytes / sets), early = (uintptr_t)(FETCH_PAGE + block_bytes - least(block_bytes, FETCH_PAGE * FETCH_PAGES));
  const uint8_t *block = (const uint8_t *)matrix_row(&way->op->weight, begin);
  uintptr_t ask = ((uintptr_t)block + FETCH_BYTES - 1) & ~(uintptr_t)(FETCH_BYTES - 1);
  int turn = 0;
  /* Set s is multiplied and the one after it unpacked; at first there is none to multiply. */
  int64_t s = -1;
  for (int64_t first = begin; first < end && !gd_cpu_stopped(stop); first += INT8_OUTPUTS, block += block_bytes, s = 0) {
    vf out[INT8_TURNED_MOST / INT8_TURNED_ROWS][INT8_OUTPUTS / 2];
    __builtin_memset(out, 0, (size_t)parts * sizeof out[0]);
    if (parts > 1 && !gd_cpu_asks_by_pages) int8_dots_ask(way, first);
    if (span == 0) int8_turned_factors(way, first);
    const uint8_t *next = first + INT8_OUTPUTS < end ? block + block_bytes : NULL, *x_of_set = way->x;
    const float *scales = way->scales;
    uintptr_t read = (uintptr_t)block + (uintptr_t)(s + 1) * asked + early;
    for (; s < sets; s++, read += asked) {
      for (; !alternates && ask < read; ask += FETCH_BYTES) {
        const char *pages = pages_after(ask, FETCH_PAGES);
        if (pages < (const char *)way->end) fetch_line_of_pages(pages, FETCH_PAGES);
      }
      if (span > 0 && s >= 0 && s % span == 0) {
        int8_dots_factors(way, block, s, halves, form);
        scales = way->scales;
      }
      const uint8_t *panel = panels[turn] + (of_panel > 1 && s > 0 ? s % of_panel * set : 0), *x = x_of_set;
      int64_t part = 0;
      do {
        int8_dots_rows rows = {0};
        if (part == 0 && (of_panel == 1 || s + 1 == sets || (s + 1) % of_panel == 0)) {
          const uint8_t *from = s + 1 == sets ? next : block;
          turn ^= 1;
          if (from != NULL) rows = int8_dots_all(way, from, s + 1 == sets ? 0 : s + 1, panels[turn], halves, tail, form);
        }
        vi sums[INT8_OUTPUTS];
        const vi starts = has_offset ? (vi){0} : load_vi(x + int8_set_factors(form.group) + 128);
        GD_UNROLL for (int f = 0; f < INT8_OUTPUTS; f++) sums[f] = starts;
        const int all = (int)form.group / 4, half = form.group == 32 && !int8_in_chunks(form) ? all / 2 : all;
        if (alternates && rows.row != NULL && s >= 0) {
          int8_dots_products(panel, x, 0, all, sums, way, &rows, form);
        } else {
          if (s >= 0) int8_dots_products(panel, x, 0, half, sums, way, NULL, form);
          if (rows.row != NULL) int8_dots_unpack(way, &rows, form);
          if (s >= 0) int8_dots_products(panel, x, half, all, sums, way, NULL, form);
          if (rows.row != NULL) int8_dots_unpack(way, &rows, form);
        }
        if (s < 0) break;
        const float *factors = (const float *)(x + int8_set_factors(form.group));
        vf x_scales = load(factors, 0, GD_CPU_F32), x_sums = load(factors, 16, GD_CPU_F32);
        /* So that the outputs are in memory: the sums need the registers. */
        __asm__ volatile("" : : "r"(out) : "memory");
        GD_UNROLL for (int p = 0; p < INT8_OUTPUTS / 2; p++) {
          int8_turned_terms(sums[2 * p], sums[2 * p + 1], scales + 2 * p * stride, stride, x_scales, x_sums, &out[part][p], has_offset);
        }
        x += sets * x_bytes;
      } while (++part < parts);
      if (s < 0) continue;
      x_of_set += x_bytes;
      scales += ahead;
    }
    for (int64_t part = 0; part < parts; part++) int8_turned_finish(way, first, part * INT8_TURNED_ROWS, out[part]);
  }
}

/* There is nothing to set up. */
GD_INLINE void int8_turned_begin(int64_t group) { (void)group; }
GD_INLINE void int8_turned_end(void) {}
