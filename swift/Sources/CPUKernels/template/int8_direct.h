/* Weights of four bits straight from their blocks, for one row (int8_one.h), with vectors of 16 lanes: 128 bits of a vector are 16 numbers
 * of one group, so that the products of four groups are added up in place. x is put into the order in which the numbers come out of the
 * blocks (int8_arrange). */
#if GD_WIDTH == 16

/* The entries of a table, with `more` added; then with enough added that none is negative. */
GD_INLINE vi int8_table_entries(vi numbers, uint32_t type, int more) {
  const int8_t *table = type == GGML_MXFP4 ? ggml_e2m1_bytes : ggml_iq4_bytes;
  __m512i all = _mm512_add_epi8(_mm512_broadcast_i32x4(*(const __m128i *)table), _mm512_set1_epi8((char)more));
  return (vi)_mm512_shuffle_epi8(all, (__m512i)numbers);
}
GD_INLINE vi int8_entries_of(vi numbers, uint32_t type) { return int8_table_entries(numbers, type, int8_ggml_middle(type)); }

/* Adds the products of 16 bytes of each of four groups: the low halves by x, the high ones by the 64 bytes after it. */
GD_INLINE vi int8_nibbles(vi sum, vi bytes, const int8_t *x, uint32_t type) {
  vi low = int8_low(bytes), high = int8_high(bytes);
  if (ggml_has_table(type)) {
    low = int8_entries_of(low, type);
    high = int8_entries_of(high, type);
  }
  int small = int8_ggml_is_small(type);
  sum = int8_add(sum, int8_weights_of(low, small), load_vi(x), small);
  return int8_add(sum, int8_weights_of(high, small), load_vi(x + 64), small);
}

/* 16 bytes of each of four blocks or rows. */
GD_INLINE vi int8_of_four(const uint8_t *from, int64_t apart) {
  __m512i bytes = _mm512_castsi128_si512(int8_load_16(from));
  bytes = _mm512_inserti32x4(bytes, int8_load_16(from + apart), 1);
  bytes = _mm512_inserti32x4(bytes, int8_load_16(from + 2 * apart), 2);
  return (vi)_mm512_inserti32x4(bytes, int8_load_16(from + 3 * apart), 3);
}

/* Sums of lanes of four groups. */
GD_INLINE vi int8_direct_four(const uint8_t *from, const int8_t *x, int8_block form) {
  vi none = {0};
  if (!form.is_mlx) return int8_nibbles(none, int8_of_four(from + int8_offset(form), form.bytes), x, form.type);
  if (form.group == 32) return int8_nibbles(none, load_vi(from), x, form.type);
  vi a = load_vi(from), b = load_vi(from + 64);
  if (form.group == 64) return int8_nibbles(int8_nibbles(none, GD_FIRST_OF(a, b), x, 0), GD_SECOND_OF(a, b), x + 128, 0);
  vi c = load_vi(from + 128), d = load_vi(from + 192);
  vi even = GD_FIRST_OF(a, b), odd = GD_SECOND_OF(a, b), even_cd = GD_FIRST_OF(c, d), odd_cd = GD_SECOND_OF(c, d);
  vi first = int8_nibbles(int8_nibbles(none, GD_FIRST_OF(even, even_cd), x, 0), GD_FIRST_OF(odd, odd_cd), x + 128, 0);
  return int8_nibbles(int8_nibbles(first, GD_SECOND_OF(even, even_cd), x + 256, 0), GD_SECOND_OF(odd, odd_cd), x + 384, 0);
}

/* The bytes of x of `columns` columns, up to sixteen whole groups, in the order of int8_direct_four. */
GD_INLINE void int8_arrange(const int8_t *x, int64_t columns, int8_t *out, int8_block form) {
  int64_t group = form.group;
  if (int8_is_affine8(form) || (group == 16 && !form.is_mlx)) {
    __builtin_memcpy(out, x, (size_t)columns);
    return;
  }
  if (group == 16) {
    for (int64_t i = 0; i < columns; i += 128, x += 128, out += 128) {
      for (int k = 0; k < 64; k++) out[k] = x[2 * k], out[64 + k] = x[2 * k + 1];
    }
    return;
  }
  for (int64_t i = 0; i < columns; i += 4 * group) {
    for (int64_t k = 0; k < 4 * group; k += 32, x += 32) {
      int64_t lane = k / group, piece = k % group / 32;
      int8_b32 own = *(const int8_b32_memory *)x;
      int8_b16 a = __builtin_shufflevector(own, own, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      int8_b16 b = __builtin_shufflevector(own, own, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
      if (form.is_mlx) {
        /* Eight columns are the four even ones and then the odd ones (int8_pair). */
        int8_b16 even = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
        b = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
        a = even;
      }
      int8_t *to = out + i + piece * 128 + lane * 16;
      if (ggml_is_in_eights(form.type)) {
        /* Group 2 l or 2 l + 1 of a block in lane l, two pieces each. */
        int64_t of = (i + k) / 32 % 8;
        to = out + (i + k) / 256 * 256 + of % 2 * 128 + of / 2 * 16;
      }
      *(int8_b16_memory *)to = a;
      *(int8_b16_memory *)(to + 64) = b;
    }
  }
}
#elif GD_WIDTH == 8
/* 16 bytes, and as many from elsewhere. */
GD_INLINE vi int8_of_two(const uint8_t *from, int64_t apart) {
  return (vi)_mm256_inserti128_si256(_mm256_castsi128_si256(int8_load_16(from)), int8_load_16(from + apart), 1);
}

/* The numbers of both halves of 32 bytes. */
GD_INLINE void int8_both(vi bytes, vi out[2], uint32_t type) {
  out[0] = int8_low(bytes);
  out[1] = int8_high(bytes);
  if (!ggml_has_table(type)) return;
  GD_UNROLL for (int h = 0; h < 2; h++) {
    ggml_many entries = (ggml_many)out[h];
    int8_entries(&entries, type);
    out[h] = (vi)entries;
  }
}
#endif
