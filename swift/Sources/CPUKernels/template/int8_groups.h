/* Sixteen groups of a row of x at once (int8_rows.h): scales and sums of all of them are made together, one group per lane.
 * Numbers come from products with 1 / scale, which take less time than quotients. Up to 127 the two are less than 2^-16 apart, so
 * they round to the same integer, unless a product is that near to the middle between two integers: then the group is divided. */
#if GD_WIDTH == 16

/* Bits of floats: below the first, 2^-95, a magnitude's 1 / scale may be too large; the last is 0.5 - 2^-16. */
static const uint32_t int8_least_magnitude = 0x10000000, int8_infinity = 0x7f800000, int8_near_middle = 0x3efffe00;

/* Lane i becomes the lanes of vector i, put together by OP. */
#define INT8_LANES(V, OP)                                                                                                     \
  GD_UNROLL for (int k = 0; k < 16; k += 2) V[k / 2] = OP(GD_LOWER_LANES(V[k], V[k + 1]), GD_UPPER_LANES(V[k], V[k + 1]));    \
  GD_UNROLL for (int k = 0; k < 8; k += 2) V[k / 2] = OP(GD_LOWER_HALVES(V[k], V[k + 1]), GD_UPPER_HALVES(V[k], V[k + 1]));   \
  GD_UNROLL for (int left = 4; left > 1; left /= 2) {                                                                         \
    GD_UNROLL for (int k = 0; k < left; k += 2) V[k / 2] = OP(GD_FIRST_OF(V[k], V[k + 1]), GD_SECOND_OF(V[k], V[k + 1]));     \
  }
#define INT8_SUM(A, B) ((A) + (B))

static __attribute__((noinline)) uint32_t int8_round_again(const float *x, int64_t count, float scale, int8_t *out) {
  return (uint32_t)int8_round(x, count, scale, out);
}

/* The scales, numbers, sums and starts of `count` groups, at most 16; `group` is a constant. 0, and nothing is written, if a group is zeros, tiny or not
 * finite. */
GD_INLINE int int8_group_sums(
  const float *x, int64_t group, int64_t count, int8_t *out, float *scales, float *sums, int32_t *starts, int32_t start
) {
  const __mmask16 there = (__mmask16)((1u << count) - 1);
  const vu least = (vu){0} + int8_least_magnitude, range = (vu){0} + (int8_infinity - int8_least_magnitude);
  const uint32_t raised_zeros = ((vu)splat(int8_rounder))[0] * (uint32_t)group;
  vu most[16] = {0}, sum[16] = {0};
  for (int64_t g = 0; g < count; g++) {
    GD_UNROLL for (int64_t k = 0; k < group; k += GD_WIDTH) {
      most[g] = __builtin_elementwise_max(most[g], (vu)load(x, g * group + k, GD_CPU_F32) & 0x7fffffffu);
    }
  }
  INT8_LANES(most, __builtin_elementwise_max)
  if ((_mm512_cmplt_epu32_mask((__m512i)(most[0] - least), (__m512i)range) & there) != there) return 0;
  vf scale = (vf)most[0] / 127.0f;
  float factors[16];
  store(factors, 0, GD_CPU_F32, 1.0f / scale);
  _mm512_mask_storeu_ps(scales, there, (__m512)scale);
  for (int64_t g = 0; g < count; g++) {
    vf factor = splat(factors[g]);
    vu distance = {0};
    GD_UNROLL for (int64_t k = 0; k < group; k += GD_WIDTH) {
      vf value = load(x, g * group + k, GD_CPU_F32), raised = fma_vf(value, factor, splat(int8_rounder));
      vf rest = fma_vf(value, factor, splat(int8_rounder) - raised);
      distance = __builtin_elementwise_max(distance, (vu)rest & 0x7fffffffu);
      sum[g] += (vu)raised;
      vsb bytes = __builtin_convertvector((vi)raised, vsb);
      __builtin_memcpy(out + g * group + k, &bytes, sizeof bytes);
    }
    if (__builtin_expect(_mm512_cmpge_epu32_mask((__m512i)distance, (__m512i)((vu){0} + int8_near_middle)) != 0, 0)) {
      sum[g] = (vu){raised_zeros + int8_round_again(x + g * group, group, scales[g], out + g * group)};
    }
  }
  INT8_LANES(sum, INT8_SUM)
  vi all = (vi)(sum[0] - raised_zeros);
  _mm512_mask_storeu_ps(sums, there, (__m512)(__builtin_convertvector(all, vf) * scale));
  _mm512_mask_storeu_epi32(starts, there, (__m512i)(all * start));
  return 1;
}
#undef INT8_LANES
#undef INT8_SUM

/* The same for a group of any form. */
static __attribute__((noinline)) int int8_groups(
  const float *x, int64_t group, int64_t count, int8_t *out, float *scales, float *sums, int32_t *starts, int32_t start
) {
  switch (group) {
    case 16: return int8_group_sums(x, 16, count, out, scales, sums, starts, start);
    case 32: return int8_group_sums(x, 32, count, out, scales, sums, starts, start);
    case 64: return int8_group_sums(x, 64, count, out, scales, sums, starts, start);
    case 128: return int8_group_sums(x, 128, count, out, scales, sums, starts, start);
    default: return 0;
  }
}
#endif
