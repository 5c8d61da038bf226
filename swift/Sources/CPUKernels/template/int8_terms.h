/* One row with int8 activations: the terms of an output's groups, sixteen groups at a time (int8_linear.h). */

enum { INT8_STEP = 16 };
/* With 8 lanes or more, numbers above 127 are taken from their blocks (int8_block.h); with fewer there is no difference. */
enum { INT8_TERMS_SMALL = 1 };
/* One row: the sums of sixteen groups, from numbers and x that follow one another. */
#if GD_WIDTH == 16
/* Lanes of two vectors, in pairs of neighbouring 128 bits: [a0 + a1, a2 + a3, b0 + b1, b2 + b3]. */
GD_INLINE vi int8_halves(vi a, vi b) {
  return GD_FIRST_OF(a, b) + GD_SECOND_OF(a, b);
}
/* [a0 + a1, a2 + a3, b0 + b1, b2 + b3] of each 128 bits. */
GD_INLINE vi int8_pairs_of(vi a, vi b) {
  return __builtin_shufflevector(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         __builtin_shufflevector(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}
GD_INLINE vi int8_vector(const uint8_t *numbers, const int8_t *x, int64_t at, int small) {
  return int8_add((vi){0}, int8_weights_of(load_vi(numbers + at), small), load_vi(x + at), small);
}
/* The sums of lanes of four groups. */
GD_INLINE vi int8_four(const uint8_t *numbers, const int8_t *x, int group, int small) {
  if (group == 16) return int8_vector(numbers, x, 0, small);
  if (group == 32) return int8_halves(int8_vector(numbers, x, 0, small), int8_vector(numbers, x, 64, small));
  vi own[4];
  GD_UNROLL for (int g = 0; g < 4; g++) {
    const uint8_t *from = numbers + g * group;
    own[g] = int8_vector(from, x + g * group, 0, small);
    if (group == 128) own[g] = int8_add(own[g], int8_weights_of(load_vi(from + 64), small), load_vi(x + g * group + 64), small);
  }
  return int8_halves(int8_halves(own[0], own[1]), int8_halves(own[2], own[3]));
}
GD_INLINE void int8_sixteen_sums(const uint8_t *numbers, const int8_t *x, vi out[GD_PARTS], int group) {
  vi own[4];
  GD_UNROLL for (int g = 0; g < 4; g++) own[g] = int8_four(numbers + 4 * g * group, x + 4 * g * group, group, INT8_TERMS_SMALL);
  vi sums = int8_pairs_of(int8_pairs_of(own[0], own[1]), int8_pairs_of(own[2], own[3]));
  out[0] = int8_total(__builtin_shufflevector(sums, sums, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), INT8_TERMS_SMALL);
}
#elif GD_WIDTH == 8
/* [a0 + a1, a2 + a3, b0 + b1, b2 + b3] of each 128 bits. */
GD_INLINE vi int8_pairs_of(vi a, vi b) {
  return __builtin_shufflevector(a, b, 0, 2, 8, 10, 4, 6, 12, 14) + __builtin_shufflevector(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
}
GD_INLINE void int8_sixteen_sums(const uint8_t *numbers, const int8_t *x, vi out[GD_PARTS], int group) {
  vi four[4]; /* the halves of four vectors, one of 16 columns or more of one group or of two */
  int width = group == 16 ? 32 : group, parts = group == 16 ? 2 : 4;
  GD_UNROLL for (int k = 0; k < parts; k++) {
    vi own[4];
    GD_UNROLL for (int v = 0; v < 4; v++) {
      own[v] = (vi){0};
      GD_UNROLL for (int i = 0; i < width; i += 32) {
        int64_t at = (4 * k + v) * width + i;
        own[v] = int8_add(own[v], int8_weights_of(load_vi(numbers + at), INT8_TERMS_SMALL), load_vi(x + at), INT8_TERMS_SMALL);
      }
    }
    four[k] = int8_pairs_of(int8_pairs_of(own[0], own[1]), int8_pairs_of(own[2], own[3]));
  }
  GD_UNROLL for (int p = 0; p < 2; p++) {
    vi sums;
    if (group == 16) {
      sums = __builtin_shufflevector(four[p], four[p], 0, 4, 1, 5, 2, 6, 3, 7);
    } else {
      vi a = four[2 * p], b = four[2 * p + 1];
      sums = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) + __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
    out[p] = int8_total(sums, INT8_TERMS_SMALL);
  }
}
#else
GD_INLINE void int8_sixteen_sums(const uint8_t *numbers, const int8_t *x, vi out[GD_PARTS], int group) {
  int32_t totals[16];
  for (int g = 0; g < 16; g++) {
    vi sum = {0};
    for (int i = 0; i < group; i += 4 * GD_WIDTH, numbers += 4 * GD_WIDTH, x += 4 * GD_WIDTH) {
      sum = int8_add(sum, int8_weights_of(load_vi(numbers), INT8_TERMS_SMALL), load_vi(x), INT8_TERMS_SMALL);
    }
    totals[g] = __builtin_reduce_add(int8_total(sum, INT8_TERMS_SMALL));
  }
  __builtin_memcpy(out, totals, sizeof totals);
}
#endif

/* The terms of GD_WIDTH groups: those of the weight from `at` on, of x from `first` on. */
GD_INLINE vf int8_term(vi products, const float *scales, const float *offsets, int64_t at, const int8_x *x, int64_t first) {
  vf all = __builtin_convertvector(products + load_vi(x->starts + first), vf);
  vf term = all * load(scales, at, GD_CPU_F32), x_scale = load(x->scales, first, GD_CPU_F32);
  return offsets == NULL ? term * x_scale : int8_fma(term, x_scale, load(offsets, at, GD_CPU_F32) * load(x->sums, first, GD_CPU_F32));
}

/* The terms of `count` groups of one output, those of x from group `first` on, up to whole sixteens of them. In x zeros follow up to as
 * many columns. */
GD_INLINE void int8_terms(
  const uint8_t *numbers, const float *scales, const float *offsets, const int8_x *x, int64_t first, int64_t count, float *terms,
  int group
) {
  for (int64_t g = 0; g < count; g += 16) {
    vi products[GD_PARTS];
    int8_sixteen_sums(numbers + g * group, x->values + (first + g) * group, products, group);
    GD_UNROLL for (int p = 0; p < GD_PARTS; p++) {
      int64_t at = g + p * GD_WIDTH;
      store(terms, at, GD_CPU_F32, int8_term(products[p], scales, offsets, at, x, first + at));
    }
  }
}
#define GD_TERMS(GROUP)                                                                                                     \
  static __attribute__((noinline)) void int8_terms_##GROUP(                                                                 \
    const uint8_t *numbers, const float *scales, const float *offsets, const int8_x *x, int64_t first, int64_t count,       \
    float *terms                                                                                                            \
  ) {                                                                                                                       \
    int8_terms(numbers, scales, offsets, x, first, count, terms, GROUP);                                                    \
  }
GD_TERMS(16)
GD_TERMS(32)
GD_TERMS(64)
GD_TERMS(128)
#undef GD_TERMS
typedef void int8_terms_of(const uint8_t *, const float *, const float *, const int8_x *, int64_t, int64_t, float *);
static int8_terms_of *int8_terms_for(int64_t group) {
  return group == 16 ? int8_terms_16 : group == 32 ? int8_terms_32 : group == 64 ? int8_terms_64 : int8_terms_128;
}

/* Adds `count` terms of each of INT8_OUTPUTS outputs, `apart` from one to the next, to their sums. */
static void int8_add_terms(const float *terms, int64_t apart, int64_t count, float *sums) {
#if GD_WIDTH == 16
  vf sum = load(sums, 0, GD_CPU_F32);
  for (int64_t g = 0; g < count; g += 16) {
    vi rows[16];
    GD_UNROLL for (int f = 0; f < 16; f++) rows[f] = load_vi(terms + f * apart + g);
    int8_transpose(rows);
    int64_t left = count - g;
    GD_UNROLL for (int k = 0; k < 16; k++) {
      if (k < left) sum += (vf)rows[k];
    }
  }
  store(sums, 0, GD_CPU_F32, sum);
#elif GD_WIDTH == 8
  vf sum[2] = {load(sums, 0, GD_CPU_F32), load(sums, 8, GD_CPU_F32)};
  for (int64_t g = 0; g < count; g += 4) {
    int64_t left = count - g;
    GD_UNROLL for (int p = 0; p < 2; p++) {
      vi rows[4], turned[4];
      GD_UNROLL for (int q = 0; q < 4; q++) {
        const float *own = terms + (8 * p + q) * apart + g;
        rows[q] = (vi)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(own)), _mm_loadu_ps(own + 4 * apart), 1);
      }
      int8_transpose_4(rows, turned);
      GD_UNROLL for (int k = 0; k < 4; k++) {
        if (k < left) sum[p] += (vf)turned[k];
      }
    }
  }
  store(sums, 0, GD_CPU_F32, sum[0]);
  store(sums, 8, GD_CPU_F32, sum[1]);
#else
  for (int64_t f = 0; f < INT8_OUTPUTS; f += 4) {
    const float *own = terms + f * apart;
    float a = sums[f], b = sums[f + 1], c = sums[f + 2], d = sums[f + 3];
    for (int64_t g = 0; g < count; g++) {
      a += own[g];
      b += own[g + apart];
      c += own[g + 2 * apart];
      d += own[g + 3 * apart];
    }
    sums[f] = a;
    sums[f + 1] = b;
    sums[f + 2] = c;
    sums[f + 3] = d;
  }
#endif
}

