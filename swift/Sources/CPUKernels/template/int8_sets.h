/* The sets of int8_turned_tiles.h: how numbers of the weight are laid out in tiles, and x in the order of their second operand. */

/* Columns that are unpacked at a time if a format's own function does it, and bytes from a row of them to the next. */
enum { INT8_CHUNK = INT8_PIECE, INT8_CHUNKS = INT8_PIECES };

/* The kernel of a format with a middle subtracts it from the numbers, so that sums begin with 0. */
GD_INLINE int int8_are_signed(int8_block form) { return !int8_is_any(form) && !int8_has_offset(form); }
/* Numbers of a row that a tile has, and the slices of so many that are a set. */
GD_INLINE int int8_slice(int64_t group) { return group < 32 ? 32 : 64; }
GD_INLINE int int8_slices(int64_t group) { return 2 * (int)group / int8_slice(group); }
/* Bytes of x of a set: slices of a dword of each column of its tile, then as many scales, sums and starts. */
GD_INLINE int64_t int8_set_factors(int64_t group) { return 2 * group * 16; }
GD_INLINE int64_t int8_set_bytes(int64_t group) { return int8_set_factors(group) + 192; }

/* The dword of a set's x that dword k of a row's numbers multiplies. Of packed numbers the low halves of 64 bytes are a slice, then the high ones;
 * or of 32 bytes both are one. */
static int int8_turned_place(int k, int8_block form) {
  if (int8_are_bytes(form)) return k;
  if (int8_slices(form.group) > 1) return k / 32 * 32 + 2 * (k % 16) + k / 16 % 2;
  int own = k % 8, half = k / 8;
  return form.is_mlx ? 2 * own + half : form.groups == 8 ? k : own / 4 * 8 + own % 4 + 4 * half;
}

/* INT8_LOWER and INT8_UPPER less 8, where the bits above the third are its opposite. */
#define INT8_LOWER_LESS_8 0x0102040808080808
#define INT8_UPPER_LESS_8 0x1020408080808080
/* Bit B as the fifth; and two bits from B on as the fifth and the sixth, less 32. */
#define INT8_FIFTH(B) (INT64_C(0x1000000) << (B))
#define INT8_TOP_LESS_32(B) (INT64_C(0x1020202) << (B))
#define INT8_BITS(BYTES, MATRICES, FLIPPED) (vi)_mm512_gf2p8affine_epi64_epi8((__m512i)(BYTES), (__m512i)(MATRICES), FLIPPED)

/* The numbers of a row's set; place: which of its block, where that has several. */
GD_INLINE void int8_turned_row(const uint8_t *from, uint8_t *to, int64_t place, int8_block form) {
  if (int8_are_bytes(form)) {
    GD_UNROLL for (int i = 0; i < 2; i++) {
      *(int8_b32_memory *)(to + 32 * i) = *(const int8_b32_memory *)(from + int8_offset(form) + i * form.bytes);
    }
    return;
  }
  GD_UNROLL for (int i = 0; i < int8_slices(form.group) / 2; i++) {
    vi bytes = load_vi(from + 64 * i);
    store_vi(to + 128 * i, int8_low(bytes));
    store_vi(to + 128 * i + 64, INT8_BITS(bytes, INT8_BOTH(INT8_UPPER, INT8_UPPER), 0));
  }
  if (int8_slices(form.group) > 1) return;
  __m512i both;
  if (form.is_mlx || form.groups == 8) {
    both = _mm512_broadcast_i64x4(int8_load_32(from));
  } else {
    from += int8_offset(form);
    both = _mm512_broadcast_i32x4(int8_load_16(from));
    both = _mm512_mask_broadcast_i32x4(both, 0xf0f0, int8_load_16(from + form.bytes));
  }
  vi numbers;
  if (form.type == GGML_Q4_0) numbers = INT8_BITS(both, INT8_BOTH(INT8_LOWER_LESS_8, INT8_UPPER_LESS_8), 0xf8);
  else numbers = INT8_BITS(both, INT8_BOTH(INT8_LOWER, INT8_UPPER), 0);
  if (ggml_has_table(form.type)) numbers = int8_table_entries(numbers, form.type, 0);
  if (form.type == GGML_Q5_K) {
    static const int8_matrices fifths[4] = {
      INT8_BOTH(INT8_FIFTH(0), INT8_FIFTH(1)), INT8_BOTH(INT8_FIFTH(2), INT8_FIFTH(3)),
      INT8_BOTH(INT8_FIFTH(4), INT8_FIFTH(5)), INT8_BOTH(INT8_FIFTH(6), INT8_FIFTH(7))};
    __m512i bits = _mm512_broadcast_i64x4(int8_load_32(from - 32 * (place + 1))); /* see int8_five */
    numbers |= INT8_BITS(bits, fifths[place], 0);
  }
  store_vi(to, numbers);
}

