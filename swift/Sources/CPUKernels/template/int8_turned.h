/* Several rows of x where lanes of a vector are eight rows of x and the two groups of columns of a set: an output's sums are a vector, and its two scales go to all
 * rows as they lie. Nothing of the weight is transposed; x is put into its order for each call, or once for several linears (int8_turn). Products are
 * those of AMX (int8_turned_tiles.h) or of AVX-512 VNNI (int8_turned_dots.h). */

/* Rows of x that are lanes, and the most that share a set's numbers. */
enum { INT8_TURNED_ROWS = GD_CPU_INT8_EACH };
#if defined(GD_DOT_AMX)
enum { INT8_TURNED_MOST = INT8_TURNED_ROWS };
#else
enum { INT8_TURNED_MOST = 8 * INT8_TURNED_ROWS };
#endif

GD_INLINE int64_t int8_turned_parts(int64_t rows) { return (rows + INT8_TURNED_ROWS - 1) / INT8_TURNED_ROWS; }
/* Sets of a row: two groups each. */
GD_INLINE int64_t int8_turned_sets(int64_t columns, int8_block form) { return (columns + 2 * form.group - 1) / (2 * form.group); }

/* `rows` rows of a call, from `row` on, whose x begins at `x`. stride: scales from an output to the next. */
typedef struct int8_turned {
  const gd_cpu_linear *op;
  const int8_form *form;
  const uint8_t *end;
  const uint8_t *x;
  float *scales; /* INT8_OFFSETS before the offsets */
  int64_t columns, row_bytes, groups, sets, stride, row, rows;
  void *out[INT8_TURNED_MOST]; /* rows of the result */
} int8_turned;

/* An int8_block without bytes stands for all formats of its group that have no kernel of their own: their numbers are unpacked by int8_form. */
GD_INLINE int int8_is_any(int8_block form) { return form.bytes == 0; }
/* Numbers that are unpacked by chunks, for Q6_K by blocks; those of other formats by sets. */
GD_INLINE int int8_in_chunks(int8_block form) { return int8_is_any(form) || form.groups == 16; }
/* Numbers that come out of their blocks in the order of columns. */
GD_INLINE int int8_are_bytes(int8_block form) { return int8_in_chunks(form) || int8_has_bytes(form); }
GD_INLINE int int8_has_offset(int8_block form) { return form.type == 0 || int8_ggml_has_offset(form.type); }
/* Where a row's set begins. */
GD_INLINE int64_t int8_set_at(int64_t set, int8_block form) {
  return form.groups == 8 ? set / 4 * form.bytes + int8_offset(form) + set % 4 * 32 : set * 2 * form.bytes;
}
/* A byte's bits 0 to 3, or 4 to 7, by vgf2p8affineqb: the matrices' rows say which bit each bit of the result is. Faster than a
 * shift, which has one port and leaves bits of the neighbour. */
#define INT8_LOWER 0x0102040800000000
#define INT8_UPPER 0x1020408000000000
typedef int64_t int8_matrices __attribute__((vector_size(64)));
#define INT8_BOTH(A, B) ((int8_matrices){A, A, A, A, B, B, B, B})

/* Up to 64 bytes of x, and zeros. */
GD_INLINE vi int8_of_x(const int8_t *from, int64_t bytes) {
  if (bytes <= 0) return (vi){0};
  return (vi)_mm512_maskz_loadu_epi8(bytes < 64 ? ((__mmask64)1 << bytes) - 1 : ~(__mmask64)0, from);
}
/* Scales, sums and starts of `groups` groups of a set, at most two, of rows of x, after its numbers; zeros for the others. */
static __attribute__((noinline)) void int8_turned_x_factors(const int8_x *own, int64_t rows, int64_t groups, uint8_t *to) {
  float *scales = (float *)to, *sums = scales + 16;
  int32_t *starts = (int32_t *)(sums + 16);
  __builtin_memset(to, 0, 192);
  for (int64_t m = 0; m < rows; m++) {
    for (int64_t g = 0; g < groups; g++) {
      scales[2 * m + g] = own[m].scales[g];
      sums[2 * m + g] = own[m].sums[g];
      starts[2 * m + g] = own[m].starts[g];
    }
  }
}

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

/* The outputs of the rows from `first` on, for rows of x from `from` on: vector p has those of rows 2 p and 2 p + 1 of the weight as int8_turned_terms adds them up. */
static __attribute__((noinline)) void int8_turned_finish(const int8_turned *way, int64_t first, int64_t from, const vf out[8]) {
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
  const int64_t count = way->rows - from;
  if (op->residual.data != NULL) {
    _Pragma("clang loop unroll(disable)")
    for (int row = 0; row < INT8_TURNED_ROWS && row < count; row++) {
      rows[row] += load(element(&op->residual, way->row + from + row, 0, first), 0, op->residual.dtype);
    }
  }
  /* A loop for each dtype. */
  GD_UNROLL for (uint32_t dtype = 0; dtype <= GD_CPU_BF16; dtype++) {
    if (dtype != op->out.dtype) continue;
    GD_UNROLL for (int row = 0; row < INT8_TURNED_ROWS; row++) {
      if (row < count) store(way->out[from + row], first, dtype, rows[row]);
    }
  }
}

/* A set's two scales of an output, for all rows of x. */
GD_INLINE vf int8_two(const float *scales) {
  vf all;
  __asm__("vpbroadcastq %1, %0" : "=v"(all) : "m"(*(const double *)scales));
  return all;
}

/* Adds the terms of two outputs' sums: for each two rows of x one output's, then the other's. */
GD_INLINE void int8_turned_terms(
  vi first, vi second, const float *scales, int64_t stride, vf x, vf x_sums, vf *out, int has_offset
) {
  vf term[2];
  GD_UNROLL for (int i = 0; i < 2; i++) {
    vf number = __builtin_convertvector(i == 0 ? first : second, vf) * int8_two(scales + i * stride);
    term[i] = has_offset ? int8_fma(number, x, int8_two(scales + i * stride + INT8_OFFSETS) * x_sums) : number * x;
  }
  vf sum = *out + (vf)_mm512_shuffle_ps((__m512)term[0], (__m512)term[1], 0x88);
  sum += (vf)_mm512_shuffle_ps((__m512)term[0], (__m512)term[1], 0xdd);
  /* Keeps the compiler from moving later terms up, for which it has too few registers. */
  __asm__ volatile("" : "+v"(sum));
  *out = sum;
}
