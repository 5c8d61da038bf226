/* Vectors of some rows of a state: how many rows are worked on together, and a row's last block where keyDim is an odd
 * multiple of 8. */

/* Rows whose partial sums fit the registers together with their operands. */
#if GD_WIDTH == 16
#define DELTA_TOGETHER 8
#elif defined(__aarch64__) || GD_WIDTH == 8
#define DELTA_TOGETHER 2
#else
#define DELTA_TOGETHER 1
#endif

#if GD_WIDTH == 16
GD_INLINE vf load_eight(const void *array, int64_t i, uint32_t dtype) {
  vf x = {0};
  vh h = {0};
  if (dtype == GD_CPU_F32) {
    __builtin_memcpy(&x, (const float *)array + i, 32);
    return x;
  }
  __builtin_memcpy(&h, (const uint16_t *)array + i, 16);
  return dtype == GD_CPU_F16 ? f16_to_vf(h) : bf16_to_vf(h);
}

GD_INLINE void store_eight(void *array, int64_t i, uint32_t dtype, vf x) {
  if (dtype == GD_CPU_F32) {
    __builtin_memcpy((float *)array + i, &x, 32);
  } else {
    vh h = dtype == GD_CPU_F16 ? vf_to_f16(x) : vf_to_bf16(x);
    __builtin_memcpy((uint16_t *)array + i, &h, 16);
  }
}
#endif

/* Elements i + part * GD_WIDTH ... of a row. half: the last block of a row where keyDim is an odd multiple of 8 has 8
 * elements, and zeros after them. */
GD_INLINE vf load_part(const void *row, int64_t i, int part, uint32_t dtype, int half) {
#if GD_WIDTH == 16
  (void)part;
  return half ? load_eight(row, i, dtype) : load(row, i, dtype);
#else
  return half && part * GD_WIDTH >= 8 ? splat(0.0f) : load(row, i + part * GD_WIDTH, dtype);
#endif
}

GD_INLINE void store_part(void *row, int64_t i, int part, uint32_t dtype, int half, vf x) {
#if GD_WIDTH == 16
  (void)part;
  if (half) store_eight(row, i, dtype, x);
  else store(row, i, dtype, x);
#else
  if (!half || part * GD_WIDTH < 8) store(row, i + part * GD_WIDTH, dtype, x);
#endif
}

/* Zeros after keyDim, where an infinite d times the key's padding would put NaN. */
GD_INLINE vf keep_part(vf x, int part, int half) {
  if (!half) return x;
#if GD_WIDTH == 16
  (void)part;
  return __builtin_shufflevector(x, splat(0.0f), 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31);
#else
  return part * GD_WIDTH < 8 ? x : splat(0.0f);
#endif
}

#if defined(GD_BF16_AVX512)
#define DELTA_STORES_BF16_TOGETHER 1
/* One vector of each row, rounded by the instruction, which turns subnormal numbers into zeros: if there is a zero, all
 * are rounded again with care. One test for all rows: one for each took a sixth of a hot pass's time. */
GD_INLINE void store_bf16_parts(char *target, int64_t step, int64_t i, const vf x[DELTA_TOGETHER]) {
  __m256i least_bits = _mm256_set1_epi16(-1);
  GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) {
    vh rounded = (vh)_mm512_cvtneps_pbh((__m512)x[r]);
    *(vh_memory *)((uint16_t *)(target + r * step) + i) = rounded;
    least_bits = _mm256_min_epu16(least_bits, (__m256i)(rounded + rounded)); /* without the sign */
  }
  if (__builtin_expect(_mm256_testn_epi16_mask(least_bits, least_bits) == 0, 1)) return;
  GD_UNROLL for (int r = 0; r < DELTA_TOGETHER; r++) store(target + r * step, i, GD_CPU_BF16, x[r]);
}
#else
#define DELTA_STORES_BF16_TOGETHER 0
GD_INLINE void store_bf16_parts(char *target, int64_t step, int64_t i, const vf x[DELTA_TOGETHER]) {
  (void)target, (void)step, (void)i, (void)x;
}
#endif