/* The numbers of a block of Q6_K: those of int8_six, less 32. */
GD_INLINE void int8_turned_block(const uint8_t *block, uint8_t *to) {
  GD_UNROLL for (int half = 0; half < 2; half++) {
    vi four = load_vi(block + 64 * half);
    __m512i two = _mm512_broadcast_i64x4(int8_load_32(block + 128 + 32 * half));
    vi low = int8_low(four) | INT8_BITS(two, INT8_BOTH(INT8_TOP_LESS_32(0), INT8_TOP_LESS_32(2)), 0xe0);
    vi high = INT8_BITS(four, INT8_BOTH(INT8_UPPER, INT8_UPPER), 0) | INT8_BITS(two, INT8_BOTH(INT8_TOP_LESS_32(4), INT8_TOP_LESS_32(6)), 0xe0);
    store_vi(to + 128 * half, low);
    store_vi(to + 128 * half + 64, high);
  }
}

/* More than eight rows go by panels. */
GD_INLINE int int8_turned_takes_more(void) { return 0; }

/* Puts sets begin .. end - 1 of rows of x from `first` on into the order of tiles. */
static __attribute__((noinline)) void int8_turned_x(
  const gd_cpu_linear *op, int64_t first, int64_t rows, uint8_t *to, int64_t begin, int64_t end, int8_block form, const uint32_t *stop
) {
  enum { SLICES = 4 };
  (void)stop; /* Eight rows at most. */
  int64_t group = form.group, set = 2 * group, slices = int8_slices(form.group), dwords = int8_slice(group) / 4, columns = op->rounded->columns;
  vi places[SLICES];
  for (int k = 0; k < 16 * slices; k++) ((int32_t *)places)[k] = int8_turned_place(k, form);
  to += begin * int8_set_bytes(group);
  for (int64_t at = begin * set; at < least(end * set, columns); at += set) {
    int64_t left = least(set, columns - at);
    int8_x own[INT8_TURNED_ROWS];
    for (int64_t m = 0; m < rows; m++) own[m] = int8_from(int8_row_of(op, first + m), at, group);
    for (int slice = 0; slice < slices; slice++, to += dwords * 64) {
      vi numbers[16] = {0}, own_places = places[slice];
      int64_t half = slice / 2 * 128;
      for (int64_t m = 0; m < rows; m++) {
        vi low = int8_of_x(own[m].values + half, left - half), high = int8_of_x(own[m].values + half + 64, left - half - 64);
        vi all = (vi)_mm512_permutex2var_epi32((__m512i)low, (__m512i)own_places, (__m512i)high);
        numbers[2 * m] = all & (own_places < (int)group / 4);
        numbers[2 * m + 1] = all & (own_places >= (int)group / 4);
      }
      int8_transpose(numbers);
      GD_UNROLL for (int k = 0; k < 16; k++) {
        if (k < dwords) store_vi(to + k * 64, numbers[k]);
      }
    }
    int8_turned_x_factors(own, rows, left / group, to);
    to += 192;
  }
}
