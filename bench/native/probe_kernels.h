/* The loops of probe.c, included once for every instruction set with NAME, ISA (its name), WIDTH (floats in a vector) and FUSED. */

typedef float NAME(vector) __attribute__((vector_size(WIDTH * 4)));

/* Four vectors of each stream in turn. `ahead`, `streams` and `past` are constants wherever this is inlined. */
static inline __attribute__((always_inline)) float NAME(pass)(int pattern, float *a, const float *b, const float *c, int64_t floats,
                                                               int64_t ahead, int streams, int past, float s) {
  NAME(vector) *to = (NAME(vector) *)a, sums[4] = {{0}};
  const NAME(vector) *one = (const NAME(vector) *)b, *other = (const NAME(vector) *)c;
  int64_t part = floats / WIDTH / streams;
  for (int64_t i = 0; i + 4 <= part; i += 4) {
    for (int stream = 0; stream < streams; stream++) {
#pragma clang loop unroll(full)
      for (int j = 0; j < 4; j++) {
        int64_t at = stream * part + i + j;
        if (ahead != 0) __builtin_prefetch((const char *)((pattern == 1 || pattern == 2 ? one : to) + at) + ahead);
        if (pattern == 3) {
          sums[j] += to[at];
          continue;
        }
        NAME(vector) result = pattern == 0 ? to[at] * s : pattern == 1 ? one[at] * s : one[at] * s + other[at];
        if (past) __builtin_nontemporal_store(result, to + at);
        else to[at] = result;
      }
    }
  }
  NAME(vector) sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return sum[0] + sum[WIDTH - 1];
}

#define WAY(ahead, streams, past) return NAME(pass)(pattern, a, b, c, floats, ahead, streams, past, s)
#define WAYS(pattern_)                                                                        \
  case pattern_: {                                                                            \
    const int pattern = pattern_;                                                             \
    if ((way & 4) != 0) {                                                                     \
      if ((way & 2) != 0) { if ((way & 1) != 0) WAY(4096, 4, 1); else WAY(0, 4, 1); }         \
      if ((way & 1) != 0) WAY(4096, 1, 1); else WAY(0, 1, 1);                                 \
    }                                                                                         \
    if ((way & 2) != 0) { if ((way & 1) != 0) WAY(4096, 4, 0); else WAY(0, 4, 0); }           \
    if ((way & 1) != 0) WAY(4096, 1, 0); else WAY(0, 1, 0);                                   \
  }

static float NAME(stream)(int chosen_pattern, int way, float *a, const float *b, const float *c, int64_t floats, float s) {
  switch (chosen_pattern) {
    WAYS(0)
    WAYS(1)
    WAYS(2)
    default:
    WAYS(3)
  }
}
#undef WAY
#undef WAYS

static float NAME(multiply_add)(int64_t rounds, float x, float y) {
  NAME(vector) sums[CHAINS], factor = x - (NAME(vector)){0}, term = y - (NAME(vector)){0};
#pragma clang loop unroll(full)
  for (int i = 0; i < CHAINS; i++) sums[i] = term * (float)i;
  for (int64_t round = 0; round < rounds; round++) {
#pragma clang loop unroll(full)
    for (int i = 0; i < CHAINS; i++) {
#if FUSED
      sums[i] = __builtin_elementwise_fma(sums[i], factor, term);
#else
      sums[i] = sums[i] * factor + term;
#endif
    }
  }
  NAME(vector) sum = sums[0];
#pragma clang loop unroll(full)
  for (int i = 1; i < CHAINS; i++) sum += sums[i];
  float result = 0;
  for (int i = 0; i < WIDTH; i++) result += sum[i];
  return result;
}

static variant NAME(variant)(void) {
  return (variant){ISA, WIDTH, NAME(stream), NAME(multiply_add)};
}
#undef NAME
#undef ISA
#undef WIDTH
#undef FUSED
