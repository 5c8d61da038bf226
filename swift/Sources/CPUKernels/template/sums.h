/* Sums over GD_LANES partials. The order in which partials p[0 .. 15] become one number is the same everywhere: p[l] +
 * p[l + 8], then + 4, + 2, + 1. */

typedef float v4 __attribute__((vector_size(16)));
typedef float v4_memory __attribute__((vector_size(16), aligned(4), may_alias));
/* A vector of eight floats, or half of it. */
#define GD_EIGHT_WIDTH (GD_WIDTH == 4 ? 4 : 8)
typedef float ve __attribute__((vector_size(GD_EIGHT_WIDTH * 4)));
typedef float ve_memory __attribute__((vector_size(GD_EIGHT_WIDTH * 4), aligned(4), may_alias));

GD_INLINE v4 fold(const vf parts[GD_PARTS]) {
#if GD_WIDTH == 16
  vf x = parts[0];
  ve y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
         __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  return __builtin_shufflevector(y, y, 0, 1, 2, 3) + __builtin_shufflevector(y, y, 4, 5, 6, 7);
#elif GD_WIDTH == 8
  vf y = parts[0] + parts[1];
  return __builtin_shufflevector(y, y, 0, 1, 2, 3) + __builtin_shufflevector(y, y, 4, 5, 6, 7);
#else
  return (parts[0] + parts[2]) + (parts[1] + parts[3]);
#endif
}

GD_INLINE float sum_one(v4 a) {
  v4 pair = a + __builtin_shufflevector(a, a, 2, 3, 0, 1);
  return pair[0] + pair[1];
}

/* Eight sums at once: out[r] is that of the partials in rows[r]. If a vector holds all partials of a row, it stays
 * whole until halves of two rows can be added at once, so that no addition has an empty lane. */
#if GD_WIDTH == 16
typedef vf row_sum;
#else
typedef v4 row_sum;
#endif

#if GD_WIDTH == 16
GD_INLINE row_sum row_sum_of(const vf parts[GD_PARTS]) { return parts[0]; }

/* 8 partials of a, 8 of b. */
GD_INLINE vf fold_two(vf a, vf b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
         __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
}

/* 4 partials each of a, b, c, d. */
GD_INLINE vf fold_four(vf ab, vf cd) {
  return __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
         __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

GD_INLINE void sum_eight(const row_sum rows[8], float *out) {
  vf first = fold_four(fold_two(rows[0], rows[1]), fold_two(rows[2], rows[3]));
  vf other = fold_four(fold_two(rows[4], rows[5]), fold_two(rows[6], rows[7]));
  vf pairs = __builtin_shufflevector(first, other, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
             __builtin_shufflevector(first, other, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  vf sums = pairs + __builtin_shufflevector(pairs, pairs, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  *(ve_memory *)out = __builtin_shufflevector(sums, sums, 0, 4, 8, 12, 2, 6, 10, 14);
}
#else
GD_INLINE row_sum row_sum_of(const vf parts[GD_PARTS]) { return fold(parts); }

/* Lane r of the result is the sum of fold r. */
GD_INLINE v4 sum_four(v4 a, v4 b, v4 c, v4 d) {
  v4 ab = __builtin_shufflevector(a, b, 0, 1, 4, 5) + __builtin_shufflevector(a, b, 2, 3, 6, 7);
  v4 cd = __builtin_shufflevector(c, d, 0, 1, 4, 5) + __builtin_shufflevector(c, d, 2, 3, 6, 7);
  return __builtin_shufflevector(ab, cd, 0, 2, 4, 6) + __builtin_shufflevector(ab, cd, 1, 3, 5, 7);
}

GD_INLINE void sum_eight(const row_sum rows[8], float *out) {
  *(v4_memory *)out = sum_four(rows[0], rows[1], rows[2], rows[3]);
  *(v4_memory *)(out + 4) = sum_four(rows[4], rows[5], rows[6], rows[7]);
}
#endif
