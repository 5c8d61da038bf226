/* The scales and offsets of INT8_OUTPUTS rows of ggml's large blocks as panels have them (int8_panel.h): lanes are rows from the beginning, so that no
 * float32 changes places. The same products as those of int8_ggml_factors. */

#if GD_WIDTH >= 8
/* 16 bytes of each of GD_WIDTH rows: words[k] has the k-th four of every row. */
GD_INLINE void int8_words_across(const uint8_t *from, int64_t row_bytes, vu words[4]) {
  vi turned[4];
#if GD_WIDTH == 16
  int8_beside_words(from, row_bytes, turned);
#else
  const uint8_t *rows[8];
  GD_UNROLL for (int r = 0; r < 8; r++) rows[r] = from + r * row_bytes;
  int8_packed_words(rows, 0, turned);
#endif
  GD_UNROLL for (int k = 0; k < 4; k++) words[k] = (vu)turned[k];
}

/* A block of eight groups begins with two half floats; the first four scales and the first four minima, six bits of each byte; and four bits of the last ones,
 * whose two upper bits are above those six. bytes: the eight scales (kind 0) or minima (1) of each lane's block. Returns their factors. */
GD_INLINE vf int8_eights_bytes(const vu words[4], int kind, vu bytes[2]) {
  bytes[0] = words[1 + kind] & 0x3f3f3f3f;
  bytes[1] = (words[3] >> 4 * kind & 0x0f0f0f0f) | (words[1 + kind] >> 2 & 0x30303030);
  vf factor = f16_to_vf(__builtin_convertvector(words[0] >> 16 * kind & 0xffff, vh));
  return kind == 1 ? -factor : factor;
}

static __attribute__((noinline)) void int8_across_eights(const uint8_t *block, int64_t row_bytes, float *scales, float *offsets) {
  vu words[4], bytes[2];
  int8_words_across(block, row_bytes, words);
  GD_UNROLL for (int kind = 0; kind < 2; kind++) {
    vf factor = int8_eights_bytes(words, kind, bytes);
    GD_UNROLL for (int g = 0; g < 8; g++) {
      vi number = (vi)(bytes[g / 4] >> g % 4 * 8 & 0xff);
      store(kind == 0 ? scales : offsets, g * INT8_OUTPUTS, GD_CPU_F32, __builtin_convertvector(number, vf) * factor);
    }
  }
}

/* Copies a half float. In assembly: compilers gather such numbers in vectors, whose units limit products. */
GD_INLINE void int8_copy_half(const uint8_t *from, uint16_t *to) {
  uint16_t half = *(const h1_memory *)from;
  __asm__ volatile("movw %w1, %0" : "=m"(*to) : "r"(half));
}
/* The half floats of INT8_OUTPUTS rows in `blocks` blocks, `bytes` apart, from the first on, block by block. Copied before any
 * is used, since a load of several waits for the stores of each. */
GD_INLINE void int8_halves_across(const uint8_t *from, int64_t row_bytes, int64_t blocks, int bytes, uint16_t *halves) {
  for (int64_t b = 0; b < blocks; b++, from += bytes, halves += INT8_OUTPUTS) {
    GD_UNROLL for (int f = 0; f < INT8_OUTPUTS; f++) int8_copy_half(from + f * row_bytes, halves + f);
  }
}

/* Of a block of Q6_K: sixteen signed bytes, and a half float, which is among `halves`. */
static __attribute__((noinline)) void int8_across_sixteens(const uint8_t *block, int64_t row_bytes, const uint16_t *halves, float *scales) {
  vu words[4];
  int8_words_across(block + 192, row_bytes, words);
  vf factor = f16_to_vf(*(const vh_memory *)halves);
  GD_UNROLL for (int g = 0; g < 16; g++) {
    vi number = (vi)(words[g / 4] << (24 - g % 4 * 8)) >> 24;
    store(scales, g * INT8_OUTPUTS, GD_CPU_F32, __builtin_convertvector(number, vf) * factor);
  }
}
#endif

/* The scales and offsets of columns first .. first + count - 1 of rows feature .. feature + INT8_OUTPUTS - 1, if the format is one of these. */
static int int8_across_blocks(const gd_cpu_matrix *matrix, int64_t feature, int64_t first, int64_t count, float *scales, float *offsets) {
#if GD_WIDTH >= 8
  const int is_six = matrix->format == GD_CPU_FORMAT_Q6_K;
  if (!is_six && matrix->format != GD_CPU_FORMAT_Q4_K && matrix->format != GD_CPU_FORMAT_Q5_K) return 0;
  int64_t bytes = layout_of(matrix).bytes, row_bytes = matrix_bytes(matrix, matrix->columns);
  const uint8_t *block = (const uint8_t *)matrix_row(matrix, feature) + matrix_bytes(matrix, first);
  uint16_t halves[INT8_SPAN / 256 * INT8_OUTPUTS], *half = halves;
  if (is_six) int8_halves_across(block + ggml_half_at(GGML_Q6_K), row_bytes, count / 256, (int)bytes, halves);
  for (int64_t i = 0; i < count; i += 256, block += bytes, half += INT8_OUTPUTS) {
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      const uint8_t *own = block + p * GD_WIDTH * row_bytes;
      if (is_six) int8_across_sixteens(own, row_bytes, half + p * GD_WIDTH, scales + p * GD_WIDTH);
      else int8_across_eights(own, row_bytes, scales + p * GD_WIDTH, offsets + p * GD_WIDTH);
    }
    scales += (is_six ? 16 : 8) * INT8_OUTPUTS;
    offsets += 8 * INT8_OUTPUTS;
  }
  return 1;
#else
  (void)matrix, (void)feature, (void)first, (void)count, (void)scales, (void)offsets;
  return 0;
#endif
}
