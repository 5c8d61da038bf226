/* Numbers of INT8_OUTPUTS rows side by side, four columns of each in a lane, with vectors of 16 lanes: 16 bytes of four rows are loaded into one vector, so that lanes
 * change places within 128 bits only. Where two numbers share a byte they are put side by side before they are taken apart. */
#if GD_WIDTH == 16

/* The k-th four of 16 bytes of each row. */
GD_INLINE void int8_beside_words(const uint8_t *from, int64_t row_bytes, vi out[4]) {
  vi own[4];
  GD_UNROLL for (int q = 0; q < 4; q++) own[q] = int8_of_four(from + q * row_bytes, 4 * row_bytes);
  int8_transpose_4(own, out);
}

/* 64 bytes of each row: numbers of 128 columns of four bits, both in a byte, or of 64 of eight, unsigned. They may be several blocks. */
GD_INLINE void int8_beside(const uint8_t *from, int64_t row_bytes, vi numbers[16], int8_block form) {
  int are_bytes = int8_has_bytes(form), each = form.is_mlx || form.type == GGML_Q4_K ? 64 : are_bytes ? 32 : 16;
  GD_UNROLL for (int k = 0; k < 64; k += 16) {
    int8_beside_words(from + k / each * form.bytes + int8_offset(form) + k % each, row_bytes, numbers + k / 4);
  }
  if (are_bytes && !form.is_mlx) GD_UNROLL for (int k = 0; k < 16; k++) numbers[k] ^= int8_repeat_4(0x80);
}

/* Half of a block of Q5_K or Q6_K, `half`, of each of INT8_OUTPUTS rows: its first 64 columns, and the other ones. */
GD_INLINE void int8_beside_halves(const uint8_t *from, int64_t row_bytes, int half, vi numbers[16], vi others[16], uint32_t type) {
  int is_six = type == GGML_Q6_K, above_at = is_six ? 128 + 32 * half : 16;
  vi above[8];
  GD_UNROLL for (int k = 0; k < 8; k += 4) int8_beside_words(from + above_at + 4 * k, row_bytes, above + k);
  if (!is_six) GD_UNROLL for (int k = 0; k < 8; k++) above[k] = (vi)((vu)above[k] >> 4 * half);
  GD_UNROLL for (int k = 0; k < 16; k += 4) {
    vi four[4];
    int8_beside_words(from + (is_six ? 0 : 48) + 64 * half + 4 * k, row_bytes, four);
    GD_UNROLL for (int i = 0; i < 4; i++) {
      int own = (k + i) % 8, run = k / 8;
      if (is_six) {
        numbers[k + i] = int8_low(four[i]) | int8_above(above[own], 2 * run, 0x30);
        others[k + i] = int8_high(four[i]) | int8_above(above[own], 2 * run + 4, 0x30);
      } else {
        vi *to = run == 0 ? numbers : others;
        to[own] = int8_low(four[i]) | int8_above(above[own], 2 * run, 0x10);
        to[own + 8] = int8_high(four[i]) | int8_above(above[own], 2 * run + 1, 0x10);
      }
    }
  }
}
#endif
