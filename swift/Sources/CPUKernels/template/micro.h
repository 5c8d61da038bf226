/* MLX's micro-scaled forms mxfp4, mxfp8 and nvfp4, a family of packed formats (matrix.h): an element times its scale, one
 * float32 product. Numbers are in the stream of the affine forms. Those of 4 bits are E2M1, those of 8 bits E4M3. A scale is a
 * byte: for 32 columns the exponent of a power of two (E8M0), for 16 columns E4M3. Definition: MLX, `mlx/backend/cpu/quantized.cpp`;
 * there the largest exponent is infinity, not NaN.
 *
 * Elements of 4 bits are looked up: with AVX-512 in the 16 values that a scale has, with AVX2 in those without a sign. Those of
 * 8 bits are widened as half floats, 1/256 of them. */

enum { MICRO_FLOAT_GROUP = 16 };

static const _Alignas(64) float micro_e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

typedef int16_t vsh __attribute__((vector_size(GD_WIDTH * 2)));

/* E4M3 as half floats, 1/256 of them: eight exponents lower. Bytes have their sign above them. */
GD_INLINE vf micro_e4m3(vsh bytes) {
  vh halves = (vh)bytes << 7 & 0xbf80;
  vh nan = (vh)((halves & 0x3f80) == 0x3f80);
  return f16_to_vf(halves | (nan & 0x4000)) * splat(0x1p8f);
}

/* The same for one. */
GD_INLINE float micro_e4m3_one(uint8_t byte) {
  vsh bytes = {(int8_t)byte};
  return micro_e4m3(bytes)[0];
}

GD_INLINE void micro_scales(const gd_cpu_matrix *matrix, int64_t first, int64_t count, float *scales, float *biases) {
  (void)biases;
  const uint8_t *from = (const uint8_t *)matrix->scales + first;
  if (layout_of(matrix).elements == MICRO_FLOAT_GROUP) {
    int64_t i = 0;
    for (; i + GD_WIDTH <= count; i += GD_WIDTH) {
      vsb_memory bytes = *(const vsb_memory *)(from + i);
      store(scales, i, GD_CPU_F32, micro_e4m3(__builtin_convertvector(bytes, vsh)));
    }
    for (; i < count; i++) scales[i] = micro_e4m3_one(from[i]);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits = from[i] == 0 ? 0x00400000u : (uint32_t)from[i] << 23;
    __builtin_memcpy(scales + i, &bits, sizeof bits);
  }
}

/* The values that a scale has, or the scale. */
GD_INLINE factors micro_factors(const float *scale, const float *bias, uint32_t bits) {
  (void)bias;
  vf all = splat_memory(scale);
  if (bits == 4 && GD_WIDTH >= 8) all *= *(const vf *)micro_e2m1;
  return (factors){.low = all};
}

GD_INLINE vf micro_values(const uint8_t *row, int64_t first, int run, int part, factors group, uint32_t bits) {
  const uint8_t *at = row + first * 2 * bits + run * 2 * bits;
  if (bits == 8) {
    vsb_memory bytes = *(const vsb_memory *)(at + part * GD_WIDTH);
    return micro_e4m3(__builtin_convertvector(bytes, vsh)) * group.low;
  }
  vu numbers = affine_numbers(at, bits, part);
#if GD_WIDTH == 16
  return sixteen_values(numbers, group.low);
#elif GD_WIDTH == 8
  vf sizes = (vf)_mm256_permutevar8x32_ps((__m256)group.low, (__m256i)numbers);
  return (vf)((vu)sizes ^ (numbers << 28 & 0x80000000u));
#else
  vf elements;
  GD_UNROLL for (int l = 0; l < GD_WIDTH; l++) elements[l] = micro_e2m1[numbers[l] & 15];
  return elements * group.low;
#endif
}

#define micro_group(ELEMENTS) (ELEMENTS)
#define micro_least(BITS) ((BITS) == 4 ? MICRO_FLOAT_GROUP : 32)
#define micro_most(BITS) 32
#define micro_reads_beyond(BITS) 0
#define micro_interleaves(BITS) ((BITS) == 4)
