/* Exact sums of products of bytes, four to a 32-bit lane: unsigned numbers of a weight by signed numbers of x, none of which is
 * -128. A group has at most 128 of them. Integer sums have no order, so these are the same for every instruction set.
 *
 * The including file may define GD_DOT_AVX512VNNI, GD_DOT_AVXVNNI or GD_DOT_NEON, where an instruction adds four products to a
 * lane. AVX2 and AVX-512 multiply bytes in pairs, which saturates at 16 bits and so is exact only if no number is above 127: `small`, a
 * constant, says so. AVX2 then multiplies the magnitudes of numbers less 128 by x with their signs: two products of 128 by 127 fit 16
 * bits. Otherwise numbers of even and odd columns are widened to 16 bits and multiplied in pairs: x stands in the upper bytes, so
 * that a lane holds 256 times the sum, which is below 2^31.
 *
 * INT8_MIDDLE(small): the weight's numbers minus those that are multiplied. int8_is_raised(small): whether lanes hold 256 times their sums. */

typedef vi vi_memory __attribute__((aligned(1), may_alias));
GD_INLINE vi load_vi(const void *from) { return *(const vi_memory *)from; }
GD_INLINE void store_vi(void *to, vi x) { *(vi_memory *)to = x; }

#if defined(GD_DOT_AVX512VNNI) || defined(GD_DOT_AVXVNNI)
typedef vi int8_weights;
GD_INLINE int8_weights int8_weights_of(vi bytes, int small) { return (void)small, bytes; }
GD_INLINE vi int8_add(vi sum, int8_weights weights, vi x, int small) {
  (void)small;
#if defined(GD_DOT_AVX512VNNI)
  return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, (__m512i)x);
#else
  return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)weights, (__m256i)x);
#endif
}
GD_INLINE int int8_is_raised(int small) { return (void)small, 0; }
#define INT8_MIDDLE(SMALL) 0
enum { INT8_TELLS_SMALL = 0 };

#elif defined(__aarch64__)
/* Signed by signed. */
typedef int8x16_t int8_weights;
GD_INLINE int8_weights int8_weights_of(vi bytes, int small) { return (void)small, (int8x16_t)(bytes ^ (vi)((vu){0} + 0x80808080u)); }
GD_INLINE vi int8_add(vi sum, int8_weights weights, vi x, int small) {
  (void)small;
#if defined(GD_DOT_NEON)
  return (vi)vdotq_s32((int32x4_t)sum, weights, (int8x16_t)x);
#else
  /* Two products of 127 by 128 fit 16 bits. */
  int16x8_t low = vmull_s8(vget_low_s8(weights), vget_low_s8((int8x16_t)x));
  int16x8_t high = vmull_s8(vget_high_s8(weights), vget_high_s8((int8x16_t)x));
  return (vi)vpadalq_s16((int32x4_t)sum, vpaddq_s16(low, high));
#endif
}
GD_INLINE int int8_is_raised(int small) { return (void)small, 0; }
#define INT8_MIDDLE(SMALL) 128
enum { INT8_TELLS_SMALL = 0 };

#else
#define INT8_MIDDLE(SMALL) (GD_WIDTH == 8 && !(SMALL) ? 128 : 0)
enum { INT8_TELLS_SMALL = GD_WIDTH >= 8 };
typedef struct int8_weights {
  vi even, odd; /* all of them in `even` if they are small; with AVX2 their magnitudes, and what has their signs */
} int8_weights;
GD_INLINE int8_weights int8_weights_of(vi bytes, int small) {
  if (INT8_TELLS_SMALL && small) return (int8_weights){bytes, bytes};
#if GD_WIDTH == 8
  vi less = bytes ^ (vi)((vu){0} + 0x80808080u);
  return (int8_weights){(vi)_mm256_abs_epi8((__m256i)less), less};
#endif
  return (int8_weights){bytes & 0x00ff00ff, (vi)((vu)bytes >> 8) & 0x00ff00ff};
}
/* Products of 16 bits, added in pairs. */
GD_INLINE vi int8_pairs(vi a, vi b) {
#if GD_WIDTH == 16
  return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif GD_WIDTH == 8
  return (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
  return (vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
  return ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);
#endif
}
/* Products of bytes, small ones by signed ones, added in pairs to 16 bits. */
GD_INLINE vi int8_byte_pairs(vi small, vi x) {
#if GD_WIDTH == 16
  return (vi)_mm512_maddubs_epi16((__m512i)small, (__m512i)x);
#elif GD_WIDTH == 8
  return (vi)_mm256_maddubs_epi16((__m256i)small, (__m256i)x);
#else
  return small & x; /* not called */
#endif
}
GD_INLINE vi int8_add(vi sum, int8_weights weights, vi x, int small) {
#if GD_WIDTH == 8
  if (!small) x = (vi)_mm256_sign_epi8((__m256i)x, (__m256i)weights.odd);
#endif
  if (GD_WIDTH == 8 || (INT8_TELLS_SMALL && small)) return sum + int8_pairs(int8_byte_pairs(weights.even, x), (vi)((vu){0} + 0x00010001u));
  vi upper = (vi)((vu){0} + 0xff00ff00u);
  return sum + int8_pairs(weights.even, (vi)((vu)x << 8) & upper) + int8_pairs(weights.odd, x & upper);
}
GD_INLINE int int8_is_raised(int small) { return GD_WIDTH != 8 && !(INT8_TELLS_SMALL && small); }
#endif

GD_INLINE vi int8_total(vi sum, int small) { return int8_is_raised(small) ? sum >> 8 : sum; }
