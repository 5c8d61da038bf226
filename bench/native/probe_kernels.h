/* The loops of probe.c, included once for every instruction set with NAME, ISA (its name), WIDTH (floats in a vector) and FUSED. */

typedef float NAME(vector) __attribute__((vector_size(WIDTH * 4)));

/* Some processors fetch ahead far enough by themselves and some do not: `ahead` is 0 or how many bytes to ask for. */
#define EACH(pointer, statement)                             \
  if (ahead == 0) {                                          \
    for (int64_t i = 0; i < vectors; i++) statement;         \
  } else {                                                   \
    for (int64_t i = 0; i < vectors; i++) {                  \
      __builtin_prefetch((const char *)(pointer + i) + ahead); \
      statement;                                             \
    }                                                        \
  }

static float NAME(stream)(int pattern, float *a, const float *b, const float *c, int64_t floats, int64_t ahead, float s) {
  NAME(vector) *to = (NAME(vector) *)a;
  const NAME(vector) *one = (const NAME(vector) *)b, *other = (const NAME(vector) *)c;
  int64_t vectors = floats / WIDTH;
  switch (pattern) {
    case 0: EACH(to, to[i] *= s) return 0;
    case 1: EACH(one, to[i] = one[i] * s) return 0;
    case 2: EACH(one, to[i] = one[i] * s + other[i]) return 0;
    default: {
      NAME(vector) sums[4] = {{0}};
      for (int64_t i = 0; i + 4 <= vectors; i += 4) {
        if (ahead != 0) {
          for (int64_t j = 0; j < 4; j++) __builtin_prefetch((const char *)(to + i + j) + ahead);
        }
        for (int j = 0; j < 4; j++) sums[j] += to[i + j];
      }
      NAME(vector) sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      return sum[0] + sum[WIDTH - 1];
    }
  }
}
#undef EACH

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
