/* Panels of numbers of five, six and eight bits with vectors of 8 lanes, without bytes in memory between: rows of Q5_K and Q6_K are put side by side while two
 * numbers still share a byte and the bits above them are apart (int8_packed.h). */

/* 16 bytes of each of eight rows, `at` bytes after their beginnings: out[k] has the k-th four of every row. */
GD_INLINE void int8_packed_words(const uint8_t *const rows[8], int64_t at, vi out[4]) {
  vi own[4];
  GD_UNROLL for (int q = 0; q < 4; q++) own[q] = int8_of_two(rows[q] + at, rows[q + 4] - rows[q]);
  int8_transpose_4(own, out);
}

/* Whether the numbers have only four bits. */
GD_INLINE int int8_are_nibbles(int8_block form) { return !int8_has_bytes(form) && form.type != GGML_Q5_K && form.type != GGML_Q6_K; }

/* 16 of every 32 columns of a block of Q5_K, from column `part` on, of eight rows. */
GD_INLINE void int8_packed_fives(const uint8_t *const rows[8], int64_t at, int part, uint8_t *panel) {
  vi fifth[4];
  int8_packed_words(rows, at + 16 + part, fifth);
  GD_UNROLL for (int run = 0; run < 4; run++) {
    vi four[4];
    int8_packed_words(rows, at + 48 + 32 * run + part, four);
    GD_UNROLL for (int k = 0; k < 4; k++) {
      uint8_t *to = panel + (16 * run + part / 4 + k) * 64;
      store_vi(to, int8_low(four[k]) | int8_above(fifth[k], 2 * run, 0x10));
      store_vi(to + 8 * 64, int8_high(four[k]) | int8_above(fifth[k], 2 * run + 1, 0x10));
    }
  }
}

/* The same for a block of Q6_K. */
GD_INLINE void int8_packed_sixes(const uint8_t *const rows[8], int64_t at, int part, uint8_t *panel) {
  GD_UNROLL for (int half = 0; half < 2; half++) {
    vi four[2][4], above[4];
    GD_UNROLL for (int i = 0; i < 2; i++) int8_packed_words(rows, at + 64 * half + 32 * i + part, four[i]);
    int8_packed_words(rows, at + 128 + 32 * half + part, above);
    GD_UNROLL for (int k = 0; k < 4; k++) {
      uint8_t *to = panel + (32 * half + part / 4 + k) * 64;
      GD_UNROLL for (int i = 0; i < 2; i++) {
        store_vi(to + i * 8 * 64, int8_low(four[i][k]) | int8_above(above[k], 2 * i, 0x30));
        store_vi(to + (i + 2) * 8 * 64, int8_high(four[i][k]) | int8_above(above[k], 2 * i + 4, 0x30));
      }
    }
  }
}

/* Sixteen columns of bytes. */
GD_INLINE void int8_packed_as_they_are(const uint8_t *const rows[8], int64_t at, uint8_t *panel, int8_block form) {
  vi four[4];
  int8_packed_words(rows, at, four);
  GD_UNROLL for (int k = 0; k < 4; k++) store_vi(panel + k * 64, form.is_mlx ? four[k] : four[k] ^ int8_repeat_4(0x80));
}

GD_INLINE void int8_packed_whole(
  const gd_cpu_matrix *matrix, int64_t feature, int64_t features, int64_t first, int64_t count, uint8_t *panel, int8_block form
) {
  const uint8_t *rows[INT8_OUTPUTS];
  int has_bytes = int8_has_bytes(form);
  for (int f = 0; f < INT8_OUTPUTS; f++) rows[f] = (const uint8_t *)matrix_row(matrix, feature + least(f, features - 1));
  for (int64_t i = 0; i < count; i += has_bytes ? 16 : 256) {
    int64_t column = first + i, at = column / 256 * form.bytes;
    if (has_bytes) at = column / form.group * form.bytes + int8_offset(form) + column % form.group;
    for (int p = 0; p < 2; p++) {
      uint8_t *to = panel + i * INT8_OUTPUTS + p * 32;
      if (has_bytes) {
        int8_packed_as_they_are(rows + 8 * p, at, to, form);
        continue;
      }
      for (int part = 0; part < 32; part += 16) {
        if (form.type == GGML_Q6_K) int8_packed_sixes(rows + 8 * p, at, part, to);
        else int8_packed_fives(rows + 8 * p, at, part, to);
      }
    }
  }
}
