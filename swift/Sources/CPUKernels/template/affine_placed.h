/* MLX's four-bit numbers (affine.h) without a shift by lanes, for one or two rows by AVX2: those of lanes 0, 1, 2 .. stay where they are,
 * 1, 1, 16, 16, 256 .. times as large, and scales are as much smaller. That rounds only float32 scales near the least ones
 * (affine_places). The weights are those of affine_values, to the bit. */
#if GD_WIDTH == 8

static const _Alignas(32) uint32_t affine_place_bits[8] = {0xf, 0xf, 0xf0, 0xf0, 0xf00, 0xf00, 0xf000, 0xf000};
static const _Alignas(32) float affine_place_scales[8] = {1, 1, 0x1p-4f, 0x1p-4f, 0x1p-8f, 0x1p-8f, 0x1p-12f, 0x1p-12f};

/* Whether scales of this dtype can be 2^12 times smaller: the last bit of bf16 is at least 2^-133, of half floats 2^-24, of float32's numbers 2^-149. */
GD_INLINE int affine_places(uint32_t dtype) { return dtype != GD_CPU_F32; }

GD_INLINE factors affine_placed_factors(const float *scale, const float *bias, uint32_t bits) {
  (void)bits;
  return (factors){splat_memory(scale) * *(const vf *)affine_place_scales, splat_memory(bias)};
}

/* Numbers of a part of a run. Loading the second part's from 16 bits higher saves a shift but reads two bytes past the run. */
GD_INLINE vu affine_placed_numbers(const uint8_t *run, int part, int loads) {
  vu words = (vu)_mm256_set1_epi64x((long long)*(const u2_memory *)(run + (loads ? 2 * part : 0)));
  return (loads ? words : words >> (uint32_t)(16 * part)) & *(const vu *)affine_place_bits;
}

/* The weights of a part of a run, for two rows. Runs come in pairs, so that two bytes beyond the first of each are the row's. */
GD_INLINE vf affine_placed_values(const uint8_t *row, int64_t first, int run, int part, factors group, uint32_t bits) {
  return affine_weights(affine_placed_numbers(row + (first + run) * 2 * bits, part, run % 2 == 0), group);
}

/* Adds the products of one row's `step` columns, 32 or 64, which have one scale: even and odd blocks of weights have sums of their own. All numbers are
 * made before the first product: in the order that compilers choose, a step takes 1.05 times as long on Zen 3 (bench/linear/avx2.md). */
GD_INLINE void affine_placed_step(vf sums[2][GD_PARTS], const uint8_t *row, factors group, const float *x, int step) {
  vu numbers[8];
  GD_UNROLL for (int v = 0; v < step / GD_WIDTH; v++) {
    numbers[v] = affine_placed_numbers(row + v / GD_PARTS * GD_LANES / 2, v % GD_PARTS, v / GD_PARTS < step / GD_LANES - 1);
  }
  if (step == 32) __asm__("" : "+x"(numbers[0]), "+x"(numbers[1]), "+x"(numbers[2]), "+x"(numbers[3]));
  else __asm__("" : "+x"(numbers[0]), "+x"(numbers[1]), "+x"(numbers[2]), "+x"(numbers[3]), "+x"(numbers[4]), "+x"(numbers[5]), "+x"(numbers[6]), "+x"(numbers[7]));
  GD_UNROLL for (int v = 0; v < step / GD_WIDTH; v++) {
    vf *sum = &sums[v / GD_PARTS % 2][v % GD_PARTS];
    *sum = fma_vf(load(x, v * GD_WIDTH, GD_CPU_F32), affine_weights(numbers[v], group), *sum);
  }
}
#endif
